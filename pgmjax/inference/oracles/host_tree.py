"""Any marginal of a calibrated model, the work between two cliques of the tree shared by all that need it.

A marginal is a product over the part of the tree between its attributes. What a subtree contributes is a
message: the probability of the attributes asked for in it, given the separator above. Messages are kept
while they fit, so that of all pairs of a chain each costs one small product, not a walk. All factors are
probabilities: nothing overflows, and conditional ones sum to 1.

References:
    Koller and Friedman, Probabilistic Graphical Models (2009), section 10.3.3 (queries outside a clique).
"""

from __future__ import annotations

import collections
import heapq
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from pgmjax.inference.oracles.calibration import calibrate, summed
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan.forecast import require_cells
from pgmjax.inference.plan.structure import Variables

CACHE_BYTES = 1 << 28
_SMALL = 1 << 16  # cells: below this, asking the system for its memory costs more than the table
_Factor = tuple[np.ndarray, Variables]


class HostTree:
    """A model as a calibrated junction tree, asked on the host in float64, nothing to compile.

    Args:
        host: the model.
        cache_bytes: how much of the work between cliques is kept for later marginals.

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
        self._top: dict[int, int] = {}  # the topmost tree clique that holds a variable
        for n, (clique, parent) in enumerate(zip(self.tree.cliques, self.tree.parent, strict=True)):
            self._root.append(n if parent < 0 else self._root[parent])
            for v in clique:
                self._top.setdefault(v, n)

    def marginal(self, wanted: Variables) -> np.ndarray:
        """Probabilities of some variables [size of each], axes in the order asked for.

        Raises:
            ModelTooLargeError: the marginal, or a table on the way to it, does not fit in memory.
        """
        _require(self.tree.structure.cells(wanted), "the marginal")
        lowest = max(self._top[v] for v in wanted)
        if self._sets[lowest].issuperset(wanted):  # if any clique holds them all, this one does
            kept = tuple(sorted(wanted))
            table = self._reduced(lowest, kept, whole=True)
            return table.transpose([kept.index(v) for v in wanted]).copy()
        groups: dict[int, list[int]] = {}
        for v in wanted:
            groups.setdefault(self._root[self._top[v]], []).append(v)
        return self._product([self._joint(group) for group in groups.values()], wanted)

    def _joint(self, wanted: Sequence[int]) -> _Factor:
        """The marginal of variables that lie in one tree."""
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
        for n in sorted(missing, reverse=True):  # children stand behind their parents
            parts = [found.pop(c) for c in children[n]]
            found[n] = self._combined(n, below[n], parts, whole=False)
            self._cache.put((n, below[n]), found[n])
        return self._combined(root, below[root], [found[c] for c in children[root]], whole=True)

    def _between(self, wanted: Sequence[int]) -> tuple[int, dict[int, Variables], dict[int, list[int]]]:
        """The part of a tree between the topmost cliques of some variables.

        Returns:
            Its root; for each clique the wanted variables of its subtree; its children.
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
        """A clique's table times its children's messages, summed to what is asked for.

        Args:
            n: the clique.
            wanted: variables of its subtree that are asked for.
            parts: messages of its children.
            whole: its own distribution, not that given its separator.
        """
        shared = () if whole else self.tree.separator[n]
        output = tuple(sorted({*wanted, *shared}))
        needed = {*output, *(v for _, variables in parts for v in variables)}
        kept = tuple(sorted(needed & self._sets[n]))
        own = self._reduced(n, kept, whole)
        return self._product([(own, kept), *parts], output), output

    def _reduced(self, n: int, kept: Variables, whole: bool) -> np.ndarray:
        """A clique's table summed to some of its variables, in their order; remembered."""
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
        large = len(factors) > 2 or cells(names) > _SMALL  # a plan and a matrix product pay only then
        return np.einsum(*operands, [names[v] for v in output], optimize=large)


class _Recent:
    """Tables kept up to a number of bytes; those not asked for longest go first."""

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
    """Refuse a table that does not fit in memory."""
    if cells > _SMALL:
        require_cells(cells, what)
