"""A private sketch of an ordered column: noisy counts of cells that are fine where the records are.

Two ways lead to it. With Gaussian noise the counts of a tree are measured level by level, from the top, and
made consistent; only nodes with many records are divided further. With Laplace noise, whose price grows with
the number of levels, the tree's shape is found first (PrivTree, `privacy.partition.find_cells`) and its
leaves are measured once.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np

from pgmjax.data.attribute import Attribute
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.discovery.probes import FineCells
from pgmjax.privacy.partition import find_cells
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.queries import marginal

FINEST = 256
"""A sketch has about this many cells at most."""
_TAIL_STDDEVS = 1.0  # standard deviations of noise that the records of a tail must exceed together
_SPLIT_STDDEVS = 4.0  # standard deviations of noise from which a node is divided
_BRANCHES = 4
_SHAPE_SHARE = Fraction(1, 2)  # of a column's epsilon for the shape of a tree; the rest is for the counts
_WITHIN_BIN_ERROR = 1.0
"""The error within a bin, as a share of its mass squared; calibrated by bench/discovery.py."""
MOST_BINS = 64
FEWEST_BINS = 4


@dataclasses.dataclass
class Sketch:
    """Estimated counts of consecutive cells.

    Attributes:
        edges: edges [n + 1] of the cells, as numbers of fine cells.
        counts: estimated numbers of records [n], >= 0.
        stddev: standard deviation of the noise of one measured count.
    """

    edges: np.ndarray
    counts: np.ndarray
    stddev: float

    def without_tails(self) -> Sketch:
        """Return the sketch without the cells at both ends that hold no more records than noise would."""
        most = _TAIL_STDDEVS * self.stddev
        kept = (np.cumsum(self.counts) > most) & (np.cumsum(self.counts[::-1])[::-1] > most)
        if not kept.any():
            return self
        counts = np.where(kept, self.counts, 0.0)
        return dataclasses.replace(self, counts=counts)


def sketches(
    table: PrivateTable,
    data: Dataset,
    fine: Mapping[str, FineCells],
    costs: Mapping[str, Fraction],
    records: float,
    show_progress: bool | None = None,
) -> dict[str, Sketch]:
    """Return a sketch of each column.

    Args:
        table: the private table, under the budget of discovery.
        data: its records in fine cells, see `FineCells.probe`.
        fine: the cells by attribute.
        costs: what each may cost, in the budget's unit.
        records: estimated number of records.
        show_progress: None shows a bar in terminals only, False never.

    Guarantees:
        Each sketch costs at most its part; the parts add up.
    """
    if table.budget.unit == "epsilon":
        return {name: _by_shape(table, data, name, fine[name], costs[name]) for name in fine}
    return _by_levels(table, data, fine, costs, records, show_progress)


def _by_shape(table: PrivateTable, data: Dataset, name: str, fine: FineCells, cost: Fraction) -> Sketch:
    share = cost * _SHAPE_SHARE
    opened = table.over(data, table.budget)
    edges = find_cells(opened, name, fine.cells, epsilon=share, most=FINEST)
    leaves = np.searchsorted(edges, np.arange(fine.cells), side="right") - 1
    merged = _merged(data, {name: np.append(leaves, len(edges) - 1)})
    measured = table.over(merged, table.budget).measure([marginal([name])], epsilons=[cost - share])[0]
    counts = measured.values.astype(float)
    return Sketch(edges, np.maximum(counts[:-1], 0), float(measured.row_stddevs()[0]))


def _merged(data: Dataset, codes: Mapping[str, np.ndarray]) -> Dataset:
    """Return records in merged cells, given the code of each fine one [cells + 1] by attribute."""
    merged = {name: Attribute(name, int(each.max()) + 1) for name, each in codes.items()}
    domain = Domain({name: merged.get(name, data.domain.attribute(name)) for name in data.domain})
    return data.recode(domain, codes)


@dataclasses.dataclass
class _Node:
    """A node of a tree: fine cells first..last-1, its noisy count and its children."""

    first: int
    last: int
    noisy: float
    children: list[_Node] = dataclasses.field(default_factory=list)
    estimate: float = 0.0
    variance: float = 1.0


def _by_levels(
    table: PrivateTable,
    data: Dataset,
    fine: Mapping[str, FineCells],
    costs: Mapping[str, Fraction],
    records: float,
    show_progress: bool | None,
) -> dict[str, Sketch]:
    roots = {name: _Node(0, cells.cells, records) for name, cells in fine.items()}
    open_nodes = {name: [root] for name, root in roots.items()}
    stddevs = dict.fromkeys(fine, 0.0)
    for level in range(max(cells.levels for cells in fine.values())):
        names = [name for name in fine if open_nodes[name] and level < fine[name].levels]
        if not names:
            break
        groups = {name: _children(open_nodes[name], fine[name]) for name in names}
        sibling = table.over(_merged(data, groups), table.budget)
        rhos = [costs[name] / fine[name].levels for name in names]
        answers = sibling.measure(
            [marginal([name]) for name in names], rhos=rhos, show_progress=show_progress
        )
        for name, answer in zip(names, answers, strict=True):
            stddevs[name] = float(answer.row_stddevs()[0])
            open_nodes[name] = _grown(open_nodes[name], answer.values, stddevs[name], records)
    return {name: _settled(root, stddevs[name]) for name, root in roots.items()}


def _children(nodes: Sequence[_Node], fine: FineCells) -> np.ndarray:
    """Return the code of each fine cell: of the child it lies in, or of the rest, or, at the end, missing."""
    # only open nodes are divided: all other cells count together, so that each record counts once a level
    rest = len(nodes) * _BRANCHES
    codes = np.full(fine.cells + 1, rest)
    codes[-1] = rest + 1
    for number, node in enumerate(nodes):
        width = (node.last - node.first) // _BRANCHES
        codes[node.first : node.last] = number * _BRANCHES + np.arange(node.last - node.first) // width
    return codes


def _grown(nodes: Sequence[_Node], values: np.ndarray, stddev: float, records: float) -> list[_Node]:
    """Give the nodes their measured children; return those to be divided next."""
    least = max(records / FINEST, _SPLIT_STDDEVS * stddev)
    found = []
    for number, node in enumerate(nodes):
        width = (node.last - node.first) // _BRANCHES
        for place in range(_BRANCHES):
            first = node.first + place * width
            child = _Node(first, first + width, float(values[number * _BRANCHES + place]))
            node.children.append(child)
            if child.noisy > least and width > 1:
                found.append(child)
    return found


def _settled(root: _Node, stddev: float) -> Sketch:
    """Make a tree's counts consistent by least squares, and return its leaves.

    References:
        Hay et al. 2010, "Boosting the accuracy of differentially private histograms through consistency",
        section 4, with variances of their own where nodes have no children.
    """
    nodes = list(_tree(root))  # parents before their children
    for node in reversed(nodes):
        # the best estimate from a node's own count and those below it, and its relative variance
        node.estimate, node.variance = node.noisy, 1.0
        if node.children:
            below = sum(child.estimate for child in node.children)
            variance = sum(child.variance for child in node.children)
            node.variance = variance / (1.0 + variance)
            node.estimate = node.variance * node.noisy + (1 - node.variance) * below
    root.estimate = max(root.estimate, 0.0)
    for node in nodes:
        # what a node's count exceeds the sum of its children's by is theirs in proportion to their variances
        gap = node.estimate - sum(child.estimate for child in node.children)
        total = sum(child.variance for child in node.children)
        for child in node.children:
            child.estimate += gap * child.variance / total
    leaves = [node for node in nodes if not node.children]
    edges = np.array([leaf.first for leaf in leaves] + [leaves[-1].last])
    counts = np.maximum([leaf.estimate for leaf in leaves], 0.0)
    return Sketch(edges, counts, stddev)


def _tree(node: _Node) -> Iterator[_Node]:
    yield node
    for child in node.children:
        yield from _tree(child)


def binning_error(masses: np.ndarray, points: np.ndarray, records: float, stddev: float) -> float:
    """Return the expected L1 error of a two-way marginal that a binning causes.

    Args:
        masses: share of the records in each bin [n].
        points: whether a bin holds one value only [n].
        records: estimated number of records, public.
        stddev: of the noise that one count of a two-way marginal will have, public.

    Returns:
        What is lost within bins, which have no shape of their own, and the noise of n^2 counts.
    """
    within = 2 * _WITHIN_BIN_ERROR * float((masses[~points] ** 2).sum())
    return within + len(masses) ** 2 * stddev * math.sqrt(2 / math.pi) / max(records, 1.0)


def choose_bins(
    sketch: Sketch, is_point: Callable[[int, int], bool], records: float, stddev: float
) -> np.ndarray:
    """Return the edges of bins: neighbouring cells of a sketch, merged lightest first while that helps.

    Args:
        sketch: the counts.
        is_point: whether fine cells first..last-1 hold one value only.
        records: estimated number of records, public.
        stddev: of the noise that one count of a two-way marginal will have, public.

    Returns:
        Some of the sketch's edges, in fine cells, int64 [bins + 1].

    Example:
        >>> sketch = Sketch(np.arange(9), np.array([5, 5, 900, 5, 5, 40, 40, 0.0]), 1.0)
        >>> choose_bins(sketch, lambda first, last: last == first + 1, 1000, 5).tolist()
        [0, 2, 3, 6, 8]
    """
    edges, counts = np.array(sketch.edges), np.array(sketch.counts, float)
    total = max(float(counts.sum()), 1.0)
    least, chosen = math.inf, edges
    while True:
        if len(counts) <= MOST_BINS:
            points = np.array([is_point(a, b) for a, b in itertools.pairwise(edges.tolist())])
            error = binning_error(counts / total, points, records, stddev)
            if error < least:
                least, chosen = error, edges
        if len(counts) <= FEWEST_BINS:
            return chosen
        lightest = int(np.argmin(counts[:-1] + counts[1:]))
        counts[lightest] += counts[lightest + 1]
        counts, edges = np.delete(counts, lightest + 1), np.delete(edges, lightest + 1)
