"""Where everything of a region graph stands in vectors: the index maps that sweeps over it run on.

A vector holds the tables of all outer regions. Messages of inner regions that share no outer region
touch different cells, so that such regions form a colour and are done in one operation; colours of
about the same size are padded to one shape and form a block, through which a scan goes. The number of
compiled operations so depends on the number of blocks, which goes with the logarithm of how much
colours differ in size, and not on the number of regions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax.inference.plan.counting_numbers import CountingNumbers
from pgmjax.inference.plan.regions import RegionGraph
from pgmjax.inference.plan.structure import Variables

RATIO = 4  # colours within such a factor of one another's size are padded to one shape
LEAST = 4096  # cells below which size no longer tells in time


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """Colours of about the same size; an edge's cells are the cells of its inner region.

    Attributes:
        cells: positions in the vector of what the colour touches, by edge and by the edge's cell
            [colours, cells]; the vector's length where there is no more.
        of: number of the edge's cell that each belongs to [colours, cells].
        region: number of the inner region's cell that each edge's cell is [colours, edge cells].
        edge: number of the edge of each of its cells [colours, edge cells].
        weight: counting number of the edge's outer region, 0 for padding [colours, edge cells].
        number: counting number of each inner cell's region [colours, inner cells].
        conditional: how often the edge's conditional entropy counts [colours, edge cells].
        sizes: numbers of edge cells, inner cells and edges of a colour, with one for padding each.
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
        length: numbers in a vector of all outer tables.
        table: the number of the table that each belongs to [length].
        weight: counting number of each table [tables].
        source: position in the vector of all potentials of each term of the outer tables [terms].
        target: position in the vector of outer tables of the same [terms].
        own: for each number of the vector of outer tables its position in that of all potentials, in
            the table of the clique with just these attributes [length].
        blocks: what sweeps go through, in this order.
    """

    length: int
    table: np.ndarray
    weight: np.ndarray
    source: np.ndarray
    target: np.ndarray
    own: np.ndarray
    blocks: tuple[Block, ...]


def index_maps(graph: RegionGraph, numbers: CountingNumbers) -> RegionMaps:
    """Lay a region graph out in vectors."""
    structure = graph.structure
    sizes = [structure.cells(region) for region in graph.outer]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    own = np.zeros(int(starts[-1]), np.int32)
    source, target, first = [], [], 0
    claimed: set[int] = set()
    for clique, holder in zip(structure.cliques, graph.holder, strict=True):
        places = first + _cells(structure.shape(graph.outer[holder]), graph.outer[holder], clique)
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
    )


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int32)


def _cells(shape: tuple[int, ...], region: Variables, part: Variables) -> np.ndarray:
    """For each cell of a region, row-major, the number of the cell of a part that it lies in."""
    result = np.zeros(shape, np.int64)
    step = 1
    for variable in reversed(part):
        axis = region.index(variable)
        values = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        result += step * values
        step *= shape[axis]
    return result.ravel()


def _implied(graph: RegionGraph, number: int) -> bool:
    """Whether agreement on larger inner regions makes all outer regions above this one agree on it."""
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
    """Groups of inner regions of which no two lie within one outer region, the larger ones first."""
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
    """The rows of `Block`, not padded, and how many edge cells, inner cells and edges there are."""
    structure = graph.structure
    parts: list[list[np.ndarray]] = [[] for _ in range(7)]
    edge_cells = inner_cells = edges = 0
    for number in colour:
        part = graph.inner[number]
        cells = structure.cells(part)
        parts[5].append(np.full(cells, numbers.inner[number]))
        for place, holder in enumerate(graph.above[number]):
            region = graph.outer[holder]
            within = _cells(structure.shape(region), region, part)
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
