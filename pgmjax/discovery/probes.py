"""Encodings of raw columns by which discovery counts: kinds of values, magnitudes, fine cells, keys.

Every encoding is total: any value has a code, whatever it is, so that no record is ever refused or left out.
"""

from __future__ import annotations

import abc
import contextlib
import datetime
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pgmjax.data import encoding
from pgmjax.data.attribute import Attribute
from pgmjax.data.encoding import Coder, Encoded, Notation
from pgmjax.data.value import (
    as_float,
    is_missing,
    key_of,
    key_of_written,
    keys_of_moments,
    moment_of,
    number_of,
    shortest,
)
from pgmjax.privacy import partition

MISSING_TEXTS = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "?")
"""Texts that are read as missing values in a column that nobody described."""

KINDS = (
    "missing",
    "text",
    "number, 0 decimals",
    "number, 1 decimal",
    "number, 2 decimals",
    "number, 3 decimals",
    "number, more decimals",
    "number with thousands separators",
    "decimal comma, 0 decimals",
    "decimal comma, 1 decimal",
    "decimal comma, 2 decimals",
    "decimal comma, more decimals",
    "date",
    "date and time",
    "day.month.year",
    "day/month/year",
    "month/day/year",
    "day or month first",
    "year/month/day",
)
"""The kinds of values that are counted, in the order of their codes."""
MISSING, TEXT, WHOLE, REAL, THOUSANDS, COMMA, DATE = 0, 1, 2, 6, 7, 8, 12
TIME, DAY_DOT, DAY_FIRST, MONTH_FIRST, EITHER, YEAR_SLASH = 13, 14, 15, 16, 17, 18

FORMATS = {
    "iso": None,
    "day.month.year": "%d.%m.%Y",
    "day/month/year": "%d/%m/%Y",
    "month/day/year": "%m/%d/%Y",
    "year/month/day": "%Y/%m/%d",
}
"""The forms in which dates are found in text, by name; None is ISO 8601."""

_LONGEST_KEY = 200
_LEAST_POWER, _MOST_POWER = -20, 62  # powers of 2 between which magnitudes are told apart
MAGNITUDES = 2 * (_MOST_POWER - _LEAST_POWER) + 1
"""Cells of a magnitude: negative ones from the largest, zero, positive ones; missing ones come after them."""

_DOT = re.compile(
    r"[+-]?(?P<whole>\d+|\d{1,3}(?P<groups>(?:,\d{3})+))?(?:\.(?P<decimals>\d*))?(?P<exponent>e[+-]?\d+)?",
    re.I,
)
_COMMA = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:[. '\u00a0\u202f]\d{3})+),(?P<decimals>\d+)")
_PADDED = re.compile(r"[+-]?0\d")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?P<time>[T ]\d{2}:\d{2}.*)?")
_SLASHES = re.compile(r"(\d{1,2})/(\d{1,2})/\d{4}")


@dataclass(frozen=True)
class Probe(Attribute):
    """An attribute that is encoded by a public rule of discovery instead of labels or bins.

    Attributes:
        rule: its encoder.
    """

    rule: Coder | None = field(default=None, compare=False, repr=False)

    @property
    def coder(self) -> Coder:
        """The rule."""
        assert self.rule is not None
        return self.rule


