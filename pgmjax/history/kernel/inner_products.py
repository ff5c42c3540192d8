"""Inner products of queries under a prior, from their factors: the kernel, and its products with vectors.

No query is expanded over the domain: rows are grouped by the attributes of their terms, and each pair of
groups is computed in the cheaper of two ways, by pairs of terms (equation 12) or as tables of the attributes
they share (equation 15). `squared_norms` is the kernel's diagonal without the kernel.

With the rows as a matrix Q over the cells and the prior as weights D, ``K v = Q D (Q^T v)``. ``Q^T v`` is a
sum of functions of few attributes; terms of group h depend on the part of group g only through its mean
over the attributes they do not share. So a product costs the tables of shared attributes, not pairs of rows.

References:
    Chen, Zhou and Bhowmick 2012, equations 12 and 15.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable

import numpy as np

from pgmjax._internal import checks
from pgmjax.history.prior import ProductPrior
from pgmjax.history.rows import Rows, TermGroup, VectorProducts, kronecker, prior_over

_CHUNK_NUMBERS = 4_000_000
_TILE = 1024

_FLOP, _PASS, _GATHER = 0.05, 1.0, 3.0  # approximate nanoseconds per number on a CPU core
_MAX_GRAM = 4_000_000

_MANY_TERMS = 4
"""From this many terms per row, a matrix product for each row beats outer products of all terms."""

_BLOCK = 64


def kernel(rows: Rows, others: Rows | None = None, prior: ProductPrior | None = None) -> np.ndarray:
    """Return the inner products of all pairs of rows: sum over cells of prior times both entries.

    Args:
        rows: queries.
        others: other queries over the same domain. Default: `rows`.
        prior: weights of the cells. Default: the uniform prior, for which K is Q Q^T / N.

    Returns:
        float64 [rows, others].

    Raises:
        ValueError: the domains differ.

    Example:
        >>> from pgmjax.data.domain import Domain
        >>> from pgmjax.queries import marginal
        >>> kernel(Rows.of(marginal(["sex"]), Domain({"age": 50, "sex": 2}))).tolist()
        [[0.5, 0.0], [0.0, 0.5]]

    References:
        Chen, Zhou and Bhowmick 2012, equations 12, 15 and 20, Theorems 1 and 2.
    """
    prior = _same_domain(rows, others, prior)
    left = Projections(rows, prior)
    symmetric = others is None or others is rows
    right = left if others is None or others is rows else Projections(others, prior)
    result = np.zeros((rows.num_rows, right.rows.num_rows))
    columns = [_as_slice(group.rows) for group in right.rows.groups]
    widest = max((len(group.rows) for group in right.rows.groups), default=1)
    for at, group in enumerate(rows.groups):
        for low, high in _chunks(group, widest):
            strip = _as_slice(group.rows[low:high])
            for place in range(at if symmetric else 0, len(columns)):
                block = _block(left, right, at, place, low, high)
                if symmetric and place == at:
                    block = 0.5 * block  # is added to its mirror image
                if isinstance(strip, slice) or isinstance(columns[place], slice):
                    result[strip, columns[place]] += block
                else:
                    result[strip[:, None], columns[place]] += block
    for start in range(0, len(result) if symmetric else 0, _TILE):  # in place, as the kernel may fill memory
        tile = slice(start, start + _TILE)
        result[tile, start:] += result[start:, tile].T
        result[start:, tile] = result[tile, start:].T
    return result


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
    prior = _same_domain(rows, None, prior)
    squares = rows.coefficients**2
    for place, vectors in enumerate(rows.vectors):
        squares = squares * (vectors**2 @ prior.probabilities[place])[rows.index[:, place]]
    result = np.bincount(rows.owner, squares, rows.num_rows)
    several = np.flatnonzero(np.bincount(rows.owner, minlength=rows.num_rows) > 1)
    for low in range(0, len(several), _BLOCK):
        some = several[low : low + _BLOCK]
        result[some] = np.diagonal(kernel(rows.take(some), None, prior))
    return result


class KernelProduct:
    """The kernel of some rows as a linear operator, for histories whose kernel does not fit in memory.

    Args:
        rows: queries.
        others: other queries over the same domain. Default: `rows`.
        prior: weights of the cells. Default: the uniform prior.

    Raises:
        ValueError: the domains differ.

    Example:
        >>> from pgmjax.data.domain import Domain
        >>> from pgmjax.queries import marginal
        >>> KernelProduct(Rows.of(marginal(["sex"]), Domain({"sex": 2}))).apply(np.array([4.0, 2.0])).tolist()
        [2.0, 1.0]
    """

    def __init__(self, rows: Rows, others: Rows | None = None, prior: ProductPrior | None = None) -> None:
        prior = _same_domain(rows, others, prior)
        self._left = Projections(rows, prior)
        self._right = self._left if others is None else Projections(others, prior)

    def apply(self, vector: np.ndarray) -> np.ndarray:
        """Return the kernel times a vector.

        Args:
            vector: float64 [others].

        Returns:
            float64 [rows].

        Raises:
            ValueError: the vector has the wrong length.
        """
        left, right = self._left, self._right
        vector = np.asarray(vector, np.float64)
        if vector.shape != (right.rows.num_rows,):
            raise ValueError(f"expected a vector of {right.rows.num_rows:,} numbers, got {vector.shape}.")

        @functools.cache
        def gathered(place: int, share: tuple[int, ...]) -> np.ndarray:
            """Return a group's part of Q^T v as a function of some attributes [cells], row-major."""
            amounts = right.scale(place, share) * vector[right.rows.owner[right.rows.groups[place].terms]]
            return right.terms(place, share).table(amounts).reshape(-1)

        result = np.zeros(left.rows.num_rows)
        for at, group in enumerate(left.rows.groups):
            summed: dict[tuple[int, ...], np.ndarray] = {}
            for place, other in enumerate(right.rows.groups):
                share = _shared(group, other)
                # tables of the same attributes are added up first and contracted once, as groups share them
                summed[share] = summed.get(share, 0) + gathered(place, share)
            for share, table in summed.items():
                values = left.scale(at, share) * left.terms(at, share).sums(table * left.weights(share))
                result[group.rows] += np.add.reduceat(values, group.starts)
        return result


