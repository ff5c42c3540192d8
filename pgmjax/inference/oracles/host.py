"""Inference for one query at a time, on the host in float64, without compilation.

A fit evaluates the same query on one structure thousands of times, which is what compiled oracles are
for. Queries to a fitted model are usually different each time. `HostModel` answers each query by a
contraction planned for it: values that evidence excludes are cut away, variables that only one table has
are summed first, and a table that becomes constant by that is dropped (in a Bayesian network, all that is
neither asked nor an ancestor of what is).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax.inference import ops
from pgmjax.inference.ops import host_sweep
from pgmjax.inference.plan import contraction, elimination, forecast, parts
from pgmjax.inference.plan.forecast import USUAL, QuestionLimits
from pgmjax.inference.plan.structure import Structure, Variables
from pgmjax.kernels.log_sum_exp import host_logsumexp

_PLANNING = 10  # steps, whose time it takes to plan a table of a question
_ROUNDING = 1e-14  # by how much a constant table of logarithms may vary (nats): rounding
IMPOSSIBLE = "the potentials leave no possible cell: some clique, or several together, exclude every cell."
Factor = tuple[np.ndarray, Variables]  # a table and its variables


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
    tables: tuple[Factor, ...]

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
        limits: what a question may take.
    """

    structure: Structure
    tables: tuple[np.ndarray, ...]
    limits: QuestionLimits = USUAL

    def log_sum(self, output: Variables = (), extra: Sequence[Factor] = ()) -> np.ndarray:
        """Log of the sum of the unnormalised distribution over all but the output variables.

        Args:
            output: variables to keep; may include new variables of `extra`.
            extra: additional log-tables to multiply in, with their variables. Numbers from
                len(structure.sizes) on are new variables.

        Returns:
            Log values [sizes of output].
        """
        asked = frozenset(output).union(*(variables for _, variables in extra))
        model = self._possible(asked)
        found = dict(enumerate(model.structure.sizes))
        for table, variables in extra:
            found.update(zip(variables, table.shape, strict=True))
        sizes = [found[v] for v in range(len(found))]
        question = _Question([*model.factors, *extra], frozenset(output))
        table = self._contracted(*_structured(sizes, question.left()), output)
        return np.asarray(table + question.scale)

    def marginal(self, output: Variables) -> np.ndarray:
        """Probabilities of some variables [size of each], from the tables that have to do with them.

        Raises:
            ModelTooLargeError: the contraction does not fit in memory, even in slices.
            ValueError: no state is possible.
        """
        logs = self._contracted(*self._asked(output), output)
        top = logs.max()
        if not np.isfinite(top):
            raise ValueError(IMPOSSIBLE)
        table = np.exp(logs - top)
        return np.asarray(table / table.sum())

    def work(self, output: Variables) -> int:
        """Cells that `marginal` combines at most: a measure of its time."""
        return contraction.plan(self._asked(output)[0], output, quick=True).work

    def seconds(self, output: Variables) -> float:
        """Forecast of the time of `marginal`, on one core (s)."""
        return _seconds(_path(self._asked(output)[0], output))

    def _asked(self, output: Variables) -> tuple[Structure, list[np.ndarray]]:
        """The tables that have to do with a marginal."""
        model = self._possible(frozenset(output))
        question = _Question(model.factors, frozenset(output))
        return _structured(model.structure.sizes, question.connected())

    @property
    def factors(self) -> list[Factor]:
        """Each table with its variables."""
        return list(zip(self.tables, self.structure.cliques, strict=True))

    def restricted(self, allowed: Mapping[int, Any]) -> HostModel:
        """The model of the states in which some variables have one of the given values.

        Args:
            allowed: for a variable, the codes that it may have [count], or a slice of codes. Their order
                numbers the codes of the result. A variable with a single code leaves its tables.
        """
        sizes = list(self.structure.sizes)
        for v, codes in allowed.items():
            sizes[v] = len(np.arange(sizes[v])[codes])
        tables, cliques = [], []
        for table, clique in self.factors:
            for axis, v in enumerate(clique):
                if v in allowed:
                    table = table[(slice(None),) * axis + (allowed[v],)]
            kept = tuple(v for v in clique if v not in allowed or sizes[v] > 1) or clique[:1]
            tables.append(table.reshape([sizes[v] for v in kept]))
            cliques.append(kept)
        return HostModel(Structure(tuple(sizes), tuple(cliques)), tuple(tables), self.limits)

    def divided(self) -> list[dict[int, slice]]:
        """The values of some variables in each part of the model whose junction tree fits in memory.

        A single part, without such variables, if the tree of the whole fits. `restricted` gives the part.

        Raises:
            ModelTooLargeError: no division fits, or all parts take too long.
        """
        return list(parts.divide(self.structure, self.limits))

    def log_evidence(self, allowed: Mapping[int, np.ndarray]) -> float:
        """Log of the sum over the joint states in which some variables have one of the given codes (nats)."""
        path = contraction.plan(self.structure, quick=True)
        if _worth_planning(path):
            return float(self.restricted(allowed).log_sum())
        tables = list(self.tables)
        for i, clique in enumerate(self.structure.cliques):
            for axis, v in enumerate(clique):
                if v in allowed:
                    tables[i] = np.take(tables[i], allowed[v], axis)
        table, scale = ops.contract(path, tables, host_logsumexp)
        return float(table + scale)

    def _contracted(
        self, structure: Structure, tables: Sequence[np.ndarray], output: Variables
    ) -> np.ndarray:
        """Log of the sum of a product of tables over all but the output, in parts if need be."""
        if not tables:
            return np.zeros(())
        path = _path(structure, output)
        need = 8 * path.forward_peak  # with probabilities of the tables
        if self.limits.allow(need) and _seconds(path) <= self.limits.max_seconds:
            return host_sweep.program(path).contracted(tables)
        model = HostModel(structure, tuple(tables), self.limits)
        total = np.array(-np.inf)
        for some in parts.divide(structure, self.limits, output, stored=False):
            part = model.restricted(some)
            found = host_sweep.program(_path(part.structure, output)).contracted(part.tables)
            total = np.logaddexp(total, found)
        return total

    def _possible(self, asked: frozenset[int]) -> HostModel:
        """The model without values that a table of one variable excludes, as evidence does."""
        some = {v: codes for v, codes in self._not_excluded.items() if v not in asked}
        return self.restricted(some) if some else self

    @functools.cached_property
    def _not_excluded(self) -> dict[int, np.ndarray]:
        found: dict[int, np.ndarray] = {}
        for table, clique in self.factors:
            if len(clique) == 1:
                codes = np.flatnonzero(table > -np.inf)
                if 0 < len(codes) < len(table):
                    found[clique[0]] = np.intersect1d(codes, found.get(clique[0], codes))
        return {v: codes for v, codes in found.items() if len(codes)}

    @functools.cached_property
    def log_partition(self) -> float:
        """Log of the sum over all joint states (nats)."""
        return float(self.log_sum())

    def buckets(self, reduce: ops.Reduce = host_logsumexp, last: Variables = ()) -> list[Bucket]:
        """Eliminate all variables and return the bucket of each elimination, in order.

        In reverse order, each bucket gives its variable's distribution given those eliminated after it,
        as needed for sampling. With the maximum instead of the sum, it gives the best value. Variables in
        `last` are eliminated after all others.
        """
        plan = elimination.best(self.structure, last)
        kept = sum(self.structure.cells(clique[1:]) for clique in plan.cliques)
        self.limits.require_cells(kept, "what walking through this model keeps at once", copies=1)
        pending = self.factors
        buckets = []
        for v in plan.order:
            mine = tuple(entry for entry in pending if v in entry[1])
            mine = mine or ((np.zeros(self.structure.sizes[v]), (v,)),)
            pending = [entry for entry in pending if v not in entry[1]]
            parents = tuple(sorted({u for _, variables in mine for u in variables} - {v}))
            buckets.append(Bucket(v, parents, mine))
            union = (*parents, v)
            if parents:
                flat = np.zeros((*(1 for _ in parents), self.structure.sizes[v]))
                parts = [flat, *(ops.align(t, u, union) for t, u in mine)]
                message, _ = ops.recentred(ops.reduced_sum(parts, len(parents), reduce))
                pending.append((message, parents))
        return buckets


