"""The largest budget that still meets a target, by growing and halving."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

_Found = TypeVar("_Found")

_TOLERANCE = Fraction(1, 10**5)
_DIGITS = 12


def largest(
    at: Callable[[Fraction], _Found | None], low: Fraction, tolerance: Fraction = _TOLERANCE
) -> _Found | None:
    """Return what a function gives at the largest number where it gives something.

    Args:
        at: gives None from some number on.
        low: where to begin, > 0; numbers tried above have 13 digits.
        tolerance: relative distance of the result from a number where it gives None.

    Returns:
        the result at the largest number tried that has one; None if there is none at `low`.

    Example:
        >>> largest(lambda x: float(x) if x * x <= 2 else None, Fraction(1), Fraction(1, 1000))
        1.413940429688
    """
    best = at(low)
    if best is None:
        return None
    step, high = Fraction(1, 8), _short(low * Fraction(9, 8))
    while (found := at(high)) is not None:
        best, low, step = found, high, min(4 * step, Fraction(3))
        high = _short(low * (1 + step))
    while high - low > tolerance * high:
        middle = _short((low + high) / 2)
        if not low < middle < high:
            break
        found = at(middle)
        if found is None:
            high = middle
        else:
            best, low = found, middle
    return best


def _short(value: Fraction) -> Fraction:
    """Return a fraction of few digits, so that records stay readable."""
    return Fraction(f"{float(value):.{_DIGITS}e}")