class Projections:
    """The groups of some rows as functions of few attributes, with what was worked out of them.

    Args:
        rows: the rows.
        prior: weights for averaging over the other attributes.
    """

    def __init__(self, rows: Rows, prior: ProductPrior) -> None:
        self.rows, self._prior = rows, prior
        self.scale = functools.cache(self._scale)
        self.table = functools.cache(self._table)
        self.terms = functools.cache(self._terms)
        self.gram = functools.cache(self._gram)
        self._means = functools.cache(lambda k: rows.vectors[k] @ prior.probabilities[k])

    def weights(self, keep: tuple[int, ...]) -> np.ndarray:
        """Return the prior's probabilities of the cells of some attributes [cells], row-major."""
        return kronecker(np.ones((1, 1)), [self._prior.probabilities[k][None] for k in keep])[0]

    def _scale(self, at: int, keep: tuple[int, ...]) -> np.ndarray:
        """Return each term's coefficient times the means of its vectors outside `keep` [terms]."""
        group = self.rows.groups[at]
        result = self.rows.coefficients[group.terms].copy()
        for k in group.attributes:
            if k not in keep:
                result *= self._means(k)[self.rows.index[group.terms, k]]
        return result

    def _table(self, at: int, keep: tuple[int, ...]) -> np.ndarray:
        """Return a group's rows as functions of some of its attributes [rows of the group, cells]."""
        group, scale = self.rows.groups[at], self.scale(at, keep)[:, None]
        ends = np.append(group.starts, len(group.terms))
        result = np.empty((len(group.rows), math.prod(self.rows.domain.shape[k] for k in keep)))
        if keep and len(group.terms) >= len(group.rows) * _MANY_TERMS:
            for row, (start, stop) in enumerate(itertools.pairwise(ends)):
                *others, last = _factors(self.rows, group.terms[start:stop], keep)
                result[row] = (kronecker(scale[start:stop], others).T @ last).reshape(-1)
            return result
        for low, high in _chunks(group, result.shape[1]):
            some = slice(ends[low], ends[high])
            table = kronecker(scale[some], _factors(self.rows, group.terms[some], keep))
            result[low:high] = np.add.reduceat(table, ends[low:high] - ends[low], axis=0)
        return result

    def _terms(self, at: int, keep: tuple[int, ...]) -> VectorProducts:
        """Return the products of a group's vectors on some of its attributes."""
        return VectorProducts.of(self.rows, self.rows.groups[at].terms, keep)

    def _gram(self, right: Projections, k: int) -> np.ndarray | None:
        """Return the inner products of all distinct vectors of an attribute, or None if they are too many."""
        mine, theirs = self.rows.vectors[k], right.rows.vectors[k]
        few = len(mine) * len(theirs) <= _MAX_GRAM
        return (mine * self._prior.probabilities[k]) @ theirs.T if few else None

    def products(self, right: Projections, k: int, terms: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return the inner products of the vectors of terms on an attribute [terms, others]."""
        index, across = self.rows.index[terms, k], right.rows.index[others, k]
        gram = self.gram(right, k)
        if gram is not None:
            return gram[index].take(across, axis=1)
        return (self.rows.vectors[k][index] * self._prior.probabilities[k]) @ right.rows.vectors[k][across].T


def _block(left: Projections, right: Projections, at: int, place: int, low: int, high: int) -> np.ndarray:
    """Return inner products of rows low..high-1 of group `at` with the rows of the other side's `place`."""
    group, other = left.rows.groups[at], right.rows.groups[place]
    share = _shared(group, other)
    if not by_terms(group, other, [left.rows.domain.shape[k] for k in share]):
        return (left.table(at, share)[low:high] * left.weights(share)) @ right.table(place, share).T
    # multiply over the shared attributes, then add up over the terms of each row (equation 12)
    ends = np.append(group.starts, len(group.terms))
    some = slice(ends[low], ends[high])
    block = np.multiply.outer(left.scale(at, share)[some], right.scale(place, share))
    for k in share:
        block *= left.products(right, k, group.terms[some], other.terms)
    if not group.single:
        block = np.add.reduceat(block, ends[low:high] - ends[low], axis=0)
    return block if other.single else np.add.reduceat(block, other.starts, axis=1)


def by_terms(group: TermGroup, other: TermGroup, sizes: list[int]) -> bool:
    """Return whether pairs of terms (equation 12) cost less than tables of shared attributes (15).

    Args:
        group: terms of one side.
        other: terms of the other side.
        sizes: sizes of the attributes they share.
    """
    pairs = len(group.terms) * len(other.terms)
    one_by_one = pairs * (_PASS + sum(min(2 * size * _FLOP, _GATHER) for size in sizes))
    cells = math.prod(sizes)
    made = cells * (len(group.terms) + len(other.terms)) * _PASS
    return one_by_one <= made + len(group.rows) * len(other.rows) * (2 * cells * _FLOP + _PASS)


def _factors(rows: Rows, terms: np.ndarray, attributes: Iterable[int]) -> list[np.ndarray]:
    """Return the vectors of some terms on some attributes, by position: [terms, size] for each."""
    return [rows.vectors[place][rows.index[terms, place]] for place in attributes]


def _shared(group: TermGroup, other: TermGroup) -> tuple[int, ...]:
    return tuple(k for k in group.attributes if k in other.attributes)


def _as_slice(numbers: np.ndarray) -> slice | np.ndarray:
    """Return ascending numbers as a slice where none is left out: it is a view, and so much faster."""
    first, last = int(numbers[0]), int(numbers[-1])
    return slice(first, last + 1) if last - first + 1 == len(numbers) else numbers


def _chunks(group: TermGroup, width: int) -> list[tuple[int, int]]:
    """Return ranges (low, high) of a group's rows whose terms times `width` are few enough for memory."""
    ends = np.append(group.starts, len(group.terms))
    result, low = [], 0
    while low < len(group.rows):
        reach = ends[low] + max(1, _CHUNK_NUMBERS // max(1, width))
        high = max(low + 1, int(np.searchsorted(ends, reach, side="right")) - 1)
        result.append((low, high))
        low = high
    return result


def _same_domain(rows: Rows, others: Rows | None, prior: ProductPrior | None) -> ProductPrior:
    """Return the prior, the uniform one for None, after checking that all are over one domain."""
    for each in (rows, others):
        checks.kind(each, Rows | None, "a kernel is of Rows", "give history.rows or Rows.of")
    if others is not None and others.domain.sizes != rows.domain.sizes:
        raise ValueError(f"expected rows over {rows.domain!r}, got rows over {others.domain!r}.")
    return prior_over(rows.domain, prior)
