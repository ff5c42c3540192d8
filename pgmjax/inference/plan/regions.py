"""Region graphs, their counting numbers and their index maps: the plan of approximate inference.

The maximal cliques are the outer regions, and their intersections (or single attributes) the inner regions.
Every inner region has an edge to each outer region that contains it. Tables over outer regions are
consistent if they agree on every inner region. Memory is that of the outer regions, whatever loops there are.

Counting numbers approximate the entropy of a distribution by a sum over regions, sum_r c_r H(b_r):

- `one_per_attribute`: the numbers of each region and of all regions that contain it sum to 1 (Bethe,
  Kikuchi). Exact if the regions form a junction tree, otherwise neither concave nor a bound.
- `trees`: the mean over chains of conditional entropies H(region | a part of it that came before), each
  of which bounds the entropy from above. Concave, exact on junction trees.
- `cover`: outer regions only, with weights that cover each attribute at least once. Concave, and an upper
  bound by Shearer's lemma. Not exact on trees, but its messages always converge.

`index_maps` lays a graph out in vectors. One vector contains the tables of all outer regions. Messages of
inner regions that share no outer region touch different cells, so such regions form a colour and are
processed in one operation. Colours of similar size are padded to one shape and form a block, which is
processed by a scan. The number of compiled operations therefore depends on the number of blocks, which grows
with the logarithm of the ratio of colour sizes, not on the number of regions.

References:
    Yedidia, Freeman and Weiss (2005), Constructing free-energy approximations and generalized belief
    propagation algorithms (the cluster variation method and Bethe's form, here in two layers; section V for
    counting numbers); Wainwright, Jaakkola and Willsky (2005), A new class of upper bounds on the log
    partition function; Globerson and Jaakkola (2007), Approximate inference using conditional entropy
    decompositions; Friedgut (2004), Hypergraphs, entropy, and inequalities (Shearer).
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from pgmjax.data.domain import maximal
from pgmjax.inference.plan.structure import Structure, Variables, offsets, parts_of

INNER = ("intersections", "attributes")

# layout of index maps
RATIO = 4  # colours whose sizes differ by at most this factor are padded to one shape
LEAST = 4096  # cells below which the size has no effect on the time


@dataclasses.dataclass(frozen=True)
class RegionGraph:
    """Outer regions, inner regions and their containment.

    Attributes:
        structure: the model's sizes and cliques.
        outer: variables of each outer region (the maximal cliques).
        inner: variables of each inner region, ascending.
        holder: for each clique of the structure, the number of an outer region that contains it.
        above: for each inner region, the numbers of the outer regions that contain it, two or more.
    """

    structure: Structure
    outer: tuple[Variables, ...]
    inner: tuple[Variables, ...]
    holder: tuple[int, ...]
    above: tuple[tuple[int, ...], ...]

    @functools.cached_property
    def below(self) -> tuple[tuple[int, ...], ...]:
        """For each outer region, the numbers of the inner regions within it."""
        found: list[list[int]] = [[] for _ in self.outer]
        for number, holders in enumerate(self.above):
            for holder in holders:
                found[holder].append(number)
        return tuple(map(tuple, found))

    @functools.cached_property
    def cells(self) -> int:
        """Cells of all outer regions together."""
        return sum(map(self.structure.cells, self.outer))

    def summary(self) -> str:
        """The region graph in one line of text.

        Example:
            >>> print(region_graph(Structure((2, 3, 2), ((0, 1), (1, 2), (2, 0)))).summary())
            3 outer regions with 16 cells, 3 inner regions with 7 cells, 6 edges
        """
        inside = sum(map(self.structure.cells, self.inner))
        return (
            f"{len(self.outer):,} outer regions with {self.cells:,} cells, {len(self.inner):,} inner regions "
            f"with {inside:,} cells, {sum(map(len, self.above)):,} edges"
        )


def region_graph(structure: Structure, inner: str = "intersections") -> RegionGraph:
    """Make a region graph.

    Args:
        structure: sizes and cliques.
        inner: `intersections` of two or more outer regions (the cluster variation method), or single
            `attributes` (Bethe's form, which is weaker if cliques share more than one attribute).

    Raises:
        ValueError: an unknown value of `inner`.

    Example:
        >>> graph = region_graph(Structure((2, 2, 2, 2), ((0, 1, 2), (1, 2, 3), (3, 0), (1,))))
        >>> graph.outer, graph.inner, graph.holder
        (((0, 1, 2), (1, 2, 3), (3, 0)), ((0,), (3,), (1, 2)), (0, 1, 2, 0))
    """
    if inner not in INNER:
        raise ValueError(f"inner must be one of {INNER}, got {inner!r}.")
    outer: tuple[Variables, ...] = tuple(cast(Any, maximal)(structure.cliques))  # of numbers as of names
    sets = [frozenset(region) for region in outer]
    near: dict[int, set[int]] = {}
    for number, region in enumerate(sets):
        for variable in region:
            near.setdefault(variable, set()).add(number)
    holder = tuple(min(_containing(clique, near)) for clique in structure.cliques)
    if inner == "attributes":
        parts: list[Variables] = [(variable,) for variable, holders in near.items() if len(holders) > 1]
    else:
        parts = _intersections(sets, near)
    parts.sort(key=lambda part: (len(part), part))
    above = tuple(tuple(sorted(_containing(part, near))) for part in parts)
    return RegionGraph(structure, outer, tuple(parts), holder, above)


def _containing(part: Sequence[int], near: dict[int, set[int]]) -> set[int]:
    """The outer regions that contain some variables; all outer regions if `part` is empty."""
    if not part:
        return set().union(*near.values())
    return set.intersection(*(near[v] for v in part))


def _intersections(sets: Sequence[frozenset[int]], near: dict[int, set[int]]) -> list[Variables]:
    """All non-empty intersections of two or more outer regions."""
    found: set[frozenset[int]] = set()
    waiting = list(sets)
    while waiting:
        region = waiting.pop()
        others = set().union(*(near[v] for v in region))
        for part in {region & sets[other] for other in others} - found - {region}:
            found.add(part)
            waiting.append(part)
    return [tuple(sorted(part)) for part in found]


@dataclasses.dataclass(frozen=True, eq=False)
class CountingNumbers:
    """Counting numbers of a region graph.

    Attributes:
        outer: of each outer region, > 0.
        inner: of each inner region, of any sign.
        conditional: for each inner region and each outer region above it, the weight of the outer region's
            entropy given the inner one; None if the numbers are not a sum of conditional entropies, which
            makes the approximation concave and never below the entropy.
    """

    outer: np.ndarray
    inner: np.ndarray
    conditional: tuple[np.ndarray, ...] | None


def one_per_attribute(graph: RegionGraph) -> CountingNumbers:
    """Bethe's and Kikuchi's numbers: 1 for outer regions, 1 minus those of all regions above for inner ones.

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
    """Weights of outer regions that sum to at least 1 on every attribute.

    The share of an attribute is 1 divided by the number of regions that contain it. The weight of a region is
    the largest share of its attributes.

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
    """The mean over chains of conditional entropies, enough for each outer region to be in one of them.

    A chain is a sequence of regions, each with at least one new attribute. The entropy is at most the sum of
    the entropies of each region given what it shares with the previous ones, or given any part of that. Parts
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
    """A chain: outer regions that together contain all variables, each with the part it is given."""
    sets = [frozenset(region) for region in graph.outer]
    parts = [frozenset(part) for part in graph.inner]
    near: dict[int, list[int]] = {}
    for number, region in enumerate(sets):
        for variable in region:
            near.setdefault(variable, []).append(number)
    known: set[int] = set()
    before = used.copy()

    def offer(number: int) -> tuple:
        """Sort key: regions that share exactly an inner region come first, then the least used ones."""
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
            continue  # no new variables, or an outdated entry
        yield number, part
        fresh = sets[number] - known
        known |= fresh
        for other in {other for variable in fresh for other in near[variable]}:
            if not sets[other] <= known:
                heapq.heappush(heap, offer(other))


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """Colours of similar size; an edge's cells are the cells of its inner region.

    Attributes:
        cells: positions in the vector of the cells that the colour touches, sorted by edge and by the edge's
            cell [colours, cells]; the vector's length for padding.
        of: number of the edge's cell that contains each of `cells` [colours, cells].
        region: number of the inner region's cell for each edge cell [colours, edge cells].
        edge: number of the edge of each edge cell [colours, edge cells].
        weight: counting number of the edge's outer region, 0 for padding [colours, edge cells].
        number: counting number of each inner cell's region [colours, inner cells].
        conditional: weight of the edge's conditional entropy [colours, edge cells].
        sizes: numbers of edge cells, inner cells and edges of a colour, each including one for padding.
    """

    cells: np.ndarray
    of: np.ndarray
    region: np.ndarray
    edge: np.ndarray
    weight: np.ndarray
    number: np.ndarray
    conditional: np.ndarray
    sizes: tuple[int, int, int]


@dataclasses.dataclass(frozen=True, eq=False)
class RegionMaps:
    """Index maps of a region graph.

    Attributes:
        length: length of the vector of all outer tables.
        table: number of the table of each entry [length].
        weight: counting number of each table [tables].
        source: position in the vector of all potentials of each term of the outer tables [terms].
        target: position in the vector of outer tables of the same terms [terms].
        own: for each entry of the vector of outer tables, its position in the vector of all potentials, in
            the table of the clique with exactly these attributes [length].
        blocks: the blocks, in the order of a sweep.
        uncovered: log of the number of states of the variables in no clique (nats).
    """

    length: int
    table: np.ndarray
    weight: np.ndarray
    source: np.ndarray
    target: np.ndarray
    own: np.ndarray
    blocks: tuple[Block, ...]
    uncovered: float


def index_maps(graph: RegionGraph, numbers: CountingNumbers) -> RegionMaps:
    """Make the index maps of a region graph."""
    structure = graph.structure
    sizes = [structure.cells(region) for region in graph.outer]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    own = np.zeros(int(starts[-1]), np.int32)
    source, target, first = [], [], 0
    claimed: set[int] = set()
    for clique, holder in zip(structure.cliques, graph.holder, strict=True):
        places = first + _cells(structure, graph.outer[holder], clique)
        here = np.arange(starts[holder], starts[holder + 1])
        if len(clique) == len(graph.outer[holder]) and holder not in claimed:
            claimed.add(holder)
            own[here] = places
        source.append(places)
        target.append(here)
        first += structure.cells(clique)
    used = [i for i in range(len(graph.inner)) if numbers.inner[i] != 0 or not _implied(graph, i)]
    return RegionMaps(
        int(starts[-1]),
        np.repeat(np.arange(len(sizes), dtype=np.int32), sizes),
        numbers.outer,
        _joined(source),
        _joined(target),
        own,
        tuple(_block(graph, numbers, starts, colours) for colours in _blocks(graph, _colours(graph, used))),
        structure.uncovered,
    )


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int32)


