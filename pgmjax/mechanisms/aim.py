"""AIM: round by round, measure the marginal that the model misses by most beyond what its noise would add."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.data.counting import check_memory
from pgmjax.mechanisms.adaptive import (
    Round,
    affordable,
    check_cells,
    check_largest_clique,
    downward_closure,
    fit_merged,
    fit_on_the_way,
    is_noise,
)
from pgmjax.mechanisms.base import Mechanism, Request, Run
from pgmjax.mechanisms.noise_sizes import (
    distances,
    distribution_for,
    grid_for,
    largest_sensitivity,
    whole_weights,
)
from pgmjax.model.graphical import many_marginals
from pgmjax.queries import marginal
from pgmjax.release.release import Release


@dataclasses.dataclass(frozen=True)
class AIM(Mechanism):
    """Adaptive and iterative: choose a marginal that matters and is far off, measure it, fit, repeat.

    Candidates are all subsets of the workload's cliques, worth more the more of the workload they share.
    After all attributes alone, each round chooses the candidate r of largest
    w_r (||exact marginal - model's||_1 - its expected noise) among those with which the model stays
    small, measures it, and fits again from the last model. Where a measurement changed the model by less
    than its own noise, later rounds get half the noise. The last round spends what is left.

    Args:
        rounds: forecast of their number, which sets the first round's budget; None for 16 per attribute of
            the workload. There are fewer where noise is halved on the way.
        share: of a round's budget for its measurement, the rest for its choice; in (0, 1).
        max_cells: of the model's junction tree, at most, once the whole budget is spent; in proportion to
            what is spent before.
        steps: solver steps at most of a fit between two rounds; the last fit is the estimator's.

    Guarantees:
        delta = 0: epsilon-DP. delta > 0: rho-zCDP, hence (epsilon, delta)-DP, for the largest rho that
        converts to at most epsilon. Costs are chosen on the way from released numbers only, and sum to the
        budget exactly. Candidates depend on the workload, the domain and what was measured.

    References:
        McKenna, Mullins, Sheldon and Miklau 2022, "AIM: An Adaptive and Iterative Mechanism for
        Differentially Private Synthetic Data", Algorithm 2 (delta > 0).
    """

    rounds: int | None = None
    share: Any = "0.9"
    max_cells: int = 10_000_000
    steps: int = 100

    name: ClassVar[str] = "aim"
    summary: ClassVar[str] = (
        "measure, round by round, the marginals of the workload that the model knows worst"
    )
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {"max_cells": (10_000_000, 30), "steps": (5, 1)}
    audited_large: ClassVar[dict[str, Any]] = {"rounds": 4, "steps": 1}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_shares("share")
        if self.rounds is not None:
            checks.integer("rounds", self.rounds, low=1)
        checks.integer("max_cells", self.max_cells, low=1)
        checks.integer("steps", self.steps, low=1)

    def plan(self, request: Request) -> dict[Clique, int]:
        """Return the cliques that may ever be measured, with their weights."""
        check_largest_clique(request)
        domain, budget = request.domain, request.budget
        closure = downward_closure(domain, request.workload)
        check_cells(self.max_cells, request.estimator)
        kept = [c for c in closure if len(c) == 1 or domain.size(c) <= self.max_cells]
        check_memory(domain, kept)
        attributes = [clique for clique in kept if len(clique) == 1]
        request.estimator.plan(domain, attributes)
        candidates = dict(zip(kept, whole_weights([closure[c] for c in kept]), strict=True))
        first = Round.first(budget, self.rounds, len(attributes), self.share)
        sensitivity = largest_sensitivity(attributes, domain, self.relation, budget.unit, request.max_weight)
        for cost in (first.measure, budget.cap - first.cost):  # the least and the most a measurement may get
            distribution_for(sensitivity, budget.unit, cost)
        self._grid(request, candidates, first.choose)
        return candidates

    def describe(self, plan: Any) -> dict[str, Any]:
        """Return the settings; the share as 0.1.0 wrote it."""
        return {**super().describe(plan), "share": str(self.share)}

    def execute(self, run: Run) -> Release:
        """Measure all attributes, then choose and measure one marginal a round."""
        candidates: dict[Clique, int] = run.plan
        request, budget = run.request, run.budget
        attributes = [clique for clique in candidates if len(clique) == 1]
        first = Round.first(budget, self.rounds, len(attributes), self.share)
        measured = run.measure(list(map(marginal, attributes)), [first.measure] * len(attributes))
        model = fit_on_the_way(run, measured, self.steps)
        now = first.next(budget.remaining)
        while True:
            limit = int(self.max_cells * (budget.spent + now.cost) / budget.cap)
            held = [measurement.clique for measurement in measured]
            open_now = affordable(request.domain, held, list(candidates), limit)
            estimates = dict(zip(open_now, many_marginals(model, open_now), strict=True))
            clique = self._choose(run, estimates, now)
            measured += run.measure([marginal(clique)], [budget.remaining if now.last else now.measure])
            if now.last:
                return run.release(measured, fit_merged(run, request.estimator, measured, model))
            model = fit_on_the_way(run, measured, self.steps, model)
            quiet = is_noise(estimates[clique], model.marginal(clique), measured[-1])
            now = now.next(budget.remaining, anneal=quiet)

    def _grid(self, request: Request, weights: Mapping[Clique, int], cost: Fraction) -> int:
        sensitivity = largest_sensitivity(
            weights, request.domain, self.relation, "epsilon", request.max_weight
        )
        return grid_for(sensitivity * max(weights.values()), request.budget.unit, cost)

    def _choose(self, run: Run, estimates: Mapping[Clique, np.ndarray], now: Round) -> Clique:
        """Return the round's clique, given what the model says of all that may be measured now."""
        request, candidates = run.request, run.plan
        unit = request.budget.unit
        sensitivity = largest_sensitivity(estimates, request.domain, self.relation, unit, request.max_weight)
        noise = distribution_for(sensitivity, unit, now.measure).mean_absolute
        bits = self._grid(request, candidates, now.choose)
        score = distances(estimates, bits, candidates, noise)
        return list(estimates)[run.select(score, now.choose)]
