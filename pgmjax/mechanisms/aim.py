"""AIM: in each round, measure the marginal whose error most exceeds the noise of measuring it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax.data.domain import Clique
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.adaptive import Engine, RoundPlan, SelectMeasureFit, kept_noise, part_of_noise
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.candidates import affordable, distances, grid_for, weighted_candidates
from pgmjax.mechanisms.parameters import budget_share, declared, whole
from pgmjax.mechanisms.run import Request, Run, Work
from pgmjax.privacy.budget import Budget
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

    rounds: int | None = whole(None, low=1)
    share: Any = budget_share("0.9")
    max_cells: int = whole(10_000_000, low=1)
    kept_noise: float | None = declared(None, part_of_noise)
    steps: int | None = whole(None, low=1)

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

    def plan(self, request: Request) -> dict[Clique, int]:
        """Return all candidate cliques with their weights."""
        budget = request.budget
        candidates = weighted_candidates(request, self.max_cells)
        attributes = [clique for clique in candidates if len(clique) == 1]
        first = Round.first(budget, self.rounds, len(attributes), self.share)
        for cost in (first.measure, budget.cap - first.cost):  # bounds on the cost of a measurement
            request.noise(attributes, cost)
        self._grid(request, candidates, first.choose)
        return candidates

    def _work(self, request: Request, plan: dict[Clique, int]) -> Work:
        """Return the work of the rounds, of which three an attribute are expected if no number is given."""
        rounds = 3 * len(request.domain) if self.rounds is None else self.rounds
        return Work.of_choice(request.domain, list(plan), self.max_cells, rounds, measured=rounds)

    def execute(self, run: Run) -> Release:
        """Measure all attributes, then select and measure one marginal per round."""
        estimate = Engine(run.request.domain, run.request.estimator, self.steps, run.estimator)
        loop = SelectMeasureFit(run, estimate)
        fit = loop.follow(self._rounds(loop, estimate))
        return run.release(loop.answers, fit)

    def _rounds(self, loop: SelectMeasureFit, estimate: Engine) -> Iterator[RoundPlan]:
        """Yield what the paper's Algorithm 2 measures; the loop estimates after each step."""
        run, candidates = loop.run, loop.run.plan
        request, budget = run.request, run.budget
        queries = {clique: marginal(clique) for clique in candidates}

        # Initialise (Algorithm 3): measure all one-way marginals.
        attributes = [queries[clique] for clique in candidates if len(clique) == 1]
        now = Round.first(budget, self.rounds, len(attributes), self.share)
        yield attributes, [now.measure] * len(attributes), False
        now = now.next(budget.remaining)
        while True:
            # Candidates: those that keep the model as small as the budget is spent.
            limit = int(self.max_cells * (budget.spent + now.cost) / budget.cap)
            held = [measurement.clique for measurement in loop.measured]
            open_now = affordable(request.domain, held, list(candidates), limit)

            # Select by the exponential mechanism, or permute-and-flip.
            before = dict(zip(open_now, estimate.marginals(open_now), strict=True))
            clique = self._choose(run, before, queries, now)

            # Measure, and estimate from all measurements.
            yield [queries[clique]], [budget.remaining if now.last else now.measure], now.last
            if now.last:
                return

            # Anneal (Algorithm 4): halve the noise if the estimate moved by no more than it.
            kept = kept_noise(request, self.kept_noise)
            quiet = is_noise(before[clique], estimate.fit.model.marginal(clique), loop.measured[-1], kept)
            now = now.next(budget.remaining, anneal=quiet)

    def _choose(
        self,
        run: Run,
        estimates: Mapping[Clique, np.ndarray],
        queries: Mapping[Clique, Query],
        now: Round,
    ) -> Clique:
        """Select the round's clique, given the model's marginals on all current candidates."""
        request, weights = run.request, run.plan
        largest = request.noise([queries[clique] for clique in estimates], now.measure)
        # for Gaussian noise the sqrt(2 / pi) sigma a cell of the paper's score
        noise = kept_noise(request, self.kept_noise) * largest.mean_absolute
        bits = self._grid(request, weights, now.choose, queries)
        score = distances(estimates, bits, weights, noise, queries)
        return list(estimates)[run.select(score, now.choose)]

    def _grid(
        self,
        request: Request,
        weights: Mapping[Clique, int],
        cost: Fraction,
        queries: Mapping[Clique, Query] | None = None,
    ) -> int:
        sensitivity = request.sensitivity(weights if queries is None else queries.values(), "epsilon")
        return grid_for(sensitivity * max(weights.values()), request.budget.unit, cost)


@dataclasses.dataclass(frozen=True)
class Round:
    """The costs of a round, as exact fractions in the budget's unit.

    Attributes:
        choose: cost of the selection.
        measure: cost of the measurement; in the last round, all that remains after the selection.
        unit: "epsilon" or "rho".
        last: whether it is the last round.
    """

    choose: Fraction
    measure: Fraction
    unit: str
    last: bool = False

    @classmethod
    def of(cls, cost: Fraction, share: Fraction, unit: str, last: bool = False) -> Round:
        """Divide a round's cost; `share` is the share of the measurement.

        Example:
            >>> Round.of(Fraction(1), Fraction(9, 10), "rho").choose
            Fraction(1, 10)
        """
        return cls(cost * (1 - share), cost * share, unit, last)

    @classmethod
    def first(cls, budget: Budget, rounds: int | None, attributes: int, share: Fraction) -> Round:
        """Return the first round, for an expected number of rounds.

        Args:
            budget: the run's budget; nothing is spent.
            rounds: expected number of rounds. Default: 16 per attribute.
            attributes: number of attributes measured beforehand, each at a round's measurement cost.
            share: the measurement's share of a round's cost.

        Raises:
            ValueError: there are fewer rounds than attributes.
        """
        rounds = 16 * attributes if rounds is None else rounds
        if rounds < attributes:
            raise ValueError(
                f"rounds must be at least {attributes}, the number of the workload's attributes: each is "
                f"measured first with a round's budget; got {rounds}. Nothing was spent."
            )
        return cls.of(budget.cap / rounds, share, budget.unit)

    @property
    def cost(self) -> Fraction:
        """The cost of both parts."""
        return self.choose + self.measure

    def next(self, remaining: Fraction, anneal: bool = False) -> Round:
        """Return the next round.

        Args:
            remaining: the remaining budget.
            anneal: whether to halve the noise of measurements and selections, by twice the epsilon or four
                times the rho.

        Returns:
            The next round; the last one, with all of the remaining budget, if that is at most the cost of
            two more rounds.
        """
        # for half the noise an epsilon doubles, and a rho grows fourfold
        factor = (2 if self.unit == "epsilon" else 4) if anneal else 1
        share = self.measure / self.cost
        # less than two such rounds are left: the last one takes all of it, so that nothing is wasted
        if remaining <= 2 * factor * self.cost:
            return Round.of(remaining, share, self.unit, last=True)
        return Round.of(factor * self.cost, share, self.unit)


def is_noise(
    before: np.ndarray, after: np.ndarray, measurement: LinearMeasurement, kept: float = 1.0
) -> bool:
    """Return whether a measurement changed the model's marginal by no more than its own expected noise.

    All arguments are released values.

    Args:
        before: the model's marginal without the measurement (counts).
        after: the model's marginal with it (counts).
        measurement: the measurement, with a known noise distribution.
        kept: the share of the noise that remains in a fit.
    """
    assert measurement.distribution is not None
    moved = float(np.abs(np.asarray(after) - np.asarray(before)).sum())
    return moved <= kept * measurement.distribution.mean_absolute * measurement.values.size
