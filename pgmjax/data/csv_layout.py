"""The layout of a text file: its delimiter and the place of each column that is asked for.

Both are found from public names and from the form of the first lines. What a record holds decides nothing:
the names asked for are looked for in one line only, and which one follows from the numbers of fields.
"""

from __future__ import annotations

import csv
import pathlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from pgmjax._internal.checks import did_you_mean
from pgmjax.data.text_file import EXCEL, LONGEST_LINE, TextFile
from pgmjax.data.value import places_of

_DELIMITERS = {".tsv": "\t,;| ", EXCEL: ",", "": ",;\t| "}  # in the order in which they are tried
_REMEDY = (
    ", and needs one: correct the name in the domain or in the first line (capitals count), or leave it out "
    "of the domain (or read it with header=False, if the first line is a record; remove what stands above "
    "the names)"
)
_NONE = "\x1f"  # between columns where there is one only, so that its values may hold any other


class CsvLayout(NamedTuple):
    """The layout of a text file.

    Attributes:
        delimiter: the text between fields.
        columns: the number of columns.
        positions: the position of every required column, from 0.
        above: the number of lines above the first record.
    """

    delimiter: str
    columns: int
    positions: dict[str, int]
    above: int


def find_columns(text: TextFile, names: Sequence[str], header: bool) -> CsvLayout:
    """Return the layout of a text file.

    Blank lines, `sep=` and a title above the header are passed over. A title is a line with one field, or
    with another number of fields than the next line.

    Args:
        text: the file.
        names: the required columns; without a header, all columns in order.
        header: whether a line names the columns.

    Raises:
        ValueError: the file is empty, cannot be read, or does not have these columns.
    """
    if header:
        delimiter, row, above = _header(text, names)
        if len(row) == 1 < len(names) and not any(places_of(name, row) for name in names):
            if str(text.path).lower().endswith(EXCEL):
                raise ValueError(
                    f"The first sheet of {text.path} has no column named {names[0]!r}, and no other is read: "
                    "move the table to the first sheet, or save it as CSV."
                )
            raise ValueError(
                f"{text.path} has no column named {names[0]!r}: its first line is one field, and commas, "
                "semicolons, tabs, | or single spaces were expected between columns. Save it with one."
            )
        positions = positions_of(text.path, names, row, _REMEDY)
        return CsvLayout(_NONE if len(row) == 1 else delimiter, len(row), positions, above)
    lines, start, delimiters = _beginning(text)
    if len(names) == 1 and not "".join(lines[:start]).strip("\r\n"):
        start = 0  # a blank line is a record of one column without a value
    rows = [(delimiter, _row(lines, start, delimiter)[0]) for delimiter in delimiters]
    for delimiter, row in rows:
        if len(row) == len(names):
            return CsvLayout(delimiter, len(row), {name: k for k, name in enumerate(names)}, start)
    raise ValueError(
        f"{text.path} has {max(len(row) for _, row in rows)} columns where the domain has {len(names)} "
        "attributes: without a header the columns stand in the domain's order, each an attribute. "
        "If the first line holds names, read the file with a header (leave out --no-header)."
    )


def names_of(text: TextFile, names: Sequence[str] = (), header: bool = True) -> list[str]:
    """Return the names in the header of a text file, with a space for all white space in them.

    Without a header they are column1, column2 and so on.

    Args:
        text: the file.
        names: some that the header should have.
        header: whether there is one.

    Raises:
        ValueError: the file is empty or cannot be read.
    """
    row = _header(text, names)[1]
    return [" ".join(name.split()) if header else f"column{k}" for k, name in enumerate(row, 1)]


def _header(text: TextFile, names: Sequence[str]) -> tuple[str, list[str], int]:
    """Return the delimiter, the fields of the header, and the number of lines above the records."""
    lines, start, delimiters = _beginning(text)
    start = _line_of_header(lines, start, delimiters, names)
    line = lines[start]
    if not text.encoding and ("\ufffd" in line or "\0" in line) and len(line) < LONGEST_LINE:
        raise text.not_utf8(f", line {start + 1}")
    rows = {delimiter: _row(lines, start, delimiter) for delimiter in delimiters}
    following = {d: _row(lines, end, d)[0] for d, (_, end) in rows.items()}
    fitting = {d for d, (row, _) in rows.items() if _fits(row, following[d])}
    # a space stands in names too; R leaves out the name of row names, which a scan says
    spaced = " " in fitting or (" " in rows and len(following[" "]) == len(rows[" "][0]) + 1)
    likely = [d for d in delimiters if d != " " or spaced] or [*delimiters]
    if names:
        found = {d: sum(bool(places_of(name, rows[d][0])) for name in names) for d in likely}
        # white space around a name does not count: a tab before an unnamed column may look like part of it
        delimiter = max(likely, key=lambda d: (found[d], d in fitting and len(rows[d][0]) > 1))
    else:
        likely = [d for d in likely if d != " " or text.kind in (".txt", ".data")] or likely
        delimiter = max(
            likely, key=lambda d: (min(len(rows[d][0]), 2), d != " ", d in fitting, len(rows[d][0]))
        )
    row, end = rows[delimiter]
    return delimiter, row, end


