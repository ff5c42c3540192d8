"""Inference for one query at a time, on the host in float64, without compilation.

A fit evaluates the same query on one structure thousands of times, which is what compiled oracles are
for. Queries to a fitted model are usually different each time. `HostModel` answers each query by a separate
contraction. `HostTree` answers many queries from a junction tree calibrated once, and shares the work
between two cliques of the tree among all queries that need it.

`calibrate` makes an upward and a downward pass. The upward pass converts log-potentials to the distribution
of each tree clique given its separator; the downward pass computes the marginals of the tree cliques. Only
the upward pass works with logarithms: its results are probabilities.

A marginal of `HostTree` is a product over the part of the tree between its attributes. The contribution of a
subtree is a message: the probability of the requested attributes in it, given the separator above. Messages
are cached as long as they fit, so each pair of attributes of a chain costs one small product instead of a
pass along the chain. All factors are probabilities: nothing overflows, and conditional ones sum to 1.

References:
    Koller and Friedman, Probabilistic Graphical Models (2009), sections 10.2, 10.3 and, for queries outside
    a clique, 10.3.3.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import heapq
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from pgmjax.inference import ops
from pgmjax.inference.plan import contraction, junction_tree
from pgmjax.inference.plan.forecast import require_cells
from pgmjax.inference.plan.junction_tree import JunctionTree
from pgmjax.inference.plan.structure import Structure, Variables

CACHE_BYTES = 1 << 28
_SMALL = 1 << 16  # cells: below this, checking the free memory costs more than the table
_Factor = tuple[np.ndarray, Variables]


@dataclasses.dataclass(frozen=True, eq=False)
class Bucket:
    """The tables and variables involved in eliminating one variable.

    Attributes:
        variable: the variable.
        parents: the other variables in its tables, all eliminated later.
        tables: log-tables over subsets of the parents and the variable, with their variables.
    """

    variable: int
    parents: Variables
    tables: tuple[tuple[np.ndarray, Variables], ...]

    def log_weights(self, assignment: dict[int, np.ndarray]) -> np.ndarray:
        """Unnormalised log-probabilities of the variable given codes of its parents.

        Args:
            assignment: codes [number of groups] of each parent.

        Returns:
            Log-weights [number of groups, size of the variable].
        """
        result: np.ndarray | float = 0.0
        for table, variables in self.tables:
            table = np.moveaxis(table, variables.index(self.variable), -1)
            codes = tuple(assignment[v] for v in variables if v != self.variable)
            result = result + (table[codes] if codes else table[None])
        return np.asarray(result)


@dataclasses.dataclass(frozen=True, eq=False)
class HostModel:
    """A distribution given by log-potentials, with inference on the host.

    Attributes:
        structure: sizes and cliques.
        tables: one float64 log-table for each clique.
    """

    structure: Structure
    tables: tuple[np.ndarray, ...]

    def log_sum(
        self, output: Variables = (), extra: Sequence[tuple[np.ndarray, Variables]] = ()
    ) -> np.ndarray:
        """Log of the sum of the unnormalised distribution over all but the output variables.

        Args:
            output: variables to keep; may include new variables of `extra`.
            extra: additional log-tables to multiply in, with their variables. Numbers from
                len(structure.sizes) on are new variables.

        Returns:
            Log values [sizes of output].
        """
        sizes = dict(enumerate(self.structure.sizes))
        for table, variables in extra:
            sizes.update(zip(variables, table.shape, strict=True))
        cliques = (*self.structure.cliques, *(tuple(v) for _, v in extra))
        whole = Structure(tuple(sizes[v] for v in range(len(sizes))), cliques)
        path = _path(whole, tuple(output))
        widest = max((whole.cells(step.union) for step in path.steps), default=1)
        require_cells(widest, "the largest intermediate table of this answer")
        table, scale = ops.contract(path, (*self.tables, *(t for t, _ in extra)), ops.host_logsumexp)
        return np.asarray(table + scale)

    @functools.cached_property
    def log_partition(self) -> float:
        """Log of the sum over all joint states (nats)."""
        return float(self.log_sum())

    def buckets(self, reduce: ops.Reduce = ops.host_logsumexp, last: Variables = ()) -> list[Bucket]:
        """Eliminate all variables and return the bucket of each elimination, in order.

        In reverse order, each bucket gives its variable's distribution given those eliminated after it,
        as needed for sampling. With the maximum instead of the sum, it gives the best value. Variables in
        `last` are eliminated after all others.
        """
        plan = junction_tree.best_elimination(self.structure, last)
        widest = max((self.structure.cells(clique) for clique in plan.cliques), default=1)
        require_cells(widest, "the largest table that walking through this model needs")
        pending = list(zip(self.tables, self.structure.cliques, strict=True))
        buckets = []
        for v in plan.order:
            mine = tuple(entry for entry in pending if v in entry[1])
            pending = [entry for entry in pending if v not in entry[1]]
            parents = tuple(sorted({u for _, variables in mine for u in variables} - {v}))
            buckets.append(Bucket(v, parents, mine))
            union = (*parents, v)
            total = sum((ops.align(t, variables, union) for t, variables in mine), np.zeros(()))
            total = np.broadcast_to(total, self.structure.shape(union))
            if parents:
                message, _ = ops.recentred(reduce(total, (len(parents),)))
                pending.append((message, parents))
        return buckets


@functools.lru_cache(maxsize=512)
def _path(structure: Structure, output: Variables) -> contraction.ContractionPath:
    return contraction.plan(structure, output)


class HostTree:
    """A model as a calibrated junction tree, on the host in float64, without compilation.

    Args:
        host: the model.
        cache_bytes: size of the cache for messages and reduced tables, which later marginals reuse.

    Raises:
        ModelTooLargeError: the tree does not fit in the host's memory.

    Example:
        >>> from pgmjax.inference.plan.structure import Structure
        >>> chain = HostModel(Structure((2, 2, 2), ((0, 1), (1, 2))), (np.zeros((2, 2)), np.zeros((2, 2))))
        >>> HostTree(chain).marginal((2, 0)).tolist()
        [[0.25, 0.25], [0.25, 0.25]]
    """

    def __init__(self, host: HostModel, cache_bytes: int = CACHE_BYTES):
        self.calibration = calibrate(host)
        self.tree = self.calibration.tree
        self._cache = _Recent(cache_bytes)
        self._sets = [frozenset(clique) for clique in self.tree.cliques]
        self._root: list[int] = []
        self._top: dict[int, int] = {}  # the topmost tree clique that contains a variable
        for n, (clique, parent) in enumerate(zip(self.tree.cliques, self.tree.parent, strict=True)):
            self._root.append(n if parent < 0 else self._root[parent])
            for v in clique:
                self._top.setdefault(v, n)

    def marginal(self, wanted: Variables) -> np.ndarray:
        """Probabilities of some variables [size of each], with axes in the order of `wanted`.

        Raises:
            ModelTooLargeError: the marginal, or an intermediate table, does not fit in memory.
        """
        _require(self.tree.structure.cells(wanted), "the marginal")
        lowest = max(self._top[v] for v in wanted)
        if self._sets[lowest].issuperset(wanted):  # if any clique contains them all, this one does
            kept = tuple(sorted(wanted))
            table = self._reduced(lowest, kept, whole=True)
            return table.transpose([kept.index(v) for v in wanted]).copy()
        groups: dict[int, list[int]] = {}
        for v in wanted:
            groups.setdefault(self._root[self._top[v]], []).append(v)
        return self._product([self._joint(group) for group in groups.values()], wanted)

    def _joint(self, wanted: Sequence[int]) -> _Factor:
        """The marginal of variables in the same tree."""
        root, below, children = self._between(wanted)
        found: dict[int, _Factor] = {}
        missing, open_nodes = [], list(children[root])
        while open_nodes:
            n = open_nodes.pop()
            kept = self._cache.get((n, below[n]))
            if kept is None:
                missing.append(n)
                open_nodes += children[n]
            else:
                found[n] = kept
        for n in sorted(missing, reverse=True):  # children come after their parents
            parts = [found.pop(c) for c in children[n]]
            found[n] = self._combined(n, below[n], parts, whole=False)
            self._cache.put((n, below[n]), found[n])
        return self._combined(root, below[root], [found[c] for c in children[root]], whole=True)

    def _between(self, wanted: Sequence[int]) -> tuple[int, dict[int, Variables], dict[int, list[int]]]:
        """The part of a tree between the topmost cliques of some variables.

        Returns:
            Its root, and for each clique the wanted variables of its subtree and its children.
        """
        below: dict[int, list[int]] = {}
        for v in wanted:
            below.setdefault(self._top[v], []).append(v)
        children: dict[int, list[int]] = {n: [] for n in below}
        ends = [-n for n in below]
        heapq.heapify(ends)
        while len(ends) > 1:
            n = -heapq.heappop(ends)
            above = self.tree.parent[n]
            if above not in children:
                children[above], below[above] = [], []
                heapq.heappush(ends, -above)
            children[above].append(n)
            below[above] += below[n]
        return -ends[0], {n: tuple(sorted(v)) for n, v in below.items()}, children

    def _combined(self, n: int, wanted: Variables, parts: Sequence[_Factor], whole: bool) -> _Factor:
        """A clique's table times its children's messages, summed to the requested variables.

        Args:
            n: the clique.
            wanted: requested variables of its subtree.
            parts: messages of its children.
            whole: use the clique's marginal distribution instead of the one given its separator.
        """
        shared = () if whole else self.tree.separator[n]
        output = tuple(sorted({*wanted, *shared}))
        needed = {*output, *(v for _, variables in parts for v in variables)}
        kept = tuple(sorted(needed & self._sets[n]))
        own = self._reduced(n, kept, whole)
        return self._product([(own, kept), *parts], output), output

    def _reduced(self, n: int, kept: Variables, whole: bool) -> np.ndarray:
        """A clique's table summed to some of its variables, in their order; cached."""
        key = (n, kept, whole)
        entry = self._cache.get(key)
        if entry is None:
            source = self.calibration.tables if whole else self.calibration.given
            entry = np.ascontiguousarray(summed(source[n], self.tree.cliques[n], kept)), kept
            self._cache.put(key, entry)
        return entry[0]

    def _product(self, factors: Sequence[_Factor], output: Variables) -> np.ndarray:
        """The product of tables, summed to the output."""
        cells = self.tree.structure.cells
        _require(cells(output), "a table between the attributes of a marginal")
        names = {v: i for i, v in enumerate(sorted({v for _, variables in factors for v in variables}))}
        operands: list[Any] = []
        for table, variables in factors:
            operands += [table, [names[v] for v in variables]]
        large = len(factors) > 2 or cells(names) > _SMALL  # otherwise planning costs more than it saves
        return np.einsum(*operands, [names[v] for v in output], optimize=large)


