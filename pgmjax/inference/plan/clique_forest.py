"""A junction forest for quick questions: cliques as bits of integers, and ways between them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from pgmjax.inference.plan.junction_tree import JunctionTree
from pgmjax.inference.plan.structure import Structure, Variables

_KNOWN = 100_000


def members(mask: int) -> Variables:
    """Variables of a clique given as bits."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return tuple(found)


class CliqueForest:
    """A junction forest.

    Attributes:
        masks: each tree clique as bits.
        parent: its parent, -1 for roots.
        depth: steps to its root.
        root: the root of its tree.
        cells_at: its cells; none for a variable that is in no clique of the structure.
        around: its neighbours.
        filled: whether it holds two variables that share no clique of the structure.
        top: the highest clique of each variable.
        graph: for each variable itself and those that share a clique of the structure with it, as bits.
    """

    def __init__(self, structure: Structure, tree: JunctionTree):
        self.sizes = structure.sizes
        self.known: dict[int, int] = {}
        self.masks = [self.mask(c) for c in tree.cliques]
        self.parent = tree.parent
        self.depth: list[int] = []
        self.root: list[int] = []
        for x, up in enumerate(self.parent):
            self.depth.append(self.depth[up] + 1 if up >= 0 else 0)
            self.root.append(self.root[up] if up >= 0 else x)
        self.top: dict[int, int] = {}  # parents come first
        for x, clique in enumerate(tree.cliques):
            for v in clique:
                self.top.setdefault(v, x)
        used = {v for c in structure.cliques for v in c}
        self.cells_at = [
            self.cells(mask) if len(clique) > 1 or clique[0] in used else 0
            for mask, clique in zip(self.masks, tree.cliques, strict=True)
        ]
        self.base = sum(self.cells_at)
        self.around: list[list[int]] = [[] for _ in self.masks]
        for x, up in enumerate(self.parent):
            if up >= 0:
                self.around[x].append(up)
                self.around[up].append(x)
        self.graph = [1 << v for v in range(len(self.sizes))]  # with itself
        for mask in map(self.mask, structure.cliques):
            for v in members(mask):
                self.graph[v] |= mask
        self.filled = [any(mask & ~self.graph[v] for v in members(mask)) for mask in self.masks]

    def mask(self, clique: Iterable[int]) -> int:
        """Variables as bits.

        Raises:
            ValueError: a variable that the structure does not have.
        """
        mask = 0
        for v in clique:
            if not 0 <= v < len(self.sizes):
                raise ValueError(f"A clique's variables must lie in 0..{len(self.sizes) - 1}, got {v}.")
            mask |= 1 << v
        return mask

    def cells(self, mask: int) -> int:
        """Cells of a table over some variables."""
        found = self.known.get(mask)
        if found is None:
            if len(self.known) > _KNOWN:
                self.known.clear()
            found = self.known[mask] = math.prod(self.sizes[v] for v in members(mask))
        return found

    def span(self, clique: int, nodes: Sequence[int]) -> dict[int, set[int]]:
        """The smallest part of a tree that touches every variable of a clique.

        Args:
            clique: as bits.
            nodes: nodes that hold its variables, which no one node holds.

        Returns:
            The part's nodes, each with its neighbours in it.
        """
        near: dict[int, set[int]] = {}
        for b in nodes[1:]:
            way = self.way(nodes[0], b)
            for x, y in itertools.pairwise(way):
                near.setdefault(x, set()).add(y)
                near.setdefault(y, set()).add(x)
        ends = [x for x, around in near.items() if len(around) == 1]
        while ends:
            x = ends.pop()
            (y,) = near[x]
            if clique & self.masks[x] & ~self.masks[y] == 0:
                del near[x]
                near[y].remove(x)
                if len(near[y]) == 1:
                    ends.append(y)
        return near

    def way(self, a: int, b: int) -> list[int]:
        """Nodes from one to another of the same tree."""
        depth, parent = self.depth, self.parent
        up, down = [a], [b]
        while a != b:
            if depth[a] >= depth[b]:
                a = parent[a]
                up.append(a)
            else:
                b = parent[b]
                down.append(b)
        down.pop()
        return up + down[::-1]

    def between(self, u: int, v: int) -> list[int]:
        """Nodes from the last that holds one variable to the first that holds another."""
        masks = self.masks
        way = self.way(self.top[u], self.top[v])
        first = max(i for i, x in enumerate(way) if masks[x] >> u & 1)
        last = min(i for i, x in enumerate(way) if masks[x] >> v & 1)
        return way[first : last + 1]
