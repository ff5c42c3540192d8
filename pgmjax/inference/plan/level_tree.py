"""A junction tree whose nodes all look alike: one separator above, one below, at most one measured clique.

Message passing over such a tree is one small program run for every node. Three rewritings bring a
junction tree there, none of which changes the distribution:

- the tree is rooted at its centre, at a separator that is peeled down to one variable, so that sweeps
  are short and no node near the root has an odd shape;
- a node whose children ask for different separators gets *lifts*: nodes without a potential that
  spread the messages over a smaller separator to a larger one;
- where more children share a separator than a node takes messages, *adders* collect some of them.

A clique measured beside the one that fills a node becomes a child of its own.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections.abc import Sequence

from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.structure import Structure, Variables

Separator = frozenset[int]
NOTHING: Separator = frozenset()


@dataclasses.dataclass
class Node:
    """One node of the tree.

    Attributes:
        variables: what its table is over.
        above: variables shared with the parent.
        parent: index of the parent, -1 for a root.
        clique: index of the measured clique that is its potential, -1 for none.
        below: variables shared with its children, the same for all of them.
        children: their indices.
    """

    variables: Variables
    above: Separator
    parent: int
    clique: int = -1
    below: Separator = NOTHING
    children: list[int] = dataclasses.field(default_factory=list)

    @property
    def is_adder(self) -> bool:
        """Whether it only adds up messages over one separator."""
        return self.clique < 0 and self.above == self.below and len(self.variables) == len(self.above)


@dataclasses.dataclass(frozen=True)
class LevelTree:
    """A rooted forest of `Node`.

    Attributes:
        structure: the model.
        nodes: in no particular order.
        fan_in: no node has more children than this.
    """

    structure: Structure
    nodes: list[Node]
    fan_in: int

    def heights(self) -> list[int]:
        """For each node the longest way down to a leaf, in edges."""
        return _heights(self.nodes)


def build(structure: Structure) -> LevelTree:
    """Make the level tree of a structure."""
    tree = junction_tree.build(structure)
    nodes = _rooted(structure, tree)
    _attach_measured(nodes, structure, tree.home)
    for i in _downwards(_linked(nodes)):
        node = nodes[i]
        # a separator that the parent shares with its own parent can hang on that one
        while node.parent >= 0 and node.above <= nodes[node.parent].above:
            node.parent = nodes[node.parent].parent
    _linked(nodes)
    for i in range(len(nodes)):
        _lift(structure, nodes, i)
    fan_in = _fan_in(nodes)
    heights = _heights(nodes)
    for i in _downwards(nodes):
        _add_up(nodes, heights, i, fan_in)
    return LevelTree(structure, nodes, fan_in)


def _rooted(structure: Structure, tree: junction_tree.JunctionTree) -> list[Node]:
    """The tree cliques first, by their own index, then the path to each component's root."""
    members = [frozenset(c) for c in tree.cliques]
    near: list[list[int]] = [[] for _ in members]
    for i, j in enumerate(tree.parent):
        if j >= 0:
            near[i].append(j)
            near[j].append(i)
    nodes = [Node(clique, NOTHING, -1) for clique in tree.cliques]
    for first in (i for i, j in enumerate(tree.parent) if j < 0):
        path = _longest_path(near, first)
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
            for j in near[i]:
                if j not in came:
                    came.add(j)
                    entered.append((j, i, members[i] & members[j]))
    return nodes


def _longest_path(near: list[list[int]], first: int) -> list[int]:
    """A longest path of the component of a tree clique."""

    def farthest(start: int) -> tuple[int, dict[int, int]]:
        came = {start: -1}
        order = [start]
        for i in order:  # grows while it is read
            for j in near[i]:
                if j not in came:
                    came[j] = i
                    order.append(j)
        return order[-1], came

    end, _ = farthest(first)
    other, came = farthest(end)
    path = [other]
    while came[path[-1]] >= 0:
        path.append(came[path[-1]])
    return path


def _peel(structure: Structure, nodes: list[Node], shared: Separator) -> int:
    """Add nodes over one variable, two variables, ... up to those given; return the last one's index."""
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
    """Set every node's children from the parents."""
    for node in nodes:
        node.children = []
    for i, node in enumerate(nodes):
        if node.parent >= 0:
            nodes[node.parent].children.append(i)
    return nodes


def _downwards(nodes: list[Node]) -> list[int]:
    order = [i for i, node in enumerate(nodes) if node.parent < 0]
    for i in order:  # grows while it is read
        order.extend(nodes[i].children)
    return order


def _heights(nodes: list[Node]) -> list[int]:
    heights = [0] * len(nodes)
    for i in reversed(_downwards(nodes)):
        parent = nodes[i].parent
        if parent >= 0:
            heights[parent] = max(heights[parent], heights[i] + 1)
    return heights


def _insert(nodes: list[Node], parent: int, above: Separator, below: Separator, children: list[int]) -> int:
    """Put a node without a potential between a parent and some of its children."""
    nodes.append(Node(tuple(sorted(above)), above, parent, -1, below, children))
    for child in children:
        nodes[child].parent = len(nodes) - 1
    return len(nodes) - 1


def _lift(structure: Structure, nodes: list[Node], i: int) -> None:
    """Bring all children of a node to one separator, by the smallest unions first."""
    groups: dict[Separator, list[int]] = {}
    for child in nodes[i].children:
        groups.setdefault(nodes[child].above, []).append(child)
    pairs = [
        (structure.cells(a | b), sorted(a), sorted(b), a, b) for a, b in itertools.combinations(groups, 2)
    ]
    heapq.heapify(pairs)
    while len(groups) > 1:
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
    """How many messages a node takes: as few as leave adders rare."""
    counts = [len(node.children) for node in nodes]
    if max(counts, default=0) <= 1:
        return 1
    for fan_in in (2, 4):
        if sum(-(-(n - fan_in) // (fan_in - 1)) for n in counts if n > fan_in) * 16 <= len(nodes):
            return fan_in
    return 8


def _add_up(nodes: list[Node], heights: list[int], i: int, fan_in: int) -> None:
    """Collect the lowest children in adders until the fan-in holds."""
    queue = [(heights[child], child) for child in nodes[i].children]
    if len(queue) <= fan_in:
        return
    heapq.heapify(queue)
    below = nodes[i].below
    while len(queue) > fan_in:
        taken = [heapq.heappop(queue) for _ in range(min(fan_in, len(queue) - fan_in + 1))]
        adder = _insert(nodes, i, below, below, [child for _, child in taken])
        heights.append(taken[-1][0] + 1)
        heapq.heappush(queue, (heights[adder], adder))
    nodes[i].children = [child for _, child in queue]
