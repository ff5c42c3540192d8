"""How a delimited text file is laid out: its delimiter and columns, told by the domain's names.

Only the first line is read, and the delimiter is the one under which that line fits the domain.
"""

from __future__ import annotations

import csv
import gzip
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

_DELIMITERS = {".tsv": "\t,;| ", "": ",;\t| "}
SUFFIXES = (".csv", ".tsv", ".data", ".txt")
_LONGEST_LINE = 1 << 21
_MARK = b"\xef\xbb\xbf"


class Layout(NamedTuple):
    """How a text file is laid out.

    Attributes:
        delimiter: what stands between fields.
        columns: the number of columns.
        positions: the position of every column needed, from 0.
        blank: how many blank lines stand before the first one.
    """

    delimiter: str
    columns: int
    positions: dict[str, int]
    blank: int


def find_columns(path: pathlib.Path, suffix: str, names: Sequence[str], header: bool) -> Layout:
    """Return the layout of a text file; blank lines before its first line do not count.

    Args:
        path: the file; one that ends in .gz is gzip-compressed.
        suffix: .csv, .tsv, .data or .txt.
        names: the columns needed; without a header, what the columns are, in order.
        header: whether the first line names the columns.

    Raises:
        ValueError: the file is empty or does not have these columns.
    """
    line, blank = _first_line(path)
    delimiters = _DELIMITERS.get(suffix, _DELIMITERS[""])
    rows = [[field.strip() for field in _split(line, delimiter)] for delimiter in delimiters]
    if header:
        found = [sum(name.strip() in row for name in names) for row in rows]
        best = max(range(len(rows)), key=lambda k: (found[k], -k))
        return Layout(delimiters[best], len(rows[best]), _positions(path, names, rows[best]), blank)
    for delimiter, row in zip(delimiters, rows, strict=True):
        if len(row) == len(names):
            return Layout(delimiter, len(row), {name: k for k, name in enumerate(names)}, blank)
    count = max(map(len, rows))
    raise ValueError(
        f"{path} has {count} columns where the domain has {len(names)} attributes: without a header the "
        "columns stand in the domain's order, each an attribute."
    )


def _positions(path: pathlib.Path, names: Sequence[str], row: Sequence[str]) -> dict[str, int]:
    positions = {}
    for name in names:
        if row.count(name.strip()) != 1:
            told = "no column" if name.strip() not in row else f"{row.count(name.strip())} columns"
            raise ValueError(
                f"{path} has {told} named {name!r}, and needs one: correct the name in the domain or in "
                "the first line (or read it with header=False, if the first line is a record)."
            )
        positions[name] = row.index(name.strip())
    return positions


def _first_line(path: pathlib.Path) -> tuple[str, int]:
    """Return the first line that is not blank, and how many blank ones stand before it."""
    blank = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            line = stream.readline(_LONGEST_LINE)
            while line and not line.strip(_MARK + b"\r\n"):
                blank += len(line.splitlines())
                line = stream.readline(_LONGEST_LINE)
    except (OSError, EOFError):
        line = None
    if line is None:
        raise ValueError(f"{path} cannot be read: is it a {'gzip-compressed ' * (path.suffix == '.gz')}text?")
    if not line:
        raise ValueError(f"{path} is empty: it must hold at least one record.")
    # a lone carriage return ends lines, too
    lines = line.splitlines()
    first = next(k for k, part in enumerate(lines) if part.strip(_MARK))
    return lines[first].decode("utf-8-sig", errors="replace"), blank + first


def _split(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []
