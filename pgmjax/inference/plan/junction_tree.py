"""Junction trees (forests, where a model is disconnected) as plain data.

Axes of all tables follow one order of the variables, last eliminated first. The variables that a
clique shares with its parent then lead its table and the others trail: messages reduce trailing
axes and no table is ever transposed.
"""

from __future__ import annotations

import dataclasses

from pgmjax.inference.plan import elimination as elim
from pgmjax.inference.plan.structure import Structure, Variables


@dataclasses.dataclass(frozen=True)
class JunctionTree:
    """A rooted junction forest.

    Attributes:
        structure: sizes, and the cliques that the tree covers.
        cliques: the tree's cliques, every parent before its children.
        parent: index of each clique's parent, -1 for roots.
        separator: variables shared with the parent, the leading ones of the clique.
        home: for each clique of the structure a tree clique that contains it.
        rule: the elimination rule behind it.
    """

    structure: Structure
    cliques: tuple[Variables, ...]
    parent: tuple[int, ...]
    separator: tuple[Variables, ...]
    home: tuple[int, ...]
    rule: str

    @property
    def cells(self) -> int:
        """Cells of all its tables together."""
        return sum(self.structure.cells(c) for c in self.cliques)


def build(structure: Structure, elimination: elim.Elimination | None = None) -> JunctionTree:
    """Make the junction tree of an elimination order (the best of both rules by default)."""
    elimination = elimination or elim.best(structure)
    step = {v: i for i, v in enumerate(elimination.order)}
    members = [set(c) for c in elimination.cliques]
    # The clique of a step hangs on that of the next variable in it to be eliminated.
    up = [min((step[u] for u in c[1:]), default=-1) for c in elimination.cliques]
    into = list(range(len(up)))  # which clique each one was merged into
    for i in range(len(up)):
        if up[i] >= 0 and len(members[i]) == len(members[up[i]]) + 1 and into[up[i]] == up[i]:
            into[up[i]] = i  # the parent is contained in this one, so it dissolves into it

    def keeper(i: int) -> int:
        while into[i] != i:
            i = into[i]
        return i

    kept = [i for i in range(len(up)) if into[i] == i]
    above = {}
    for i in kept:
        j = up[i]
        while j >= 0 and keeper(j) == i:
            j = up[j]
        above[i] = keeper(j) if j >= 0 else -1
    return _assemble(structure, elimination, kept, above)


def _assemble(
    structure: Structure, elimination: elim.Elimination, kept: list[int], above: dict[int, int]
) -> JunctionTree:
    below: dict[int, list[int]] = {i: [] for i in (-1, *kept)}
    for i in reversed(kept):
        below[above[i]].append(i)
    order = list(below[-1])
    for i in order:  # grows while it is read: breadth first, parents before children
        order.extend(below[i])
    index = {i: n for n, i in enumerate(order)}
    cliques = [tuple(reversed(elimination.cliques[i])) for i in order]
    parent = [index[above[i]] if above[i] >= 0 else -1 for i in order]
    separator = []
    for n, clique in enumerate(cliques):
        shared = set(cliques[parent[n]]) if parent[n] >= 0 else set()
        separator.append(tuple(v for v in clique if v in shared))
    holders: dict[int, list[int]] = {}
    for n, clique in enumerate(cliques):
        for v in clique:
            holders.setdefault(v, []).append(n)
    sets = [set(c) for c in cliques]
    home = tuple(
        min(
            (n for n in min((holders[v] for v in c), key=len) if set(c) <= sets[n]),
            key=lambda n: structure.cells(cliques[n]),
        )
        for c in structure.cliques
    )
    return JunctionTree(structure, tuple(cliques), tuple(parent), tuple(separator), home, elimination.rule)
