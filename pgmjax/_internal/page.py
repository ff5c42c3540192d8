"""HTML pages that open offline, in light and dark mode: the parts that reports and pages of sweeps share.

All text is escaped here. Pictures are drawn in the browser by `pictures.js`, from numbers that lie in the
page as JSON; behind each stands a table with the same numbers, which is open where no script runs.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any


def document(title: str, sections: Iterable[str], *, style: str = "", scripts: Sequence[str] = ()) -> str:
    """Return sections of HTML as one page.

    The page forbids itself to load anything, and to run any script but its own, whatever its text is.

    Args:
        title: the page's title.
        sections: HTML of its parts; empty ones are left out.
        style: CSS besides that of all pages.
        scripts: JavaScript that runs once the page is there, after that of the pictures.
    """
    own = [resource("pgmjax._internal", "pictures.js"), *scripts]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in own]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    body = "\n".join(filter(None, sections))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src {allowed}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{resource("pgmjax._internal", "page.css")}{style}</style>
<noscript><style>.controls, .picture {{ display: none; }}</style></noscript>
</head>
<body>
<main>
{body}
</main>
{"".join(f"<script>{text}</script>" for text in own)}
</body>
</html>
"""


def resource(package: str, name: str) -> str:
    """Return a text file that lies beside the code of a package."""
    return importlib.resources.files(package).joinpath(name).read_text(encoding="utf-8")


def heading(title: str, above: str, facts: Mapping[str, str]) -> str:
    """Return the head of a page: its title, HTML below it, and tiles of facts."""
    tiles = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items())
    return f'<header>\n<h1>{escape(title)}</h1>\n{above}<dl class="facts">{tiles}</dl>\n</header>'


def section(title: str, content: str, note: str = "") -> str:
    """Return a section of HTML under a heading, with a note in small letters above it."""
    return f"<section>\n<h2>{escape(title)}</h2>\n{notes(note)}{content}\n</section>"


def notes(text: str) -> str:
    """Return text in small letters; nothing for none."""
    return f'<p class="note">{escape(" ".join(text.split()))}</p>\n' if text else ""


def paragraphs(texts: Iterable[str]) -> str:
    """Return texts as paragraphs."""
    return "".join(f"<p>{escape(text)}</p>\n" for text in texts)


def named(rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and values."""
    lines = "\n".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in rows)
    return f'<table class="named">\n{lines}\n</table>\n'


def table(
    heads: Mapping[str, str], rows: Iterable[Sequence[str]], name: str = "", *, cards: bool = True
) -> str:
    """Return a table that scrolls by itself.

    Args:
        heads: the titles of the columns with their class, `n` for numbers.
        rows: text of the cells.
        name: the table's id.
        cards: rows are cards on a narrow page, in which each cell carries the title of its column.

    Example:
        >>> "&lt;b&gt;" in table({"name": ""}, [["<b>"]])
        True
    """
    kinds = [f' class="{kind}"' if kind else "" for kind in heads.values()]
    titles = [escape(title) for title in heads]
    top = "".join(f"<th{kind}>{title}</th>" for title, kind in zip(titles, kinds, strict=True))
    starts = [
        f'<td{kind} data-title="{title}">' if cards else f"<td{kind}>"
        for title, kind in zip(titles, kinds, strict=True)
    ]
    lines = "\n".join(
        f"<tr>{''.join(f'{start}{escape(cell)}</td>' for start, cell in zip(starts, row, strict=True))}</tr>"
        for row in rows
    )
    called = f' id="{name}"' * bool(name) + ' class="cards"' * cards
    return f"""<div class="tall scroll"><table{called}>
<thead><tr>{top}</tr></thead>
<tbody>
{lines}
</tbody></table></div>"""


def data(content: Any, name: str = "") -> str:
    """Return numbers as JSON that scripts of the page read; no name in it can end the block.

    Example:
        >>> data(["</script>"]).count("</script>")
        1
    """
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")
    called = f' id="{name}"' if name else ""
    return f'<script type="application/json"{called}>{text}</script>'


def picture(title: str, drawing: Mapping[str, Any], numbers: str, caption: str = "", more: str = "") -> str:
    """Return a picture, which `pictures.js` draws, with the table behind it.

    Args:
        title: the picture's heading.
        drawing: the kind of the picture and its numbers; see `pictures.js`.
        numbers: HTML of the table.
        caption: text below the picture.
        more: attributes of the element.
    """
    return f"""<figure{more}><h3>{escape(title)}</h3>
{data(drawing)}<div class="picture"></div>
<figcaption>{escape(caption)}</figcaption>
<details open><summary>Numbers of this picture</summary>
{numbers}</details></figure>
"""


def number(value: float) -> str:
    """Return a count as text, with a decimal below 100.

    Example:
        >>> number(12.34), number(1234.5), number(-0.01)
        ('12.3', '1,234', '0')
    """
    digits = 1 if abs(value) < 100 and round(value, 1) != round(value) else 0
    return f"{value:z,.{digits}f}"