def _beginning(text: TextFile) -> tuple[list[str], int, str]:
    """Return the first lines, the place of the first that is not blank, and the possible delimiters."""
    lines = text.first_lines()
    start, delimiters = _next(lines, 0), _DELIMITERS.get(text.kind, _DELIMITERS[""])
    said = re.match('"?sep=(.)"?[\r\n]', "".join(lines[start : start + 1]), re.IGNORECASE)
    if said is not None:
        start, delimiters = _next(lines, start + 1), said[1]
    if start == len(lines):
        raise ValueError(f"{text.path} is empty: it must hold at least one record.")
    return lines, start, delimiters


def _next(lines: Sequence[str], start: int) -> int:
    """Return which line is the first from one on that is not blank."""
    return next((k for k in range(start, len(lines)) if lines[k].strip("\r\n")), len(lines))


def _row(lines: Sequence[str], start: int, delimiter: str) -> tuple[list[str], int]:
    """Return the fields of the record at a line, or behind blank ones there, and the line behind it."""
    start = _next(lines, start)
    reader = csv.reader(lines[start:], delimiter=delimiter, skipinitialspace=delimiter != " ")
    try:
        row = next(reader, [])
    except csv.Error:
        return [], start + 1
    end = start + reader.line_num
    if end == len(lines) and reader.line_num > 1 and "".join(lines[start:]).count('"') % 2:
        return [], start + 1  # a quote that is not closed
    return row, end


def _fits(row: Sequence[str], following: Sequence[str]) -> bool:
    """Return whether the next record, if there is one, has as many fields; empty ones behind do not count."""
    return not following or (len(following) >= len(row) and not any(following[len(row) :]))


def _line_of_header(lines: Sequence[str], start: int, delimiters: str, names: Sequence[str]) -> int:
    """Return which line the header begins at.

    That is the first one if it has all names, and else the first that is no title by its form, whatever it
    holds: a search for the names would tell whoever chooses them what is in the first records.
    """
    if names and any(all(places_of(name, _row(lines, start, d)[0]) for name in names) for d in delimiters):
        return start
    line = start
    while line < len(lines):
        rows = {d: _row(lines, line, d) for d in delimiters if d != " "}
        if any(_is_header(row, _row(lines, end, d)[0]) for d, (row, end) in rows.items()):
            return line
        line = _next(lines, min((end for _, end in rows.values()), default=len(lines)))
    return start


def _is_header(row: Sequence[str], following: Sequence[str]) -> bool:
    filled, unnamed = sum(bool(field.strip()) for field in row), bool(row) and not row[0].strip()
    return len(row) > 1 and filled >= min(2, len(row) - unnamed) and _fits(row, following)


def positions_of(
    path: pathlib.Path | str,
    names: Sequence[str],
    row: Sequence[Any],
    remedy: str = "",
) -> dict[str, int]:
    """Return the place of each name among those of a table's columns.

    Args:
        path: the table, for messages.
        names: the names that are asked for.
        row: the names of the columns.
        remedy: what to do about a name that is not there. Default: the one that was probably meant, which is
            nothing to say of a first line that may be a record.

    Raises:
        ValueError: a name is that of no column, of several, or of the same one as another name.
    """
    positions: dict[str, int] = {}
    for name in names:
        places = places_of(name, row)
        if len(places) > 1:
            raise ValueError(
                f"{path} has {len(places)} columns named {name!r}, and needs one: rename the others."
            )
        if not places:
            meant = f": correct the name in the domain.{did_you_mean(name, map(str, row))}"
            raise ValueError(f"{path} has no column named {name!r}{f'{remedy}.' if remedy else meant}")
        same = next((other for other, place in positions.items() if place == places[0]), None)
        if same is not None:
            raise ValueError(
                f"{same!r} and {name!r} are one column of {path}, as white space and the Unicode "
                "form of a name do not count: keep one of them in the domain."
            )
        positions[name] = places[0]
    return positions
