"""Message passing by levels: level trees, and their arrangement as integer maps for one small program.

Level trees are junction trees with nodes of uniform structure, grouped into a few shapes and scheduled.

A node has one separator above, one below and at most one measured clique, so that message passing is one
small program that runs for every node. A junction tree is brought into this form (`build`) by three
transformations, none of which changes the distribution:

- The tree is rooted at its centre, at a separator that is reduced to one variable step by step, so that
  sweeps are short and no node near the root has an unusual shape.
- A node whose children have different separators gets *lifts*: nodes without a potential that extend
  messages over a smaller separator to a larger one.
- If more children share a separator than a node can receive messages, *adders* combine some of them.

Other measured cliques assigned to the same node become separate children.

`classify` pads the nodes to a few shapes. The variables of a node are divided into four groups: shared with
the parent only, with parent and children, with the children only, with neither. Its table has one axis for
each group. Messages then need no transposing: the message to the parent sums out the last two axes, the
message to the children the first and the last. Nodes of similar shape form a class and are padded to its
shape, so the number of compiled operations depends only on the number of classes.

`schedule` assigns nodes to steps, by a list schedule with a fixed width for each class.

The nodes of a level tree are padded to a few classes and assigned to steps. The rest of the structure is
stored as integer maps: the position in the flat vector of potentials of each cell of each node's table, the
positions of a node's incoming messages among those sent so far, and the position of each clique's cells in
the result. A compiled program depends only on `LevelSizes`; the maps are its arguments.

References:
    Hu, Parallel sequencing and assembly line problems (1961): highest level first.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
import itertools
import math
import operator
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.forecast import Forecast, ModelTooLargeError, device_rates
from pgmjax.inference.plan.structure import (
    IMPOSSIBLE,
    NEUTRAL,
    Parts,
    Structure,
    Variables,
    offsets,
    parts_of,
)

Separator = frozenset[int]
NOTHING: Separator = frozenset()
Shape = tuple[int, int, int, int]
Groups = tuple[Variables, Variables, Variables, Variables]

MOST_CLASSES = 4
MOST_SHAPES = 64  # all pairs of which are compared
# The cost of an additional class per step, as the number of cells that could be computed in the same time,
# and the relative amount of padding accepted to save a class.
CELLS_A_STEP = 4000
PADDING = 0.5


@dataclasses.dataclass
class Node:
    """One node of the tree.

    Attributes:
        variables: variables of its table.
        above: variables shared with the parent.
        parent: index of the parent, -1 for a root.
        clique: index of the measured clique that is its potential, -1 for none.
        below: variables shared with its children, the same for all of them.
        children: indices of its children.
        height: number of edges of the longest path down to a leaf.
        groups: its variables by axis; those of an adder may be on two axes.
        kind: index of its class.
        step: its step in the upward sweep; its children are in earlier ones.
        place: its place among the nodes of its class in the step.
    """

    variables: Variables
    above: Separator
    parent: int
    clique: int = -1
    below: Separator = NOTHING
    children: list[int] = dataclasses.field(default_factory=list)
    height: int = 0
    groups: Groups = ((), (), (), ())
    kind: int = 0
    step: int = 0
    place: int = 0

    @property
    def is_adder(self) -> bool:
        """True if it only adds messages over one separator."""
        return self.clique < 0 and self.above == self.below and len(self.variables) == len(self.above)


def build(structure: Structure) -> tuple[list[Node], int]:
    """Make the level tree of a structure.

    Returns:
        The nodes of a rooted forest, in no particular order, and how many children a node may have.
    """
    tree = junction_tree.build(structure)
    nodes = _rooted(structure, tree)
    _attach_measured(nodes, structure, tree.home)
    for i in _downwards(_linked(nodes)):
        node = nodes[i]
        # if the parent shares the separator with its own parent, attach the node there
        while node.parent >= 0 and node.above <= nodes[node.parent].above:
            node.parent = nodes[node.parent].parent
    _linked(nodes)
    for i in range(len(nodes)):
        _lift(structure, nodes, i)
    fan_in = _fan_in(nodes)
    _measure_heights(nodes)
    for i in _downwards(nodes):
        _add_up(nodes, i, fan_in)
    _measure_heights(nodes)
    return nodes, fan_in


def _measure_heights(nodes: list[Node]) -> None:
    for i in reversed(_downwards(nodes)):
        nodes[i].height = max((nodes[child].height + 1 for child in nodes[i].children), default=0)


def _rooted(structure: Structure, tree: junction_tree.JunctionTree) -> list[Node]:
    """Nodes of the rooted tree: tree cliques first, by their index, then the nodes above them."""
    members = [frozenset(c) for c in tree.cliques]
    nodes = [Node(clique, NOTHING, -1) for clique in tree.cliques]
    for first in (i for i, j in enumerate(tree.parent) if j < 0):
        path = _longest_path(tree, first)
        middle = len(path) // 2
        ends = path[middle - 1 : middle + 1] if len(path) > 1 else path
        if len(ends) == 2:
            shared = members[ends[0]] & members[ends[1]]
        else:
            ordered = sorted(tree.cliques[first], key=lambda v: (structure.sizes[v], v))
            shared = frozenset(ordered[:-1])
        root = _peel(structure, nodes, shared)
        entered = [(end, root, shared) for end in ends]
        came = set(ends)
        while entered:
            i, parent, above = entered.pop()
            nodes[i].parent, nodes[i].above = parent, above
            for j in tree.around[i]:
                if j not in came:
                    came.add(j)
                    entered.append((j, i, members[i] & members[j]))
    return nodes


def _longest_path(tree: junction_tree.JunctionTree, first: int) -> list[int]:
    """A longest path of the component of a tree clique, between two that are farthest from each other."""
    end = list(tree.walk(first))[-1]
    came = tree.walk(end)
    other = list(came)[-1]
    path = [other]
    while came[path[-1]] >= 0:
        path.append(came[path[-1]])
    return path


def _peel(structure: Structure, nodes: list[Node], shared: Separator) -> int:
    """Add nodes over one variable, two variables, and so on up to all of `shared`; return the last index."""
    above, parent = NOTHING, -1
    for v in sorted(shared, key=lambda v: (structure.sizes[v], v)):
        nodes.append(Node((*sorted(above), v), above, parent))
        parent, above = len(nodes) - 1, above | {v}
    return parent


def _attach_measured(nodes: list[Node], structure: Structure, home: Sequence[int]) -> None:
    for number, (clique, at) in enumerate(zip(structure.cliques, home, strict=True)):
        if nodes[at].clique < 0 and len(clique) == len(nodes[at].variables):
            nodes[at].clique = number
            nodes[at].variables = clique
        else:
            nodes.append(Node(clique, frozenset(clique), at, number))


def _linked(nodes: list[Node]) -> list[Node]:
    """Set the children of all nodes from their parents."""
    for node in nodes:
        node.children = []
    for i, node in enumerate(nodes):
        if node.parent >= 0:
            nodes[node.parent].children.append(i)
    return nodes


def _downwards(nodes: list[Node]) -> list[int]:
    order = [i for i, node in enumerate(nodes) if node.parent < 0]
    for i in order:  # grows during iteration
        order.extend(nodes[i].children)
    return order


def _insert(nodes: list[Node], parent: int, above: Separator, below: Separator, children: list[int]) -> int:
    """Insert a node without a potential between a parent and some of its children."""
    nodes.append(Node(tuple(sorted(above)), above, parent, -1, below, children))
    for child in children:
        nodes[child].parent = len(nodes) - 1
    return len(nodes) - 1


def _lift(structure: Structure, nodes: list[Node], i: int) -> None:
    """Bring all children of a node to one separator, by joining the smallest unions first."""
    groups: dict[Separator, list[int]] = {}
    for child in nodes[i].children:
        groups.setdefault(nodes[child].above, []).append(child)
    pairs = [
        (structure.cells(a | b), sorted(a), sorted(b), a, b) for a, b in itertools.combinations(groups, 2)
    ]
    heapq.heapify(pairs)
    while len(groups) > 1:
        # a lift over the smallest union costs least; what is joined takes part in later unions
        *_, a, b = heapq.heappop(pairs)
        if a not in groups or b not in groups:
            continue
        union, joined = a | b, []
        for part in (a, b):
            children = groups.pop(part)
            joined += children if part == union else [_insert(nodes, i, union, part, children)]
        joined += groups.pop(union, [])
        for other in groups:
            entry = (structure.cells(union | other), sorted(union), sorted(other), union, other)
            heapq.heappush(pairs, entry)
        groups[union] = joined
    for separator, children in groups.items():
        nodes[i].below, nodes[i].children = separator, children


def _fan_in(nodes: list[Node]) -> int:
    """Return the number of messages a node receives: the smallest that keeps adders rare."""
    counts = [len(node.children) for node in nodes]
    if max(counts, default=0) <= 1:
        return 1
    for fan_in in (2, 4):
        if sum(-(-(n - fan_in) // (fan_in - 1)) for n in counts if n > fan_in) * 16 <= len(nodes):
            return fan_in
    return 8


def _add_up(nodes: list[Node], i: int, fan_in: int) -> None:
    """Combine the lowest children by adders until there are no more than `fan_in`."""
    queue = [(nodes[child].height, child) for child in nodes[i].children]
    if len(queue) <= fan_in:
        return
    heapq.heapify(queue)
    below = nodes[i].below
    while len(queue) > fan_in:
        taken = [heapq.heappop(queue) for _ in range(min(fan_in, len(queue) - fan_in + 1))]
        adder = _insert(nodes, i, below, below, [child for _, child in taken])
        heapq.heappush(queue, (taken[-1][0] + 1, adder))
    nodes[i].children = [child for _, child in queue]


def round_up(number: int) -> int:
    """The smallest number of the form (4 + k) 2^j, 0 <= k < 4, that is not below `number`.

    Example:
        >>> [round_up(n) for n in (3, 9, 11, 100)]
        [3, 10, 12, 112]
    """
    unit = 1
    while number > 8 * unit:
        unit *= 2
    return -(-number // unit) * unit


def classify(structure: Structure, nodes: list[Node]) -> tuple[Shape, ...]:
    """Group the variables of every node into axes, and the nodes into classes; return their padded shapes."""
    for node in nodes:
        node.groups = _groups(node)
    shapes = [_shape(structure, node.groups) for node in nodes]
    plain = {shape for shape, node in zip(shapes, nodes, strict=True) if not node.is_adder}
    for i, node in enumerate(nodes):
        if node.is_adder:
            # with its variables on two axes, an adder may fit into a class that there is anyway
            doubled = (node.groups[1], (), node.groups[1], ())
            wide = _shape(structure, doubled)
            if _fits_any(wide, plain) and not _fits_any(shapes[i], plain):
                node.groups, shapes[i] = doubled, wide
    merged = _merge(sorted(Counter(shapes).items()), _depth(nodes))
    number = {shape: k for k, (_, members) in enumerate(merged) for shape in members}
    for node, shape in zip(nodes, shapes, strict=True):
        node.kind = number[shape]
    return tuple(padded for padded, _ in merged)


def _depth(nodes: list[Node]) -> int:
    return 1 + max((node.height for node in nodes), default=0)


def _groups(node: Node) -> Groups:
    if not node.children:  # a leaf may put shared variables on either axis: as most inner nodes do
        shared = tuple(v for v in node.variables if v in node.above)
        return shared[:1], shared[1:], tuple(v for v in node.variables if v not in node.above), ()
    above, below = node.above, node.below
    return (
        tuple(v for v in node.variables if v in above and v not in below),
        tuple(v for v in node.variables if v in above and v in below),
        tuple(v for v in node.variables if v not in above and v in below),
        tuple(v for v in node.variables if v not in above and v not in below),
    )


def _shape(structure: Structure, groups: Sequence[Variables]) -> Shape:
    a, b, c, d = (structure.cells(group) for group in groups)
    return a, b, c, d


def _fits_any(shape: Shape, others: set[Shape]) -> bool:
    return any(all(s <= o for s, o in zip(shape, other, strict=True)) for other in others)


def _merge(counts: list[tuple[Shape, int]], depth: int) -> list[tuple[Shape, list[Shape]]]:
    """Merge shapes as long as that adds little padding, or while there are too many."""
    members = [[shape] for shape, _ in counts]
    # floats, as products of unions may overflow int64
    shapes = np.array([shape for shape, _ in counts], dtype=np.float64).reshape(-1, 4)
    number = np.array([n for _, n in counts], dtype=np.float64)
    shapes, number, members = _coarse(shapes, number, members)
    while len(members) > 1:
        union = np.maximum(shapes[:, None], shapes[None])
        own = number * shapes.prod(-1)
        # cells of both classes in one padded shape, less those that they have apart
        added = union.prod(-1) * (number[:, None] + number[None]) - own[:, None] - own[None]
        added[np.tril_indices(len(members))] = np.inf
        i, j = np.unravel_index(np.argmin(added), added.shape)
        if len(members) <= MOST_CLASSES and added[i, j] > CELLS_A_STEP * depth + PADDING * own.sum():
            break
        shapes[i], number[i] = union[i, j], number[i] + number[j]
        members[i] = members[i] + members[j]
        shapes, number = np.delete(shapes, j, 0), np.delete(number, j)
        del members[j]
    return [(_padded(own), own) for own in members]


def _coarse(
    shapes: np.ndarray, number: np.ndarray, members: list[list[Shape]]
) -> tuple[np.ndarray, np.ndarray, list[list[Shape]]]:
    """Join shapes with similar axes until there are few enough to compare all pairs."""
    octave = 0.5
    while len(shapes) > MOST_SHAPES:
        keys: dict[tuple[int, ...], list[int]] = {}
        for i, shape in enumerate(shapes):
            keys.setdefault(tuple(math.ceil(math.log2(s) / octave) for s in shape), []).append(i)
        joined = list(keys.values())
        shapes = np.array([shapes[rows].max(0) for rows in joined])
        number = np.array([number[rows].sum() for rows in joined])
        members = [[shape for row in rows for shape in members[row]] for rows in joined]
        octave *= 2
    return shapes, number, members


def _padded(members: list[Shape]) -> Shape:
    """The smallest shape that contains all; rounded up if they differ, so that similar models agree."""
    if len(members) == 1:
        return members[0]
    a, b, c, d = (round_up(max(axis)) for axis in zip(*members, strict=True))
    return a, b, c, d


def schedule(nodes: list[Node], shapes: Sequence[Shape]) -> tuple[int, tuple[int, ...]]:
    """Choose widths and steps of least cost, and place every node.

    Returns:
        The number of steps of a sweep, rounded up, and how many nodes of each class a step has.
    """
    depth, counts = round_up(_depth(nodes)), Counter(node.kind for node in nodes)
    tried: dict[tuple[int, ...], tuple[int, int, list[tuple[int, int]]]] = {}
    for stretch in (1.0, 1.25, 1.5, 2.0):
        target = round_up(int(depth * stretch))
        widths = tuple(round_up(-(-round_up(counts[k]) // target)) for k in range(len(shapes)))
        if widths not in tried:
            steps, found = _place(nodes, widths)
            cells = sum(w * math.prod(shape) for w, shape in zip(widths, shapes, strict=True))
            tried[widths] = steps * (cells + CELLS_A_STEP * (1 + len(shapes))), steps, found
    widths = min(tried, key=lambda widths: tried[widths][0])
    _, steps, found = tried[widths]
    for node, place in zip(nodes, found, strict=True):
        node.step, node.place = place
    return steps, widths


def _place(nodes: list[Node], widths: tuple[int, ...]) -> tuple[int, list[tuple[int, int]]]:
    """Place nodes from the roots down, those with the longest path below them first.

    Returns:
        The number of steps, and the step and place of each node.
    """
    ready: list[list[tuple[int, int]]] = [[] for _ in widths]
    for i, node in enumerate(nodes):
        if node.parent < 0:
            heapq.heappush(ready[node.kind], (-node.height, i))
    found = [(0, 0)] * len(nodes)
    now, left = 0, len(nodes)
    while left:
        taken = [
            [heapq.heappop(queue)[1] for _ in range(min(width, len(queue)))]
            for queue, width in zip(ready, widths, strict=True)
        ]
        for some in taken:
            left -= len(some)
            for at, i in enumerate(some):
                found[i] = now, at
                for child in nodes[i].children:
                    heapq.heappush(ready[nodes[child].kind], (-nodes[child].height, child))
        now += 1
    steps = round_up(now)
    return steps, [(steps - 1 - step, at) for step, at in found]


FAR_TOO_MANY = 2**40  # cells of all nodes: beyond any memory
Entry = tuple[Parts, tuple[int, ...], int]  # a pattern, the row of a map that has it, and its first position

GATHERED, LAUNCHES = 4, 10  # cells whose time a gathered one takes, and launches that a step takes
OPERATIONS = 120  # compiled operations per shape, independent of the number of cliques
STEP_KERNELS, CLASS_KERNELS = 7, 5  # of a step on a GPU, and more for each class (counted)


@dataclasses.dataclass(frozen=True)
class LevelSizes:
    """The sizes that determine a compiled program.

    Attributes:
        steps: number of steps of a sweep.
        fan_in: number of messages that a node receives from below.
        shapes: shape of the table of a node of each class.
        widths: number of nodes of each class in a step.
        length: length of a flat vector.
    """

    steps: int
    fan_in: int
    shapes: tuple[Shape, ...]
    widths: tuple[int, ...]
    length: int

    @property
    def cells(self) -> int:
        """Cells of all padded tables."""
        return self.steps * sum(w * math.prod(s) for w, s in zip(self.widths, self.shapes, strict=True))

    @property
    def sent_up(self) -> int:
        """Message entries that one step sends towards the root."""
        return sum(w * s[0] * s[1] for w, s in zip(self.widths, self.shapes, strict=True))

    @property
    def sent_down(self) -> int:
        """Message entries that one step sends towards the leaves."""
        return sum(w * s[1] * s[2] for w, s in zip(self.widths, self.shapes, strict=True))


class LevelMaps(NamedTuple):
    """The index maps of a structure, int32; an array for each class, but for `out`.

    Attributes:
        tables: position in the flat vector of each cell, or IMPOSSIBLE or NEUTRAL [steps, width, cells].
        up: positions of each node's incoming messages among all messages sent up, or the position after the
            last one if there is no message [steps, width, fan-in, cells of the separator below].
        down: positions of each node's incoming message among all messages sent down [steps, width, cells
            of the separator above]; the first position after them for roots, the second for padding.
        out: position among the beliefs of all classes, one after another, of each entry of a flat vector, or
            IMPOSSIBLE in its padding [length].
    """

    tables: tuple[Any, ...]
    up: tuple[Any, ...]
    down: tuple[Any, ...]
    out: Any


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """A level tree whose nodes are in classes and placed, without index maps.

    Attributes:
        structure: the model.
        nodes: the nodes, in no particular order.
        sizes: what determines the program.
    """

    structure: Structure
    nodes: list[Node]
    sizes: LevelSizes

    @functools.cached_property
    def forecast(self) -> Forecast:
        """The forecast cost of one call."""
        structure, sizes = self.structure, self.sizes
        largest = structure.largest(sorted({tuple(sorted(node.variables)) for node in self.nodes}))
        inputs, by = structure.length, device_rates()
        maps = sizes.cells + sizes.length + sizes.steps * (sizes.fan_in * sizes.sent_down + sizes.sent_up)
        return Forecast(
            method=f"{sizes.steps} levels of {sum(sizes.widths)} nodes in {len(sizes.shapes)} shapes, "
            f"{sizes.cells:,} cells with padding",
            largest=largest[0][1] if largest else 1,
            inputs=inputs,
            # potentials, conditionals and beliefs of all nodes, and the maps
            cells=3 * sizes.cells + maps,
            work=2 * sizes.cells + inputs,
            largest_tables=largest,
            operations=OPERATIONS * len(sizes.shapes),
            seconds=GATHERED * by.cell * (sizes.cells + inputs) + LAUNCHES * by.launch * sizes.steps,
            kernels=sizes.steps * (STEP_KERNELS + CLASS_KERNELS * len(sizes.shapes)),
        )


def arrange(structure: Structure) -> Arrangement:
    """Arrange a structure in levels, without index maps, which is cheap even for large tables.

    Raises:
        ModelTooLargeError: more cells than an int32 can number.
    """
    nodes, fan_in = build(structure)
    cells = sum(structure.cells(node.variables) for node in nodes)
    if cells >= FAR_TOO_MANY:
        raise ModelTooLargeError(
            f"levels over these cliques have {float(cells):.1e} cells: measure fewer or smaller cliques that "
            "overlap less."
        )
    shapes = classify(structure, nodes)
    steps, widths = schedule(nodes, shapes)
    length = round_up(max(1, structure.length))
    sizes = LevelSizes(steps, fan_in, shapes, widths, length)
    if max(sizes.cells, length, steps * max(sizes.sent_up, sizes.sent_down)) >= 2**31:
        raise ModelTooLargeError(
            f"levels number cells with 32 bits, got {sizes.cells:,} padded cells: use another oracle, "
            "or measure fewer or smaller cliques."
        )
    return Arrangement(structure, nodes, sizes)


def index_maps(arrangement: Arrangement) -> LevelMaps:
    """The maps of an arrangement."""
    sizes = arrangement.sizes
    writer, classes = _Writer(arrangement), range(len(sizes.shapes))
    tables, up, down = (tuple(map(write, classes)) for write in (writer.tables, writer.up, writer.down))
    return LevelMaps(tables, up, down, _inverse([one.reshape(-1) for one in tables], sizes.length))


def _inverse(tables: Sequence[np.ndarray], length: int) -> np.ndarray:
    """Position among the cells of all tables of each entry of the flat vector."""
    # cells that are not in the vector are written to two extra entries at its end, which are cut off
    out = np.full(length - min(IMPOSSIBLE, NEUTRAL), IMPOSSIBLE, np.int32)
    first = 0
    for flat in tables:
        out[flat] = np.arange(first, first + flat.size, dtype=np.int32)
        first += flat.size
    return out[:length]


class _Writer:
    """Builds index maps, one pattern of strides at a time for all nodes that share it."""

    def __init__(self, arrangement: Arrangement) -> None:
        self.structure, self.nodes, self.sizes = arrangement.structure, arrangement.nodes, arrangement.sizes
        self.starts = np.cumsum([0, *map(self.structure.cells, self.structure.cliques)]).tolist()
        self.members: list[list[Node]] = [[] for _ in self.sizes.shapes]
        for node in self.nodes:
            self.members[node.kind].append(node)
        # of messages over the first two axes and over the last two: cells of one of each class, and where the
        # classes of a step begin
        self.cells = [[shape[axis] * shape[axis + 1] for shape in self.sizes.shapes] for axis in (0, 1)]
        self.begin = [
            [0, *itertools.accumulate(map(operator.mul, self.sizes.widths, each))] for each in self.cells
        ]

    def _slot(self, node: Node) -> int:
        return node.step * self.sizes.widths[node.kind] + node.place

    def _message(self, node: Node, axis: int) -> tuple[dict[int, int], int]:
        """The strides of a node's message, which is over axes `axis` and `axis + 1`, and where it starts."""
        begin = self.begin[axis]
        before = node.step * begin[-1] + begin[node.kind]
        first, second = node.groups[axis : axis + 2]
        inner = self.sizes.shapes[node.kind][axis + 1]  # the second axis is padded to it
        stride = self.structure.strides(first, inner) | self.structure.strides(second)
        return stride, before + node.place * self.cells[axis][node.kind]

    def tables(self, k: int) -> np.ndarray:
        """Positions in the flat vector of the cells of a class's tables."""
        entries: list[Entry] = []
        for node in self.members[k]:
            measured = node.clique >= 0
            stride = self.structure.strides(node.variables) if measured else {}
            start = self.starts[node.clique] if measured else NEUTRAL
            entries.append((parts_of(self.structure, node.groups, stride), (self._slot(node),), start))
        shape = self.sizes.shapes[k]
        found = self._map(k, shape, entries, IMPOSSIBLE, NEUTRAL)  # slots without a node send zeros
        # of variables that are on two axes, only equal values are possible
        doubled = [self._slot(n) for n in self.members[k] if n.groups[0] and n.groups[0] == n.groups[2]]
        apart = np.arange(shape[0])[:, None, None, None] != np.arange(shape[2])[:, None]
        flat = found.reshape(-1, math.prod(shape))
        flat[np.ix_(np.array(doubled, int), np.broadcast_to(apart, shape).reshape(-1))] = IMPOSSIBLE
        return found

    def up(self, k: int) -> np.ndarray:
        """Positions of the messages from below of a class's nodes."""
        entries: list[Entry] = []
        for node in self.members[k]:
            for place, child in enumerate(node.children):
                stride, start = self._message(self.nodes[child], 0)
                parts = parts_of(self.structure, node.groups[1:3], stride)
                entries.append((parts, (self._slot(node), place), start))
        nothing = self.sizes.steps * self.sizes.sent_up
        return self._map(k, self.sizes.shapes[k][1:3], entries, nothing, nothing, self.sizes.fan_in)

    def down(self, k: int) -> np.ndarray:
        """Positions of the message from above of a class's nodes."""
        entries: list[Entry] = []
        for node in self.members[k]:
            if node.parent >= 0:
                stride, start = self._message(self.nodes[node.parent], 1)
                parts = parts_of(self.structure, node.groups[:2], stride)
                entries.append((parts, (self._slot(node),), start))
        certain = self.sizes.steps * self.sizes.sent_down  # of roots, and slots without a node
        return self._map(k, self.sizes.shapes[k][:2], entries, certain + 1, certain)

    def _map(
        self, k: int, shape: tuple[int, ...], entries: list[Entry], nothing: int, first: int, *inner: int
    ) -> np.ndarray:
        """A map of a class [steps, width, inner, cells of a shape]: `first` in the first cell of unused rows.

        Entries of one pattern are written at once; `nothing` stands in padding.
        """
        steps, width = self.sizes.steps, self.sizes.widths[k]
        found = np.full((steps * width, *inner, math.prod(shape)), nothing, np.int32)
        found[..., 0] = first
        patterns: dict[Parts, list[tuple[int, ...]]] = {}
        for parts, row, start in entries:
            patterns.setdefault(parts, []).append((*row, start))
        for parts, some in patterns.items():
            pattern = offsets(parts, shape)
            *rows, starts = np.array(some, np.int32).T
            found[tuple(rows)] = np.where(pattern >= 0, pattern + starts[:, None], nothing)
        return found.reshape(steps, width, *inner, -1)
