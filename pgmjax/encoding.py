"""From raw values to integer codes, for one attribute: the same rules for every kind of source.

A value is matched by what it is: numbers by equality, text by the attribute's kind (text `1` is the
label 1, the code 1 or the number 1; white space around it is dropped). What stands for "no value"
(null, NaN, empty text, the attribute's markers) goes to the missing bucket, if there is one. Rows
that fit nowhere are counted and never shown.
"""

from __future__ import annotations

import bisect
import math
import numbers
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

Label = str | int | float | bool

OUTSIDE = -1
MISSING = -2

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf(inity)?)", re.IGNORECASE)
_LARGEST_TABLE = 1 << 20


def code_dtype(size: int) -> np.dtype:
    """Return the smallest unsigned integer type that holds the codes 0..size-1."""
    return np.dtype(np.min_scalar_type(size - 1))


def text_of(value: Label) -> str:
    """Return how a label or marker reads as text: `true` and `false` for bools, no white space around."""
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


@dataclass(frozen=True)
class Encoded:
    """Codes of some rows, and how many of the rows have none.

    Attributes:
        codes: [rows] of the attribute's smallest unsigned type; 0 where a row has no code.
        outside: rows whose value is not in the domain.
        missing: rows without a value, where the attribute has no missing bucket.
    """

    codes: np.ndarray
    outside: int = 0
    missing: int = 0


class Coder:
    """The encoder of one attribute; see `pgmjax.attribute.Attribute` for what the fields mean."""

    def __init__(
        self,
        size: int,
        labels: tuple[Label, ...] | None,
        bins: tuple[float, ...] | None,
        missing: bool,
        markers: tuple[Label, ...],
        clip: bool,
    ):
        self.size = size
        self.dtype = code_dtype(size)
        self._regular = size - missing
        self._has_missing = missing
        self._labels = labels
        self._bins = bins
        self._edges = None if bins is None else np.asarray(bins, dtype=np.float64)
        self._clip = clip
        by_text: dict[str, int] = {}
        by_number: dict[Any, int] = {}
        for raw, values in ((MISSING, markers), *enumerate((label,) for label in labels or ())):
            for value in values:
                by_text[text_of(value)] = raw
                if not isinstance(value, str):
                    by_number[value] = raw
        self._by_text = by_text
        self._by_number = by_number

    def _number(self, value: Any) -> int:
        if value != value:
            return MISSING
        if value in self._by_number:
            return self._by_number[value]
        if self._labels is not None:
            return OUTSIDE
        if self._edges is not None:
            return self._bin(float(value))
        fits = isinstance(value, numbers.Integral) and 0 <= int(value) < self._regular
        return int(value) if fits else OUTSIDE

    def _text(self, text: str) -> int:
        text = text.strip()
        found = self._by_text.get(text, self._by_text.get(text.lower(), OUTSIDE))
        if text in self._by_text or (found != OUTSIDE and text.lower() in ("true", "false")):
            return found
        if not text:
            return MISSING
        if self._labels is None and self._edges is None:
            return self._number(int(text)) if _INTEGER.fullmatch(text) else OUTSIDE
        if _NUMBER.fullmatch(text) is None:
            return OUTSIDE
        raw = self._number(float(text))
        # text that reads as NaN is a missing number, but never a missing label
        return OUTSIDE if raw == MISSING and self._edges is None and math.isnan(float(text)) else raw

    def raw_code(self, value: Any) -> int:
        """Return the code of one value, or OUTSIDE or MISSING."""
        if value is None:
            return MISSING
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, numbers.Real):
            return self._number(value)
        # pandas.NA and NaT: no value that is not equal to itself
        return MISSING if type(value).__name__ in ("NAType", "NaTType") else OUTSIDE

    def raw_codes(self, values: Iterable[Any]) -> np.ndarray:
        """Return the raw codes [values] of values that are worth a look each: distinct ones."""
        return np.fromiter((self.raw_code(value) for value in values), dtype=np.int64)

    def finish(self, raw: np.ndarray) -> Encoded:
        """Turn raw codes [rows] into codes, counting the rows that have none."""
        outside = int(np.count_nonzero(raw == OUTSIDE))
        missing = int(np.count_nonzero(raw == MISSING))
        if self._has_missing and missing:
            raw, missing = np.where(raw == MISSING, self.size - 1, raw), 0
        if outside or missing:
            raw = np.maximum(raw, 0)
        return Encoded(raw.astype(self.dtype), outside, missing)

    def encode_objects(self, values: Iterable[Any]) -> Encoded:
        """Encode Python objects of whatever types."""
        known: dict[tuple[type, Any], int] = {}
        raw = []
        for value in values:
            try:
                key = (type(value), value)
                if key not in known:
                    known[key] = self.raw_code(value)
                raw.append(known[key])
            except TypeError:  # not hashable, so no value of any attribute
                raw.append(OUTSIDE)
        return self.finish(np.array(raw, dtype=np.int64))

    def encode_numbers(self, values: np.ndarray, null: np.ndarray | None = None) -> Encoded:
        """Encode numbers or bools [rows]; `null` [rows] tells where there is none.

        Raises:
            TypeError: the attribute takes integer codes and the values are floats.
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
        if self._labels is not None or self._edges is not None or self._by_number or not len(values):
            return False
        return bool(values.min() >= 0) and bool(values.max() < self._regular)

    def _raw_numbers(self, values: np.ndarray) -> np.ndarray:
        if values.dtype.kind == "b":
            values = values.view(np.uint8)
        if self._edges is not None:
            raw = self._into_bins(values.astype(np.float64, copy=False))
        elif self._labels is not None:
            return self._by_table(values)
        else:
            inside = (values >= 0) & (values < self._regular)
            raw = np.where(inside, values, 0).astype(np.int64)
            raw[~inside] = OUTSIDE
        for marker, code in self._by_number.items():
            raw[values == marker] = code
        return raw

    def _by_table(self, values: np.ndarray) -> np.ndarray:
        if not len(values):
            return np.zeros(0, dtype=np.int64)
        if values.dtype.kind in "iu":
            low, high = int(values.min()), int(values.max())
            if high - low < _LARGEST_TABLE:
                return self.raw_codes(range(low, high + 1))[(values - values.dtype.type(low)).astype(np.intp)]
        distinct, index = np.unique(values, return_inverse=True)
        return self.raw_codes(distinct.tolist())[index]

    def _bin(self, value: float) -> int:
        edges = self._bins
        assert edges is not None
        if self._clip:
            value = min(max(value, edges[0]), edges[-1])
        if not edges[0] <= value <= edges[-1]:
            return OUTSIDE
        return min(bisect.bisect_right(edges, value), len(edges) - 1) - 1

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
