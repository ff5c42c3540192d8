"""Inference for one query at a time, on the host in float64, without compilation.

A fit evaluates the same query on one structure thousands of times, which is what compiled oracles are
for. Queries to a fitted model are usually different each time. `HostModel` answers each query by a
contraction planned for it: values that evidence excludes are cut away, variables that only one table has
are summed first, and a table that becomes constant by that is dropped (in a Bayesian network, all that is
neither asked nor an ancestor of what is).

A question that takes more than its limits is asked of parts of the model: some values of some variables at a
time. Variables are halved, each time the one whose tables take the most, until the tables of an elimination
order fit (`divide`). A part in which a variable has a single value is a model without that variable, with its
own order.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax._internal.memory import available_bytes, readable_bytes
from pgmjax.inference import ops
from pgmjax.inference.ops import host_sweep
from pgmjax.inference.plan import contraction, elimination, forecast, junction_tree
from pgmjax.inference.plan.forecast import SMALL, ModelTooLargeError, readable_cells
from pgmjax.inference.plan.junction_tree import Elimination
from pgmjax.inference.plan.structure import Structure, Variables
from pgmjax.kernels.log_sum_exp import host_logsumexp

_PLANNING = 10  # steps, whose time it takes to plan a table of a question
_ROUNDING = 1e-14  # by how much a constant table of logarithms may vary (nats): rounding
IMPOSSIBLE = "the potentials leave no possible cell: some clique, or several together, exclude every cell."
Factor = tuple[np.ndarray, Variables]  # a table and its variables
QUESTION_SECONDS = 600.0  # longest forecast of a question that is answered unless more is allowed
SHARE = 0.8  # of the free memory, which the tables of a question may take
# To calibrate a cell of a junction tree takes the time of so many cells, a clique that of so many steps.
CELLS, STEPS = 2.3, 8
CACHE_BYTES = 1 << 28  # of a calibrated tree: intermediate results that questions share
MOST_EXCESS = 30  # times the time allowed, above which no better order of a part is looked for


@dataclasses.dataclass(frozen=True)
class QuestionLimits:
    """Limits of one question to a fitted model.

    Attributes:
        max_bytes: memory; None for a share of what is free when the question is asked.
        max_seconds: forecast time on one core.
    """

    max_bytes: int | None = None
    max_seconds: float = QUESTION_SECONDS

    @property
    def bytes(self) -> int:
        """Memory that a question may take now, in bytes."""
        return int(SHARE * available_bytes()) if self.max_bytes is None else self.max_bytes

    def allow(self, need: int) -> bool:
        """Return whether a number of bytes may be taken."""
        return (need <= SMALL and self.max_bytes is None) or need <= self.bytes

    def require_cells(self, cells: int, what: str, copies: int = 3) -> None:
        """Raise an error if float64 tables do not fit.

        Args:
            cells: cells of the tables.
            what: description of them, for the message.
            copies: number of copies in memory at once.

        Raises:
            ModelTooLargeError: they do not fit.
        """
        need = 8 * copies * cells
        if not self.allow(need):
            raise ModelTooLargeError(
                f"{what} has {readable_cells(cells)} cells and needs about {readable_bytes(need)}; "
                f"{readable_bytes(self.bytes)} is available. Ask for fewer attributes or a coarser query.",
                need,
            )


USUAL = QuestionLimits()


@dataclasses.dataclass(frozen=True)
class Division:
    """A structure, and how it is divided.

    Attributes:
        structure: the whole.
        widths: number of values of each divided variable in a part (fewer in its last part).
    """

    structure: Structure
    widths: dict[int, int]

    @property
    def count(self) -> int:
        """Number of parts."""
        return math.prod(-(-self.structure.sizes[v] // width) for v, width in self.widths.items())

    def __iter__(self) -> Iterator[dict[int, slice]]:
        """The values of each divided variable in a part; the largest part comes first."""
        ranges = [range(0, self.structure.sizes[v], width) for v, width in self.widths.items()]
        for starts in itertools.product(*ranges):
            ends = [start + width for start, width in zip(starts, self.widths.values(), strict=True)]
            yield dict(zip(self.widths, map(slice, starts, ends), strict=True))


_ASK_LESS = (
    "Ask for marginals of few attributes one at a time, condition on attributes that many others depend on, "
    "fit fewer or smaller cliques, or approximately (approximate=True), or allow more: "
    "model.within(max_bytes=..., max_seconds=...)."
)


def divide(
    structure: Structure,
    limits: QuestionLimits,
    output: Variables = (),
    stored: bool = True,
    remedy: str = _ASK_LESS,
) -> Division:
    """Divide a structure so that each part fits; a single part if the whole does.

    Args:
        structure: the model.
        limits: memory of a part, and time of all parts together.
        output: variables that are not divided, and eliminated last.
        stored: whether all tables of a part's elimination are in memory at once, as in a calibrated tree.
        remedy: what helps if it is too large, for the message.

    Raises:
        ModelTooLargeError: no division fits in the memory, or all parts take too long.
    """
    order = elimination.best(structure, output)
    fits = limits.allow(needed_bytes(structure, order, stored))
    if fits and seconds(structure, order) <= limits.max_seconds:
        return Division(structure, {})
    limit, left = limits.bytes, min(elimination.MOST_SECONDS, elimination.SEARCH_SHARE * limits.max_seconds)
    sizes, widths, tables = list(structure.sizes), dict[int, int](), _Tables(structure, order)
    while (v := tables.heaviest(sizes, output)) is not None:
        sizes[v] = widths[v] = -(-sizes[v] // 2)
        tables.narrow(v, sizes[v])
        found = Division(structure, dict(widths))
        if tables.bytes(stored) > limit:
            continue
        time = found.count * CELLS * forecast.HOST_RATES.cell * tables.cells.sum()
        if time < MOST_EXCESS * limits.max_seconds:
            part = _narrowed(structure, sizes, widths)
            inner = elimination.best(part, output, longest=left / 4)
            left -= inner.searched
            if needed_bytes(part, inner, stored) > limit:
                continue
            time = found.count * seconds(part, inner)
        if time > limits.max_seconds:
            divided = f"in {readable_cells(found.count)} parts {_time(time)}"
            raise _refusal(structure, order, limits, divided, remedy)
        return found
    raise _refusal(structure, order, limits, "in parts it does not fit either", remedy)


class _Tables:
    """Cells of the tables of an order while variables are narrowed."""

    def __init__(self, structure: Structure, order: Elimination):
        cliques = junction_tree.maximal_cliques(order)
        self.holding: list[list[int]] = [[] for _ in structure.sizes]
        for n, clique in enumerate(cliques):
            for v in clique:
                self.holding[v].append(n)
        self.cells = np.array([float(structure.cells(clique)) for clique in cliques])
        self.sizes = list(structure.sizes)

    def bytes(self, stored: bool) -> float:
        """About the memory that `needed_bytes` gives."""
        return 8 * (1.5 * self.cells.sum() if stored else 3 * self.cells.max())

    def narrow(self, v: int, size: int) -> None:
        """Give a variable fewer values."""
        self.cells[self.holding[v]] *= size / self.sizes[v]
        self.sizes[v] = size

    def heaviest(self, sizes: list[int], kept: Variables) -> int | None:
        """The variable whose division leaves the least memory; None if none can be divided."""
        free = [v for v, size in enumerate(sizes) if size > 1 and v not in kept and self.holding[v]]
        left = {v: self.cells[self.holding[v]].sum() * (sizes[v] // 2 / sizes[v]) for v in free}
        return max(free, key=left.__getitem__, default=None)


def _narrowed(structure: Structure, sizes: list[int], narrowed: Mapping[int, Any]) -> Structure:
    """The structure of a part; a narrowed variable with a single value leaves its cliques."""
    cliques = tuple(
        tuple(v for v in clique if v not in narrowed or sizes[v] > 1) or clique[:1]
        for clique in structure.cliques
    )
    return Structure(tuple(sizes), cliques)


def needed_bytes(structure: Structure, order: Elimination, stored: bool = True) -> int:
    """Memory of an elimination, in bytes.

    Args:
        structure: the model.
        order: its order.
        stored: keep all tables and their separators, as a calibrated tree does.
    """
    cliques = junction_tree.maximal_cliques(order)
    tables = [structure.cells(clique) for clique in cliques]
    kept = 0
    if stored:
        kept = sum(n + n // structure.sizes[clique[0]] for n, clique in zip(tables, cliques, strict=True))
    return 8 * (kept + (2 if stored else 3) * max(tables, default=1))


def seconds(structure: Structure, order: Elimination) -> float:
    """Forecast of the time to calibrate the tree of an order, on one core."""
    cliques = junction_tree.maximal_cliques(order)
    by = forecast.HOST_RATES
    return sum(STEPS * by.step + CELLS * by.cell * structure.cells(clique) for clique in cliques)


def _refusal(
    structure: Structure, order: Elimination, limits: QuestionLimits, divided: str, remedy: str
) -> ModelTooLargeError:
    """An error that says what was found, what would be possible, and what would help."""
    need = needed_bytes(structure, order)
    return ModelTooLargeError(
        f"{elimination.bound_in_words(structure)} At once the model needs about {readable_bytes(need)} "
        f"(`fits_in`) and {_time(seconds(structure, order))}, {divided}; {readable_bytes(limits.bytes)} and "
        f"{_time(limits.max_seconds)} may be used. {remedy}",
        need,
    )


def _time(count: float) -> str:
    """A time as text, in seconds or hours."""
    return f"{count:.3g} s" if count < 7200 else f"{readable_cells(round(count / 3600))} hours"


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
        return _planned(self._asked(output)[0], output)[2]

    def _asked(self, output: Variables) -> tuple[Structure, tuple[np.ndarray, ...]]:
        """The tables that have to do with a marginal."""
        model = self._possible(frozenset(output))
        question = _Question(model.factors, frozenset(output))
        return _structured(model.structure.sizes, question.connected())

    @functools.cached_property
    def factors(self) -> tuple[Factor, ...]:
        """Each table with its variables."""
        return tuple(zip(self.tables, self.structure.cliques, strict=True))

    def restricted(self, allowed: Mapping[int, Any]) -> HostModel:
        """The model of the states in which some variables have one of the given values.

        Args:
            allowed: for a variable, the codes that it may have [count], or a slice of codes. Their order
                numbers the codes of the result. A variable with a single code leaves its tables.
        """
        sizes = list(self.structure.sizes)
        for v, codes in allowed.items():
            sizes[v] = len(np.arange(sizes[v])[codes])
        structure, tables = _narrowed(self.structure, sizes, allowed), []
        for (table, clique), shape in zip(self.factors, structure.shapes, strict=True):
            for axis, v in enumerate(clique):
                if v in allowed:
                    table = table[(slice(None),) * axis + (allowed[v],)]
            tables.append(table.reshape(shape))
        return HostModel(structure, tuple(tables), self.limits)

    def divided(self) -> list[dict[int, slice]]:
        """The values of some variables in each part of the model whose junction tree fits in memory.

        A single part, without such variables, if the tree of the whole fits. `restricted` gives the part.

        Raises:
            ModelTooLargeError: no division fits, or all parts take too long.
        """
        return list(divide(self.structure, self.limits))

    def log_evidence(self, allowed: Mapping[int, np.ndarray]) -> float:
        """Log of the sum over the joint states in which some variables have one of the given codes (nats)."""
        if _worth_planning(contraction.plan(self.structure, quick=True)):
            return float(self.restricted(allowed).log_sum())
        tables = [  # else masked, for the one path of all evidence
            _masked(table, [allowed.get(v) for v in clique]) if any(v in allowed for v in clique) else table
            for table, clique in self.factors
        ]
        return float(_planned(self.structure, ())[0].contracted(tables))

    def _contracted(
        self, structure: Structure, tables: Sequence[np.ndarray], output: Variables
    ) -> np.ndarray:
        """Log of the sum of a product of tables over all but the output, in parts if need be."""
        if not tables:
            return np.zeros(())
        program, need, seconds = _planned(structure, output)
        if self.limits.allow(need) and seconds <= self.limits.max_seconds:
            return program.contracted(tables)
        model = HostModel(structure, tuple(tables), self.limits)
        total = np.array(-np.inf)
        for some in divide(structure, self.limits, output, stored=False):
            part = model.restricted(some)
            total = np.logaddexp(total, _planned(part.structure, output)[0].contracted(part.tables))
        return total

    def _possible(self, asked: frozenset[int]) -> HostModel:
        """The model without values that a table of one variable excludes, as evidence does."""
        if self._not_excluded.keys() <= asked:
            return self
        return self.restricted({v: codes for v, codes in self._not_excluded.items() if v not in asked})

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
        pending = list(self.factors)
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


def _masked(table: np.ndarray, allowed: Sequence[np.ndarray | None]) -> np.ndarray:
    """A log-table without the cells of other codes than those that are allowed on some axes."""
    masked = np.full(table.shape, -np.inf)
    if all(codes is None or len(codes) == 1 for codes in allowed):  # slices take a third of the time
        place: Any = tuple(
            slice(None) if codes is None else slice(codes[0], codes[0] + 1) for codes in allowed
        )
    else:
        each = zip(allowed, table.shape, strict=True)
        place = np.ix_(*[np.arange(size) if codes is None else codes for codes, size in each])
    masked[place] = np.asarray(table)[place]
    return masked


def _structured(sizes: Sequence[int], factors: Sequence[Factor]) -> tuple[Structure, tuple[np.ndarray, ...]]:
    tables, cliques = zip(*factors, strict=True) if factors else ((), ())
    left = {v for clique in cliques for v in clique}
    # a variable that was summed out is no part of the question, and no division of it may count it again
    return Structure(tuple(size if v in left else 1 for v, size in enumerate(sizes)), cliques), tables


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
def _planned(structure: Structure, output: Variables) -> tuple[host_sweep.Program, int, float]:
    """A contraction: its program, memory (bytes), and forecast time on one core (s).

    Its path is that of a greedy order, unless a better one saves more than the search.
    """
    path = contraction.plan(structure, output, quick=True)
    if _worth_planning(path):
        path = contraction.plan(structure, output)
    by = forecast.HOST_RATES
    seconds = 1.3 * by.step * len(path.steps) + 0.4 * by.cell * path.touched + by.flop * path.work
    return host_sweep.program(path), 8 * path.forward_peak, seconds  # with probabilities of the tables


def _worth_planning(path: contraction.ContractionPath) -> bool:
    return path.work > planned_cells(path.structure)


def planned_cells(structure: Structure) -> float:
    """Return how many cells are contracted in the time that it takes to plan a question."""
    by = forecast.HOST_RATES
    return _PLANNING * by.step * len(structure.cliques) / (2.5 * by.cell)
