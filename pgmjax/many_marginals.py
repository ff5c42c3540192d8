"""Marginals of a model over many cliques at once, for mechanisms that weigh many candidates a round.

One pass up a junction tree turns the potentials into the distribution of each tree clique given what it
shares with its parent; one pass down gives the tree cliques' own marginals. A marginal is then a product
over the part of the tree between its attributes, in which everything else is summed out first, in
probabilities rather than in logarithms: all factors lie between 0 and 1 and conditional ones sum to 1.

References:
    Koller and Friedman, Probabilistic Graphical Models (2009), section 10.3.3 (queries outside a clique).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pgmjax import ops
from pgmjax.cliques import as_clique
from pgmjax.model import GraphicalModel
from pgmjax.plan import junction_tree
from pgmjax.plan.forecast import require_cells
from pgmjax.plan.structure import Structure, Variables

_SMALL = 1 << 16
_Factor = tuple[np.ndarray, Variables]


def many_marginals(model: GraphicalModel, cliques: Iterable[Sequence[str]]) -> list[np.ndarray]:
    """Expected counts of each of many cliques; far faster than asking `model.marginal` one by one.

    Args:
        model: the model.
        cliques: attribute names of each; the axes of its table follow their order.

    Returns:
        For each clique counts [size of each attribute], float64, as `model.marginal` up to rounding.

    Raises:
        ValueError: an unknown or repeated attribute, or a table larger than memory.

    Example:
        >>> from pgmjax.domain import Domain
        >>> model = GraphicalModel.from_potentials(Domain({"a": 2, "b": 2}), {("a",): [0.0, 0.0]}, total=8)
        >>> [table.tolist() for table in many_marginals(model, [("b",), ("a", "b")])]
        [[4.0, 4.0], [[2.0, 2.0], [2.0, 2.0]]]
    """
    wanted = [as_clique(model.domain, clique) for clique in cliques]
    number = {name: i for i, name in enumerate(model.domain.attributes)}
    tree = _Tree(model, number)
    return [model.total * tree.marginal(tuple(number[name] for name in clique)) for clique in wanted]


class _Tree:
    """A model as the marginals of a junction tree's cliques and their conditional distributions."""

    def __init__(self, model: GraphicalModel, number: dict[str, int]):
        domain, potentials = model.domain, model.potentials
        covered = {name for clique in potentials.cliques for name in clique}
        held = [tuple(number[name] for name in clique) for clique in potentials.cliques]
        free = [(number[name],) for name in domain.attributes if name not in covered]
        self.tree = junction_tree.build(Structure(domain.shape, (*held, *free)))
        for clique in self.tree.cliques:
            _require(self.tree.structure.cells(clique), "a table of the model's junction tree")
        self.given = self._conditionals(potentials.tables)
        self.tables = self._marginals()
        self.depth = [0] * len(self.tree.cliques)
        self.top: dict[int, int] = {}
        for n, (clique, parent) in enumerate(zip(self.tree.cliques, self.tree.parent, strict=True)):
            self.depth[n] = 0 if parent < 0 else self.depth[parent] + 1
            for v in clique:
                self.top.setdefault(v, n)
        self.reduced: dict[tuple[int, Variables], np.ndarray] = {}

    def _conditionals(self, tables: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Each tree clique's distribution given its separator, which leads its axes."""
        tree = self.tree
        logs = [np.zeros(tree.structure.shape(clique)) for clique in tree.cliques]
        for table, clique, home in zip(tables, tree.structure.cliques, tree.home, strict=False):
            logs[home] += ops.align(table, clique, tree.cliques[home])
        for n in reversed(range(len(logs))):
            shared = tree.separator[n]
            message = ops.host_logsumexp(logs[n], tuple(range(len(shared), logs[n].ndim)))
            if tree.parent[n] >= 0:
                above = tree.parent[n]
                centred, _ = ops.recentred(message)
                logs[above] += ops.align(centred, shared, tree.cliques[above])
            floor = np.where(np.isfinite(message), message, 0.0)
            logs[n] = np.exp(logs[n] - ops.align(floor, shared, tree.cliques[n]))
        return logs

    def _marginals(self) -> list[np.ndarray]:
        tree = self.tree
        tables: list[np.ndarray] = []
        for n, given in enumerate(self.given):
            shared, above = tree.separator[n], tree.parent[n]
            if above >= 0:
                outside = _summed(tables[above], tree.cliques[above], shared)
                given = given * ops.align(outside, shared, tree.cliques[n])
            tables.append(given)
        return tables

    def marginal(self, wanted: Variables) -> np.ndarray:
        """Probabilities [sizes of wanted]."""
        _require(self.tree.structure.cells(wanted), "the marginal")
        home = self.tree.containing(wanted)
        if home is not None:
            table = self._reduced(home, tuple(sorted(wanted)), self.tables)
            return table.transpose([sorted(wanted).index(v) for v in wanted])
        parts = [self._joint(set(nodes), wanted) for nodes in self._spans(wanted)]
        return self._product(parts, wanted)

    def _spans(self, wanted: Variables) -> list[list[int]]:
        """For each tree of the forest the nodes between the topmost ones of the variables, deepest first."""
        groups: dict[int, list[int]] = {}
        for v in wanted:
            root = self.top[v]
            while self.tree.parent[root] >= 0:
                root = self.tree.parent[root]
            groups.setdefault(root, []).append(self.top[v])
        return [self._between(set(tops)) for tops in groups.values()]

    def _between(self, tops: set[int]) -> list[int]:
        """The nodes of the paths between some nodes of one tree."""
        nodes, ends = set(tops), set(tops)
        while len(ends) > 1:
            lowest = max(ends, key=lambda n: (self.depth[n], n))
            ends.remove(lowest)
            ends.add(self.tree.parent[lowest])
            nodes.add(self.tree.parent[lowest])
        return sorted(nodes)

    def _joint(self, nodes: set[int], wanted: Variables) -> _Factor:
        """The marginal of those wanted variables that lie in some nodes of one tree."""
        messages: dict[int, list[_Factor]] = {n: [] for n in nodes}
        for n in sorted(nodes, reverse=True):  # children stand behind their parents
            above = self.tree.parent[n]
            root = above not in nodes
            shared = () if root else self.tree.separator[n]
            below = {v for _, variables in messages[n] for v in variables}
            mine = {v for v in self.tree.cliques[n] if v in wanted or v in shared or v in below}
            kept = tuple(sorted(mine))
            own = self._reduced(n, kept, self.tables if root else self.given)
            output = tuple(sorted({v for v in mine | below if v in wanted or v in shared}))
            result = (self._product([(own, kept), *messages[n]], output), output)
            if root:
                return result
            messages[above].append(result)
        raise AssertionError("a tree has a root")

    def _reduced(self, n: int, kept: Variables, source: list[np.ndarray]) -> np.ndarray:
        """A node's table summed to some of its variables, in their order; remembered."""
        key = (n if source is self.tables else -1 - n, kept)
        if key not in self.reduced:
            self.reduced[key] = _summed(source[n], self.tree.cliques[n], kept)
        return self.reduced[key]

    def _product(self, factors: Sequence[_Factor], output: Variables) -> np.ndarray:
        """The product of tables, summed to the output."""
        _require(self.tree.structure.cells(output), "a table between the attributes of a marginal")
        names = {v: i for i, v in enumerate(sorted({v for _, variables in factors for v in variables}))}
        operands: list[Any] = []
        for table, variables in factors:
            operands += [table, [names[v] for v in variables]]
        return np.einsum(*operands, [names[v] for v in output], optimize=len(factors) > 1)


def _require(cells: int, what: str) -> None:
    """Refuse a table that does not fit; whether a small one does is not worth asking the system."""
    if cells > _SMALL:
        require_cells(cells, what)


def _summed(table: np.ndarray, variables: Variables, kept: Variables) -> np.ndarray:
    """A table summed to some of its variables, with the axes in their order."""
    gone = tuple(i for i, v in enumerate(variables) if v not in kept)
    left = [v for v in variables if v in kept]
    return table.sum(axis=gone).transpose([left.index(v) for v in kept])
