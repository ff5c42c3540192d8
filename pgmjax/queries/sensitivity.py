"""How far the columns of a Kronecker product lie apart: the replace-one sensitivity of a product.

With columns indexed by one code an attribute, a squared distance is ``prod p + prod q - 2 prod r``,
where p, q and r are the squared norms and the inner product of the two columns of each factor. So
the largest one needs the factors' triples (p, q, r) only, and of those only the undominated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pgmjax.queries import exact
from pgmjax.queries.block import AttributeQuery
from pgmjax.queries.exact import Exact

Bound = tuple[AttributeQuery, int]
"""A block and the size of its attribute."""

_MAX_TRIPLES = 20_000_000
_MAX_FACTOR_ENTRIES = 4_000_000
_MAX_JOINT_ENTRIES = 20_000_000
_INT64 = 2**61


def product_max_column(factors: Sequence[Bound], power: int) -> Exact:
    """Return the largest column norm (to the power) of a Kronecker product: the factors' product."""
    return math.prod(block.max_column(size, power) for block, size in factors)


def product_max_distance(factors: Sequence[Bound], power: int) -> Exact:
    """Return the largest distance (to the power) of two columns of a Kronecker product, or a bound.

    Factors whose columns are all equal only scale it. Columns that differ in a factor that
    separates have disjoint supports, so lie twice the norm apart, which is the most for L1.
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
    """Return what two columns can lie apart at most, given the largest column norm."""
    return max_column * (2 if power == 1 or nonnegative else 4)


def _unseparated(factors: list[Bound], power: int) -> Exact:
    nonnegative = all(block.is_nonnegative(size) for block, size in factors)
    bound = distance_bound(product_max_column(factors, power), nonnegative, power)
    if len(factors) == 1:
        block, size = factors[0]
        result = block.max_distance(size, power)
        return bound if result is None else result
    result = _joint(factors, power)
    if result is None and all(
        size <= exact.MAX_PAIRWISE_COLUMNS and block.rows(size) * size <= _MAX_FACTOR_ENTRIES
        for block, size in factors
    ):
        matrices = [block.matrix(size) for block, size in factors]
        if power == 2 or all(bool(((matrix == 0) | (matrix == 1)).all()) for matrix in matrices):
            result = _squared_distance(matrices)
            if result is not None and power == 1:
                return result
    return bound if result is None else min(bound, result)


def _joint(factors: list[Bound], power: int) -> Exact | None:
    """Compare all pairs of joint columns, where the product is small."""
    columns = math.prod(size for _, size in factors)
    rows = math.prod(block.rows(size) for block, size in factors)
    if columns > 1024 or rows * columns > _MAX_JOINT_ENTRIES or rows * columns**2 > 10**9:
        return None
    return exact.max_distance(kronecker_matrix([block.matrix(size) for block, size in factors]), power)


def kronecker_matrix(matrices: Sequence[np.ndarray]) -> np.ndarray:
    """Return the Kronecker product, in float64 where 64-bit integers could overflow."""
    largest = math.prod(max(1, int(np.abs(matrix).max())) for matrix in matrices)
    result = np.ones((1, 1), np.int64 if largest < _INT64 else np.float64)
    for matrix in matrices:
        result = np.kron(result, matrix)
    return result


def _squared_distance(matrices: list[np.ndarray]) -> Exact | None:
    parts = []
    exponent = 0
    for matrix in matrices:
        integers, shift = exact.scaled(matrix)
        if integers.dtype == object or int(np.abs(integers).max()) ** 2 * len(integers) >= 2**53:
            return None
        parts.append(_triples(integers.astype(np.float64)))
        exponent += shift
    if 4 * math.prod(int(part[0].max()) for part in parts) >= _INT64:
        return None
    combined = parts[0]
    for part in parts[1:-1]:
        if len(combined[0]) * len(part[0]) > _MAX_TRIPLES:
            return None
        combined = _undominated(
            *(np.multiply.outer(a, b).ravel() for a, b in zip(combined, part, strict=True))
        )
    last = parts[-1]
    if len(combined[0]) * len(last[0]) > 10 * _MAX_TRIPLES:
        return None
    best = max(
        int((combined[0] * p + combined[1] * q - 2 * combined[2] * r).max())
        for p, q, r in zip(*(part.tolist() for part in last), strict=True)
    )
    return exact.unscale(best, 2 * exponent)


def _triples(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return undominated (squared norm, squared norm, inner product) of all pairs of columns."""
    products = np.rint(matrix.T @ matrix).astype(np.int64)
    norms = np.diag(products)
    first, second = np.meshgrid(norms, norms, indexing="ij")
    return _undominated(first.ravel(), second.ravel(), products.ravel())


def _undominated(p: np.ndarray, q: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keep what a maximum of ``P p + Q q - 2 R r`` with P, Q >= 0 and any R can need."""
    smallest = _first_of_each(p, q, r)
    largest = _first_of_each(p, q, -r)
    keep = np.union1d(smallest, largest)
    p, q, r = p[keep], q[keep], r[keep]
    keep = _first_of_each(q, r, -p)
    p, q, r = p[keep], q[keep], r[keep]
    keep = _first_of_each(p, r, -q)
    return p[keep], q[keep], r[keep]


def _first_of_each(first: np.ndarray, second: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Return, for each pair (first, second), the index with the least third number."""
    order = np.lexsort((least, second, first))
    fresh = np.ones(len(order), bool)
    fresh[1:] = (np.diff(first[order]) != 0) | (np.diff(second[order]) != 0)
    return order[fresh]
