"""Replace-one sensitivity of a Kronecker product: the largest distance between its columns.

Index columns by one code per attribute. The squared distance between two columns x and y is
``|x|^2 + |y|^2 - 2 <x, y>``, and each of the three terms is the product of the same quantity over the
factors. The L1 distance factorises in the same way if all entries are -1, 0 or 1, since then
``|u - v| = |u| + |v| - u v - |u v|``. So the largest distance needs a few numbers for each pair of columns
of each factor, not of the product, and only for pairs that are not dominated.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from pgmjax.queries import columns
from pgmjax.queries.blocks import AttributeQuery
from pgmjax.queries.columns import Exact

Bound = tuple[AttributeQuery, int]
"""A block and the size of its attribute."""

_MAX_PAIRS = 20_000_000
_MAX_FACTOR_COLUMNS = 1024
_MAX_FACTOR_ENTRIES = 20_000_000
_CHUNK = 256
_MAX_JOINT_ENTRIES = 20_000_000
_INT64 = 2**61
_EXACT_DOUBLE = 2**53


def product_max_column(factors: Sequence[Bound], power: int) -> Exact:
    """Return the largest column norm (to the power) of a Kronecker product: the factors' product."""
    return math.prod(block.max_column(size, power) for block, size in factors)


@functools.lru_cache(maxsize=256)
def product_max_distance(factors: tuple[Bound, ...], power: int) -> Exact:
    """Return the largest distance (to the power) of two columns of a Kronecker product, or a bound.

    Factors whose columns are all equal only scale the result. Columns that differ in a separating factor
    have disjoint supports, so their distance is twice the norm, the maximum for L1.
    """
    largest = product_max_column(factors, power)
    scale: Exact = 1
    separated = False
    rest: list[Bound] = []
    for block, size in factors:
        if block.separates(size):
            separated = True
            scale = scale * block.max_column(size, power)
        elif block.max_distance(size, power) == 0:
            scale = scale * block.max_column(size, power)
        else:
            rest.append((block, size))
    if separated and (power == 1 or not rest):
        return 2 * largest
    inner = scale * _unseparated(rest, power) if rest else 0
    return max(2 * largest, inner) if separated else inner


def distance_bound(max_column: Exact, nonnegative: bool, power: int) -> Exact:
    """Return an upper bound on the distance between two columns, given the largest column norm."""
    return max_column * (2 if power == 1 or nonnegative else 4)


def _unseparated(factors: list[Bound], power: int) -> Exact:
    nonnegative = all(block.is_nonnegative(size) for block, size in factors)
    bound = distance_bound(product_max_column(factors, power), nonnegative, power)
    if len(factors) == 1:
        block, size = factors[0]
        result = block.max_distance(size, power)
        return bound if result is None else result
    result = _by_factors(factors, power)
    if result is None:
        result = _joint(factors, power)
    return bound if result is None else min(bound, result)


def _joint(factors: list[Bound], power: int) -> Exact | None:
    """Compare all pairs of joint columns; None if the product is too large."""
    cells = math.prod(size for _, size in factors)
    rows = math.prod(block.rows(size) for block, size in factors)
    if cells > columns.MAX_PAIRWISE_COLUMNS or rows * cells > _MAX_JOINT_ENTRIES:
        return None
    scaled = [columns.scaled(block.matrix(size)) for block, size in factors]
    if math.prod(int(np.abs(integers).max()) for integers, _ in scaled) < _INT64:
        result = columns.max_distance(kronecker_matrix([integers for integers, _ in scaled]), power)
        exponent = power * sum(shift for _, shift in scaled)
        if result is None or isinstance(result, float):
            return None if result is None else result / 2.0**exponent
        return columns.unscale(int(result), exponent)
    result = columns.max_distance(kronecker_matrix([block.matrix(size) for block, size in factors]), power)
    return None if result is None else columns.round_up(float(result), 4 * len(factors))


