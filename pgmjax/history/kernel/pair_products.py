"""Inner products of two groups of terms: by pairs of terms, or as tables of the attributes they share.

References:
    Chen, Zhou and Bhowmick 2012, equations 12 and 15.
"""

from __future__ import annotations

import math

import numpy as np

from pgmjax.history.kernel import projection
from pgmjax.history.prior import ProductPrior
from pgmjax.history.rows import Group, Rows

_FLOP, _PASS, _GATHER = 0.05, 1.0, 3.0  # nanoseconds for a number, roughly, on a CPU core
_MAX_GRAM = 4_000_000
_MAX_TABLE = 8_000_000


class PairProducts:
    """Inner products between the groups of two sets of rows, with what they have in common kept.

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
        """Return inner products of rows low..high-1 of group `at` and of all rows of the other's `place`."""
        group, other = self._sides[0].groups[at], self._sides[1].groups[place]
        share = tuple(k for k in group.attributes if k in other.attributes)
        sizes = [self._prior.domain.shape[k] for k in share]
        if by_terms(len(group.terms), len(other.terms), len(group.rows), len(other.rows), sizes):
            return self._by_terms(at, low, high, place, share)
        left = self._table(False, at, share)[low:high]
        return (left * projection.weights(share, self._prior)) @ self._table(True, place, share).T

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
        """Return the inner products of all distinct vectors of an attribute, unless they are too many."""
        if k not in self._grams:
            left, right = self._sides[0].vectors[k], self._sides[1].vectors[k]
            few = len(left) * len(right) <= _MAX_GRAM
            self._grams[k] = (left * self._prior.probabilities[k]) @ right.T if few else None
        return self._grams[k]

    def _scale(self, right: bool, at: int, share: tuple[int, ...]) -> np.ndarray:
        key = (right and self._sides[0] is not self._sides[1], at, share)
        if key not in self._scales:
            rows = self._sides[right]
            self._scales[key] = projection.unshared(rows, rows.groups[at], share, self._prior)
        return self._scales[key]

    def _table(self, right: bool, at: int, share: tuple[int, ...]) -> np.ndarray:
        key = (right and self._sides[0] is not self._sides[1], at, share)
        if key not in self._tables:
            rows = self._sides[right]
            table = projection.project(rows, rows.groups[at], share, self._prior)
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


def chunks(group: Group, width: int, most: int) -> list[tuple[int, int]]:
    """Return ranges (low, high) of a group's rows whose terms times `width` are at most about `most`."""
    ends = np.append(group.starts, len(group.terms))
    result, low = [], 0
    while low < len(group.rows):
        reach = ends[low] + max(1, most // max(1, width))
        high = max(low + 1, int(np.searchsorted(ends, reach, side="right")) - 1)
        result.append((low, high))
        low = high
    return result