class _Recent:
    """A cache of tables up to a number of bytes; the least recently used are evicted first."""

    def __init__(self, limit: int):
        self.limit, self.held = limit, 0
        self.entries: collections.OrderedDict[Hashable, _Factor] = collections.OrderedDict()

    def get(self, key: Hashable) -> _Factor | None:
        entry = self.entries.get(key)
        if entry is not None:
            self.entries.move_to_end(key)
        return entry

    def put(self, key: Hashable, entry: _Factor) -> None:
        size = entry[0].nbytes
        if size > self.limit:
            return
        self.entries[key] = entry
        self.held += size
        while self.held > self.limit:
            _, (table, _) = self.entries.popitem(last=False)
            self.held -= table.nbytes


def _require(cells: int, what: str) -> None:
    """Raise an error if a table does not fit in memory."""
    if cells > _SMALL:
        require_cells(cells, what)


@dataclasses.dataclass(frozen=True, eq=False)
class CalibratedTree:
    """The tables of a junction tree after both passes.

    Attributes:
        tree: the junction tree (forest).
        given: probabilities of each tree clique given its separator [sizes of the clique]; all zero where
            the separator's values are impossible.
        tables: probabilities of each tree clique [sizes of the clique].
        log_partition: log of the sum over all joint states (nats).
    """

    tree: JunctionTree
    given: tuple[np.ndarray, ...]
    tables: tuple[np.ndarray, ...]
    log_partition: float