class TotalCoder(Coder):
    """An encoder that has a code for every value.

    Args:
        size: number of codes.
        null: code of null.
    """

    def __init__(self, size: int, null: int):
        super().__init__(size)
        self._null = null

    @abc.abstractmethod
    def raw_code(self, value: Any) -> int:
        """Return the code of one value."""

    def raw_codes(self, values: Iterable[Any]) -> np.ndarray:
        """Return the codes [values] of values encoded one by one."""
        return np.fromiter(map(self.raw_code, values), dtype=np.int64)

    def finish(self, raw: np.ndarray) -> Encoded:
        """Turn raw codes [rows] into codes; null has the code of missing values."""
        return super().finish(np.where(raw == encoding.MISSING, self._null, raw))

    def encode_objects(self, values: Iterable[Any]) -> Encoded:
        """Encode Python objects of any types."""
        return self.finish(self.raw_codes(values))

    def encode_numbers(self, values: np.ndarray, null: np.ndarray | None = None) -> Encoded:
        """Encode numbers or bools [rows]; `null` [rows] is true for missing values."""
        raw = self._raw_numbers(values)
        return self.finish(raw if null is None else np.where(null, self._null, raw))

    @abc.abstractmethod
    def _raw_numbers(self, values: np.ndarray) -> np.ndarray:
        """Return the codes [rows] of numbers or bools [rows]."""

    def refusal(self, storage: str) -> str:
        """Return nothing: every value has a code."""
        return ""


class ProbeCoder(TotalCoder):
    """An encoder by a function of one value, and of arrays of numbers at once.

    Args:
        size: number of codes.
        one: code of a value that is no number: text, a date, a bool, None.
        numbers: codes [n] of float64 numbers [n]; NaN is a missing value.
        missing: code of null.
        times: codes [n] of datetime64 [n]; NaT is a missing value.
    """

    def __init__(
        self,
        size: int,
        one: Callable[[Any], int],
        numbers: Callable[[np.ndarray], np.ndarray],
        missing: int,
        times: Callable[[np.ndarray], np.ndarray],
    ):
        super().__init__(size, missing)
        self._one, self._numbers, self._times = one, numbers, times

    def raw_code(self, value: Any) -> int:
        """Return the code of one value."""
        if is_missing(value):
            return self._null
        number = number_of(value)
        return self._one(value) if number is None else int(self._numbers(np.array([as_float(number)]))[0])

    def _raw_numbers(self, values: np.ndarray) -> np.ndarray:
        if values.dtype.kind == "b":
            return self.raw_codes((False, True))[values.astype(np.intp)]
        return self._numbers(shortest(values))

    def encode_times(self, values: np.ndarray) -> Encoded:
        """Encode dates or times, datetime64 [rows]."""
        return self.finish(self._times(values))


class KeyCoder(TotalCoder):
    """An encoder that gives every value the next code when it first meets it. Its codes are private.

    Values are told apart by their canonical form, `data.value.key_of`, whatever type they are stored in.
    Forms that no label can be, for their length or their characters, have the code OTHER; empty ones, null
    and the markers have MISSING: see `privacy.partition`, which counts them.

    Args:
        markers: texts that are read as missing.
        exact: whether numbers are as they were given. Those of an undeclared type may have become floats, as
            whole numbers do where one value is missing; where that rounds them, they have OTHER.
    """

    def __init__(self, markers: tuple[str, ...] = (), exact: bool = True):
        super().__init__((1 << 31) - 1, partition.MISSING)
        self._exact = exact
        self._markers = {"", *markers}
        self._codes: dict[str, int] = {}

    @property
    def keys(self) -> list[str]:
        """The canonical forms met so far, in the order of their codes. Private."""
        return list(self._codes)

    def raw_code(self, value: Any) -> int:
        """Return the code of one value."""
        key = key_of(value) or ""
        if key in self._markers:
            return partition.MISSING
        if len(key) > _LONGEST_KEY or not key.isprintable():
            return partition.OTHER
        if not self._exact and encoding.EXACT <= abs(number_of(value) or 0) < math.inf:
            return partition.OTHER
        return self._codes.setdefault(key, partition.FIRST + len(self._codes))

    def _raw_numbers(self, values: np.ndarray) -> np.ndarray:
        distinct, index = np.unique(
            shortest(values) if values.dtype.kind == "f" else values, return_inverse=True
        )
        return self.raw_codes(distinct.tolist())[index]

    def encode_times(self, values: np.ndarray) -> Encoded:
        """Encode dates or times, datetime64 [rows], by their ISO forms."""
        distinct, index = np.unique(values, return_inverse=True)
        return self.finish(self.raw_codes(keys_of_moments(distinct))[index])


