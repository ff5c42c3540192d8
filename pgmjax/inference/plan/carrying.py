"""Carrying variables along a junction tree to where they meet, and what that adds to its cells.

A variable that is carried from node `x` to its neighbour `y` joins, at `x`, the separators through
which the carried ones arrive and leave. That clique stands beside that of the node, or takes its place
where it contains it, and falls away where a neighbouring one contains it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from pgmjax.inference.plan.clique_forest import CliqueForest

_KNOWN = 200_000

# Cells more, and the cliques (as bits) that come; those that go are negative.
Change = tuple[int, tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class Flow:
    """What carrying variables along the tree, over one edge in one direction, adds to it so far.

    Attributes:
        cells: additional cells, without those of `front`.
        side: the variables of the new clique that lie on this side.
        front: the clique that holds the edge's separator and all that is carried over it.
        old: whether `front` is a clique of the tree as it was.
        log: cliques that come (positive) and go (negative), without `front`.
            Empty where it was not asked for.
    """

    cells: int
    side: int
    front: int
    old: bool
    log: tuple[int, ...]


class Carrier:
    """Prices of carrying in one forest, kept for all candidates."""

    def __init__(self, forest: CliqueForest):
        self.forest = forest
        self.single: dict[tuple[int, int, int], Flow] = {}

    def pair(self, u: int, v: int, way: Sequence[int]) -> int:
        """Additional cells of a clique of two variables apart in a tree.

        Args:
            u: one.
            v: the other.
            way: nodes from the last that holds `u` to the first that holds `v`.
        """
        forest = self.forest
        there, back = self.flows(u, way), self.flows(v, way[::-1])[::-1]
        clique, both = 1 << u | 1 << v, forest.sizes[u] * forest.sizes[v]
        separators = [forest.masks[x] & forest.masks[y] for x, y in itertools.pairwise(way)]
        options = []
        for separator, one, other in zip(separators, there, back, strict=True):
            meet = separator | clique
            cells = forest.cells(separator) * both
            options.append(cells + self.settled(one, meet) + self.settled(other, meet))
        last = len(way) - 1
        for i, x in enumerate(way):
            ways = (separators[i - 1] if i else 0) | (separators[i] if i < last else 0)
            meet = ways | clique
            cells = forest.cells(ways) * both
            if forest.masks[x] & ~meet == 0:
                cells -= forest.cells_at[x]
            if i:
                cells += self.settled(there[i - 1], meet)
            if i < last:
                cells += self.settled(back[i], meet)
            options.append(cells)
        return min(options)

    def flows(self, u: int, way: Sequence[int]) -> list[Flow]:
        """One variable carried along a way that starts where its subtree ends."""
        found: list[Flow] = []
        before = -1
        for x, y in itertools.pairwise(way):
            flow = self.single.get((u, x, y))
            if flow is None:
                arriving = [(before, found[-1])] if found else []
                if len(self.single) > _KNOWN:
                    self.single.clear()
                flow = dataclasses.replace(self.carried(1 << u, x, y, arriving), log=())
                self.single[u, x, y] = flow
            found.append(flow)
            before = x
        return found

    def settled(self, flow: Flow, clique: int) -> int:
        """Cells that a flow adds where a clique receives it."""
        if flow.front & ~clique:
            return flow.cells if flow.old else flow.cells + self.forest.cells(flow.front)
        return flow.cells - self.forest.cells(flow.front) if flow.old else flow.cells

    def carried(self, clique: int, x: int, y: int, arriving: Sequence[tuple[int, Flow]]) -> Flow:
        """Take on from `x` to `y` what arrives there from its other neighbours, and its own part."""
        here = self.forest.masks[x]
        leaving = here & self.forest.masks[y]
        side, ways = clique & here, leaving
        for z, flow in arriving:
            side |= flow.side
            ways |= here & self.forest.masks[z]
        front = ways | (side & ~leaving)
        if front & ~here == 0:  # nothing arrived, and the node's own clique holds it
            return Flow(0, side, here, True, ())
        cells, old = 0, False
        log: tuple[int, ...] = ()
        if here & ~front == 0:
            cells, log = -self.forest.cells_at[x], (-here,)
        holder = front
        for _, flow in arriving:
            if holder == front and front & ~flow.front == 0:  # what arrives holds all this: it goes on
                holder, old = flow.front, flow.old
                cells, log = cells + flow.cells, log + flow.log
            else:
                cells, log = cells + self.settled(flow, front), log + _settled_log(flow, front)
        return Flow(cells, side, holder, old, log)

    def meeting(self, clique: int, near: dict[int, set[int]], across: int) -> Change:
        """The best place in a part of a tree for the variables of a clique to come together.

        Args:
            clique: as bits.
            near: the part: each node with its neighbours.
            across: a larger clique that comes anyway: what it contains need not come.
        """
        forest = self.forest
        flows: dict[tuple[int, int], Flow] = {}
        order = [(next(iter(near)), -1)]
        for x, back in order:  # grows while it is read
            order.extend((y, x) for y in near[x] if y != back)
        edges = [(x, back) for x, back in reversed(order[1:])] + [(back, x) for x, back in order[1:]]
        for x, y in edges:
            flows[x, y] = self.carried(clique, x, y, [(z, flows[z, x]) for z in near[x] if z != y])
        options: list[tuple[int, int, list[Flow], int]] = []
        for x, back in order:
            here, arriving = forest.masks[x], [flows[y, x] for y in near[x]]
            meet = clique
            for y in near[x]:
                meet |= here & forest.masks[y]
            gone = here if here & ~meet == 0 else 0
            options.append((meet, gone, arriving, x))
            if back >= 0:
                options.append((clique | here & forest.masks[back], 0, [flows[x, back], flows[back, x]], x))

        def price(option: tuple[int, int, list[Flow], int]) -> int:
            meet, gone, arriving, x = option
            own = 0 if meet & ~across == 0 else forest.cells(meet)
            return own - (forest.cells_at[x] if gone else 0) + sum(self.settled(f, meet) for f in arriving)

        best = min(options, key=price)
        meet, gone, arriving, _ = best
        log = sum((_settled_log(f, meet) for f in arriving), () if meet & ~across == 0 else (meet,))
        return price(best), (*log, -gone) if gone else log


def _settled_log(flow: Flow, clique: int) -> tuple[int, ...]:
    if flow.front & ~clique:
        return flow.log if flow.old else (*flow.log, flow.front)
    return (*flow.log, -flow.front) if flow.old else flow.log
