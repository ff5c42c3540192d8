"""Inference for many queries on the host: a junction tree calibrated once, in float64, without compilation.

A `HostTree` is made by an upward and a downward pass. The upward pass converts log-potentials to the
distribution of each tree clique given its separator; the downward pass computes the marginals of the
separators. Only the upward pass works with logarithms: its results are probabilities.

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
import functools
import heapq
import itertools
import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from pgmjax._internal.memory import readable_bytes
from pgmjax.inference import ops
from pgmjax.inference.ops import host_sweep
from pgmjax.inference.oracles.host import CACHE_BYTES, CELLS, Factor, HostModel, planned_cells
from pgmjax.inference.plan import elimination, forecast, junction_tree
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.inference.plan.junction_tree import JunctionTree
from pgmjax.inference.plan.structure import Structure, Variables
from pgmjax.kernels.log_sum_exp import host_logsumexp

_UNPLANNED_CELLS = 1 << 16  # cells: below this, a product of two tables is not worth planning
_MANY_PLANS = 30  # times the cells contracted while a question is planned: with more, it may be asked alone
_Part = tuple[
    host_sweep.ScaledTable | np.ndarray, Variables
]  # probabilities, or logarithms where these would be lost


def _seconds_between(cells: float) -> float:
    """Forecast of the time of products in a calibrated tree, on one core (s)."""
    return CELLS * forecast.HOST_RATES.cell * cells


class HostTree:
    """A model as a calibrated junction tree, on the host in float64, without compilation.

    Attributes:
        host: the model.
        tree: the junction tree (forest).
        given: probabilities of each tree clique given its separator [sizes of the clique]; all zero where
            the separator's values are impossible.
        shared: probabilities of each separator [sizes of the separator].
        log_partition: log of the sum over all joint states (nats).

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
        self.host, self.tree = host, tree_of(host.structure)
        need = tree_bytes(self.tree)
        if not host.limits.allow(need):
            raise ModelTooLargeError(
                f"the model's junction tree needs about {readable_bytes(need)}, and "
                f"{readable_bytes(host.limits.bytes)} is available: ask in parts (`tree_for`).",
                need,
            )
        self.given, self.log_partition = _conditionals(self.tree, host)
        self.shared = self._separators()
        self._cache = _Recent(cache_bytes)
        self._sets = [frozenset(clique) for clique in self.tree.cliques]
        self._root: list[int] = []
        # the topmost tree clique that contains a variable; variables are in the order of all tables' axes
        self._top: dict[int, int] = {}
        for n, (clique, parent) in enumerate(zip(self.tree.cliques, self.tree.parent, strict=True)):
            self._root.append(n if parent < 0 else self._root[parent])
            for v in clique:
                self._top.setdefault(v, n)
        self._place = {v: place for place, v in enumerate(self._top)}

    def _separators(self) -> list[np.ndarray]:
        """Probabilities of each clique's separator; each is summed from the parent's table."""
        tree = self.tree
        shared = [np.ones(())] * len(tree.cliques)
        for above, children in itertools.groupby(range(len(tree.cliques)), tree.parent.__getitem__):
            if above >= 0:
                table = _joint(self.given[above], shared[above])
                for child in children:
                    shared[child] = summed(table, tree.cliques[above], tree.separator[child])
        return shared

    def table(self, n: int) -> np.ndarray:
        """Probabilities of a tree clique [sizes of the clique]: computed, so that the tree is stored once."""
        return _joint(self.given[n], self.shared[n])

    def marginals(self, wanted: Sequence[Variables]) -> list[np.ndarray]:
        """Several marginals."""
        return [self.marginal(variables) for variables in wanted]

    def marginal(self, wanted: Variables) -> np.ndarray:
        """Probabilities of some variables [size of each], with axes in the order of `wanted`.

        Raises:
            ModelTooLargeError: the marginal, or an intermediate table, does not fit in memory.
        """
        self.host.limits.require_cells(self.tree.structure.cells(wanted), "the marginal", copies=1)
        lowest = max(self._top[v] for v in wanted)
        if self._sets[lowest].issuperset(wanted):  # if any clique contains them all, this one does
            kept = self._in_order(wanted)
            table = self._reduced(lowest, kept, whole=True)
            return table.transpose([kept.index(v) for v in wanted]).copy()
        groups = self._groups(wanted)
        between = sum(map(self._cells_between, groups))
        if self._is_shorter_asked(wanted, between):
            return self.host.marginal(wanted)
        return self._product([self._joint(group) for group in groups], wanted)

    def seconds(self, wanted: Variables) -> float:
        """Forecast of the time of a marginal, on one core (s)."""
        lowest = max(self._top[v] for v in wanted)
        if self._sets[lowest].issuperset(wanted):
            return _seconds_between(self.tree.structure.cells(self.tree.cliques[lowest]))
        cells = sum(map(self._cells_between, self._groups(wanted)))
        alone = self._is_shorter_asked(wanted, cells)
        return self.host.seconds(wanted) if alone else _seconds_between(cells)

    def _groups(self, wanted: Variables) -> list[list[int]]:
        """The variables of each tree."""
        groups: dict[int, list[int]] = {}
        for v in wanted:
            groups.setdefault(self._root[self._top[v]], []).append(v)
        return list(groups.values())

    def _cells_between(self, group: Sequence[int]) -> int:
        """Cells of the products in a tree between some variables that are not known yet."""
        root, below, children = self._between(group)
        cells, shared, total = self.tree.structure.cells, self.tree.separator, 0
        for n in below:
            if self._cache.get((n, below[n])) is None:
                # a clique's table is first summed to what its neighbours and the question ask of it
                names = {
                    *below[n],
                    *(shared[n] if n != root else ()),
                    *(v for c in children[n] for v in shared[c]),
                }
                total += cells(self.tree.cliques[n]) + cells(names)
        return total

    def _is_shorter_asked(self, wanted: Variables, between: int) -> bool:
        """True if a contraction for this marginal alone takes less than the tree between its attributes.

        Not if the tree takes no longer than many plans of a contraction, since what is computed in it is kept
        for the next question. Yes if it takes longer than a question may: the contraction refuses that.
        """
        if _seconds_between(between) > self.host.limits.max_seconds:
            return True
        many_plans = _MANY_PLANS * planned_cells(self.tree.structure)
        return between > many_plans and self.host.work(wanted) < between

    def _joint(self, wanted: Sequence[int]) -> Factor:
        """The marginal of variables in the same tree."""
        root, below, children = self._between(wanted)
        found: dict[int, Factor] = {}
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
        return -ends[0], {n: self._in_order(v) for n, v in below.items()}, children

    def _in_order(self, variables: Iterable[int]) -> Variables:
        return tuple(sorted(variables, key=self._place.__getitem__))

    def _combined(self, n: int, wanted: Variables, parts: Sequence[Factor], whole: bool) -> Factor:
        """A clique's table times its children's messages, summed to the requested variables.

        Args:
            n: the clique.
            wanted: requested variables of its subtree.
            parts: messages of its children.
            whole: use the clique's marginal distribution instead of the one given its separator.
        """
        shared = () if whole else self.tree.separator[n]
        output = (*(v for v in wanted if v not in shared), *shared)
        needed = {*output, *(v for _, variables in parts for v in variables)}
        kept = self._in_order(needed & self._sets[n])
        own = self._reduced(n, kept, whole)
        return self._product([(own, kept), *parts], output), output

    def _reduced(self, n: int, kept: Variables, whole: bool) -> np.ndarray:
        """A clique's table summed to some of its variables, in their order; cached."""
        key = (n, kept, whole)
        entry = self._cache.get(key)
        if entry is None:
            table = self.table(n) if whole else self.given[n]
            entry = np.ascontiguousarray(summed(table, self.tree.cliques[n], kept)), kept
            self._cache.put(key, entry)
        return entry[0]

    def _product(self, factors: Sequence[Factor], output: Variables) -> np.ndarray:
        """The product of tables, summed to the output."""
        cells = self.tree.structure.cells
        self.host.limits.require_cells(
            cells(output), "a table between the attributes of a marginal", copies=1
        )
        names = {v: i for i, v in enumerate(sorted({v for _, variables in factors for v in variables}))}
        operands: list[Any] = []
        for table, variables in factors:
            operands += [table, [names[v] for v in variables]]
        # for two small tables, planning costs more than it saves
        large = len(factors) > 2 or cells(names) > _UNPLANNED_CELLS
        return np.einsum(*operands, [names[v] for v in output], optimize=large)


