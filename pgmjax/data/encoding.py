"""Encoding raw values as integer codes, by whole columns (`Coder`) and value by value (`ValueRules`).

Numbers are matched by equality and text according to the attribute's kind: the text `1` is the label 1,
the code 1 or the number 1. White space around text is dropped. Null, NaN, empty text and the attribute's
markers are missing values. Rows without a code are counted and never shown.
"""

from __future__ import annotations

import bisect
import math
import numbers
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Label = str | int | float | bool

# In place of a code: the value is not in the domain, or is missing.
OUTSIDE = -1
MISSING = -2

_LARGEST_TABLE = 1 << 12  # the widest range of integers encoded through a table of all of them
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf(inity)?)", re.IGNORECASE)


@dataclass(frozen=True)
class Encoded:
    """Codes of some rows, and the rows that have none.

    Attributes:
        codes: [rows] of the attribute's smallest unsigned type; 0 where a row has no code.
        outside: number of rows whose value is not in the domain.
        missing: number of rows without a value, where the attribute has no missing bucket.
        invalid: bool [rows], True where a row has no code; None if every row has one.
    """

    codes: np.ndarray
    outside: int = 0
    missing: int = 0
    invalid: np.ndarray | None = None

    def with_codes(self, codes: np.ndarray) -> Encoded:
        """Return other codes of the same rows; those without a code stay without one."""
        return Encoded(codes, self.outside, self.missing, self.invalid)

    @classmethod
    def concatenated(cls, parts: Sequence[Encoded], dtype: np.dtype) -> Encoded:
        """Return the rows of several parts in order; codes of type `dtype`."""
        codes = np.concatenate([np.zeros(0, dtype), *(part.codes for part in parts)])
        invalid = None
        if any(part.invalid is not None for part in parts):
            masks = [np.zeros(len(p.codes), bool) if p.invalid is None else p.invalid for p in parts]
            invalid = np.concatenate(masks)
        return cls(codes, sum(p.outside for p in parts), sum(p.missing for p in parts), invalid)


class Coder:
    """The encoder of one attribute. The arguments are described in `data.attribute.Attribute`."""

    def __init__(
        self,
        size: int,
        labels: tuple[Label, ...] | None = None,
        bins: tuple[float, ...] | None = None,
        missing: bool = False,
        markers: tuple[Label, ...] = (),
        clip: bool = False,
    ):
        self.size = size
        self.dtype = code_dtype(size)
        self._regular = size - missing
        self._has_missing = missing
        self._labels = labels
        self._edges = None if bins is None else np.asarray(bins, dtype=np.float64)
        self._clip = clip
        self._rules = ValueRules(self._regular, labels, bins, markers, clip)

    @property
    def marks_of_bins(self) -> list[str] | None:
        """The texts read as missing, or None if the attribute has no bins."""
        return None if self._edges is None else list(self._rules.by_text)

    def raw_code(self, value: Any) -> int:
        """Return the code of one value, or OUTSIDE or MISSING."""
        return self._rules.raw_code(value)

    def raw_codes(self, values: Iterable[Any]) -> np.ndarray:
        """Return the codes [values], or OUTSIDE or MISSING, of values encoded one by one."""
        return np.fromiter(map(self._rules.raw_code, values), dtype=np.int64)

    def finish(self, raw: np.ndarray) -> Encoded:
        """Turn raw codes [rows] into codes, counting the rows without one."""
        outside = int(np.count_nonzero(raw == OUTSIDE))
        missing = int(np.count_nonzero(raw == MISSING))
        if self._has_missing and missing:
            raw, missing = np.where(raw == MISSING, self.size - 1, raw), 0
        invalid = None
        if outside or missing:
            invalid = raw < 0
            raw = np.maximum(raw, 0)
        return Encoded(raw.astype(self.dtype), outside, missing, invalid)

    def encode_objects(self, values: Iterable[Any]) -> Encoded:
        """Encode Python objects of any types."""
        known: dict[tuple[type, Any], int] = {}
        raw = []
        for value in values:
            try:
                key = (type(value), value)
                if key not in known:
                    known[key] = self._rules.raw_code(value)
                raw.append(known[key])
            except TypeError:  # not hashable, so no value of any attribute
                raw.append(OUTSIDE)
        return self.finish(np.array(raw, dtype=np.int64))

    def encode_numbers(self, values: np.ndarray, null: np.ndarray | None = None) -> Encoded:
        """Encode numbers or bools [rows]; `null` [rows] is true for missing values.

        Raises:
            TypeError: the attribute has integer codes and the values are floats.
        """
        if self._labels is None and self._edges is None and values.dtype.kind == "f":
            raise TypeError(
                f"it takes integer codes 0..{self._regular - 1} and its values are {values.dtype}: "
                "cast them to an integer type (a nullable one where values are missing)"
            )
        if null is None and self._fits_as_it_is(values):
            return Encoded(values.astype(self.dtype, copy=False))
        if null is not None and null.any():
            raw = np.full(len(values), MISSING, dtype=np.int64)
            raw[~null] = self._raw_numbers(values[~null])
        else:
            raw = self._raw_numbers(values)
        return self.finish(raw)

    def _fits_as_it_is(self, values: np.ndarray) -> bool:
        if self._labels is not None or self._edges is not None or self._rules.by_number or not len(values):
            return False
        return bool(values.min() >= 0) and bool(values.max() < self._regular)

    def _raw_numbers(self, values: np.ndarray) -> np.ndarray:
        if values.dtype.kind == "b":
            values = values.view(np.uint8)
        if self._labels is None and self._edges is None:
            inside = (values >= 0) & (values < self._regular)
            raw = np.where(inside, values, 0).astype(np.int64)
            raw[~inside] = OUTSIDE
            if self._clip:
                raw[values < 0], raw[values >= self._regular] = 0, self._regular - 1
        elif values.dtype.kind in "iu" and _few_between(values):
            low = int(values.min())
            return self.raw_codes(range(low, int(values.max()) + 1))[values.astype(np.int64) - low]
        elif self._labels is not None:
            distinct, index = np.unique(values, return_inverse=True)
            return self.raw_codes(distinct.tolist())[index]
        else:
            raw = self._into_bins(values.astype(np.float64, copy=False))
        for marker, code in self._rules.by_number.items():
            raw[values == marker] = code
        return raw

    def _into_bins(self, values: np.ndarray) -> np.ndarray:
        edges = self._edges
        assert edges is not None
        nan = np.isnan(values)
        if self._clip:
            values = np.clip(values, edges[0], edges[-1])
        raw = np.searchsorted(edges, values, side="right").astype(np.int64) - 1
        raw[values == edges[-1]] = len(edges) - 2
        raw[~((values >= edges[0]) & (values <= edges[-1]))] = OUTSIDE
        raw[nan] = MISSING
        return raw