def kronecker_matrix(matrices: Sequence[np.ndarray]) -> np.ndarray:
    """Return the Kronecker product, in float64 if 64-bit integers could overflow."""
    largest = math.prod(max(1, int(np.abs(matrix).max())) for matrix in matrices)
    result = np.ones((1, 1), np.int64 if largest < _INT64 else np.float64)
    for matrix in matrices:
        result = np.kron(result, matrix)
    return result


def _by_factors(factors: list[Bound], power: int) -> Exact | None:
    """Return the exact distance from pairs of columns of each factor, or None if that is too expensive."""
    if any(
        size > _MAX_FACTOR_COLUMNS or block.rows(size) * size > _MAX_FACTOR_ENTRIES for block, size in factors
    ):
        return None
    scaled = [columns.scaled(block.matrix(size)) for block, size in factors]
    matrices = [integers for integers, _ in scaled]
    if power == 1 and any(shift or np.abs(integers).max() > 1 for integers, shift in scaled):
        return None
    # inner products are summed in float64, which is exact below 2^53
    if any(int(np.abs(each).max()) ** 2 * len(each) >= _EXACT_DOUBLE for each in matrices):
        return None
    pairs = [_pairs(each.astype(np.float64), power) for each in matrices]
    # a sum of three or four such products must fit 64 bits
    if 4 * math.prod(int(each[0].max()) for each in pairs) >= _INT64:
        return None
    # the last factor is not multiplied out: its pairs are compared with all the others one by one
    combined, last = pairs[0], pairs[-1]
    for each in pairs[1:-1]:
        if combined.shape[1] * each.shape[1] > _MAX_PAIRS:
            return None
        # dominated pairs are dropped after every factor, or their number would grow as a product
        combined = _undominated((combined[:, :, None] * each[:, None, :]).reshape(len(each), -1))
    if combined.shape[1] * last.shape[1] > 10 * _MAX_PAIRS:
        return None
    # |x|^2 + |y|^2 - 2 <x, y>; or for L1, whose entries are -1, 0 and 1, |x| + |y| - <x, y> - <|x|, |y|>
    sign = np.array([1, 1, -2] if power == 2 else [1, 1, -1, -1])
    best = max(int(((sign * column) @ combined).max()) for column in last.T)
    return columns.unscale(best, 2 * sum(shift for _, shift in scaled))


def _pairs(matrix: np.ndarray, power: int) -> np.ndarray:
    """Return for pairs of columns x, y: squared norms, inner product, for L1 also that of absolute values.

    The result is [3 or 4, pairs], for undominated pairs only; all numbers are integers.
    """
    sizes = np.rint((matrix * matrix).sum(axis=0)).astype(np.int64)
    chunks = []
    for start in range(0, len(sizes), _CHUNK):
        some = matrix[:, start : start + _CHUNK]
        first, second = np.meshgrid(sizes[start : start + _CHUNK], sizes, indexing="ij")
        parts = [first, second, np.rint(some.T @ matrix)]
        if power == 1:
            parts.append(np.rint(np.abs(some).T @ np.abs(matrix)))
        chunks.append(_undominated(np.stack([part.ravel().astype(np.int64) for part in parts])))
    return _undominated(np.concatenate(chunks, axis=1))


def _undominated(pairs: np.ndarray) -> np.ndarray:
    """Drop dominated pairs: prefer large norms, small absolute products, and either extreme of products."""
    keep = np.union1d(_best(pairs, 2, smallest=True), _best(pairs, 2, smallest=False))
    pairs = pairs[:, keep]
    if len(pairs) == 4:
        pairs = pairs[:, _best(pairs, 3, smallest=True)]
    pairs = pairs[:, _best(pairs, 0, smallest=False)]
    return pairs[:, _best(pairs, 1, smallest=False)]


def _best(pairs: np.ndarray, row: int, smallest: bool) -> np.ndarray:
    """Return the index of the smallest or largest entry of `row` among pairs equal in all other rows."""
    others = np.delete(pairs, row, axis=0)
    order = np.lexsort((pairs[row] if smallest else -pairs[row], *others))
    fresh = np.ones(len(order), bool)
    fresh[1:] = (np.diff(others[:, order], axis=1) != 0).any(axis=0)
    return order[fresh]
