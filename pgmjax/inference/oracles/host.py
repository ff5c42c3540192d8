"""Inference for one question at a time, on the host in float64, with nothing to compile.

A fit asks one structure the same question thousands of times, which is what compiled oracles are
for. A user asks a finished model something new each time: here each question costs its contraction
and no more.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from pgmjax.inference import ops
from pgmjax.inference.plan import contraction, elimination
from pgmjax.inference.plan.forecast import require_cells
from pgmjax.inference.plan.structure import Structure, Variables


@dataclasses.dataclass(frozen=True, eq=False)
class Bucket:
    """What eliminating one variable involves.

    Attributes:
        variable: the variable.
        parents: the others that its tables hold, all eliminated later.
        tables: log-tables over subsets of the parents and the variable, with their variables.
    """

    variable: int
    parents: Variables
    tables: tuple[tuple[np.ndarray, Variables], ...]

    def log_weights(self, assignment: dict[int, np.ndarray]) -> np.ndarray:
        """Unnormalised log-probabilities of the variable given codes of its parents.

        Args:
            assignment: codes of the parents [number of groups] each.

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
    """A distribution given by log-potentials, asked on the host.

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
            output: variables left open; may be among the new variables of `extra`.
            extra: more log-tables to multiply in, with their variables. Numbers from
                len(structure.sizes) on stand for new variables.

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
        """Eliminate every variable and keep what each elimination involved, in that order.

        Read backwards, each bucket gives its variable's distribution given those eliminated after
        it: what sampling needs. With the maximum instead of the sum it gives the best value.
        Variables named `last` are eliminated after all others.
        """
        plan = elimination.best(self.structure, last)
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
