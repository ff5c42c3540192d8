"""Exact column norms, column distances and row extremes of query matrices, which give sensitivities.

A matrix of floats is scaled by a power of two to integers, since every float is an integer divided by
such a power. Results are then exact integers or fractions. If 64-bit integers would overflow and the
matrix is too large for Python integers, floats are used and rounded up: a sensitivity may then be too
large by a relative 1e-9, but never too small.

The smallest and largest entry of every row determine how much a single answer can change. The entries of
a row of a Kronecker product are the products of one entry of each factor's row, so its extremes are among
the products of the factors' extremes. A row whose entries lie within the range of another row can be
dropped, even within a product, and the sign of a row is irrelevant, so few rows of each factor are kept.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

Exact = int | Fraction | float
"""A sensitivity: an exact integer or fraction, or a float that is never below the exact value."""

MAX_PAIRWISE_COLUMNS = 4096
"""All pairs of columns are compared up to this number of columns."""

Number = int | Fraction
Extremes = tuple[Number, Number]
"""Smallest and largest entry of a row, its sign chosen so that the largest has the greater magnitude."""

MIXED: tuple[Extremes, ...] = ((0, 1),)
"""Rows of zeros and ones, at least one of which has both."""

CONSTANT: tuple[Extremes, ...] = ((1, 1),)
"""Rows of zeros only or of ones only."""

_MAX_WORK = 4 * 10**9
_MAX_PYTHON_WORK = 10**6
_MAX_PAIRS = 20_000  # pairs of rows per step of `row_extremes_of_product`
_INT64 = 2**62
_DOUBLE = 2**53


def max_column(matrix: np.ndarray, power: int) -> Exact:
    """Return the largest sum over a column of ``abs(entry) ** power``, for power 1 or 2.

    Args:
        matrix: [rows, columns].
        power: 1 or 2.
    """
    if _float_needed(matrix, power, matrix.size):
        # magnitudes only: nothing cancels, so rounding entries of more than 53 bits does no harm
        magnitudes = np.abs(_as_floats(matrix))
        return round_up(float((magnitudes**power).sum(axis=0).max()), len(matrix))
    integers, exponent = scaled(matrix)
    magnitudes = np.abs(_safe(integers, power))
    return unscale(int((magnitudes**power).sum(axis=0).max()), exponent * power)


def max_distance(matrix: np.ndarray, power: int) -> Exact | None:
    """Return the largest sum over rows of ``abs(difference of two columns) ** power``.

    Args:
        matrix: [rows, columns].
        power: 1 or 2.

    Returns:
        the exact value (a float if rounded up), or None if there are too many columns, too many pairs
        to compare, or entries that are too large.
    """
    matrix = np.unique(matrix, axis=1)
    rows, columns = matrix.shape
    if rows == 1:
        return whole((Fraction(matrix.max().item()) - Fraction(matrix.min().item())) ** power)
    if columns > MAX_PAIRWISE_COLUMNS:
        return None
    if _float_needed(matrix, power, matrix.size * columns):
        if matrix.dtype.kind in "iub" and largest_of(matrix) >= _DOUBLE:
            return None  # floats cannot represent the entries, whose differences may cancel
        return _pairwise(_as_floats(matrix), power, exact=False)
    integers, exponent = scaled(matrix)
    if integers.dtype != object and largest_of(integers) < 2**31:
        gram = _through_products(integers, power)
        if gram is not None:
            return unscale(gram, exponent * power)
    result = _pairwise(_safe(integers, power), power, exact=True)
    return None if result is None else unscale(int(result), exponent * power)


def scaled(matrix: np.ndarray) -> tuple[np.ndarray, int]:
    """Return integers (int64 or Python ints) and an exponent: ``matrix == integers / 2**exponent``."""
    if matrix.dtype.kind in "iub":
        return matrix.astype(np.int64), 0
    digits, shifts, exponent = _decomposed(matrix)
    if _bits(digits, shifts) < 61:
        return digits << shifts, exponent
    wide = [int(digit) << int(shift) for digit, shift in zip(digits.flat, shifts.flat, strict=True)]
    return np.array(wide, dtype=object).reshape(matrix.shape), exponent


def _decomposed(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Return odd digits, shifts >= 0 and an exponent: ``matrix == digits * 2**shifts / 2**exponent``."""
    mantissas, exponents = np.frexp(matrix)
    digits = (mantissas * float(_DOUBLE)).astype(np.int64)
    # the lowest bit that is set, by which the digits are divided exactly
    lowest = digits & -digits
    zeros = np.where(digits == 0, 0, np.round(np.log2(np.maximum(lowest, 1)))).astype(np.int64)
    powers = np.where(digits == 0, 0, exponents.astype(np.int64) - 53 + zeros)
    exponent = max(0, -int(powers.min()))
    return digits >> zeros, powers + exponent, exponent


def _bits(digits: np.ndarray, shifts: np.ndarray) -> float:
    return float(np.max(np.log2(np.maximum(np.abs(digits), 1)) + shifts))


def unscale(value: int, exponent: int) -> int | Fraction:
    """Return ``value / 2**exponent``, as an int if it is one."""
    return whole(Fraction(value, 2**exponent))


def whole(value: Fraction) -> int | Fraction:
    """Return a fraction as an int if it is one."""
    return int(value) if value.denominator == 1 else value


def round_up(value: float, terms: int) -> float:
    """Return a float at least as large as the exact sum of `terms` terms that `value` approximates."""
    return value * (1.0 + 8.0 * (terms + 4) * 2.0**-53)