class SlicedTree:
    """Questions to a model whose junction tree does not fit in memory: to its parts, one after another.

    A marginal is the mean of the parts' marginals, weighted by their shares of the partition function, so one
    pass over the parts answers any number of questions.

    Args:
        host: the model.
        divided: the values of some variables in each part.
        cache_bytes: size of the cache of each part's tree.
    """

    def __init__(self, host: HostModel, divided: list[dict[int, slice]], cache_bytes: int = CACHE_BYTES):
        self.host, self.divided, self.cache_bytes = host, divided, cache_bytes
        self.tree = tree_of(host.restricted(divided[0]).structure)  # the largest
        self.marginal, self.seconds = host.marginal, host.seconds

    @property
    def log_partition(self) -> float:
        """Log of the sum over all joint states (nats)."""
        return self.host.log_partition

    def marginals(self, wanted: Sequence[Variables]) -> list[np.ndarray]:
        """Several marginals by one pass over the parts."""
        found = [np.zeros(self.host.structure.shape(variables)) for variables in wanted]
        top = -np.inf
        for some in self.divided:
            tree = HostTree(self.host.restricted(some), self.cache_bytes)
            if tree.log_partition == -np.inf:
                continue
            if tree.log_partition > top:  # the largest share is 1
                for table in found:
                    table *= math.exp(top - tree.log_partition)
                top = tree.log_partition
            share = math.exp(tree.log_partition - top)
            for table, variables in zip(found, wanted, strict=True):
                mine = tuple(some.get(v, slice(None)) for v in variables)
                table[mine] += share * tree.marginal(variables)
        return [table / table.sum() for table in found]