def kind_probe(name: str) -> Probe:
    """Return an attribute whose codes are the `KINDS` of values."""
    coder = ProbeCoder(len(KINDS), kind_of, _kinds_of_numbers, MISSING, _kinds_of_times)
    return Probe(name, len(KINDS), rule=coder)


def kind_of(value: Any) -> int:
    """Return the kind of a value that is no number.

    Example:
        >>> [KINDS[kind_of(text)] for text in ("007", "12", "1,5", "2024-05-01")]
        ['text', 'number, 0 decimals', 'decimal comma, 1 decimal', 'date']
    """
    if isinstance(value, (datetime.date, np.datetime64)):
        return int(_kinds_of_times(np.array([moment_of(value)]))[0])
    text = key_of(value) or ""
    text = key_of_written(text) or text
    return MISSING if text in MISSING_TEXTS else _kind_of_text(text)


def _kind_of_text(text: str) -> int:
    if found := _ISO.fullmatch(text):
        return TEXT if not _is_date(text, None) else TIME if found["time"] else DATE
    if found := _SLASHES.fullmatch(text):
        first, second = int(found[1]), int(found[2])
        if max(first, second) > 31 or min(first, second) > 12:
            return TEXT
        return DAY_FIRST if first > 12 else MONTH_FIRST if second > 12 else EITHER
    for mark, name, kind in ((".", "day.month.year", DAY_DOT), ("/", "year/month/day", YEAR_SLASH)):
        if text.count(mark) == 2 and _is_date(text, FORMATS[name]):
            return kind
    if _PADDED.match(text):
        return TEXT  # a code such as 00123, whose zeros a number would lose
    if (found := _DOT.fullmatch(text)) and found["groups"] and not found["exponent"]:
        return THOUSANDS
    if found := _COMMA.fullmatch(text):
        return COMMA + min(len(found["decimals"].rstrip("0")), 3)
    found = _DOT.fullmatch(text)
    if not found or not (found["whole"] or found["decimals"]):
        return TEXT
    if found["exponent"]:
        return REAL
    return min(WHOLE + len((found["decimals"] or "").rstrip("0")), REAL)


def _kinds_of_numbers(values: np.ndarray) -> np.ndarray:
    kinds = np.full(len(values), REAL)
    with np.errstate(invalid="ignore", over="ignore"):
        for decimals in (3, 2, 1, 0):
            scaled = values * 10.0**decimals
            kinds[np.abs(scaled - np.rint(scaled)) <= 1e-6 * np.maximum(1, np.abs(values))] = WHOLE + decimals
    return np.where(np.isnan(values), MISSING, kinds)


def _kinds_of_times(values: np.ndarray) -> np.ndarray:
    kinds = np.where(values == values.astype("M8[D]"), DATE, TIME)
    return np.where(np.isnat(values), MISSING, kinds)


def number_in(notation: Notation, value: Any) -> float:
    """Return a value that is no number as one, as it is written in a notation; NaN if it is none.

    Example:
        >>> german = Notation(decimal=",", thousands=".")
        >>> number_in(german, "1.234,5"), number_in(Notation(time="day"), "1970-01-03")
        (1234.5, 2.0)
    """
    if isinstance(value, (datetime.date, np.datetime64)):
        return notation.moment(value) if notation.time is not None else math.nan
    found = None if isinstance(value, bool) else notation.number(str(value).strip())
    return math.nan if found is None else as_float(found)


def number_probe(
    name: str, notation: Notation, size: int, place: Callable[[np.ndarray], np.ndarray]
) -> Probe:
    """Return an attribute of numbers coded by `place`; the last of `size` codes is that of all others."""

    def placed(values: np.ndarray) -> np.ndarray:
        other = np.isnan(values)
        return np.where(other, size - 1, place(np.where(other, 0.0, values))).astype(np.int64)

    def of_times(values: np.ndarray) -> np.ndarray:
        return placed(notation.moments(values) if notation.time else np.full(len(values), np.nan))

    def one(value: Any) -> int:
        return int(placed(np.array([number_in(notation, value)]))[0])

    return Probe(name, size, rule=ProbeCoder(size, one, placed, size - 1, of_times))


