"""The mechanism that runs where nobody names one: all marginals if noise allows it, else some of them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax.data.counting import check_memory
from pgmjax.data.domain import Clique, as_clique
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.total import estimate_total
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.batch_aim import BatchAIM
from pgmjax.mechanisms.candidates import fits_memory
from pgmjax.mechanisms.mst import MST
from pgmjax.mechanisms.parameters import budget_share, whole
from pgmjax.mechanisms.run import Request, Run, Work, distribution_for, tree_cells
from pgmjax.privacy.exact import split
from pgmjax.privacy.measuring import PlannedMeasurement
from pgmjax.queries import marginal
from pgmjax.release.release import Release

MOST_PURE_SCORES = 100
"""Most marginals whose scores are measured without a delta: the noise of all grows with their number."""
LARGEST_NOISE = 1.5
"""Largest noise of a marginal, on average over those that are measured: the standard deviation of a count
times the number of counts, over the number of records (bench/recipe.py --fitting, three tables)."""


@dataclasses.dataclass(frozen=True)
class AutoPlan:
    """The public part of the choice.

    Attributes:
        cliques: the marginals of the workload with several attributes, smallest first; empty if the workload
            asks for other queries, which are measured whole.
        alone: the attributes of the workload.
        choosing: the mechanism that chooses among the marginals, with its plan; None if a model of all of
            them is within the limit.
    """

    cliques: tuple[Clique, ...]
    alone: tuple[Clique, ...]
    choosing: tuple[Mechanism, Any] | None


@dataclasses.dataclass(frozen=True)
class Auto(Mechanism):
    """Measure all marginals of the workload, those that noise leaves readable, or a private choice of them.

    If a model of all marginals is within `max_cells`, they are measured at once, as by `Marginals`, but not
    where noise would drown them: the large ones are left out until the standard deviation of a count, times
    the number of counts, is at most 1.5 times the number of records, on average over the marginals.
    Attributes that are then in none of them are measured alone.

    If a model of all is larger than `max_cells`, `BatchAIM` chooses privately which to measure, or `MST`, if
    there are more than 100 marginals and no delta. If noise would drown even the smallest marginal,
    attributes are measured alone.

    The number of records is public under REPLACE_ONE without weights. Otherwise it is measured first, with a
    fiftieth of the budget.

    Args:
        max_cells: the largest number of cells of the model's junction tree.
        count_share: the share of the budget for the number of records, in (0, 1), where it is private.

    Guarantees:
        delta = 0: epsilon-DP. delta > 0: rho-zCDP, hence (epsilon, delta)-DP, for the largest rho that
        converts to at most epsilon. What is measured depends on the domain, the workload, the budget and a
        released number of records, and on what `BatchAIM` or `MST` release. The parts sum exactly to the
        budget.

    Example:
        >>> from pgmjax.data.relation import Relation
        >>> Auto(epsilon=1, relation=Relation.ADD_REMOVE).count_share
        Fraction(1, 50)
    """

    max_cells: int = whole(10_000_000, low=1)
    count_share: Any = budget_share("1/50")

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = "measure all marginals where noise and memory allow it, else choose among them"
    chooses: ClassVar[bool] = True
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {"max_cells": (10_000_000, 20)}

    def plan(self, request: Request) -> AutoPlan:
        """Return the marginals, smallest first, and who chooses among them if that is necessary."""
        domain, entries = request.domain, request.workload.entries
        plain = all(entry.query == marginal(entry.clique) for entry in entries)
        sets = {frozenset(entry.clique): as_clique(domain, entry.clique) for entry in entries}
        wide = sorted((c for c in sets.values() if len(c) > 1), key=domain.size) if plain else []
        named = set(itertools.chain.from_iterable(sets))
        alone = tuple((name,) for name in domain.attributes if name in named)
        rest = dataclasses.replace(request, budget=self._rest(request))
        weights = [Fraction(entry.weight) for entry in entries]
        least = min(Fraction(1), *weights) / (len(alone) + sum(weights, Fraction(0)))
        for cost in (self._count_cost(request), rest.budget.cap * least):
            if cost:
                request.noise(alone, cost)  # or refuses
        if wide and not self._fits(request):
            inner = self._choosing(len(wide))
            return AutoPlan(tuple(wide), alone, (inner, inner.plan(rest)))
        check_memory(domain, [entry.clique for entry in entries])
        request.measurable([entry.query for entry in entries])
        return AutoPlan(tuple(wide), alone, None)

    def execute(self, run: Run) -> Release:
        """Count the records, and measure what their number makes readable."""
        plan: AutoPlan = run.plan
        counted, records = self._count(run)
        rest = run.budget.part(run.budget.remaining)
        entries = run.request.workload.entries
        asked, weights = [entry.query for entry in entries], [Fraction(entry.weight) for entry in entries]
        if plan.cliques:
            kept = self._readable(run.request, plan, rest.cap, records)
            if plan.choosing is not None and kept:
                return self._chosen(run, plan.choosing, rest, counted)
            if len(kept) < len(plan.cliques):
                covered = set(itertools.chain.from_iterable(kept))
                heavy = {frozenset(entry.clique): Fraction(entry.weight) for entry in entries}
                asked = [marginal(c) for c in (*kept, *(c for c in plan.alone if not covered.issuperset(c)))]
                weights = [heavy.get(frozenset(query.clique), Fraction(1)) for query in asked]
        measured = run.measure(asked, split(rest.cap, weights))
        return run.release([*counted, *measured])

    def _work(self, request: Request, plan: AutoPlan) -> Work:
        """Return what is done if noise drowns no marginal."""
        if plan.choosing is None:
            return Work.of_queries(request.domain, [entry.query for entry in request.workload.entries])
        mechanism, inner = plan.choosing
        return mechanism._work(request, inner)

    def _likely(self, request: Request, plan: AutoPlan) -> list[PlannedMeasurement]:
        """Return all marginals, unless a model of them is too large; noise may still drown some."""
        if plan.choosing is not None:
            return []
        entries = request.workload.entries
        rest = dataclasses.replace(request, budget=self._rest(request))
        weights = [Fraction(entry.weight) for entry in entries]
        return rest._planned([entry.query for entry in entries], weights, self.backend)

    def _rest(self, request: Request) -> Any:
        """Return a budget of what is left for measuring, for plans only: nothing of it is ever spent."""
        budget = request.budget
        return type(budget)(budget.cap - self._count_cost(request), budget.unit)

    def _count_cost(self, request: Request) -> Fraction:
        return Fraction(0) if request.total_is_public else request.budget.cap * self.count_share

    def _fits(self, request: Request) -> bool:
        """Return whether a model of all marginals is within the limit and the memory."""
        domain, cliques = request.domain, request.workload.cliques
        # the largest clique alone is looked at first: a tree of huge cliques takes long
        return (
            max(map(domain.size, cliques)) <= self.max_cells
            and tree_cells(domain, cliques) <= self.max_cells
            and fits_memory(domain, cliques, request.estimator)
        )

    def _choosing(self, marginals: int) -> Mechanism:
        given: dict[str, Any] = {
            name: getattr(self, name) for name in ("epsilon", "delta", "relation", "estimator", "backend")
        }
        if marginals > MOST_PURE_SCORES and self.delta == 0:
            return MST(**given)
        return BatchAIM(**given, max_cells=self.max_cells)

    def _count(self, run: Run) -> tuple[list[LinearMeasurement], float]:
        """Return the measurement of the number of records, if it is private, and the number."""
        if run.total is not None:
            return [], float(run.total)
        counted = run.measure([run.request.everybody], [self._count_cost(run.request)])
        return counted, estimate_total(run.request.domain, counted)[0]

    def _readable(
        self, request: Request, plan: AutoPlan, budget: Fraction, records: float
    ) -> tuple[Clique, ...]:
        """Return the marginals that noise leaves readable, as many of the smallest ones as possible.

        Args:
            request: the request.
            plan: the plan.
            budget: what they, and the attributes that are in none of them, cost together.
            records: the number of records, released or public.
        """
        cliques = plan.cliques if plan.choosing is None else plan.cliques[:1]
        cells = np.cumsum([request.domain.size(clique) for clique in cliques], dtype=float)
        covered: set[str] = set()
        alone = [len(plan.alone) - len(covered := covered.union(clique)) for clique in cliques]
        sensitivity, kept = request.sensitivity(cliques), len(cliques)
        while kept:
            cost = budget / (kept + alone[kept - 1])
            noise = float(distribution_for(sensitivity, request.budget.unit, cost).stddev)
            if cells[kept - 1] / kept * noise <= LARGEST_NOISE * records:
                break
            kept -= 1
        return plan.cliques[:kept]

    def _chosen(
        self, run: Run, choosing: tuple[Mechanism, Any], rest: Any, counted: Sequence[LinearMeasurement]
    ) -> Release:
        """Return the release of the mechanism that chooses, with the count beside its measurements."""
        mechanism, plan = choosing
        inner = dataclasses.replace(
            run,
            mechanism=mechanism,
            request=dataclasses.replace(run.request, budget=rest),
            plan=plan,
            table=run.table.within(rest),
        )
        release = mechanism.execute(inner)
        return dataclasses.replace(
            release, mechanism=self.name, measurements=(*counted, *release.measurements)
        )
