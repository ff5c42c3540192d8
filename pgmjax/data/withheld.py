"""Why a reader cannot read a file, without what it quotes: that may be a record."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

NOT_UTF8 = "it holds bytes that are not UTF-8"
_REASONS = {  # by what DuckDB says, which stands beside what it quotes
    "unterminated quote": "a quote that is opened there is not closed, or text follows where it is closed",
    "Maximum line size": "it is longer than 2 MB, or a quote is not closed",
    "No files found": "there is no such file any more",
    "GZIP": "its compressed text is damaged, or something follows it",
}
_ARROW = (
    r"(?:In CSV column #\d+|CSV parse error): (?:Row #(?P<row>\d+): )?"
    r"(?:Expected (?P<expected>\d+) columns, got (?P<came>\d+))?"
)
"""What Arrow says, before what it quotes."""


@contextlib.contextmanager
def held_back(*kinds: type[Exception]) -> Iterator[list[str]]:
    """Yield a list that gets the message of an error of some kinds, which ends the block.

    The message may quote a record. What is raised behind the block has no such error in its context.

    Example:
        >>> with held_back(ValueError) as failure:
        ...     int("Ford")
        >>> failure
        ["invalid literal for int() with base 10: 'Ford'"]
    """
    said: list[str] = []
    try:
        yield said
    except kinds as error:
        said.append(str(error))


def place_and_reason(failure: str, above: int = 0) -> tuple[str, str]:
    """Return where a file cannot be read, as ", line 3", and why; each is "" if that is not known.

    Args:
        failure: what DuckDB or Arrow said.
        above: how many lines of the file are not in what was read.

    Example:
        >>> place_and_reason("CSV parse error: Row #3: Expected 2 columns, got 1: Ford")
        (', row 2', 'it has 1 field, and 2 were expected')
    """
    line, arrow = re.search(r"CSV Error on Line: (\d+)", failure), re.match(_ARROW, failure)
    place = f", line {int(line[1]) + above}" if line else ""
    if arrow and arrow["row"]:
        place = f", row {int(arrow['row']) - 1}"
    if (line and "unicode" in failure.lower()) or re.search("invalid UTF8 data|codec can't decode", failure):
        return place, NOT_UTF8
    fields = re.findall(r"Expected Number of Columns: (\d+) Found: (\d+)", failure)
    if arrow and arrow["expected"]:
        fields = [(arrow["expected"], arrow["came"])]
    if fields:  # the last is the reader's own, whatever the record says
        expected, came = map(int, fields[-1])
        names = "row names need a name too (in R: row.names=FALSE), and " * (came == expected + 1)
        remedy = f": {names}a value with a comma needs quotes" * (came > expected)
        return place, f"it has {came} field{'s' * (came != 1)}, and {expected} were expected{remedy}"
    return place, next((reason for said, reason in _REASONS.items() if said in failure), "")