def tree_for(host: HostModel, cache_bytes: int = CACHE_BYTES) -> HostTree | SlicedTree:
    """The calibrated tree of a model, or its parts in turn if the tree does not fit in memory.

    Raises:
        ModelTooLargeError: too many parts would be needed, or they would take too long.
    """
    divided = host.divided()
    whole = len(divided) == 1
    return HostTree(host, cache_bytes) if whole else SlicedTree(host, divided, cache_bytes)


class _Recent:
    """A cache of tables up to a number of bytes; the least recently used are evicted first."""

    def __init__(self, limit: int):
        self.limit, self.held = limit, 0
        self.entries: collections.OrderedDict[Hashable, Factor] = collections.OrderedDict()

    def get(self, key: Hashable) -> Factor | None:
        entry = self.entries.get(key)
        if entry is not None:
            self.entries.move_to_end(key)
        return entry

    def put(self, key: Hashable, entry: Factor) -> None:
        size = entry[0].nbytes
        if size > self.limit:
            return
        self.entries[key] = entry
        self.held += size
        while self.held > self.limit:
            _, (table, _) = self.entries.popitem(last=False)
            self.held -= table.nbytes


def _joint(given: np.ndarray, shared: np.ndarray) -> np.ndarray:
    """A clique's probabilities from those given its separator, whose axes come first, and the separator's."""
    rows = given.reshape(shared.size, -1)
    return np.asarray((rows * shared.reshape(-1, 1)).reshape(given.shape))


@functools.lru_cache(maxsize=64)
def tree_of(structure: Structure) -> JunctionTree:
    """The junction tree that a calibration uses."""
    return junction_tree.build(structure, elimination.best(structure))


def tree_bytes(tree: JunctionTree) -> int:
    """Memory that a calibration takes, in bytes: all tables and separators, and work on the largest table."""
    cells = tree.structure.cells
    largest = max((cells(clique) for clique in tree.cliques), default=1)
    return 8 * (tree.cells + sum(map(cells, tree.separator)) + 2 * largest)


def _conditionals(tree: JunctionTree, host: HostModel) -> tuple[list[np.ndarray], float]:
    """Each tree clique's distribution given its separator, whose axes come first, and the log-partition."""
    parts: list[list[_Part]] = [[] for _ in tree.cliques]
    for (table, clique), home in zip(host.factors, tree.home, strict=True):
        parts[home].append((host_sweep.scaled(table), clique))
    given, log_partition = [np.ones(())] * len(parts), 0.0
    for n in reversed(range(len(parts))):
        shared, above = tree.separator[n], tree.parent[n]
        given[n], message = _conditional(parts[n], tree.cliques[n], tree.structure, len(shared))
        parts[n] = []
        if above >= 0:
            parts[above].append((message, shared))
        elif isinstance(message, host_sweep.ScaledTable):
            log_partition += math.log(message.table) + message.scale if message.table > 0 else -math.inf
        else:
            log_partition += float(message)
    return given, log_partition


def _conditional(
    parts: Sequence[_Part], clique: Variables, structure: Structure, kept: int
) -> tuple[np.ndarray, host_sweep.ScaledTable | np.ndarray]:
    """A clique's distribution given its first axes, and its sum over the others.

    Products of probabilities, or sums of logarithms where a product could leave float64's range.
    """
    shape = structure.shape(clique)
    scaled = [(t, v) for t, v in parts if isinstance(t, host_sweep.ScaledTable)]
    low = sum(table.low for table, _ in scaled)
    if len(scaled) < len(parts) or low < -host_sweep.RANGE:
        logs = np.zeros(shape)
        for table, variables in parts:
            logs += ops.align(host_sweep.logs_of(table), variables, clique)
        message = ops.reduced_sum([logs], kept, host_logsumexp)
        floor = np.where(np.isfinite(message), message, 0.0)
        logs -= floor.reshape(*floor.shape, *(1 for _ in shape[kept:]))
        return np.exp(logs, out=logs), host_sweep.scaled(message)
    product = np.ones(shape)
    for part, variables in scaled:
        product *= ops.align(part.table, variables, clique)
    rows = product.reshape(math.prod(shape[:kept]), -1)
    sums = rows @ np.ones(rows.shape[1])
    rows /= np.where(sums > 0, sums, 1.0)[:, None]
    found = host_sweep.ScaledTable(
        sums, sum(table.scale for table, _ in scaled), low, math.log(rows.shape[1])
    )
    return product, found.rescaled(shape[:kept])


def summed(table: np.ndarray, variables: Variables, kept: Variables) -> np.ndarray:
    """A table over `variables` summed to some of them, with the axes in the order of `kept`."""
    left = [v for v in variables if v in kept]
    table = table.sum(axis=tuple(axis for axis, v in enumerate(variables) if v not in kept))
    return table.transpose([left.index(v) for v in kept])
