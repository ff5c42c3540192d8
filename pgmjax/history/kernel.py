"""Inner products of queries under a prior, from their factors: the kernel matrix.

Terms that name the same attributes are taken together. For two such groups either the products of
one-attribute inner products are added up over pairs of terms (equation 12), or both are summed out
to the attributes they share and multiplied as matrices (equation 15), whichever costs less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pgmjax import _checks
from pgmjax.history import projection
from pgmjax.history.prior import ProductPrior
from pgmjax.history.rows import Group, Rows

_CHUNK_NUMBERS = 8_000_000
_FLOP, _PASS, _GATHER = 0.05, 1.0, 3.0  # nanoseconds for a number, roughly, on a CPU core


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
        >>> from pgmjax.domain import Domain
        >>> from pgmjax.queries import marginal
        >>> kernel(Rows.of(marginal(["sex"]), Domain({"age": 50, "sex": 2}))).tolist()
        [[0.5, 0.0], [0.0, 0.5]]

    References:
        Chen, Zhou and Bhowmick 2012, equations 12, 15 and 20, Theorems 1 and 2.
    """
    prior = _same_domain(rows, others, prior)
    symmetric = others is None or others is rows
    others = rows if others is None else others
    shape = (rows.num_rows, others.num_rows)
    result = np.zeros(shape) if out is None else out
    if result.shape != shape or result.dtype != np.float64:
        raise ValueError(f"out must be float64 {shape}, got {result.dtype} {result.shape}.")
    if out is not None:
        result[...] = 0
    tables: dict[tuple[int, int, tuple[int, ...]], np.ndarray] = {}
    for at, group in enumerate(rows.groups):
        for place, other in enumerate(others.groups):
            if symmetric and place < at:
                continue
            share = tuple(k for k in group.attributes if k in other.attributes)
            if _by_terms(rows, group, other, share):
                _add_by_terms(result, rows, group, others, other, share, prior, symmetric and place > at)
                continue
            left = _projected(tables, 0, at, rows, group, share, prior)
            right = (
                left
                if symmetric and place == at
                else _projected(tables, 0 if symmetric else 1, place, others, other, share, prior)
            )
            block = (left * projection.weights(share, prior)) @ right.T
            _add(result, group.rows, other.rows, block)
            if symmetric and place > at:
                _add(result, other.rows, group.rows, block.T)
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
    block = _checks.integer("block", block, low=1)
    prior = _same_domain(rows, others, prior)
    others = rows if others is None else others
    for low in range(0, rows.num_rows, block):
        some = slice(low, min(low + block, rows.num_rows))
        yield some, kernel(rows.take(some), others, prior)


def _same_domain(rows: Rows, others: Rows | None, prior: ProductPrior | None) -> ProductPrior:
    for each in (rows, others):
        if each is not None and not isinstance(each, Rows):
            raise TypeError(f"a kernel is of Rows, got {type(each).__name__}: give history.rows or Rows.of.")
    if others is not None and others.domain.sizes != rows.domain.sizes:
        raise ValueError(f"expected rows over {rows.domain!r}, got rows over {others.domain!r}.")
    if prior is None:
        return ProductPrior.uniform(rows.domain)
    if prior.domain.sizes != rows.domain.sizes:
        raise ValueError(f"the prior must be over {rows.domain!r}, got one over {prior.domain!r}.")
    return prior


def _by_terms(rows: Rows, group: Group, other: Group, share: tuple[int, ...]) -> bool:
    """Return whether equation 12 is the cheaper one."""
    sizes = [rows.domain.shape[k] for k in share]
    pairs = len(group.terms) * len(other.terms)
    by_terms = pairs * (_PASS + sum(min(2 * size * _FLOP, _GATHER) for size in sizes))
    cells = math.prod(sizes)
    made = cells * (len(group.terms) + len(other.terms)) * _PASS
    by_tables = made + len(group.rows) * len(other.rows) * (2 * cells * _FLOP + _PASS)
    return by_terms <= by_tables


def _projected(
    tables: dict[tuple[int, int, tuple[int, ...]], np.ndarray],
    side: int,
    at: int,
    rows: Rows,
    group: Group,
    share: tuple[int, ...],
    prior: ProductPrior,
) -> np.ndarray:
    key = (side, at, share)
    if key not in tables:
        table = projection.project(rows, group, share, prior)
        if table.size > _CHUNK_NUMBERS:
            return table
        tables[key] = table
    return tables[key]


def _add_by_terms(
    result: np.ndarray,
    rows: Rows,
    group: Group,
    others: Rows,
    other: Group,
    share: tuple[int, ...],
    prior: ProductPrior,
    mirrored: bool,
) -> None:
    """Add the products over shared attributes of one-attribute inner products (equation 12)."""
    left = projection.unshared(rows, group, share, prior)
    right = projection.unshared(others, other, share, prior)
    ends = np.append(group.starts, len(group.terms))
    at_once = max(1, _CHUNK_NUMBERS // max(1, len(other.terms)))
    low = 0
    while low < len(group.rows):
        high = max(low + 1, int(np.searchsorted(ends, ends[low] + at_once, side="right")) - 1)
        some = slice(ends[low], ends[high])
        block = np.multiply.outer(left[some], right)
        for place in share:
            block *= _attribute_products(
                rows.vectors[place],
                rows.index[group.terms[some], place],
                others.vectors[place],
                others.index[other.terms, place],
                prior.probabilities[place],
            )
        if not group.single:
            block = np.add.reduceat(block, ends[low:high] - ends[low], axis=0)
        if not other.single:
            block = np.add.reduceat(block, other.starts, axis=1)
        _add(result, group.rows[low:high], other.rows, block)
        if mirrored:
            _add(result, other.rows, group.rows[low:high], block.T)
        low = high


def _attribute_products(
    vectors: np.ndarray, index: np.ndarray, others: np.ndarray, other_index: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return the inner products on one attribute [terms, other terms], of distinct vectors once."""
    distinct, which = np.unique(index, return_inverse=True)
    other_distinct, other_which = np.unique(other_index, return_inverse=True)
    few = len(distinct) * len(other_distinct) * 4 <= len(index) * len(other_index)
    if few:
        products = (vectors[distinct] * weights) @ others[other_distinct].T
        return products[:, other_which][which]
    return (vectors[index] * weights) @ others[other_index].T


def _add(result: np.ndarray, rows: np.ndarray, others: np.ndarray, block: np.ndarray) -> None:
    """Add a block to the rows and columns of these numbers, each of which is there once."""
    along, across = _run(rows), _run(others)
    if isinstance(along, slice) or isinstance(across, slice):
        result[along, across] += block
    else:
        result[np.ix_(rows, others)] += block


def _run(numbers: np.ndarray) -> slice | np.ndarray:
    consecutive = len(numbers) and numbers[-1] - numbers[0] + 1 == len(numbers)
    return slice(int(numbers[0]), int(numbers[-1]) + 1) if consecutive else numbers