def exact_sqrt_bound(value: Exact) -> float:
    """Return a float that is at least the square root of `value`."""
    return round_up(math.sqrt(float(value)), 4)


def largest_of(integers: np.ndarray) -> int:
    """Return the largest absolute value of integers, exactly; 0 if there are none."""
    return max(abs(int(integers.max())), abs(int(integers.min()))) if integers.size else 0


def _safe(integers: np.ndarray, power: int) -> np.ndarray:
    """Convert to Python integers if sums of 64-bit integers could overflow."""
    if integers.dtype == object or (2 * largest_of(integers)) ** power * len(integers) < _INT64:
        return integers
    return integers.astype(object)


def _float_needed(matrix: np.ndarray, power: int, work: int) -> bool:
    """Return whether 64-bit integers could overflow and Python integers would take too long."""
    if work <= _MAX_PYTHON_WORK:
        return False
    if matrix.dtype.kind in "iub":
        return (2 * largest_of(matrix)) ** power * len(matrix) >= _INT64
    digits, shifts, _ = _decomposed(matrix)
    # a bit for the difference of two columns, and a thousandth for rounding in the logarithms
    return power * (_bits(digits, shifts) + 1.001) + math.log2(len(matrix)) >= 61


def _as_floats(matrix: np.ndarray) -> np.ndarray:
    """Return the matrix in float64, whose powers and sums round but never wrap around."""
    return matrix.astype(np.float64)


def _pairwise(matrix: np.ndarray, power: int, exact: bool) -> Exact | None:
    rows, columns = matrix.shape
    if rows * columns**2 > _MAX_WORK:
        return None
    best = max(
        (np.abs(matrix[:, j:] - matrix[:, j : j + 1]) ** power).sum(axis=0).max() for j in range(columns)
    )
    return int(best) if exact else round_up(float(best), rows)


def _through_products(integers: np.ndarray, power: int) -> int | None:
    """Return the largest squared distance from inner products, exact in float64; None if it does not fit.

    An L1 distance becomes a squared L2 distance when each row is replaced by its indicators of
    ``entry >= t`` for every value t in it except the smallest, weighted by the gap to the value before.
    """
    weights = np.ones(len(integers), np.int64)
    if power == 1:
        expanded = [_indicators(row) for row in integers]
        if sum(len(gaps) for _, gaps in expanded) > max(64, 4 * len(integers)):
            return None
        weights = np.concatenate([gaps for _, gaps in expanded])
        if not len(weights):
            return 0
        integers = np.concatenate([rows for rows, _ in expanded])
    largest = largest_of(integers)
    # a bound on |x - y|^2 with all its terms, which are to be exact in float64
    if 4 * largest**2 * int(weights.max()) * len(integers) >= _DOUBLE:
        return None
    floats = integers.astype(np.float64)
    products = (floats * weights[:, None]).T @ floats
    squares = np.diag(products)
    return int(max((squares + squares[j] - 2 * products[j]).max() for j in range(len(squares))))


def _indicators(row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values = np.unique(row)
    return (row[None, :] >= values[1:, None]).astype(np.int64), np.diff(values)


def row_extremes_of_matrix(matrix: np.ndarray) -> tuple[Extremes, ...]:
    """Return the extremes of a matrix's rows [rows, columns], without the dominated rows."""
    lows, highs = matrix.min(axis=1), matrix.max(axis=1)
    # of rows with one upper end only the least lower end matters
    tops, places = np.unique(highs, return_inverse=True)
    least = np.full(len(tops), lows.max())
    np.minimum.at(least, places.reshape(-1), lows)
    ends = zip(least.tolist(), tops.tolist(), strict=True)
    return _outermost((whole(Fraction(low)), whole(Fraction(high))) for low, high in ends)


def row_extremes_of_product(factors: Sequence[tuple[Extremes, ...]]) -> tuple[Extremes, ...]:
    """Return the extremes of a Kronecker product's rows, without the dominated rows.

    Too many combinations of rows are replaced by one row that covers them all, so the result is never
    too narrow.
    """
    result = CONSTANT
    for rows in factors:
        if len(result) * len(rows) > _MAX_PAIRS:
            result, rows = _hull(result), _hull(rows)
        result = _outermost(_times(first, second) for first, second in itertools.product(result, rows))
    return result


def entry_and_spread(rows: Iterable[Extremes]) -> tuple[Number, Number]:
    """Return the largest magnitude of an entry and the largest difference of two entries of one row."""
    known = list(rows)
    return max(high for _, high in known), max(high - low for low, high in known)


def _times(first: Extremes, second: Extremes) -> Extremes:
    corners = [one * other for one in first for other in second]
    return min(corners), max(corners)


def _outermost(rows: Iterable[Extremes]) -> tuple[Extremes, ...]:
    """Drop rows whose entries lie within the range of another row, after normalising signs."""
    turned = {(low, high) if high >= -low else (-high, -low) for low, high in rows}
    kept: list[Extremes] = []
    # by falling upper ends, so that a row lies within an earlier one unless it reaches further down
    for low, high in sorted(turned, key=lambda row: (-row[1], row[0])):
        if not kept or low < kept[-1][0]:
            kept.append((low, high))
    return tuple(kept)


def _hull(rows: tuple[Extremes, ...]) -> tuple[Extremes, ...]:
    return ((min(low for low, _ in rows), max(high for _, high in rows)),)
