"""Encoding raw values as integer codes, by whole columns and value by value.

Values are matched in their canonical form (`data.value`), in whatever type they are stored: 1, 1.0 and the
texts `1` and `1.0` are the label 1, the label "1", the code 1 or the number 1. Null, NaN, empty text and the
attribute's markers are missing values. Dates become numbers of days or seconds since 1970-01-01 (`Notation`).
Rows without a code are counted and never shown. A column of a type that an entry can match nowhere is refused
as a whole (`Coder.refusal`).
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmjax.data.value import (
    NUMBER,
    as_float,
    is_missing,
    key_of,
    key_of_written,
    keys_of_moments,
    kind_of,
    moment_of,
    number_of,
    number_of_text,
    plain_text,
    shortest,
)

Label = str | int | float | bool

# In place of a code: the value is not in the domain, or is missing.
OUTSIDE = -1
MISSING = -2
# No number, or no date, where the attribute has only these; codes are numbers.
UNREADABLE = -3
_PLACED = -4  # until the numbers of all values are placed at once

_LARGEST_TABLE = 1 << 12  # the widest range of integers encoded through a table of all of them
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf(inity)?)", re.IGNORECASE)
STORAGES = ("text", "number", "bool", "date", "nothing")
"""The ways in which a column may store values, as far as it matters to what they can match."""
EXACT = 1 << 53
"""The largest size up to which every whole number is a float64."""
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T.*)?")
_ON_GRID = 1e-6  # of a step of the grid


@dataclass(frozen=True)
class Encoded:
    """Codes of some rows, and the rows that have none.

    Attributes:
        codes: [rows] of the attribute's smallest unsigned type; 0 where a row has no code.
        outside: number of rows whose value is not in the domain.
        missing: number of rows without a value, where the attribute has no missing bucket.
        invalid: bool [rows], True where a row has no code; None if every row has one.
        unreadable: number of rows whose value is no number, or no date, where the attribute has only these
            (codes are numbers).
    """

    codes: np.ndarray
    outside: int = 0
    missing: int = 0
    invalid: np.ndarray | None = None
    unreadable: int = 0

    @property
    def lacking(self) -> int:
        """The number of rows without a code."""
        return self.outside + self.missing + self.unreadable

    def only(self, keep: np.ndarray) -> Encoded:
        """Return some of the rows, by a mask [rows]; the counts stay those of all rows."""
        invalid = None if self.invalid is None else self.invalid[keep]
        return Encoded(self.codes[keep], self.outside, self.missing, invalid, self.unreadable)

    @classmethod
    def concatenated(cls, parts: Sequence[Encoded], dtype: np.dtype) -> Encoded:
        """Return the rows of several parts in order; codes of type `dtype`."""
        codes = np.concatenate([np.zeros(0, dtype), *(part.codes for part in parts)])
        invalid = None
        if any(part.invalid is not None for part in parts):
            masks = [np.zeros(len(p.codes), bool) if p.invalid is None else p.invalid for p in parts]
            invalid = np.concatenate(masks)
        outside, missing = sum(p.outside for p in parts), sum(p.missing for p in parts)
        return cls(codes, outside, missing, invalid, sum(p.unreadable for p in parts))


@dataclass(frozen=True)
class Notation:
    """The form of numbers and dates in a table, and the grid they lie on.

    Attributes:
        grid: the spacing of the values, such as 1 or 0.01; None for real numbers. With a grid the last bin
            has no upper edge of its own.
        time: "day" or "second" if the values are dates, counted in these since 1970-01-01; None for numbers.
        format: form of dates in text, as in `datetime.strptime`; None for ISO 8601.
        decimal: decimal separator of numbers in text.
        thousands: separator of groups of three digits in text; "" for none.
    """

    grid: float | None = None
    time: str | None = None
    format: str | None = None
    decimal: str = "."
    thousands: str = ""

    @property
    def is_plain(self) -> bool:
        """True for numbers that are written as Python writes them."""
        return self.time is None and self.decimal == "." and not self.thousands

    def number(self, text: str) -> float | None:
        """Return the number that a text stands for, an int if it is whole; None if it is none.

        Example:
            >>> german = Notation(decimal=",", thousands=".")
            >>> german.number("1.234,5"), Notation(time="day").number("1970-02-01")
            (1234.5, 31.0)
        """
        if self.time is not None:
            return self._date(text)
        if self.thousands:
            whole, point, rest = text.partition(self.decimal)
            groups = whole.lstrip("+-").split(self.thousands)
            first, *others = groups
            if others and not (re.fullmatch("[1-9].{0,2}", first) and all(len(part) == 3 for part in others)):
                return None  # 0,123 is no number of thousands
            text = whole.replace(self.thousands, "") + point + rest
        if self.decimal != ".":
            if "." in text:
                return None
            text = text.replace(self.decimal, ".")
        return number_of_text(text) if _NUMBER.fullmatch(text) else None

    def _date(self, text: str) -> float | None:
        try:
            if self.format is not None:
                return self.moment(datetime.datetime.strptime(text, self.format))
            return self.moment(datetime.datetime.fromisoformat(text))
        except ValueError:
            return None

    def moment(self, value: datetime.date | np.datetime64) -> float:
        """Return the days or seconds since 1970-01-01 of a date, of a time of day in UTC if it has a zone."""
        return float(self.moments(np.array([moment_of(value)]))[0])

    def moments(self, values: np.ndarray) -> np.ndarray:
        """Return the days or seconds since 1970-01-01, float64 [n], of datetime64 [n]; NaN for NaT."""
        unit = "D" if self.time == "day" else "s"
        found = values.astype(f"datetime64[{unit}]")
        return np.where(np.isnat(found), np.nan, found.astype(np.int64).astype(np.float64))


PLAIN = Notation()


class Coder:
    """The encoder of one attribute, by whole columns and value by value.

    Args:
        size: the number of codes, the missing code included.
        labels: the labels in the order of their codes, or None.
        bins: the edges of the bins, or None.
        missing: whether the last code is that of missing values.
        markers: the values that are missing ones.
        clip: whether numbers beyond the edges belong to the end bins, and codes beyond the range to its ends.
        notation: how numbers and dates are written.
        spellings: further spellings of each label, or () for none.
        other: whether the last code but that of missing ones is that of all values that are no label.
    """

    def __init__(
        self,
        size: int,
        labels: tuple[Label, ...] | None = None,
        bins: tuple[float, ...] | None = None,
        missing: bool = False,
        markers: tuple[Label, ...] = (),
        clip: bool = False,
        notation: Notation = PLAIN,
        spellings: tuple[tuple[Label, ...], ...] = (),
        other: bool = False,
    ):
        self.size = size
        self.dtype = code_dtype(size)
        self._regular = size - missing
        self._has_missing = missing
        self._has_labels = labels is not None
        self._clip, self._notation = clip, notation
        self._edges = None if bins is None else np.asarray(bins, dtype=np.float64)
        if self._edges is not None and notation.grid is not None:  # counted in steps, as the values are
            self._edges = steps_of(self._edges, notation.grid)[0]
        self._other = self._regular - 1 if other else OUTSIDE
        raw_values = [(mark, MISSING) for mark in markers]
        raw_values += [(label, code) for code, label in enumerate(labels or ())]
        raw_values += [(spelling, code) for code, group in enumerate(spellings) for spelling in group]
        self._by_text = {text_of(value): raw for value, raw in raw_values}
        self._by_key: dict[str, int] = {}
        # a value that is written as its canonical form comes before others of the same form
        for value, raw in sorted(raw_values, key=lambda each: text_of(each[0]) != key_of(each[0])):
            self._by_key.setdefault(key_of(value) or "", raw)
        for value, raw in raw_values:
            written = str(int(value)) if isinstance(value, bool) else key_of_written(text_of(value))
            if written is not None:
                self._by_key.setdefault(written, raw)
        self._marks = {number for mark in markers if (number := self._marked(mark)) is not None}
        self._labels = {key for key, raw in self._by_key.items() if raw != MISSING}
        typed = any(not isinstance(value, str) for value, raw in raw_values if raw != MISSING)
        self._number_form = _NUMBER if typed else NUMBER
        self._takes_numbers = self._takes("number")

    @property
    def marks_of_bins(self) -> list[str] | None:
        """The texts read as missing; None without bins of numbers as Python writes them."""
        plain = self._edges is not None and self._notation.is_plain
        return [*self._by_text, *self._by_key] if plain else None

    def raw_code(self, value: Any) -> int:
        """Return the code of a value, or OUTSIDE, MISSING or UNREADABLE."""
        read = self._text(value) if isinstance(value, str) else self._read(value)
        code = int(self._place(np.array([read]))[0]) if isinstance(read, float) else read
        return self._other if code == OUTSIDE else code

    def raw_codes(self, values: Iterable[Any]) -> np.ndarray:
        """Return the codes [values], or OUTSIDE, MISSING or UNREADABLE, of values read one by one."""
        read = [self._text(each) if isinstance(each, str) else self._read(each) for each in values]
        # numbers wait until all are read, as one search for all of them is much faster than one for each
        raw = np.array([_PLACED if isinstance(each, float) else each for each in read], np.int64)
        raw[raw == OUTSIDE] = self._other
        raw[raw == _PLACED] = self._place(np.array([each for each in read if isinstance(each, float)]))
        return raw

    def finish(self, raw: np.ndarray) -> Encoded:
        """Turn raw codes [rows] into codes, counting the rows without one."""
        kinds = (OUTSIDE, MISSING, UNREADABLE)
        outside, missing, unreadable = (int(np.count_nonzero(raw == kind)) for kind in kinds)
        if self._has_missing and missing:
            raw, missing = np.where(raw == MISSING, self.size - 1, raw), 0
        invalid = None
        if outside or missing or unreadable:
            invalid = raw < 0
            raw = np.maximum(raw, 0)
        return Encoded(raw.astype(self.dtype), outside, missing, invalid, unreadable)

    def encode_objects(self, values: Iterable[Any]) -> Encoded:
        """Encode Python objects of any types.

        Raises:
            TypeError: there are values, and nothing of any of their types can match.
        """
        known: dict[tuple[type, Any], int] = {}
        kinds: set[tuple[str, str]] = set()
        places = []
        for value in values:
            try:
                places.append(known.setdefault((type(value), value), len(known)))
            except TypeError:  # not hashable, so no value of any attribute
                kinds.add(("", type(value).__name__))
                places.append(-1)
        distinct = [value for _, value in known]
        kinds |= {(kind_of(value), type(value).__name__) for value in distinct}
        present = sorted(each for each in kinds if each[0] != "nothing")
        if present and all(self.refusal(kind) for kind, _ in present):
            said = " and ".join(sorted(name for _, name in present))
            raise TypeError(f"its values are of type {said}, and {self.refusal(present[0][0])}")
        return self.finish(np.append(self.raw_codes(distinct), self._other)[np.array(places, np.int64)])

    def refusal(self, storage: str) -> str:
        """Return why a column of some storage type can match nothing; empty if it can.

        Args:
            storage: one of `STORAGES`, or "" for values that no entry reads.
        """
        if self._takes(storage):
            return ""
        if self._has_labels:
            none = f", and none of them is a {storage}: write {storage}s as labels or as spellings of them"
            return f"it has labels{none if storage else ''}"
        if self._edges is None:
            return f"it takes codes 0..{self._regular - 1}"
        if self._notation.time is not None:
            return "it has cells of dates"
        dates = ": describe dates by from and to, or give a number of each, such as the year"
        return f"it has bins of numbers{dates * (storage == 'date')}"

    def encode_numbers(self, values: np.ndarray, null: np.ndarray | None = None) -> Encoded:
        """Encode numbers or bools [rows]; `null` [rows] is true for missing values.

        Raises:
            TypeError: nothing of that type can match.
        """
        there = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(values), bool)
        self._require(
            "bool" if values.dtype.kind == "b" else "number", values, there if null is None else there & ~null
        )
        if null is None and self._fits_as_it_is(values):
            return Encoded(values.astype(self.dtype, copy=False))
        if null is not None and null.any():
            raw = np.full(len(values), MISSING, dtype=np.int64)
            raw[~null] = self._raw_numbers(values[~null])
        else:
            raw = self._raw_numbers(values)
        return self.finish(raw)

    def encode_times(self, values: np.ndarray) -> Encoded:
        """Encode dates or times, datetime64 [rows] in UTC or without a zone; NaT is a missing value.

        Raises:
            TypeError: the attribute has neither dates nor labels that are some.
        """
        self._require("date", values, ~np.isnat(values))
        if self._notation.time is not None:
            return self.finish(self.codes_of_numbers(self._notation.moments(values)))
        distinct, places = np.unique(values, return_inverse=True)
        return self.finish(self.raw_codes(keys_of_moments(distinct))[places])

    def _require(self, storage: str, values: np.ndarray, there: np.ndarray) -> None:
        refusal = self.refusal(storage)
        if refusal and there.any():  # a column without a value has the type of none
            raise TypeError(f"its values are of type {values.dtype}, and {refusal}")

    def _fits_as_it_is(self, values: np.ndarray) -> bool:
        if self._has_labels or self._edges is not None or self._by_key or not len(values):
            return False
        return values.dtype.kind in "biu" and bool(values.min() >= 0) and bool(values.max() < self._regular)

    def _raw_numbers(self, values: np.ndarray) -> np.ndarray:
        integers = values.dtype.kind in "iu"
        if integers and _few_between(values):
            low = int(values.min())
            return self.raw_codes(range(low, int(values.max()) + 1))[values.astype(np.int64) - low]
        values = shortest(values) if values.dtype.kind == "f" else values
        # beyond 2^53 one float stands for several whole numbers: these are encoded as Python's integers
        exact = not integers or not len(values) or max(-int(values.min()), int(values.max())) <= EXACT
        if self._has_labels or values.dtype.kind == "b" or not exact:
            distinct, places = np.unique(values, return_inverse=True)
            return self.raw_codes(distinct.tolist())[places]
        values = values.astype(float)
        return self._with_missing(self._place(values), values)

    def _place(self, values: np.ndarray) -> np.ndarray:
        """Return the codes, or OUTSIDE, of numbers [n] that are codes or lie in bins, markers like any."""
        return (self._into_codes if self._edges is None else self._into_bins)(values)

    def _into_codes(self, values: np.ndarray) -> np.ndarray:
        """Return the codes, or OUTSIDE, of numbers [n] that are codes themselves."""
        inside = (values >= 0) & (values < self._regular) & (values == np.trunc(values))
        raw = np.where(inside, values, 0).astype(np.int64)
        raw[~inside] = OUTSIDE
        if self._clip:
            raw[values < 0], raw[values >= self._regular] = 0, self._regular - 1
        return raw

    def _with_missing(self, raw: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return codes [n] with those of missing values and markers among numbers [n]."""
        raw[values != values] = MISSING
        for mark in self._marks:
            raw[values == mark] = MISSING
        return raw

    def codes_of_numbers(self, values: np.ndarray) -> np.ndarray:
        """Return the codes, or OUTSIDE or MISSING, of float64 numbers [n]; of dates as they are counted."""
        return self._with_missing(self._into_bins(values), values)

    def _into_bins(self, values: np.ndarray) -> np.ndarray:
        """Return the codes, or OUTSIDE, of float64 numbers [n] that lie in bins."""
        edges, grid = self._edges, self._notation.grid
        assert edges is not None
        if grid is not None:
            steps, off = steps_of(values, grid)
            values = np.where(off, np.nan, steps) if not self._clip else steps
        if self._clip:
            values = np.clip(values, edges[0], edges[-1])
        # from the right, as a cell holds its lower edge and not its upper one
        raw = np.searchsorted(edges, values, side="right").astype(np.int64) - 1
        if grid is None or self._clip:
            raw[values == edges[-1]] = len(edges) - 2
        raw[~((values >= edges[0]) & (values <= edges[-1])) | (raw > len(edges) - 2)] = OUTSIDE
        return raw

    def _marked(self, mark: Label) -> float | None:
        """Return the number, or the date as it is counted, that a marker stands for; None if it is none."""
        if not isinstance(mark, str):
            return mark if self._notation.time is None else None
        number = self._notation.number(plain_text(mark))
        if number is None and self._notation.format is not None:
            return Notation(time=self._notation.time).number(mark)
        return number

    def _takes(self, storage: str) -> bool:
        """Return whether a value that is stored in one of `STORAGES` can have a code."""
        if storage in ("text", "nothing"):
            return True
        if not storage:
            return False
        if not self._has_labels:
            return (storage == "date") == (self._edges is not None and self._notation.time is not None)
        if storage == "bool":
            return not self._labels.isdisjoint(
                ("true", "false", *("01" if self._number_form is _NUMBER else ""))
            )
        form = _DAY if storage == "date" else NUMBER
        return any(form.fullmatch(key) and key_of_written(key) == key for key in self._labels)

    def _read(self, value: Any) -> int | float:
        """Return the code of a value that is no text, or as a float the number by which it is placed."""
        if is_missing(value):
            return MISSING
        if isinstance(value, (bool, np.bool_)):
            return self._bool(str(bool(value)).lower())
        number = number_of(value)
        if number is not None:
            return self._number(number, value)
        if self._notation.time is not None and isinstance(value, (datetime.date, np.datetime64)):
            return self._to_place(self._notation.moment(value))
        if not self._has_labels:
            return OUTSIDE if self._edges is None else UNREADABLE
        return self._by_key.get(key_of(value) or "", OUTSIDE)

    def _bool(self, key: str) -> int | float:
        """Return the code of `true` or `false`: with no label of that name 1 or 0, if these are any."""
        if key in self._by_key or (self._has_labels and self._number_form is NUMBER):
            return self._by_key.get(key, OUTSIDE)
        return self._number(int(key == "true"))

    def _number(self, number: float, value: Any = None) -> int | float:
        """Return the code of a canonical number, which a value was before, or the number to be placed."""
        if self._has_labels:
            nearest = self._by_key.get(key_of(number) or "", OUTSIDE)
            return nearest if value is None else self._by_key.get(key_of(value) or "", nearest)
        if self._notation.time is not None and number not in self._marks:
            return UNREADABLE
        return self._to_place(number)

    def _to_place(self, number: float) -> int | float:
        """Return as a float the number by which a canonical one is placed; MISSING for a marker or NaN."""
        # markers are compared here, as a float may be that of a marker and of other whole numbers
        if number != number or number in self._marks:
            return MISSING
        if self._edges is None:
            # a canonical number that is a float has decimals, also where the nearest float has none
            rounded = isinstance(number, float) and number.is_integer()
            return math.nextafter(number, math.inf) if rounded else as_float(number)
        below = _float_below(number)
        beyond = below < number and below == self._edges[-1]  # the last bin has its upper edge, and no more
        return math.nextafter(below, math.inf) if beyond else below

    def _text(self, text: str) -> int | float:
        """Return the code of a text, or as a float the number by which it is placed."""
        text = plain_text(text)
        if text in self._by_text:
            return self._by_text[text]
        key = key_of(text)
        if key is None:
            return MISSING
        if self._by_key and (self._notation.is_plain or self._notation.time is not None):
            for form in (key, key_of_written(text)):
                if form in self._by_key:
                    return self._by_key[form]
        if key in ("true", "false"):
            return self._bool(key)
        if self._edges is not None:
            number = self._notation.number(text)
            return UNREADABLE if number is None else self._to_place(number)
        if not self._takes_numbers:
            return OUTSIDE
        if not self._number_form.fullmatch(text):
            no_code = OUTSIDE if self._has_labels else UNREADABLE
            return self._number(int(key)) if not self._has_labels and _INTEGER.fullmatch(key) else no_code
        number = number_of_text(text)
        return MISSING if number != number else self._number(number)


