"""The distribution of each variable given those drawn before it, ready for many rows at a time.

A table of moderate size is made once and serves every block of rows. A larger one is made anew for
the parents that a block really holds, a piece at a time, so that memory stays bounded.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from pgmjax.inference.oracles.host import Bucket
from pgmjax.inference.plan.structure import Variables

KEPT_CELLS = 1 << 22  # of one table that is made once
PIECE_CELLS = 1 << 20  # of a piece of a table that is made anew


@dataclasses.dataclass(frozen=True, eq=False)
class Conditional:
    """A variable given its parents.

    Attributes:
        bucket: its elimination: log-tables over the variable and its parents.
        size: number of codes of the variable.
        parent_sizes: number of codes of each parent.
    """

    bucket: Bucket
    size: int
    parent_sizes: tuple[int, ...]

    @property
    def variable(self) -> int:
        """The variable."""
        return self.bucket.variable

    @property
    def parents(self) -> Variables:
        """Its parents, in the order of their axes."""
        return self.bucket.parents

    @property
    def groups(self) -> int:
        """Number of combinations of the parents."""
        return math.prod(self.parent_sizes)

    @property
    def kept(self) -> bool:
        """Whether the table is small enough to be made once."""
        return self.groups * self.size <= KEPT_CELLS

    def keys(self, columns: Sequence[np.ndarray], rows: int) -> np.ndarray:
        """Number the parents' combination of every row [rows], row-major in the order of the parents."""
        key = np.zeros(rows, np.int64)
        for parent, size in zip(self.parents, self.parent_sizes, strict=True):
            key *= size
            key += columns[parent]
        return key

    @functools.cached_property
    def cumulated(self) -> np.ndarray:
        """Cumulated probabilities [groups, size]; to be asked for only where `kept`."""
        pieces = [table for _, table in self._pieces(np.arange(self.groups))]
        return np.concatenate(pieces) if len(pieces) > 1 else pieces[0]

    def compact(self, key: np.ndarray) -> tuple[np.ndarray, Iterator[tuple[int, np.ndarray]]]:
        """Number the combinations that occur, and make their part of the table piece by piece.

        Args:
            key: as `keys` gives them [rows].

        Returns:
            The number of each row's combination [rows], and an iterator over the first number of a
            piece and its cumulated probabilities [combinations of the piece, size].
        """
        values, group = np.unique(key, return_inverse=True)
        return group, self._pieces(values)

    def _pieces(self, keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        step = max(PIECE_CELLS // self.size, 1)
        for start in range(0, max(len(keys), 1), step):
            part = keys[start : start + step]
            codes = np.unravel_index(part, self.parent_sizes) if self.parents else ()
            log_weights = self.bucket.log_weights(dict(zip(self.parents, codes, strict=True)))
            yield start, cumulate(log_weights)


def conditionals(buckets: Sequence[Bucket], sizes: Sequence[int]) -> list[Conditional]:
    """The conditional of every bucket, in the order in which rows are drawn (the last eliminated first)."""
    return [Conditional(b, sizes[b.variable], tuple(sizes[u] for u in b.parents)) for b in reversed(buckets)]


def cumulate(log_weights: np.ndarray) -> np.ndarray:
    """Cumulated probabilities of log-weights [groups, size]; the last of each row is exactly 1.

    A group without any possible cell gets a flat row: no row of the model ever has these parents.
    """
    top = log_weights.max(axis=1, keepdims=True)
    weights = np.exp(log_weights - np.where(np.isfinite(top), top, 0.0))
    weights[~np.isfinite(top[:, 0])] = 1.0
    cumulated = np.cumsum(weights, axis=1)
    cumulated /= cumulated[:, -1:].copy()
    return cumulated


def inverse(cumulated: np.ndarray, group: np.ndarray, position: np.ndarray) -> np.ndarray:
    """The first cell of each row's group whose cumulated probability exceeds the row's position.

    A cell of probability zero is never found, as its cumulated value is that of the cell before.

    Args:
        cumulated: [groups, size], each row rising to 1.
        group: [rows].
        position: [rows], in [0, 1).

    Returns:
        Codes [rows].
    """
    size = cumulated.shape[1]
    flat = cumulated.reshape(-1)
    base = group * size
    found = np.zeros(len(group), np.int64)
    step = 1 << max(size - 1, 0).bit_length() >> 1
    # binary search of all rows together; probes behind the last cell stay at it, whose value is 1
    while step:
        probe = np.minimum(found + (step - 1), size - 1)
        probe += base
        found += step * (flat[probe] <= position)
        step >>= 1
    return found
