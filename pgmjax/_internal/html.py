"""Small HTML tables for notebooks, which inherit the page's colours and font. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any

from pgmjax._internal import memory

MOST_ROWS = 30
# translucent grey lines show on white and on black; `inherit` overrides a notebook's striped tables
_LINE = "border-bottom:1px solid rgba(128,128,128,.35)"
_CELL = f"padding:2px 14px 2px 0;background:inherit;color:inherit;vertical-align:top;{_LINE}"


def card(title: str, facts: Mapping[str, Any], *parts: str) -> str:
    """A heading with a line of facts, followed by parts that are already HTML.

    Args:
        title: heading.
        facts: names and values, formatted by `text`.
        parts: HTML made by this module.

    Example:
        >>> "<b>Domain</b>" in card("Domain", {"cells": 1700}) and "1,700" in card("Domain", {"cells": 1700})
        True
    """
    said = " &ensp; ".join(f"{_muted(escape(name))} {escape(text(value))}" for name, value in facts.items())
    return (
        f'<div style="line-height:1.5"><div><b>{escape(title)}</b> &ensp; {said}</div>{"".join(parts)}</div>'
    )


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], count: int) -> str:
    """A table of the first rows, with the number of omitted rows below.

    Args:
        header: names of the columns.
        rows: values of each row; columns of numbers are right-aligned, None gives an empty cell.
        count: total number of rows.

    Example:
        >>> "&lt;b&gt;" in table(["name"], [["<b>"]], 1)
        True
    """
    shown = list(islice(rows, MOST_ROWS))
    right = [all(isinstance(row[i], int | float | None) for row in shown) for i in range(len(header))]
    lines = [_line("th", header, right), *(_line("td", [text(cell) for cell in row], right) for row in shown)]
    left = count - len(shown)
    more = f"<div>{_muted(f'and {left:,} more')}</div>" if left else ""
    look = "border-collapse:collapse;margin:4px 0;font-size:.92em;color:inherit;border:none"
    return f'<div style="overflow-x:auto"><table style="{look}">{"".join(lines)}</table></div>{more}'


def note(words: str) -> str:
    """A paragraph of text."""
    return f'<div style="max-width:56em;margin:4px 0">{escape(words)}</div>'


def text(value: Any) -> str:
    """A value as text: thousands separators, floats to six significant digits."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        if abs(value) < 10**12:
            return f"{value:,}"
        return f"{value:.3g}" if abs(value) < memory.LARGEST_FLOAT else memory.scientific(value, 2)
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def _line(tag: str, cells: Sequence[str], right: Sequence[bool]) -> str:
    weight = "font-weight:500;opacity:.7;" if tag == "th" else ""
    made = (
        f'<{tag} style="{_CELL};{weight}text-align:{"right" if number else "left"}">{escape(cell)}</{tag}>'
        for cell, number in zip(cells, right, strict=True)
    )
    return f'<tr style="background:none">{"".join(made)}</tr>'


def _muted(words: str) -> str:
    return f'<span style="opacity:.7">{words}</span>'
