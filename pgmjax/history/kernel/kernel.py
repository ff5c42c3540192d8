"""Inner products of queries under a prior, from their factors: the kernel matrix.

No query is written out over the domain: rows are taken together by the attributes that their terms
name, and each pair of groups is worked out in the cheaper of two ways, see `pair_products`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pgmjax._internal import checks
from pgmjax.history.kernel.pair_products import PairProducts, chunks
from pgmjax.history.prior import ProductPrior
from pgmjax.history.rows import Rows

_CHUNK_NUMBERS = 4_000_000
_TILE = 1024


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
        others: further queries over the same domain; None are the same ones.
        prior: weights of the cells; None is the uniform prior, with which K is Q Q^T / N.
        out: where to put the result, float64 [rows, others]; None makes room.

    Returns:
        float64 [rows, others].

    Raises:
        ValueError: rows over another domain, or `out` of another shape or type.

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
    """Yield the kernel matrix a few rows at a time, for what does not fit in memory.

    Args:
        rows: queries.
        others: further queries; None are the same ones.
        prior: as for `kernel`.
        block: how many rows at a time.

    Yields:
        Which rows, and their inner products with all others, float64 [rows of the block, others].

    Raises:
        ValueError: as `kernel`, or a block below 1.
    """
    block = checks.integer("block", block, low=1)
    prior = same_domain(rows, others, prior)
    others = rows if others is None else others
    for low in range(0, rows.num_rows, block):
        some = slice(low, min(low + block, rows.num_rows))
        yield some, kernel(rows.take(some), others, prior)


def same_domain(rows: Rows, others: Rows | None, prior: ProductPrior | None) -> ProductPrior:
    """Return the prior, the uniform one for None, after checking that all are over one domain.

    Raises:
        TypeError: something that is no `Rows` or `ProductPrior`.
        ValueError: other domains.
    """
    for each in (rows, others):
        if each is not None and not isinstance(each, Rows):
            raise TypeError(f"a kernel is of Rows, got {type(each).__name__}: give history.rows or Rows.of.")
    if others is not None and others.domain.sizes != rows.domain.sizes:
        raise ValueError(f"expected rows over {rows.domain!r}, got rows over {others.domain!r}.")
    if prior is None:
        return ProductPrior.uniform(rows.domain)
    if not isinstance(prior, ProductPrior):
        raise TypeError(f"the prior must be a ProductPrior, got {type(prior).__name__}.")
    if prior.domain.sizes != rows.domain.sizes:
        raise ValueError(f"the prior must be over {rows.domain!r}, got one over {prior.domain!r}.")
    return prior


class _Columns:
    """The columns of a kernel in the order of groups, and how they go to the order of rows."""

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
        """Add a strip [rows, columns by group] to some rows, each of which is named once."""
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
