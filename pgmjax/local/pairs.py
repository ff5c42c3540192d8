"""The rows of a graph: one for each pair of vertices, numbered along the upper triangle."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pgmjax._internal import checks


@dataclasses.dataclass(frozen=True)
class VertexPairs:
    """All unordered pairs i < j of vertices, numbered row by row of the upper triangle.

    Attributes:
        vertices: number of vertices, 2 to 65,536; public.

    Example:
        >>> pairs = VertexPairs(4)
        >>> pairs.number, pairs.index([0, 2], [3, 1]).tolist()
        (6, [2, 3])
        >>> pairs.codes([(0, 3), (1, 2)]).tolist()
        [0, 0, 1, 1, 0, 0]
    """

    vertices: int

    def __post_init__(self) -> None:
        checks.integer("vertices", self.vertices, low=2, high=1 << 16)

    @property
    def number(self) -> int:
        """The number of pairs, the rows of the table."""
        return self.vertices * (self.vertices - 1) // 2

    @property
    def starts(self) -> np.ndarray:
        """The number of the first pair (i, i + 1) of each vertex i, and `number` last, int64 [vertices]."""
        first = np.arange(self.vertices, dtype=np.int64)
        return first * (2 * self.vertices - first - 1) // 2

    def index(self, first: Any, second: Any) -> np.ndarray:
        """Return the numbers of pairs, int64, of vertices in either order.

        Raises:
            ValueError: a vertex outside 0..vertices-1, or a pair of a vertex with itself.
        """
        one, other = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
        low, high = np.minimum(one, other), np.maximum(one, other)
        if low.size and not (low.min() >= 0 and high.max() < self.vertices):
            raise ValueError(f"vertices must lie in 0..{self.vertices - 1}.")
        if np.any(low == high):
            raise ValueError(
                f"{np.count_nonzero(low == high):,} pairs join a vertex with itself: drop loops."
            )
        return self.starts[low] + high - low - 1

    def codes(self, edges: Any) -> np.ndarray:
        """Return the table of a graph: 1 where there is an edge, uint8 [pairs]. It is private.

        Args:
            edges: pairs of vertices in either order, int [edges, 2].

        Raises:
            TypeError: edges that are not integers.
            ValueError: another shape, an edge given twice, or one that `index` refuses.
        """
        array = np.asarray(edges)
        if array.ndim != 2 or array.shape[1] != 2:
            raise ValueError(f"edges must have the shape [edges, 2], got {array.shape}.")
        if array.dtype.kind not in "iu":
            raise TypeError(f"edges must be integers, got {array.dtype}.")
        where = self.index(array[:, 0], array[:, 1])
        result = np.zeros(self.number, dtype=np.uint8)
        result[where] = 1
        if np.count_nonzero(result) != len(array):
            raise ValueError("an edge is given twice: pairs are unordered, one edge each.")
        return result
