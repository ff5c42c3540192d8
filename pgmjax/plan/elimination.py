"""Elimination orders by greedy min-fill and min-weight.

References:
    Koller and Friedman, Probabilistic Graphical Models (2009), section 9.4.3.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Sequence

from pgmjax.plan.structure import Structure, Variables

RULES = ("min-fill", "min-weight")


@dataclasses.dataclass(frozen=True)
class Elimination:
    """An elimination order and the cliques that it creates.

    Attributes:
        order: every variable once, first eliminated first.
        cliques: for each step the eliminated variable and its neighbours at that moment, in the
            order in which they are eliminated (so the step's own variable comes first).
        rule: the rule that made it.
    """

    order: Variables
    cliques: tuple[Variables, ...]
    rule: str


def eliminate(structure: Structure, rule: str, last: Iterable[int] = ()) -> Elimination:
    """Eliminate greedily, the cheapest variable first.

    Args:
        structure: the model.
        rule: `min-fill` (fewest new edges, then least weight) or `min-weight` (smallest table,
            then fewest new edges).
        last: variables kept to the end (those of a wanted marginal).

    Raises:
        ValueError: unknown rule.
    """
    if rule not in RULES:
        raise ValueError(f"rule must be one of {RULES}, got {rule!r}.")
    near = structure.neighbours()
    kept = set(last)
    cost = _cost(structure, near, rule, kept)
    heap = [(cost(v), v) for v in range(len(structure.sizes))]
    heapq.heapify(heap)
    steps: list[tuple[int, set[int]]] = []
    done = [False] * len(structure.sizes)
    while heap:
        old, v = heapq.heappop(heap)
        if done[v]:
            continue
        now = cost(v)
        if now != old:  # the entry is out of date: a fresh one stands in or enters the heap
            heapq.heappush(heap, (now, v))
            continue
        done[v] = True
        around = near[v]
        steps.append((v, around))
        for u in around:
            near[u] |= around
            near[u] -= {u, v}
        # filling in changes the cost of the neighbours and, under min-fill, of theirs
        changed = set(around).union(*(near[u] for u in around)) if rule == "min-fill" else around
        for u in changed:
            heapq.heappush(heap, (cost(u), u))
    position = {v: i for i, (v, _) in enumerate(steps)}
    cliques = tuple((v, *sorted(around, key=position.__getitem__)) for v, around in steps)
    return Elimination(tuple(v for v, _ in steps), cliques, rule)


def _cost(structure: Structure, near: list[set[int]], rule: str, kept: set[int]) -> Callable[[int], tuple]:
    logs = [math.log2(size) for size in structure.sizes]

    def fill(v: int) -> int:
        around = near[v]
        edges = sum(len(near[u] & around) for u in around) // 2
        return len(around) * (len(around) - 1) // 2 - edges

    def weight(v: int) -> float:
        return round(logs[v] + sum(logs[u] for u in near[v]), 9)

    if rule == "min-fill":
        return lambda v: (v in kept, fill(v), weight(v), v)
    return lambda v: (v in kept, weight(v), v)


def maximal_cliques(elimination: Elimination) -> list[Variables]:
    """Elimination cliques that no other one contains.

    The clique of a step can only be contained in one made by an earlier step.
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


def best(structure: Structure, last: Iterable[int] = ()) -> Elimination:
    """The order, of both rules, whose cliques together have the fewest cells."""
    last = tuple(last)
    return min(
        (eliminate(structure, rule, last) for rule in RULES),
        key=lambda e: sum(structure.cells(c) for c in maximal_cliques(e)),
    )


def total_cells(sizes: Sequence[int], cliques: Iterable[Sequence[int]]) -> int:
    """Cells that a junction tree of these cliques holds, over the better of both rules.

    Args:
        sizes: size of each variable.
        cliques: variables of each clique, as indices into `sizes`.

    Example:
        >>> total_cells((2, 3, 4), [(0, 1), (1, 2)])
        18
    """
    structure = Structure(tuple(sizes), tuple(tuple(c) for c in cliques))
    used = set(itertools.chain.from_iterable(structure.cliques))
    return sum(structure.cells(c) for c in maximal_cliques(best(structure)) if len(c) > 1 or c[0] in used)
