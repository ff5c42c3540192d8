"""Junction trees (forests, if a model is disconnected) and the elimination orders they are built from.

Axes of all tables follow one order of the variables, last eliminated first. The variables that a
clique shares with its parent are then the leading axes of its table: messages reduce trailing axes and
no table is ever transposed. Orders are greedy, by min-fill or min-weight.

References:
    Koller and Friedman, Probabilistic Graphical Models (2009), section 9.4.3.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
import itertools
import math
from collections.abc import Iterable, Sequence

from pgmjax.inference.plan.structure import Structure, Variables

RULES = ("min-fill", "min-weight")


@dataclasses.dataclass(frozen=True)
class JunctionTree:
    """A rooted junction forest.

    Attributes:
        structure: sizes, and the cliques that the tree covers.
        cliques: the tree's cliques, every parent before its children.
        parent: index of each clique's parent, -1 for roots.
        separator: variables shared with the parent, the leading ones of the clique.
        home: for each clique of the structure, a tree clique that contains it.
    """

    structure: Structure
    cliques: tuple[Variables, ...]
    parent: tuple[int, ...]
    separator: tuple[Variables, ...]
    home: tuple[int, ...]

    @property
    def cells(self) -> int:
        """Cells of all its tables together."""
        return sum(self.structure.cells(c) for c in self.cliques)

    @functools.cached_property
    def around(self) -> list[list[int]]:
        """Neighbours of each clique in the forest."""
        near: list[list[int]] = [[] for _ in self.cliques]
        for i, j in enumerate(self.parent):
            if j >= 0:
                near[i].append(j)
                near[j].append(i)
        return near

    def walk(self, first: int) -> dict[int, int]:
        """The clique from which each one of a component is reached, the nearest first; -1 for the first."""
        came = {first: -1}
        order = [first]
        for i in order:  # grows during iteration
            for j in self.around[i]:
                if j not in came:
                    came[j] = i
                    order.append(j)
        return came


def build(structure: Structure, elimination: Elimination | None = None) -> JunctionTree:
    """Make the junction tree of an elimination order. Default: the better order of both rules.

    References:
        Blair and Peyton, An introduction to chordal graphs and clique trees (1993), algorithm 4.2.
    """
    found: list[list[int]] = []
    parent, shared = [], []  # of each clique, and how many of its variables it shares with that
    below: dict[int, list[int]] = {-1: []}
    first: dict[int, int] = {}  # the clique in which a variable was met
    for v, *around in reversed((elimination or best_elimination(structure)).cliques):
        up = first[around[0]] if around else -1
        if around and len(found[up]) == len(around):  # which is the neighbours, so it is a part of this one
            first[v] = up
            found[up].append(v)
            continue
        first[v] = len(found)
        below[up].append(len(found))
        below[len(found)] = []
        found.append([*reversed(around), v])
        parent.append(up)
        shared.append(len(around))
    order = list(below[-1])
    for n in order:  # grows during iteration: breadth first, parents before children
        order.extend(below[n])
    index = {-1: -1, **{n: i for i, n in enumerate(order)}}
    cliques = tuple(tuple(found[n]) for n in order)
    return JunctionTree(
        structure,
        cliques,
        tuple(index[parent[n]] for n in order),
        tuple(clique[: shared[n]] for n, clique in zip(order, cliques, strict=True)),
        _homes(structure, cliques),
    )


def _homes(structure: Structure, cliques: tuple[Variables, ...]) -> tuple[int, ...]:
    """For each clique of a structure, the smallest tree clique that contains it."""
    sets = [set(clique) for clique in cliques]
    holders: dict[int, list[int]] = {}
    for n, clique in enumerate(cliques):
        for v in clique:
            holders.setdefault(v, []).append(n)
    return tuple(
        min(
            (n for n in min((holders[v] for v in c), key=len) if set(c) <= sets[n]),
            key=lambda n: structure.cells(cliques[n]),
        )
        for c in structure.cliques
    )


@dataclasses.dataclass(frozen=True)
class Elimination:
    """An elimination order and its cliques.

    Attributes:
        order: every variable once, first eliminated first.
        cliques: for each step, the eliminated variable and its neighbours at that time, in the order of
            elimination (so the step's own variable comes first).
        rule: the rule that was used.
        searched: seconds that the search for it took, by its count of operations; 0 for a rule alone.
    """

    order: Variables
    cliques: tuple[Variables, ...]
    rule: str
    searched: float = 0.0


def eliminate(structure: Structure, rule: str, last: Iterable[int] = ()) -> Elimination:
    """Eliminate greedily, the cheapest variable first.

    Args:
        structure: the model.
        rule: `min-fill` (fewest new edges, then least weight) or `min-weight` (smallest table,
            then fewest new edges).
        last: variables eliminated last (those of a requested marginal).

    Raises:
        ValueError: unknown rule.
    """
    if rule not in RULES:
        raise ValueError(f"rule must be one of {RULES}, got {rule!r}.")
    state = _State(structure, rule, last)
    heap = [(state.cost(v), v) for v in range(len(structure.sizes))]
    heapq.heapify(heap)
    steps: list[tuple[int, set[int]]] = []
    done = [False] * len(structure.sizes)
    while heap:
        old, v = heapq.heappop(heap)
        # outdated entries are dropped: a new one was pushed when the cost changed
        if done[v] or old != state.cost(v):
            continue
        done[v] = True
        steps.append((v, state.near[v]))
        for u in state.remove(v):
            heapq.heappush(heap, (state.cost(u), u))
    position = {v: i for i, (v, _) in enumerate(steps)}
    cliques = tuple((v, *sorted(around, key=position.__getitem__)) for v, around in steps)
    return Elimination(tuple(v for v, _ in steps), cliques, rule)


class _State:
    """The remaining graph, with the cost of eliminating each variable.

    Costs are stored, and decremented if an elimination adds no edge. Otherwise the cost of a variable with
    thousands of neighbours would be recomputed each time it loses one.
    """

    def __init__(self, structure: Structure, rule: str, last: Iterable[int]) -> None:
        self.near = structure.neighbours()
        self._by_fill = rule == "min-fill"
        self._kept = set(last)
        self._logs = [math.log2(size) for size in structure.sizes]
        variables = range(len(structure.sizes))
        self._weight = [self._count_weight(v) for v in variables]
        self._fill = [self._count_fill(v) if self._by_fill else 0 for v in variables]

    def cost(self, v: int) -> tuple:
        """The sort key of the rule; the smallest is eliminated first."""
        return (v in self._kept, self._fill[v], round(self._weight[v], 9), v)

    def _count_weight(self, v: int) -> float:
        return self._logs[v] + sum(self._logs[u] for u in self.near[v])

    def _count_fill(self, v: int) -> int:
        around = self.near[v]
        edges = sum(len(self.near[u] & around) for u in around) // 2
        return len(around) * (len(around) - 1) // 2 - edges

    def remove(self, v: int) -> set[int]:
        """Connect the neighbours of a variable, remove it, and return the variables whose cost changed."""
        around = self.near[v]
        filled = False
        for u in around:
            before = len(self.near[u])
            self.near[u] |= around
            self.near[u] -= {u, v}
            if len(self.near[u]) == before - 1:
                self._weight[u] -= self._logs[v]
                if self._by_fill:  # pairs of v and a neighbour of u that is not a neighbour of v
                    self._fill[u] -= before - len(around)
            else:
                filled = True
                self._weight[u] = self._count_weight(u)
        if not (filled and self._by_fill):
            return around
        changed = set(around).union(*(self.near[u] for u in around))
        for u in changed:
            self._fill[u] = self._count_fill(u)
        return changed


def maximal_cliques(elimination: Elimination) -> list[Variables]:
    """Elimination cliques that are contained in no other.

    The clique of a step can only be contained in the clique of an earlier step.
    """
    found: list[Variables] = []
    holding: dict[int, list[set[int]]] = {}
    for clique in elimination.cliques:
        members = set(clique)
        if not any(members <= other for other in holding.get(clique[0], ())):
            found.append(clique)
            for v in clique:
                holding.setdefault(v, []).append(members)
    return found


def best_elimination(structure: Structure, last: Iterable[int] = ()) -> Elimination:
    """The order, of both rules, whose maximal cliques have the fewest cells in total.

    If the first rule adds no edge, the second is not tried.
    """
    last = tuple(last)
    first, *others = RULES
    found = [eliminate(structure, first, last)]
    edges = sum(len(near) for near in structure.neighbours()) // 2
    if sum(len(c) - 1 for c in found[0].cliques) == edges:
        return found[0]  # no edge was added, so this is optimal
    return min(
        (*found, *(eliminate(structure, rule, last) for rule in others)),
        key=lambda e: sum(structure.cells(c) for c in maximal_cliques(e)),
    )


def total_cells(sizes: Sequence[int], cliques: Iterable[Sequence[int]]) -> int:
    """Cells of a junction tree of these cliques, by the better of both rules.

    Args:
        sizes: size of each variable.
        cliques: variables of each clique, as indices into `sizes`.

    Example:
        >>> total_cells((2, 3, 4), [(0, 1), (1, 2)])
        18
    """
    structure = Structure(tuple(sizes), tuple(tuple(c) for c in cliques))
    used = set(itertools.chain.from_iterable(structure.cliques))
    return sum(
        structure.cells(c) for c in maximal_cliques(best_elimination(structure)) if len(c) > 1 or c[0] in used
    )
