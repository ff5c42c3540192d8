"""Batch AIM: in few rounds, score all marginals with noise and measure those that are worth it together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

import numpy as np

from pgmjax.data.domain import Clique
from pgmjax.inference.plan.structure import MOST_CELLS
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.adaptive import Engine, RoundPlan, SelectMeasureFit, kept_noise, part_of_noise
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.candidates import Room, affordable, grid_for_scores, on_grid, weighted_candidates
from pgmjax.mechanisms.parameters import budget_share, declared, whole
from pgmjax.mechanisms.run import Request, Run, Work
from pgmjax.model.graphical import GraphicalModel, many_marginals
from pgmjax.privacy.exact import split
from pgmjax.privacy.scores import Distances
from pgmjax.queries import marginal
from pgmjax.release.accuracy import NoisyDistance
from pgmjax.release.release import Release, distances_between

_PARTS = 10**4
"""Costs of a round's measurements are in whole multiples of about a ten-thousandth of it."""


_Scored: TypeAlias = tuple[GraphicalModel, list[NoisyDistance]]
"""The model of a round, and the scores that it published, which compare the model with the table."""


@dataclasses.dataclass(frozen=True)
class BatchAIM(Mechanism):
    """In each of few rounds, measure every marginal that improves the model more than its noise harms it.

    Candidates are all subsets of the workload's cliques, with weights w_r by their overlap with the workload.
    All one-way marginals are measured first. Each round publishes a noisy score of every wider candidate r,
    ||exact marginal - model's||_1, measures together those for which the weighted scores exceed the weighted
    noise that the model keeps, with shares of the budget that minimise this noise, and fits again from
    the last model. Candidates must keep the model small. A round in which none is worthwhile measures the
    one-way marginals again.

    Next to `AIM`, which measures one marginal a round, there are ten times fewer fits, and a marginal's share
    of the budget follows from its size and weight.

    Args:
        rounds: number of rounds.
        start: the share of the budget for the one-way marginals, in (0, 1).
        share: the measurements' share of a round's budget, in (0, 1); the scores get the rest.
        max_cells: the largest number of cells of the model's junction tree in the last round. Before that,
            the limit is proportional to the number of rounds.
        kept_noise: the share of a marginal's expected noise that is taken to remain in a fitted model, in
            (0, 1]. Default: 0.35 for regularised fits, 0.5 for Laplace noise (delta = 0), otherwise 1.
        steps: the largest number of solver steps of a fit between two rounds. Default: the fit ends where
            noise hides what is left to gain. The last fit uses the estimator's own tolerance and limit.

    Raises:
        TypeError: a setting has the wrong type.
        ValueError: a setting is out of range.

    Guarantees:
        delta = 0: epsilon-DP. delta > 0: rho-zCDP, hence (epsilon, delta)-DP, for the largest rho that
        converts to at most epsilon. A score has the sensitivity of an L1 distance of marginals (1 under
        ADD_REMOVE, 2 under REPLACE_ONE); n scores together have n times it in L1 and sqrt(n) times it in L2.
        Candidates, shares and limits depend on the workload, the domain and released values only, and the
        parts sum exactly to the budget.

    References:
        McKenna, Mullins, Sheldon and Miklau 2022, "AIM: An Adaptive and Iterative Mechanism for
        Differentially Private Synthetic Data", for the candidates, their weights and the growing model.
        Noisy scores of all candidates at once are in google/dpsynth (SWIFT). The rule by which a round's
        marginals and their shares are chosen is this library's own.

    Example:
        >>> from pgmjax.data.relation import Relation
        >>> BatchAIM(epsilon=1, relation=Relation.ADD_REMOVE).share
        Fraction(9, 10)
    """

    rounds: int = whole(2, low=1)
    start: Any = budget_share("0.2")
    share: Any = budget_share("0.9")
    max_cells: int = whole(10_000_000, low=1)
    kept_noise: float | None = declared(None, part_of_noise)
    steps: int | None = whole(None, low=1)

    name: ClassVar[str] = "batch-aim"
    summary: ClassVar[str] = (
        "score the marginals of the workload with noise, and measure together what is worth it"
    )
    chooses: ClassVar[bool] = True
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {
        "rounds": (2, 1),
        "max_cells": (10_000_000, 30),
        "kept_noise": (None, 1.0),
        "steps": (5, 1),
    }

    def plan(self, request: Request) -> dict[Clique, int]:
        """Return all candidate cliques with their weights."""
        candidates = weighted_candidates(request, self.max_cells)
        budget = request.budget
        attributes, wide = _by_width(candidates)
        costs = [(self.start * budget.cap if wide else budget.cap) / len(attributes)]
        if wide:
            cost = (1 - self.start) * budget.cap / self.rounds
            for scored in (wide, wide[:1]):  # a round has as many open candidates as the model has room for
                self._grid(request, scored, cost * (1 - self.share))
            costs += [cost, cost * self.share / (_PARTS + len(candidates))]  # the largest and the smallest
        for each in costs:
            request.noise(candidates, each)
        return candidates

    def _work(self, request: Request, plan: dict[Clique, int]) -> Work:
        """Return the work of all rounds."""
        return Work.of_choice(request.domain, list(plan), self.max_cells, self.rounds)

    def execute(self, run: Run) -> Release:
        """Measure all attributes; then, round by round, score the candidates and measure those worth it."""
        estimate = Engine(run.request.domain, run.request.estimator, self.steps, run.estimator)
        loop, published = SelectMeasureFit(run, estimate), list[_Scored]()
        fit = loop.follow(self._rounds(loop, estimate, published))
        return run.release(loop.answers, fit, distances=_last_distances(fit.model, published, loop.answers))

    def _rounds(
        self, loop: SelectMeasureFit, estimate: Engine, published: list[_Scored]
    ) -> Iterator[RoundPlan]:
        """Yield what is measured; the loop estimates after each step. The scores are `published`."""
        run, budget = loop.run, loop.run.budget
        attributes, wide = _by_width(run.plan)

        # Initialise: measure all one-way marginals.
        start = budget.cap * (self.start if wide else 1)
        costs = split(start, [1] * len(attributes))
        yield list(map(marginal, attributes)), costs, not wide
        for number, cost in enumerate(budget.split([1] * self.rounds) if wide else (), start=1):
            # Select: publish a noisy score of every candidate, and take those that are worth their noise.
            model, before = estimate.fit.model, budget.spent
            limit = self.max_cells * number // self.rounds
            held = [measurement.clique for measurement in loop.measured]
            shares, scores = self._shares(run, model, held, limit, cost)
            published.append((model, [dataclasses.replace(each, round=number) for each in scores]))

            # Measure them together, and estimate from all measurements.
            # what the scores left of the round's cost, so that the parts sum to it exactly
            costs = split(cost - (budget.spent - before), list(shares.values()))
            yield list(map(marginal, shares)), costs, number == self.rounds

    def _shares(
        self, run: Run, model: GraphicalModel, held: Sequence[Clique], limit: int, cost: Fraction
    ) -> tuple[dict[Clique, int], list[NoisyDistance]]:
        """Return what a round measures, with shares of its cost, and the noisy distances that it published.

        With noise of relative size 1 / share**q a set of marginals of weights w and n cells has the weighted
        noise sum(w n / share**q), least for shares in proportion to (w n)**(1 / (1 + q)), where it is
        sum((w n)**(1 / (1 + q)))**(1 + q); q is 1 for Laplace noise and 1/2 for Gaussian noise. Candidates
        are taken in the order of weighted score per (w n)**(1 / (1 + q)) as long as each adds more score
        than noise.

        Args:
            run: the run.
            model: the current model.
            held: the cliques measured so far.
            limit: the largest number of cells of the junction tree.
            cost: that of the round.
        """
        request = run.request
        attributes, wide = _by_width(run.plan)
        wide = affordable(request.domain, held, wide, limit)
        if not wide:
            return dict.fromkeys(attributes, 1), []
        distances = self._distances(run, model, wide, cost * (1 - self.share))
        errors = np.array([each.value for each in distances])
        weights = [run.plan[clique] for clique in wide]
        worth, exponent = errors * np.array(weights), 1 / 2 if request.budget.unit == "epsilon" else 2 / 3
        sizes = map(request.domain.size, wide)
        cells = [float(min(w * size, MOST_CELLS)) for w, size in zip(weights, sizes, strict=True)]
        parts, power = np.array(cells) ** exponent, 1 / exponent
        noise = self._noise(request, wide, cost * self.share)
        chosen: dict[Clique, float] = {}
        room = Room(request.domain, held, limit)
        for i in np.argsort(-worth / parts, kind="stable"):
            total = sum(chosen.values())
            # what this one adds to the weighted noise of all, since every other share shrinks to make room
            if worth[i] <= noise * ((total + parts[i]) ** power - total**power):
                break
            if room.has(wide[i]):
                chosen[wide[i]] = parts[i]
                room = Room(request.domain, [*held, *chosen], limit)
        if not chosen:
            return dict.fromkeys(attributes, 1), distances
        total = sum(chosen.values())
        return {clique: max(1, round(_PARTS * part / total)) for clique, part in chosen.items()}, distances

    def _noise(self, request: Request, wide: Sequence[Clique], cost: Fraction) -> float:
        """Return the expected absolute noise of a count, as far as the model keeps it, at a cost."""
        return kept_noise(request, self.kept_noise) * request.noise(wide, cost).mean_absolute

    def _grid(self, request: Request, wide: Sequence[Clique], cost: Fraction) -> int:
        return grid_for_scores(len(wide), request.sensitivity(wide, "epsilon"), request.budget.unit, cost)

    def _distances(
        self, run: Run, model: GraphicalModel, wide: Sequence[Clique], cost: Fraction
    ) -> list[NoisyDistance]:
        """Publish noisy L1 distances of the candidates' exact marginals from the model's."""
        bits, unit = self._grid(run.request, wide, cost), run.request.budget.unit
        estimates = zip(wide, many_marginals(model, wide), strict=True)
        score = Distances([(marginal(clique), on_grid(table, bits)) for clique, table in estimates], bits)
        # as `PrivateTable.measure_scores` guarantees it
        number, one = len(wide), float(run.request.sensitivity(wide, "epsilon"))
        spread = (
            math.sqrt(2) * number * one / cost if unit == "epsilon" else one * math.sqrt(number / 2 / cost)
        )
        noise = "laplace" if unit == "epsilon" else "gaussian"
        values = run.measure_scores(score, cost).tolist()
        return [
            NoisyDistance(clique, 1, value, float(spread), 0.0, noise)
            for clique, value in zip(wide, values, strict=True)
        ]


def _by_width(candidates: Mapping[Clique, int]) -> tuple[list[Clique], list[Clique]]:
    """Return the candidates of one attribute, and the others."""
    return [c for c in candidates if len(c) == 1], [c for c in candidates if len(c) > 1]


def _last_distances(
    model: GraphicalModel, published: Sequence[_Scored], answers: Sequence[LinearMeasurement]
) -> tuple[NoisyDistance, ...]:
    """Return the last score of every candidate that was not measured, with how far it has moved since."""
    measured = [set(each.clique) for each in answers]
    last = {each.clique: number for number, (_, scores) in enumerate(published) for each in scores}
    found: list[NoisyDistance] = []
    for number, (before, scores) in enumerate(published):
        ours = [
            each
            for each in scores
            if last[each.clique] == number and not any(held.issuperset(each.clique) for held in measured)
        ]
        moved = distances_between(model, before, [each.clique for each in ours])
        found += [dataclasses.replace(each, changed=more) for each, more in zip(ours, moved, strict=True)]
    return tuple(found)