def steps_of(values: np.ndarray, grid: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest steps of a grid, float64 [n], and whether a value lies off it [n]."""
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = values / grid
        steps = np.rint(scaled)
        # beyond a million steps the tolerance grows with their number, as the rounding of the division does
        off = np.abs(scaled - steps) > _ON_GRID * np.maximum(1, 1e-6 * np.abs(scaled))
        return steps, off & np.isfinite(values)


def _float_below(number: float) -> float:
    """Return the largest float that is not above a number: edges are floats, so it lies in the same bin."""
    nearest = as_float(number)
    return math.nextafter(nearest, -math.inf) if nearest > number else nearest


def code_dtype(size: int) -> np.dtype:
    """Return the smallest unsigned integer type that holds the codes 0..size-1."""
    return np.dtype(np.min_scalar_type(size - 1))


def checked_codes(said: str, codes: Any, size: int | None = None, then: str = "") -> np.ndarray:
    """Return codes as an array of integers.

    Args:
        said: what they are, for messages.
        codes: the codes, of any shape.
        size: they lie in 0..size-1. Default: not checked.
        then: what to do about others, for the message.

    Raises:
        TypeError: they are no integers.
        ValueError: one is out of range.
    """
    array = np.asarray(codes)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{said} must be integers, got {array.dtype}.")
    if size is not None and array.size and not (array.min() >= 0 and array.max() < size):
        raise ValueError(f"{said} must lie in 0..{size - 1:,}, and some do not{then}.")
    return array


def _few_between(values: np.ndarray) -> bool:
    """Return whether the range of the integers is small enough to encode each integer in it once."""
    if not len(values):
        return False
    low, high = int(values.min()), int(values.max())
    return high - low < _LARGEST_TABLE and high <= np.iinfo(np.int64).max


def text_of(value: Label) -> str:
    """Return a label or marker as text: `true` or `false` for bools, composed, without white space around."""
    return str(value).lower() if isinstance(value, bool) else plain_text(str(value))
