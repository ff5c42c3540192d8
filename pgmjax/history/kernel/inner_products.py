"""Inner products of queries under a prior, from their factors: the kernel matrix.

No query is expanded over the domain: rows are grouped by the attributes of their terms, and each pair of
groups is computed in the cheaper of two ways, by pairs of terms (equation 12) or as tables of the attributes
they share (equation 15). `squared_norms` is the kernel's diagonal without the kernel.

References:
    Chen, Zhou and Bhowmick 2012, equations 12 and 15.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pgmjax._internal import checks
from pgmjax.history.prior import ProductPrior
from pgmjax.history.rows import Rows, TermGroup

_CHUNK_NUMBERS = 4_000_000
_TILE = 1024

_FLOP, _PASS, _GATHER = 0.05, 1.0, 3.0  # approximate nanoseconds per number on a CPU core
_MAX_GRAM = 4_000_000
_MAX_TABLE = 8_000_000

_MANY_TERMS = 4
"""From this many terms per row, a matrix product for each row beats outer products of all terms."""

_BLOCK = 64


def kernel(
    rows: Rows,
    others: Rows | None = None,
    prior: ProductPrior | None = None,
    *,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Return the inner products of all pairs of rows: sum over cells of prior times both entries.

    Args:
        rows: queries.
        others: other queries over the same domain. Default: `rows`.
        prior: weights of the cells. Default: the uniform prior, for which K is Q Q^T / N.
        out: array for the result, float64 [rows, others]. Default: a new one.

    Returns:
        float64 [rows, others].

    Raises:
        ValueError: the domains differ, or `out` has the wrong shape or type.

    Example:
        >>> from pgmjax.data.domain import Domain
        >>> from pgmjax.queries import marginal
        >>> kernel(Rows.of(marginal(["sex"]), Domain({"age": 50, "sex": 2}))).tolist()
        [[0.5, 0.0], [0.0, 0.5]]

    References:
        Chen, Zhou and Bhowmick 2012, equations 12, 15 and 20, Theorems 1 and 2.
    """
    prior = same_domain(rows, others, prior)
    symmetric = others is None or others is rows
    others = rows if others is None else others
    shape = (rows.num_rows, others.num_rows)
    result = np.zeros(shape) if out is None else out
    if result.shape != shape or result.dtype != np.float64:
        raise ValueError(f"out must be float64 {shape}, got {result.dtype} {result.shape}.")
    if out is not None:
        result[...] = 0
    products = PairProducts(rows, others, prior)
    columns = _Columns(others)
    for at, group in enumerate(rows.groups):
        for low, high in chunks(group, max(columns.widths, default=1), _CHUNK_NUMBERS):
            numbers = group.rows[low:high]
            direct = columns.in_order and numbers[-1] - numbers[0] + 1 == len(numbers)
            some = slice(int(numbers[0]), int(numbers[-1]) + 1)
            strip = result[some] if direct else np.zeros((high - low, columns.ends[-1]))
            for place in range(at if symmetric else 0, len(others.groups)):
                block = products.block(at, low, high, place)
                if symmetric and place == at:
                    block = 0.5 * block  # is added to its mirror image
                strip[:, columns.ends[place] : columns.ends[place + 1]] += block
            if not direct:
                columns.add(result, numbers, strip)
    if symmetric:
        _add_transposed(result)
    return result