def code_dtype(size: int) -> np.dtype:
    """Return the smallest unsigned integer type that holds the codes 0..size-1."""
    return np.dtype(np.min_scalar_type(size - 1))


def _few_between(values: np.ndarray) -> bool:
    """Return whether the range of the integers is small enough to encode each integer in it once."""
    if not len(values):
        return False
    low, high = int(values.min()), int(values.max())
    return high - low < _LARGEST_TABLE and high <= np.iinfo(np.int64).max


def text_of(value: Label) -> str:
    """Return a label or marker as text: `true` or `false` for bools, stripped of white space."""
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


class ValueRules:
    """The encoding rules of one attribute.

    Args:
        codes: the number of codes, without the missing code.
        labels: the labels in the order of their codes, or None.
        bins: the edges of the bins, or None.
        markers: the values that are missing ones.
        clip: whether numbers beyond the edges belong to the end bins, and codes beyond the range to its ends.
    """

    def __init__(
        self,
        codes: int,
        labels: tuple[Label, ...] | None,
        bins: tuple[float, ...] | None,
        markers: tuple[Label, ...],
        clip: bool,
    ):
        self._codes = codes
        self._has_labels = labels is not None
        self._bins = bins
        self._clip = clip
        self._by_bool_text: dict[str, int] = {}
        self.by_text: dict[str, int] = {}
        self.by_number: dict[Any, int] = {}
        raw_values = [(mark, MISSING) for mark in markers]
        raw_values += [(label, code) for code, label in enumerate(labels or ())]
        for value, raw in raw_values:
            self.by_text[text_of(value)] = raw
            if isinstance(value, bool):
                self._by_bool_text[text_of(value)] = raw
            if not isinstance(value, str):
                self.by_number[value] = raw
        self._reads_numbers = bins is not None or any(not isinstance(label, str) for label in labels or ())

    def raw_code(self, value: Any) -> int:
        """Return the code of a value, or OUTSIDE or MISSING."""
        if value is None:
            return MISSING
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, numbers.Real):
            return self._number(value)
        # pandas.NA and NaT, which are not equal to themselves
        return MISSING if type(value).__name__ in ("NAType", "NaTType") else OUTSIDE

    def _number(self, value: Any) -> int:
        if value != value:
            return MISSING
        if value in self.by_number:
            return self.by_number[value]
        if self._has_labels:
            return OUTSIDE
        if self._bins is not None:
            return self._bin(self._bins, _as_float(value))
        if not isinstance(value, numbers.Integral):
            return OUTSIDE
        code = min(max(int(value), 0), self._codes - 1) if self._clip else int(value)
        return code if 0 <= code < self._codes else OUTSIDE

    def _bin(self, edges: tuple[float, ...], value: float) -> int:
        if self._clip:
            value = min(max(value, edges[0]), edges[-1])
        if not edges[0] <= value <= edges[-1]:
            return OUTSIDE
        return min(bisect.bisect_right(edges, value), len(edges) - 1) - 1

    def _text(self, text: str) -> int:
        text = text.strip()
        raw = self.by_text.get(text, self._by_bool_text.get(text.lower()))
        if raw is not None:
            return raw
        if not text:
            return MISSING
        if self._reads_numbers:
            return self._number(float(text)) if _NUMBER.fullmatch(text) else OUTSIDE
        takes_codes = not self._has_labels
        return self._number(int(text)) if takes_codes and _INTEGER.fullmatch(text) else OUTSIDE


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
