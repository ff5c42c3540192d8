"""Counting numbers: how often the entropy of each region counts in an approximation of the whole's.

The entropy of a distribution is approximated by a sum over regions, sum_r c_r H(b_r). Three choices:

- `one_per_attribute`: every region counts once altogether (Bethe, Kikuchi): exact where the regions form a
  junction tree, neither concave nor a bound elsewhere.
- `trees`: the mean over chains of conditional entropies H(region | a part of it that came before), each
  of which bounds the entropy from above. Concave, exact on junction trees.
- `cover`: outer regions alone, with weights that cover each attribute once. Concave, and a bound from
  above too, by Shearer's lemma. Not exact on trees, but its messages always converge.

References:
    Yedidia, Freeman and Weiss (2005), section V; Wainwright, Jaakkola and Willsky (2005), A new class of
    upper bounds on the log partition function; Globerson and Jaakkola (2007), Approximate inference using
    conditional entropy decompositions; Friedgut (2004), Hypergraphs, entropy, and inequalities (Shearer).
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterator

import numpy as np

from pgmjax.inference.plan.regions import RegionGraph


@dataclasses.dataclass(frozen=True, eq=False)
class CountingNumbers:
    """Counting numbers of a region graph.

    Attributes:
        outer: of each outer region, > 0.
        inner: of each inner region, of any sign.
        conditional: for each inner region and each outer one above it how often the entropy of the second
            given the first is among them; None where the numbers are not made of such.
    """

    outer: np.ndarray
    inner: np.ndarray
    conditional: tuple[np.ndarray, ...] | None

    @property
    def bounds(self) -> bool:
        """Whether the approximation is concave and never below the entropy."""
        return self.conditional is not None


def one_per_attribute(graph: RegionGraph) -> CountingNumbers:
    """Bethe's and Kikuchi's numbers: 1 for outer regions, 1 less those of all regions above for inner ones.

    Example:
        >>> from pgmjax.inference.plan.regions import Structure, region_graph
        >>> one_per_attribute(region_graph(Structure((2, 2, 2), ((0, 1), (1, 2))))).inner.tolist()
        [-1.0]
    """
    sets = [frozenset(part) for part in graph.inner]
    numbers = np.zeros(len(sets))
    for i in sorted(range(len(sets)), key=lambda i: -len(sets[i])):
        near = {j for holder in graph.above[i] for j in graph.below[holder]}
        numbers[i] = 1 - len(graph.above[i]) - sum(numbers[j] for j in near if sets[i] < sets[j])
    return CountingNumbers(np.ones(len(graph.outer)), numbers, None)


def cover(graph: RegionGraph) -> CountingNumbers:
    """Weights of outer regions that add up to 1 or more on every attribute.

    Each region gets the largest share that one of its attributes needs, an attribute's being one over the
    number of regions with it.

    Example:
        >>> from pgmjax.inference.plan.regions import Structure, region_graph
        >>> cover(region_graph(Structure((2, 2, 2), ((0, 1), (1, 2), (2, 0))))).outer.tolist()
        [0.5, 0.5, 0.5]
    """
    degree = np.zeros(len(graph.structure.sizes))
    for region in graph.outer:
        degree[list(region)] += 1
    weights = np.array([max((1 / degree[v] for v in region), default=1.0) for region in graph.outer])
    none = tuple(np.zeros(len(holders)) for holders in graph.above)
    return CountingNumbers(weights, np.zeros(len(graph.inner)), none)


def trees(graph: RegionGraph) -> CountingNumbers:
    """The mean over enough chains that each outer region is in one of them.

    A chain goes through regions in an order in which each brings something new: the entropy is at most the
    sum of those of each region given what it shares with those before, or given any part of that. Parts
    are inner regions.

    Example:
        >>> from pgmjax.inference.plan.regions import Structure, region_graph
        >>> numbers = trees(region_graph(Structure((2, 2, 2), ((0, 1), (1, 2), (2, 0)))))
        >>> numbers.outer.round(2).tolist(), numbers.inner.round(2).tolist()
        ([1.0, 0.5, 0.5], [-0.5, -0.5, -0.0])
    """
    used = np.zeros(len(graph.outer))
    given = [dict.fromkeys(holders, 0.0) for holders in graph.above]
    chains = 0
    while chains == 0 or (used == 0).any():
        for region, part in _chain(graph, used):
            used[region] += 1
            if part is not None:
                given[part][region] += 1
        chains += 1
    conditional = tuple(np.array(list(counts.values())) / chains for counts in given)
    inner = np.array([-counts.sum() for counts in conditional])
    return CountingNumbers(used / chains, inner, conditional)


def _chain(graph: RegionGraph, used: np.ndarray) -> Iterator[tuple[int, int | None]]:
    """A chain: outer regions that together have all variables, with the part that each is given."""
    sets = [frozenset(region) for region in graph.outer]
    parts = [frozenset(part) for part in graph.inner]
    near: dict[int, list[int]] = {}
    for number, region in enumerate(sets):
        for variable in region:
            near.setdefault(variable, []).append(number)
    known: set[int] = set()
    before = used.copy()

    def offer(number: int) -> tuple:
        """Regions that share just an inner region come first, then those used less."""
        shared = sets[number] & known
        fitting = [j for j in graph.below[number] if parts[j] <= shared]
        part = max(fitting, key=lambda j: graph.structure.cells(parts[j]), default=None)
        loose = part is None or parts[part] != shared
        return loose, before[number], number, len(shared), part

    heap = [offer(number) for number in range(len(sets))]
    heapq.heapify(heap)
    while heap:
        _, _, number, shared, part = heapq.heappop(heap)
        now = len(sets[number] & known)
        if now == len(sets[number]) or shared != now:
            continue  # nothing new in it, or offered anew since
        yield number, part
        fresh = sets[number] - known
        known |= fresh
        for other in {other for variable in fresh for other in near[variable]}:
            if not sets[other] <= known:
                heapq.heappush(heap, offer(other))