def kernel_blocks(
    rows: Rows, others: Rows | None = None, prior: ProductPrior | None = None, *, block: int = 4096
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield the kernel matrix a few rows at a time, for matrices that do not fit in memory.

    Args:
        rows: queries.
        others: other queries. Default: `rows`.
        prior: as in `kernel`.
        block: number of rows at a time.

    Yields:
        A slice of rows, and their inner products with all others, float64 [rows of the block, others].

    Raises:
        ValueError: as in `kernel`, or the block is below 1.
    """
    block = checks.integer("block", block, low=1)
    prior = same_domain(rows, others, prior)
    others = rows if others is None else others
    for low in range(0, rows.num_rows, block):
        some = slice(low, min(low + block, rows.num_rows))
        yield some, kernel(rows.take(some), others, prior)


def squared_norms(rows: Rows, prior: ProductPrior | None = None) -> np.ndarray:
    """Return each row's inner product with itself: the mean of its squared entry under the prior.

    Args:
        rows: queries.
        prior: weights of the cells. Default: the uniform prior.

    Returns:
        float64 [rows], >= 0.

    Example:
        >>> from pgmjax.data.domain import Domain
        >>> from pgmjax.queries import marginal
        >>> squared_norms(Rows.of(marginal(["age"]), Domain({"age": 4}))).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    prior = same_domain(rows, None, prior)
    result = np.zeros(rows.num_rows)
    groups = np.zeros(rows.num_rows, np.int64)
    for group in rows.groups:
        groups[group.rows] += 1
        result[group.rows] = _single(rows, group, prior) if group.single else _several(rows, group, prior)
    mixed = np.flatnonzero(groups > 1)
    for low in range(0, len(mixed), _BLOCK):
        some = mixed[low : low + _BLOCK]
        result[some] = np.diagonal(kernel(rows.take(some), None, prior))
    return result


def _single(rows: Rows, group: TermGroup, prior: ProductPrior) -> np.ndarray:
    result = rows.coefficients[group.terms] ** 2
    for place in group.attributes:
        squares = rows.vectors[place] ** 2 @ prior.probabilities[place]
        result = result * squares[rows.index[group.terms, place]]
    return result


def _several(rows: Rows, group: TermGroup, prior: ProductPrior) -> np.ndarray:
    """Expand the rows over the attributes they name, a few at a time."""
    weights = joint_weights(group.attributes, prior)
    result = np.empty(len(group.rows))
    for low, high in chunks(group, len(weights), _CHUNK_NUMBERS):
        some = rows.take(group.rows[low:high])
        table = np.zeros((high - low, len(weights)))
        for part in some.groups:  # rows in several groups are recomputed by the caller
            if part.attributes == group.attributes:
                table[part.rows] = project(some, part, part.attributes, prior)
        result[low:high] = table**2 @ weights
    return result


def same_domain(rows: Rows, others: Rows | None, prior: ProductPrior | None) -> ProductPrior:
    """Return the prior, the uniform one for None, after checking that all are over one domain.

    Raises:
        TypeError: an argument is not a `Rows` or `ProductPrior`.
        ValueError: the domains differ.
    """
    for each in (rows, others):
        checks.kind(each, Rows | None, "a kernel is of Rows", "give history.rows or Rows.of")
    if others is not None and others.domain.sizes != rows.domain.sizes:
        raise ValueError(f"expected rows over {rows.domain!r}, got rows over {others.domain!r}.")
    if prior is None:
        return ProductPrior.uniform(rows.domain)
    checks.kind(
        prior, ProductPrior, "the prior must be a ProductPrior", "write ProductPrior(domain, {name: shares})"
    )
    if prior.domain.sizes != rows.domain.sizes:
        raise ValueError(f"the prior must be over {rows.domain!r}, got one over {prior.domain!r}.")
    return prior


class _Columns:
    """The columns of a kernel in the order of groups, with their map to the order of rows."""

    def __init__(self, rows: Rows) -> None:
        self.widths = [len(group.rows) for group in rows.groups]
        self.ends = np.cumsum([0, *self.widths])
        owners = np.concatenate([np.zeros(0, np.int64), *(group.rows for group in rows.groups)])
        self._order: np.ndarray | None = np.argsort(owners, kind="stable")
        self._rows, self._starts = np.unique(owners[self._order], return_index=True)
        if np.array_equal(self._order, np.arange(len(owners))):
            self._order = None
        self._once = len(self._rows) == len(owners)
        self._all = len(self._rows) == rows.num_rows
        self.in_order = self._order is None and self._once and self._all

    def add(self, result: np.ndarray, rows: np.ndarray, strip: np.ndarray) -> None:
        """Add a strip [rows, columns by group] to some distinct rows."""
        if self._order is not None:
            strip = strip.take(self._order, axis=1)
        if not self._once and strip.shape[1]:
            strip = np.add.reduceat(strip, self._starts, axis=1)
        if not self._all:
            whole = np.zeros((len(strip), result.shape[1]))
            whole[:, self._rows] = strip
            strip = whole
        result[rows] += strip


def _add_transposed(square: np.ndarray) -> None:
    """Add a square matrix's transpose to it in place, tile by tile."""
    for low in range(0, len(square), _TILE):
        for left in range(low, len(square), _TILE):
            here, there = (slice(low, low + _TILE), slice(left, left + _TILE))
            tile = square[here, there] + square[there, here].T
            square[here, there] = tile
            square[there, here] = tile.T


class PairProducts:
    """Inner products between the groups of two sets of rows, with shared factors cached.

    Args:
        rows: one side.
        others: the other side; may be the same.
        prior: weights of the cells.
    """

    def __init__(self, rows: Rows, others: Rows, prior: ProductPrior) -> None:
        self._sides = (rows, others)
        self._prior = prior
        self._grams: dict[int, np.ndarray | None] = {}
        self._tables: dict[tuple[bool, int, tuple[int, ...]], np.ndarray] = {}
        self._scales: dict[tuple[bool, int, tuple[int, ...]], np.ndarray] = {}

    def block(self, at: int, low: int, high: int, place: int) -> np.ndarray:
        """Return inner products of rows low..high-1 of group `at` with the rows of the other's `place`."""
        group, other = self._sides[0].groups[at], self._sides[1].groups[place]
        share = tuple(k for k in group.attributes if k in other.attributes)
        sizes = [self._prior.domain.shape[k] for k in share]
        if by_terms(len(group.terms), len(other.terms), len(group.rows), len(other.rows), sizes):
            return self._by_terms(at, low, high, place, share)
        left = self._table(False, at, share)[low:high]
        return (left * joint_weights(share, self._prior)) @ self._table(True, place, share).T

    def _by_terms(self, at: int, low: int, high: int, place: int, share: tuple[int, ...]) -> np.ndarray:
        """Multiply over the shared attributes, then add up over the terms of each row (equation 12)."""
        group, other = self._sides[0].groups[at], self._sides[1].groups[place]
        ends = np.append(group.starts, len(group.terms))
        some = slice(ends[low], ends[high])
        block = np.multiply.outer(self._scale(False, at, share)[some], self._scale(True, place, share))
        for k in share:
            block *= self._on_attribute(k, group.terms[some], other.terms)
        if not group.single:
            block = np.add.reduceat(block, ends[low:high] - ends[low], axis=0)
        return block if other.single else np.add.reduceat(block, other.starts, axis=1)

    def _on_attribute(self, k: int, terms: np.ndarray, others: np.ndarray) -> np.ndarray:
        rows, columns = self._sides
        index, across = rows.index[terms, k], columns.index[others, k]
        gram = self._gram(k)
        if gram is not None:
            return gram[index].take(across, axis=1)
        return (rows.vectors[k][index] * self._prior.probabilities[k]) @ columns.vectors[k][across].T

    def _gram(self, k: int) -> np.ndarray | None:
        """Return the inner products of all distinct vectors of an attribute, or None if they are too many."""
        if k not in self._grams:
            left, right = self._sides[0].vectors[k], self._sides[1].vectors[k]
            few = len(left) * len(right) <= _MAX_GRAM
            self._grams[k] = (left * self._prior.probabilities[k]) @ right.T if few else None
        return self._grams[k]

    def _scale(self, right: bool, at: int, share: tuple[int, ...]) -> np.ndarray:
        key = (right and self._sides[0] is not self._sides[1], at, share)
        if key not in self._scales:
            rows = self._sides[right]
            self._scales[key] = unshared(rows, rows.groups[at], share, self._prior)
        return self._scales[key]

    def _table(self, right: bool, at: int, share: tuple[int, ...]) -> np.ndarray:
        key = (right and self._sides[0] is not self._sides[1], at, share)
        if key not in self._tables:
            rows = self._sides[right]
            table = project(rows, rows.groups[at], share, self._prior)
            if table.size > _MAX_TABLE:
                return table
            self._tables[key] = table
        return self._tables[key]


def by_terms(terms: int, other_terms: int, rows: int, other_rows: int, sizes: list[int]) -> bool:
    """Return whether pairs of terms (equation 12) cost less than tables of shared attributes (15).

    Example:
        >>> by_terms(100, 100, 100, 100, [50]), by_terms(5000, 5000, 100, 100, [50, 50])
        (True, False)
    """
    pairs = terms * other_terms
    one_by_one = pairs * (_PASS + sum(min(2 * size * _FLOP, _GATHER) for size in sizes))
    cells = math.prod(sizes)
    made = cells * (terms + other_terms) * _PASS
    return one_by_one <= made + rows * other_rows * (2 * cells * _FLOP + _PASS)


def chunks(group: TermGroup, width: int, most: int) -> list[tuple[int, int]]:
    """Return ranges (low, high) of a group's rows whose terms times `width` are at most about `most`."""
    ends = np.append(group.starts, len(group.terms))
    result, low = [], 0
    while low < len(group.rows):
        reach = ends[low] + max(1, most // max(1, width))
        high = max(low + 1, int(np.searchsorted(ends, reach, side="right")) - 1)
        result.append((low, high))
        low = high
    return result


def unshared(rows: Rows, group: TermGroup, keep: tuple[int, ...], prior: ProductPrior) -> np.ndarray:
    """Return each term's coefficient times the means of its vectors outside `keep` [terms]."""
    result = rows.coefficients[group.terms].copy()
    for place in group.attributes:
        if place not in keep:
            vectors, index = rows.vectors[place], rows.index[group.terms, place]
            if len(index) < len(vectors):
                result *= vectors[index] @ prior.probabilities[place]
            else:
                result *= (vectors @ prior.probabilities[place])[index]
    return result


def project(rows: Rows, group: TermGroup, keep: tuple[int, ...], prior: ProductPrior) -> np.ndarray:
    """Return the group's rows as functions of some attributes, the others averaged out.

    Args:
        rows: the rows of the group.
        group: terms of the same attributes.
        keep: positions of the attributes to keep, among the group's.
        prior: weights for averaging over the others.

    Returns:
        float64 [rows of the group, cells of `keep`], cells row-major.
    """
    scale = unshared(rows, group, keep, prior)
    if not keep:
        return np.add.reduceat(scale, group.starts)[:, None]
    if group.single or len(group.terms) < _MANY_TERMS * len(group.rows):
        return _outer_products(rows, group, keep, scale)
    return _matrix_products(rows, group, keep, scale)


def _kronecker(rows: Rows, terms: np.ndarray, keep: tuple[int, ...], table: np.ndarray) -> np.ndarray:
    """Multiply [terms, 1] by the terms' vectors of some attributes: [terms, cells]."""
    for place in keep:
        vectors = rows.vectors[place][rows.index[terms, place]]
        table = (table[:, :, None] * vectors[:, None, :]).reshape(len(terms), -1)
    return table


def _outer_products(rows: Rows, group: TermGroup, keep: tuple[int, ...], scale: np.ndarray) -> np.ndarray:
    cells = math.prod(rows.domain.shape[place] for place in keep)
    result = np.empty((len(group.rows), cells))
    at_once = max(1, _CHUNK_NUMBERS // cells)
    ends = np.append(group.starts, len(group.terms))
    low = 0
    while low < len(group.rows):
        high = max(low + 1, int(np.searchsorted(ends, ends[low] + at_once, side="right")) - 1)
        some = slice(ends[low], ends[high])
        table = _kronecker(rows, group.terms[some], keep, scale[some, None])
        result[low:high] = np.add.reduceat(table, ends[low:high] - ends[low], axis=0)
        low = high
    return result


def _matrix_products(rows: Rows, group: TermGroup, keep: tuple[int, ...], scale: np.ndarray) -> np.ndarray:
    """Sum over the terms of a row in one matrix product of all attributes but the last with the last."""
    result = np.empty((len(group.rows), math.prod(rows.domain.shape[place] for place in keep)))
    ends = np.append(group.starts, len(group.terms))
    for row in range(len(group.rows)):
        some = slice(ends[row], ends[row + 1])
        left = _kronecker(rows, group.terms[some], keep[:-1], scale[some, None])
        right = rows.vectors[keep[-1]][rows.index[group.terms[some], keep[-1]]]
        result[row] = (left.T @ right).reshape(-1)
    return result


def joint_weights(keep: tuple[int, ...], prior: ProductPrior) -> np.ndarray:
    """Return the prior's probabilities of the cells of some attributes [cells], row-major."""
    table = np.ones(1)
    for place in keep:
        table = np.multiply.outer(table, prior.probabilities[place]).reshape(-1)
    return table