def _structured(sizes: Sequence[int], factors: Sequence[Factor]) -> tuple[Structure, list[np.ndarray]]:
    structure = Structure(tuple(sizes), tuple(variables for _, variables in factors))
    return structure, [table for table, _ in factors]


class _Question:
    """The tables of a question, without what does not change its answer.

    Attributes:
        scale: log of the factor that the tables left out amount to.
    """

    def __init__(self, factors: Sequence[Factor], output: frozenset[int]):
        self.output, self.scale = output, 0.0
        self._factors = dict(enumerate(factors))
        self._holding: dict[int, set[int]] = {}  # the tables that have a variable
        for i, (_, variables) in self._factors.items():
            for v in variables:
                self._holding.setdefault(v, set()).add(i)
        alone = [v for v, held in self._holding.items() if self._is_alone(v, held)]
        for v in alone:  # grows during iteration
            if self._holding[v]:
                alone += self._summed(next(iter(self._holding[v])))

    def _is_alone(self, v: int, held: set[int]) -> bool:
        return len(held) == 1 and v not in self.output

    def _summed(self, i: int) -> list[int]:
        """Sum out what only this table has, drop it if it is constant then; return what that leaves alone."""
        table, variables = self._factors[i]
        gone = {v for v in variables if self._is_alone(v, self._holding[v])}
        kept = tuple(v for v in variables if v not in gone)
        table = host_logsumexp(table, tuple(n for n, v in enumerate(variables) if v in gone))
        for v in gone:
            self._holding[v] = set()
        self._factors[i] = (table, kept)
        low, needed = table.min(), any(v in self.output and len(self._holding[v]) == 1 for v in kept)
        if needed or np.isneginf(low) or table.max() - low > _ROUNDING:
            return []
        self.scale += float(table.flat[0])
        del self._factors[i]
        for v in kept:
            self._holding[v].discard(i)
        return [v for v in kept if self._is_alone(v, self._holding[v])]

    def left(self) -> list[Factor]:
        """All tables that are left."""
        return list(self._factors.values())

    def connected(self) -> list[Factor]:
        """The tables that share variables with the output, or with one that does, and so on."""
        near, seen = list(self.output), set[int]()
        for v in near:  # grows during iteration
            for i in self._holding.get(v, set()) - seen:
                seen.add(i)
                near += self._factors[i][1]
        return [self._factors[i] for i in sorted(seen)]


@functools.lru_cache(maxsize=512)
def _path(structure: Structure, output: Variables) -> contraction.ContractionPath:
    """The path of a question: that of a greedy order, unless a better one saves more than the search."""
    quick = contraction.plan(structure, output, quick=True)
    return contraction.plan(structure, output) if _worth_planning(quick) else quick


def _seconds(path: contraction.ContractionPath) -> float:
    """Forecast of the time of a contraction, on one core (s)."""
    by = forecast.HOST_RATES
    return 1.3 * by.step * len(path.steps) + 0.4 * by.cell * path.touched + by.flop * path.work


def _worth_planning(path: contraction.ContractionPath) -> bool:
    return path.work > planned_cells(path.structure)


def planned_cells(structure: Structure) -> float:
    """Return how many cells are contracted in the time that it takes to plan a question."""
    by = forecast.HOST_RATES
    return _PLANNING * by.step * len(structure.cliques) / (2.5 * by.cell)
