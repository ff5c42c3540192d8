"""The least and largest entry of every row of a query: how far one single answer can move.

A row of a Kronecker product takes every product of an entry of each factor's row, so its least and
largest entry are among the products of theirs. A row whose entries lie within those of another row
cannot matter, not even within a product, nor does its sign, so few rows of each factor need be kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

Number = int | Fraction
Extremes = tuple[Number, Number]
"""The least and the largest entry of a row, its sign chosen so that the largest is the farther from 0."""

MIXED: tuple[Extremes, ...] = ((0, 1),)
"""Rows of zeros and ones, one of which has both."""

CONSTANT: tuple[Extremes, ...] = ((1, 1),)
"""Rows of zeros only or of ones only."""

_MAX_PAIRS = 20_000


def of_matrix(matrix: np.ndarray) -> tuple[Extremes, ...]:
    """Return the extremes of the rows of a matrix [rows, columns] that matter."""
    lows, highs = matrix.min(axis=1), matrix.max(axis=1)
    tops, places = np.unique(highs, return_inverse=True)
    least = np.full(len(tops), lows.max())
    np.minimum.at(least, places.reshape(-1), lows)
    return _outermost((_exact(low), _exact(high)) for low, high in zip(least, tops, strict=True))


def of_product(factors: Sequence[tuple[Extremes, ...]]) -> tuple[Extremes, ...]:
    """Return the extremes of a Kronecker product's rows that matter.

    Where a factor has too many rows, one that holds them all stands for them: never too narrow.
    """
    result = CONSTANT
    for rows in factors:
        if len(result) * len(rows) > _MAX_PAIRS:
            result, rows = _hull(result), _hull(rows)
        result = _outermost(_times(first, second) for first, second in itertools.product(result, rows))
    return result


def entry_and_spread(rows: Iterable[Extremes]) -> tuple[Number, Number]:
    """Return the largest magnitude of an entry, and the largest difference of two in one row."""
    known = list(rows)
    return max(high for _, high in known), max(high - low for low, high in known)


def _times(first: Extremes, second: Extremes) -> Extremes:
    corners = [one * other for one in first for other in second]
    return min(corners), max(corners)


def _outermost(rows: Iterable[Extremes]) -> tuple[Extremes, ...]:
    """Drop rows whose entries lie within those of another, after turning signs."""
    turned = {(low, high) if high >= -low else (-high, -low) for low, high in rows}
    kept: list[Extremes] = []
    for low, high in sorted(turned, key=lambda row: (-row[1], row[0])):
        if not kept or low < kept[-1][0]:
            kept.append((low, high))
    return tuple(kept)


def _hull(rows: tuple[Extremes, ...]) -> tuple[Extremes, ...]:
    return ((min(low for low, _ in rows), max(high for _, high in rows)),)


def _exact(entry: np.generic) -> Number:
    value = Fraction(entry.item())
    return int(value) if value.denominator == 1 else value
