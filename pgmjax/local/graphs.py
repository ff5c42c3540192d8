"""Cuts of a graph whose edges were perturbed by randomised response.

The rows of a graph are its pairs of vertices, numbered along the upper triangle.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.local.answers import Function, SufficientStatistics, UnbiasedAnswers
from pgmjax.local.channel import Channel
from pgmjax.local.codes import PerturbedCodes
from pgmjax.privacy.response import KaryResponse, checked_response

_BLOCK_NUMBERS = 1 << 22


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PerturbedGraph:
    """The perturbed edges of a graph, one bit for each pair of vertices.

    Attributes:
        pairs: the vertices and the numbering of their pairs.
        distribution: the distribution of the answers, with two categories.
        bits: the answers, packed eight to a byte, uint8 [ceil(pairs / 8)].

    Example:
        >>> from pgmjax.local.codes import PerturbedCodes
        >>> table = PerturbedCodes(KaryResponse(2, 0.25), VertexPairs(4).codes([(0, 3), (1, 2)]))
        >>> graph = PerturbedGraph.of(table, vertices=4)
        >>> graph.cuts([[1, 1, 0, 0]], useless="answer").value.tolist()  # between {0, 1} and {2, 3}
        [2.0]
    """

    pairs: VertexPairs
    distribution: KaryResponse
    bits: np.ndarray

    @classmethod
    def of(cls, table: Any, vertices: int) -> PerturbedGraph:
        """Pack the codes of a perturbed table whose rows are pairs of vertices.

        Raises:
            ValueError: a distribution of more than two categories, not one row for each pair, or a table
                whose rows are sorted.
        """
        pairs, perturbed = VertexPairs(vertices), PerturbedCodes.in_row_order(table)
        distribution = perturbed.distribution
        if distribution.size != 2:
            raise ValueError(f"edges answer with 0 or 1: got {distribution.size} categories.")
        answers = np.zeros(pairs.number, dtype=bool)
        rows = 0
        for start, codes in perturbed.blocks():
            rows = start + codes.size
            if rows <= pairs.number:
                answers[start:rows] = codes
        if rows != pairs.number:
            raise ValueError(f"{vertices} vertices have {pairs.number:,} pairs, got {rows:,} rows.")
        return cls(pairs, distribution, np.packbits(answers))

    @property
    def channel(self) -> Channel:
        """The channel of the answers."""
        return Channel.of(checked_response(self.distribution))

    def cuts(self, sources: Any, sinks: Any = None, *, useless: str = "refuse") -> UnbiasedAnswers:
        """Return unbiased numbers of edges between sets of vertices.

        Args:
            sources: the first set of each cut: 0 or 1 for every vertex [cuts, vertices].
            sinks: the second set, disjoint from the first. Default: all other vertices.
            useless: "refuse" answers that are too noisy, or "answer" them anyway.

        Returns:
            Numbers of edges. The variance, ``pairs across * e^epsilon / (e^epsilon - 1)^2``, is the same
            for every graph.

        Raises:
            ValueError: sets of the wrong shape, entries other than 0 and 1, or sets that overlap.
            UselessAnswerError: some answers are too noisy.

        References:
            Wang, Ying and Zhang 2016, equations 32 to 35, with the exact variance instead of the bound.
        """
        first = self._sets("sources", sources)
        second = ~first if sinks is None else self._sets("sinks", sinks)
        if first.shape != second.shape or np.any(first & second):
            raise ValueError("sources and sinks must be as many sets, and the two of a cut disjoint.")
        across = first.sum(axis=1).astype(np.float64) * second.sum(axis=1)
        seen = self._edges_between(first, second)[:, None]
        pieces = SufficientStatistics(self.channel, len(first))
        pieces.add(
            slice(None), across[:, None], Function(sums=1.0, squares=1.0, low=0.0, high=1.0), seen, seen
        )
        pieces.rows = 1  # numbers of edges, not shares of the pairs
        return pieces.answers(useless)

    def _edges_between(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the perturbed edges across each cut, exactly, float64 [cuts].

        Rows of the adjacency matrix are unpacked block by block. With U the upper triangle, the number is
        first U second + second U first, computed by two matrix products of integers.
        """
        vertices, starts = self.pairs.vertices, self.pairs.starts
        result = np.zeros(len(first))
        columns = [np.ascontiguousarray(sets.T, dtype=np.float32) for sets in (first, second)]
        step = max(1, _BLOCK_NUMBERS // vertices)
        for begin in range(0, vertices - 1, step):
            end = min(begin + step, vertices - 1)
            rows = self._rows(int(starts[begin]), int(starts[end]), begin, end)
            # entries of the products are at most 65,536, which float32 represents exactly
            for one, other in ((first, columns[1]), (second, columns[0])):
                result += np.einsum("vc,cv->c", rows @ other, one[:, begin:end], dtype=np.float64)
        return result

    def _rows(self, low: int, high: int, begin: int, end: int) -> np.ndarray:
        """Return rows begin..end of the upper triangle, float32 [rows, vertices]."""
        first = low // 8
        # the bytes from that of the first bit to that of the last, whose ends are cut off
        bits = np.unpackbits(self.bits[first : -(-high // 8)])[low - 8 * first : high - 8 * first]
        vertices = self.pairs.vertices
        above = np.arange(vertices) > np.arange(begin, end)[:, None]
        rows = np.zeros((end - begin, vertices), dtype=np.float32)
        rows[above] = bits
        return rows

    def _sets(self, name: str, sets: Any) -> np.ndarray:
        array = np.asarray(sets)
        if array.ndim != 2 or array.shape[1] != self.pairs.vertices or array.dtype.kind not in "bui":
            raise ValueError(
                f"{name} must be whole numbers [cuts, {self.pairs.vertices} vertices], got {array.dtype} "
                f"{array.shape}."
            )
        if array.size and not 0 <= int(array.min()) <= int(array.max()) <= 1:
            raise ValueError(f"{name} must hold 1 for the vertices of a set and 0 for others.")
        return array.astype(bool)

    def __repr__(self) -> str:
        return f"PerturbedGraph({self.pairs.vertices:,} vertices, {self.pairs.number:,} pairs)"


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
        checks.set_integers(self, "vertices", low=2, high=1 << 16)

    @property
    def number(self) -> int:
        """The number of pairs, which are the rows of the table."""
        return self.vertices * (self.vertices - 1) // 2

    @property
    def starts(self) -> np.ndarray:
        """The number of the first pair (i, i + 1) of each vertex i, then `number`, int64 [vertices]."""
        first = np.arange(self.vertices, dtype=np.int64)
        return first * (2 * self.vertices - first - 1) // 2

    def index(self, first: Any, second: Any) -> np.ndarray:
        """Return the numbers of pairs, int64; a pair's vertices may be in either order.

        Raises:
            ValueError: a vertex outside 0..vertices-1, or a pair of a vertex with itself.
        """
        one, other = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
        low, high = np.minimum(one, other), np.maximum(one, other)
        checks.refuse(
            (
                low.size and not (low.min() >= 0 and high.max() < self.vertices),
                f"vertices must lie in 0..{self.vertices - 1}.",
            ),
            (
                np.any(low == high),
                f"{np.count_nonzero(low == high):,} pairs join a vertex with itself: drop loops.",
            ),
        )
        return self.starts[low] + high - low - 1

    def codes(self, edges: Any) -> np.ndarray:
        """Return the table of a graph: 1 for each edge, else 0, uint8 [pairs]. It is private.

        Args:
            edges: pairs of vertices in either order, int [edges, 2].

        Raises:
            TypeError: edges that are not integers.
            ValueError: wrong shape, an edge given twice, or one that `index` refuses.
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
