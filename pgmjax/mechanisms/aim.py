"""AIM: in each round, measure the marginal whose error most exceeds the noise of measuring it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.mechanisms.adaptive import (
    Round,
    affordable,
    check_settings,
    fit_merged,
    fit_on_the_way,
    is_noise,
    kept_noise,
    weighted_candidates,
)
from pgmjax.mechanisms.base import Mechanism, Request, Run
from pgmjax.mechanisms.noise_sizes import (
    distances,
    distribution_for,
    grid_for,
    largest_sensitivity,
)
from pgmjax.mechanisms.work import Work
from pgmjax.model.graphical import many_marginals
from pgmjax.queries import Query, marginal
from pgmjax.release.release import Release


@dataclasses.dataclass(frozen=True)
class AIM(Mechanism):
    """Adaptive and iterative: select an important marginal with a large error, measure it, fit, repeat.

    Candidates are all subsets of the workload's cliques, with weights w_r by their overlap with the workload.
    All one-way marginals are measured first. Each round then selects the candidate r of largest score
    w_r (||exact marginal - model's||_1 - its expected noise) among those that keep the model small,
    measures it, and fits again from the last model. If a measurement changed the model by no more than its
    expected noise, later rounds have half the noise. The last round spends the remaining budget. Of the
    expected noise counts as much as a fit keeps.

    Args:
        rounds: expected number of rounds, which sets the first round's budget. Default: 16 per attribute of
            the workload. There are fewer rounds if noise is halved.
        share: the measurement's share of a round's budget, in (0, 1); the selection gets the rest.
        max_cells: the largest number of cells of the model's junction tree once the whole budget is spent.
            Before that, the limit is proportional to the budget spent.
        kept_noise: the share of a marginal's expected noise that is taken to remain in a fitted model, in
            (0, 1]. Default: 0.35 for regularised fits, 0.5 for Laplace noise (delta = 0), otherwise 1, as in
            the paper.
        steps: the largest number of solver steps of a fit between two rounds. Default: the fit ends where
            noise hides what is left to gain. The last fit uses the estimator's own tolerance and limit.

    Guarantees:
        delta = 0: epsilon-DP. delta > 0: rho-zCDP, hence (epsilon, delta)-DP, for the largest rho that
        converts to at most epsilon. Costs are adapted using released values only and sum exactly to the
        budget. Candidates depend on the workload, the domain and released values only.

    References:
        McKenna, Mullins, Sheldon and Miklau 2022, "AIM: An Adaptive and Iterative Mechanism for
        Differentially Private Synthetic Data", Algorithm 2 (delta > 0).
    """

    rounds: int | None = None
    share: Any = "0.9"
    max_cells: int = 10_000_000
    kept_noise: float | None = None
    steps: int | None = None

    name: ClassVar[str] = "aim"
    summary: ClassVar[str] = (
        "measure, round by round, the marginals of the workload that the model knows worst"
    )
    chooses: ClassVar[bool] = True
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {
        "max_cells": (10_000_000, 30),
        "kept_noise": (None, 1.0),
        "steps": (5, 1),
    }
    audited_large: ClassVar[dict[str, Any]] = {"rounds": 4, "steps": 1}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_shares("share")
        check_settings(self)

    def plan(self, request: Request) -> dict[Clique, int]:
        """Return all candidate cliques with their weights."""
        domain, budget = request.domain, request.budget
        candidates = weighted_candidates(request, self.max_cells)
        attributes = [clique for clique in candidates if len(clique) == 1]
        first = Round.first(budget, self.rounds, len(attributes), self.share)
        sensitivity = largest_sensitivity(
            attributes, domain, self._neighbours, budget.unit, request.max_weight, request.max_records
        )
        for cost in (first.measure, budget.cap - first.cost):  # bounds on the cost of a measurement
            distribution_for(sensitivity, budget.unit, cost)
        self._grid(request, candidates, first.choose)
        return candidates

    def work(self, request: Request, plan: dict[Clique, int]) -> Work:
        """Return the work of the rounds, of which three an attribute are expected if no number is given."""
        rounds = 3 * len(request.domain) if self.rounds is None else self.rounds
        return Work.of_choice(request.domain, list(plan), self.max_cells, rounds, measured=rounds)

    def execute(self, run: Run) -> Release:
        """Measure all attributes, then select and measure one marginal per round."""
        candidates: dict[Clique, int] = run.plan
        request, budget = run.request, run.budget
        attributes = [clique for clique in candidates if len(clique) == 1]
        queries = {clique: marginal(clique) for clique in candidates}
        first = Round.first(budget, self.rounds, len(attributes), self.share)
        measured = run.measure(list(map(marginal, attributes)), [first.measure] * len(attributes))
        model = fit_on_the_way(run, measured, self.steps)
        now = first.next(budget.remaining)
        while True:
            limit = int(self.max_cells * (budget.spent + now.cost) / budget.cap)
            held = [measurement.clique for measurement in measured]
            open_now = affordable(request.domain, held, list(candidates), limit)
            estimates = dict(zip(open_now, many_marginals(model, open_now), strict=True))
            clique = self._choose(run, estimates, queries, now)
            measured += run.measure([marginal(clique)], [budget.remaining if now.last else now.measure])
            if now.last:
                return run.release(measured, fit_merged(run, run.estimator, measured, model))
            model = fit_on_the_way(run, measured, self.steps, model)
            after = model.marginal(clique)
            quiet = is_noise(estimates[clique], after, measured[-1], self._kept(request))
            now = now.next(budget.remaining, anneal=quiet)

    def _kept(self, request: Request) -> float:
        return kept_noise(request, self.kept_noise)

    def _grid(
        self,
        request: Request,
        weights: Mapping[Clique, int],
        cost: Fraction,
        queries: Mapping[Clique, Query] | None = None,
    ) -> int:
        marginals = weights if queries is None else queries.values()
        sensitivity = largest_sensitivity(
            marginals, request.domain, self._neighbours, "epsilon", request.max_weight, request.max_records
        )
        return grid_for(sensitivity * max(weights.values()), request.budget.unit, cost)

    def _choose(
        self,
        run: Run,
        estimates: Mapping[Clique, np.ndarray],
        queries: Mapping[Clique, Query],
        now: Round,
    ) -> Clique:
        """Select the round's clique, given the model's marginals on all current candidates."""
        request, candidates = run.request, run.plan
        unit = request.budget.unit
        sensitivity = largest_sensitivity(
            [queries[clique] for clique in estimates],
            request.domain,
            self._neighbours,
            unit,
            request.max_weight,
            request.max_records,
        )
        noise = self._kept(request) * distribution_for(sensitivity, unit, now.measure).mean_absolute
        bits = self._grid(request, candidates, now.choose, queries)
        score = distances(estimates, bits, candidates, noise, queries)
        return list(estimates)[run.select(score, now.choose)]