def _cells(structure: Structure, region: Variables, part: Variables) -> np.ndarray:
    """For each cell of a region, row-major, the number of the cell of a part that contains it."""
    axes = parts_of(structure, zip(region), structure.strides(part))
    return offsets(axes, structure.shape(region)).astype(np.int64)


def _implied(graph: RegionGraph, number: int) -> bool:
    """Return whether agreement on larger inner regions implies agreement on this one."""
    part = set(graph.inner[number])
    reached = {graph.above[number][0]}
    waiting = list(reached)
    while waiting:
        for larger in graph.below[waiting.pop()]:
            if part < set(graph.inner[larger]):
                fresh = set(graph.above[larger]) - reached
                reached |= fresh
                waiting.extend(fresh)
    return reached.issuperset(graph.above[number])


def _size(graph: RegionGraph, number: int) -> int:
    return sum(graph.structure.cells(graph.outer[holder]) for holder in graph.above[number])


def _colours(graph: RegionGraph, used: Sequence[int]) -> list[list[int]]:
    """Groups of inner regions, no two in the same outer region; larger regions are assigned first."""
    taken: list[set[int]] = []
    colours: list[list[int]] = []
    for number in sorted(used, key=lambda i: (-_size(graph, i), i)):
        holders = graph.above[number]
        at = next((k for k, others in enumerate(taken) if others.isdisjoint(holders)), len(taken))
        if at == len(taken):
            taken.append(set())
            colours.append([])
        taken[at].update(holders)
        colours[at].append(number)
    return colours


