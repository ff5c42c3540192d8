"""The choice of bins: how many, and which, by the expected error of the workload.

All of it works on what has been released, so it costs nothing.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pgmjax.discovery.sketch import Sketch

_WITHIN = 1.0
"""The error within a bin, as a share of its mass squared; calibrated by bench/discovery.py."""
MOST_BINS = 64
FEWEST_BINS = 4


@dataclass(frozen=True)
class Workbench:
    """The use that a release makes of its bins, in public terms.

    Attributes:
        records: estimated number of records.
        stddev: of the noise that one count of a two-way marginal will have.
    """

    records: float
    stddev: float

    def error(self, masses: np.ndarray, points: np.ndarray) -> float:
        """Return the expected L1 error of a two-way marginal that a binning causes.

        Args:
            masses: share of the records in each bin [n].
            points: whether a bin holds one value only [n].

        Returns:
            What is lost within bins, which have no shape of their own, and the noise of n^2 counts.
        """
        within = 2 * _WITHIN * float((masses[~points] ** 2).sum())
        return within + len(masses) ** 2 * self.stddev * math.sqrt(2 / math.pi) / max(self.records, 1.0)


def choose_bins(sketch: Sketch, is_point: Callable[[int, int], bool], bench: Workbench) -> np.ndarray:
    """Return the edges of bins: neighbouring cells of a sketch, merged lightest first while that helps.

    Args:
        sketch: the counts.
        is_point: whether fine cells first..last-1 hold one value only.
        bench: what the bins are for.

    Returns:
        Some of the sketch's edges, in fine cells, int64 [bins + 1].

    Example:
        >>> sketch = Sketch(np.arange(9), np.array([5, 5, 900, 5, 5, 40, 40, 0.0]), 0.0, 1.0)
        >>> choose_bins(sketch, lambda first, last: last == first + 1, Workbench(1000, 5)).tolist()
        [0, 2, 3, 6, 8]
    """
    merges = _Merges(sketch.edges, sketch.counts)
    total = max(float(sketch.counts.sum()), 1.0)
    best, chosen = math.inf, np.array(sketch.edges)
    while True:
        if merges.cells <= MOST_BINS:
            edges, counts = merges.state()
            points = np.array([is_point(a, b) for a, b in itertools.pairwise(edges.tolist())])
            error = bench.error(counts / total, points)
            if error < best:
                best, chosen = error, edges
        if merges.cells <= FEWEST_BINS or not merges.merge():
            return chosen


class _Merges:
    """Merges of the two neighbours that have the fewest records together, one after the other."""

    def __init__(self, edges: np.ndarray, counts: np.ndarray):
        self._edges, self._counts = [int(edge) for edge in edges], [float(count) for count in counts]
        self.cells = size = len(self._counts)
        self._before, self._after = list(range(-1, size - 1)), list(range(1, size + 1))
        self._alive, self._version = [True] * size, [0] * size
        self._heap = [(self._counts[k] + self._counts[k + 1], k, 0, 0) for k in range(size - 1)]
        heapq.heapify(self._heap)

    def state(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the edges [n + 1] and counts [n] as they are now."""
        kept = [k for k, alive in enumerate(self._alive) if alive]
        edges = [self._edges[k] for k in kept] + [self._edges[-1]]
        return np.array(edges), np.array([self._counts[k] for k in kept])

    def merge(self) -> bool:
        """Merge the lightest pair; return False if there is none."""
        while self._heap:
            _, left, mine, theirs = heapq.heappop(self._heap)
            right = self._after[left]
            if not self._alive[left] or right >= len(self._alive):
                continue
            if (mine, theirs) != (self._version[left], self._version[right]) or not self._alive[right]:
                continue
            self._join(left, right)
            return True
        return False

    def _join(self, left: int, right: int) -> None:
        self._counts[left] += self._counts[right]
        self._alive[right] = False
        self.cells -= 1
        self._version[left] += 1
        self._after[left] = self._after[right]
        if self._after[left] < len(self._alive):
            self._before[self._after[left]] = left
        for first in (self._before[left], left):
            second = self._after[first] if first >= 0 else len(self._alive)
            if first >= 0 and second < len(self._alive):
                both = self._counts[first] + self._counts[second]
                heapq.heappush(self._heap, (both, first, self._version[first], self._version[second]))