def calibrate(host: HostModel) -> CalibratedTree:
    """Calibrate a model.

    Args:
        host: the model; its potentials must allow at least one state.

    Raises:
        ModelTooLargeError: the tree's tables do not fit in the host's memory together.

    Example:
        >>> from pgmjax.inference.plan.structure import Structure
        >>> pair = HostModel(Structure((2, 2), ((0, 1),)), (np.zeros((2, 2)),))
        >>> calibrate(pair).tables[0].tolist()
        [[0.25, 0.25], [0.25, 0.25]]
    """
    tree = junction_tree.build(host.structure)
    largest = max((tree.structure.cells(clique) for clique in tree.cliques), default=1)
    require_cells(tree.cells + largest, f"the model's junction tree (its largest table: {largest:,} cells)")
    given, log_partition = _conditionals(tree, host)
    return CalibratedTree(tree, tuple(given), tuple(_marginals(tree, given)), log_partition)


def _conditionals(tree: JunctionTree, host: HostModel) -> tuple[list[np.ndarray], float]:
    """Each tree clique's distribution given its separator, whose axes come first, and the log-partition."""
    logs = [np.zeros(tree.structure.shape(clique)) for clique in tree.cliques]
    for table, clique, home in zip(host.tables, tree.structure.cliques, tree.home, strict=True):
        logs[home] += ops.align(table, clique, tree.cliques[home])
    log_partition = 0.0
    for n in reversed(range(len(logs))):
        shared, above = tree.separator[n], tree.parent[n]
        message = ops.host_logsumexp(logs[n], tuple(range(len(shared), logs[n].ndim)))
        if above >= 0:
            centred, shift = ops.recentred(message)
            log_partition += float(shift)
            logs[above] += ops.align(centred, shared, tree.cliques[above])
        else:
            log_partition += float(message)
        floor = np.where(np.isfinite(message), message, 0.0)
        logs[n] -= ops.align(floor, shared, tree.cliques[n])
        np.exp(logs[n], out=logs[n])
    return logs, log_partition


def _marginals(tree: JunctionTree, given: list[np.ndarray]) -> list[np.ndarray]:
    tables: list[np.ndarray] = []
    for n, own in enumerate(given):
        shared, above = tree.separator[n], tree.parent[n]
        if above >= 0:
            own = own * ops.align(summed(tables[above], tree.cliques[above], shared), shared, tree.cliques[n])
        tables.append(own)
    return tables


def summed(table: np.ndarray, variables: Variables, kept: Variables) -> np.ndarray:
    """A table over `variables` summed to some of them, with the axes in the order of `kept`."""
    gone = tuple(i for i, v in enumerate(variables) if v not in kept)
    left = [v for v in variables if v in kept]
    order = [left.index(v) for v in kept]
    table = table.sum(axis=gone) if gone else table
    return table if order == sorted(order) else table.transpose(order)