def _blocks(graph: RegionGraph, colours: list[list[int]]) -> list[list[list[int]]]:
    """Colours grouped by size, the largest first."""
    sizes = [max(sum(_size(graph, i) for i in colour), LEAST) for colour in colours]
    blocks: list[list[list[int]]] = []
    largest = 0
    for k in sorted(range(len(colours)), key=lambda k: -sizes[k]):
        if not blocks or sizes[k] * RATIO < largest:
            blocks.append([])
            largest = sizes[k]
        blocks[-1].append(colours[k])
    return blocks


def _block(
    graph: RegionGraph, numbers: CountingNumbers, starts: np.ndarray, colours: Sequence[Sequence[int]]
) -> Block:
    rows = [_colour(graph, numbers, starts, colour) for colour in colours]
    edge_cells, inner_cells, edges = (max(row[k] for row in rows) + 1 for k in (7, 8, 9))
    width = max(len(row[0]) for row in rows)
    fills = (int(starts[-1]), edge_cells - 1, inner_cells - 1, edges - 1, 0.0, 1.0, 0.0)
    widths = (width, width, edge_cells, edge_cells, edge_cells, inner_cells, edge_cells)
    stacked: list[Any] = []
    for k, (fill, size) in enumerate(zip(fills, widths, strict=True)):
        dtype = np.int32 if isinstance(fill, int) else np.float64
        stacked.append(np.full((len(rows), size), fill, dtype))
        for i, row in enumerate(rows):
            stacked[k][i, : len(row[k])] = row[k]
    cells, of, region, edge, weight, number, given = stacked
    return Block(cells, of, region, edge, weight, number, given, (edge_cells, inner_cells, edges))


def _colour(graph: RegionGraph, numbers: CountingNumbers, starts: np.ndarray, colour: Sequence[int]) -> tuple:
    """The rows of `Block`, not padded, and the numbers of edge cells, inner cells and edges."""
    structure = graph.structure
    parts: list[list[np.ndarray]] = [[] for _ in range(7)]
    edge_cells = inner_cells = edges = 0
    for number in colour:
        part = graph.inner[number]
        cells = structure.cells(part)
        parts[5].append(np.full(cells, numbers.inner[number]))
        for place, holder in enumerate(graph.above[number]):
            region = graph.outer[holder]
            within = _cells(structure, region, part)
            order = np.argsort(within, kind="stable")
            parts[0].append(starts[holder] + order)
            parts[1].append(edge_cells + within[order])
            parts[2].append(inner_cells + np.arange(cells))
            parts[3].append(np.full(cells, edges))
            parts[4].append(np.full(cells, numbers.outer[holder]))
            given = 0.0 if numbers.conditional is None else numbers.conditional[number][place]
            parts[6].append(np.full(cells, given))
            edge_cells, edges = edge_cells + cells, edges + 1
        inner_cells += cells
    return (*map(np.concatenate, parts), edge_cells, inner_cells, edges)
