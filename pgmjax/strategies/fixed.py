"""Strategies of one attribute that need no optimisation: trees and wavelets, as integer matrices.

References:
    Hay et al. 2010, "Boosting the accuracy of differentially private histograms" (H2); Qardaji et al.
    2013, "Understanding hierarchical methods" (HB); Xiao et al. 2011, "Privelet" (wavelet).
"""

from __future__ import annotations

import itertools

import numpy as np


def identity(size: int) -> np.ndarray:
    """Return the identity [size, size]."""
    return np.eye(size, dtype=np.int64)


def total(size: int) -> np.ndarray:
    """Return the row of ones [1, size]; it answers only the total."""
    return np.ones((1, size), np.int64)


def hierarchy(size: int, branching: int, root: bool = True) -> np.ndarray:
    """Return a tree of ranges: every node counts its codes; the leaves are the single codes.

    A node's codes are split into `branching` parts that are as equal as possible, until every part is one
    code. A node with fewer than `branching` codes has one child per code.

    Args:
        size: number of codes, >= 1.
        branching: number of children per node, >= 2.
        root: whether to include the total.

    Returns:
        int64 [nodes, size], zeros and ones.
    """
    level, rows = [(0, size)], [(0, size)] if root or size == 1 else []
    while any(high - low > 1 for low, high in level):
        level = [part for low, high in level for part in _parts(low, high, branching)]
        rows += level
    codes = np.arange(size)
    bounds = np.array(list(dict.fromkeys(rows)))
    return ((codes >= bounds[:, :1]) & (codes < bounds[:, 1:])).astype(np.int64)


def h2(size: int) -> np.ndarray:
    """Return the binary tree of ranges with its root.

    Example:
        >>> h2(2).tolist()
        [[1, 1], [1, 0], [0, 1]]
    """
    return hierarchy(size, 2)


def hb(size: int) -> np.ndarray:
    """Return the tree without root whose branching is best for ranges; the identity for sizes below 3."""
    return identity(size) if size < 3 else hierarchy(size, hb_branching(size), root=False)


def hb_branching(size: int) -> int:
    """Return the branching of `hb`: the smallest average variance of a range, for a tree without root.

    Example:
        >>> [hb_branching(size) for size in (64, 128, 256, 512, 1024)]
        [64, 128, 16, 23, 32]
    """

    def cost(branching: int) -> float:
        levels = next(levels for levels in itertools.count() if branching**levels >= size)
        return (branching - 1) * levels**3 - 2 * (branching + 1) * levels**2 / 3

    return min(range(2, size + 1), key=cost)


def wavelet(size: int) -> np.ndarray:
    """Return the Haar wavelet: the total, and at each level the first half of a node minus the second.

    A size that is not a power of two is padded with codes that no record has.

    Example:
        >>> wavelet(4).tolist()
        [[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]]
    """
    rows = identity(1)
    while rows.shape[1] < size:  # halve every code: the rows so far, then the first half minus the second
        halves = np.kron(identity(rows.shape[1]), np.array([1, -1]))
        rows = np.concatenate([np.kron(rows, np.array([1, 1])), halves])
    result = rows[:, :size]
    return result[np.abs(result).sum(axis=1) > 0]


FIXED = {"identity": identity, "h2": h2, "hb": hb, "wavelet": wavelet}
"""The strategies that can answer any workload of an attribute, by name."""


def _parts(low: int, high: int, branching: int) -> list[tuple[int, int]]:
    parts = min(branching, high - low)
    ends = [low + -(-(high - low) * part // parts) for part in range(parts + 1)]
    return list(itertools.pairwise(ends))
