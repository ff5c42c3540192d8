"""What one raw value means to an attribute: the rules of encoding, value by value.

A value is matched by what it is: numbers by equality, text by the attribute's kind (text `1` is the
label 1, the code 1 or the number 1; white space around it is dropped). What stands for "no value"
(null, NaN, empty text, the attribute's markers) is missing. `pgmjax.encoding` applies the same
rules to whole columns.
"""

from __future__ import annotations

import bisect
import math
import numbers
import re
from typing import Any

import numpy as np

Label = str | int | float | bool

OUTSIDE = -1
MISSING = -2

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf(inity)?)", re.IGNORECASE)


def text_of(value: Label) -> str:
    """Return how a label or marker reads as text: `true` and `false` for bools, no white space around."""
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


class ValueRules:
    """The rules of one attribute.

    Args:
        codes: the number of codes, the missing one left out.
        labels: the labels in the order of their codes, or None.
        bins: the edges of the bins, or None.
        markers: the values that are missing ones.
        clip: whether numbers beyond the edges belong to the end bins.
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
        return (
            int(value) if isinstance(value, numbers.Integral) and 0 <= int(value) < self._codes else OUTSIDE
        )

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