def _is_date(text: str, form: str | None) -> bool:
    """Return whether text is a day that there is, in a format; None is ISO 8601."""
    with contextlib.suppress(ValueError):
        _ = datetime.datetime.strptime(text, form) if form else datetime.datetime.fromisoformat(text)
        return True
    return False


def magnitude_probe(name: str, notation: Notation) -> Probe:
    """Return an attribute whose codes are the sign and the power of 2 of numbers; the last, no number."""
    return number_probe(name, notation, MAGNITUDES + 1, _magnitudes)


def _magnitudes(values: np.ndarray) -> np.ndarray:
    size = np.minimum(np.abs(values), 2.0**_MOST_POWER)
    zero = size < 2.0**_LEAST_POWER
    # frexp is exact, and its exponent is one above the power
    power = (
        np.clip(np.frexp(np.where(zero, 1.0, size))[1] - 1, _LEAST_POWER, _MOST_POWER - 1) - _LEAST_POWER + 1
    )
    middle = _MOST_POWER - _LEAST_POWER
    return middle + np.where(zero, 0, np.where(values < 0, -power, power))


def magnitude_edges() -> np.ndarray:
    """Return the edges of the cells of magnitudes, float64 [MAGNITUDES + 1]; zero has a cell of no width."""
    powers = 2.0 ** np.arange(_LEAST_POWER, _MOST_POWER + 1)
    powers[0] = 0.0  # what is nearer to zero is as good as zero
    return np.concatenate([-powers[::-1], powers])


@dataclass(frozen=True)
class FineCells:
    """Equal cells of an interval, fine enough that any useful bin is a union of them.

    Attributes:
        low: the lower end, in units of `step` if it is on a grid.
        cells: their number, a power of 4.
        width: the width of one, in grid steps or in the column's unit.
        step: the spacing of the values, such as 1 or 0.01; None for real numbers.
    """

    low: float
    cells: int
    width: float
    step: float | None

    @classmethod
    def over(cls, low: float, high: float, step: float | None, most: int = 4**10) -> FineCells:
        """Return cells from `low` to `high`, each of one value on the grid if at most `most` suffice.

        Example:
            >>> FineCells.over(0, 100, 1)
            FineCells(low=0, cells=256, width=1, step=1)
        """
        if step is None:
            cells = 4**6
            return cls(low, cells, (high - low) / cells, None)
        first, last = math.floor(low / step), math.ceil(high / step)
        cells = 4
        while cells < last - first + 1 and cells < most:
            cells *= 4
        return cls(first, cells, -(-(last - first + 1) // cells), step)

    @property
    def levels(self) -> int:
        """The number of times that the interval can be divided by 4."""
        return round(math.log(self.cells, 4))

    def place(self, values: np.ndarray) -> np.ndarray:
        """Return the cells [n] of numbers [n]; those beyond the ends belong to the end cells."""
        if self.step is not None:
            values = np.rint(values / self.step)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.clip(np.floor((values - self.low) / self.width), 0, self.cells - 1)

    def edges(self, cells: np.ndarray) -> list[float]:
        """Return the values at which cells begin, as exact decimals on a grid."""
        values = (self.low + np.asarray(cells) * self.width).tolist()
        if self.step is None:
            return values
        decimals = max(0, -math.floor(math.log10(self.step) + 1e-9))
        return [
            round(value * self.step, decimals) if decimals else int(value * self.step) for value in values
        ]

    def is_point(self, first: int, last: int) -> bool:
        """Return whether the cells first..last-1 hold one value only."""
        return self.step is not None and (last - first) * self.width == 1

    def probe(self, name: str, notation: Notation) -> Probe:
        """Return an attribute of these cells; its last code is that of values that are no numbers."""
        return number_probe(name, notation, self.cells + 1, self.place)
