"""MWEM: select the query with the largest error in the estimate, measure it, update the estimate, repeat.

The estimate is the engine's fit to all answers, or multiplicative weights as in the paper, see
`multiplicative_weights`.

References:
    Hardt, Ligett and McSherry 2012, "A simple and practical algorithm for differentially private data
    release", Algorithm 1.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, ClassVar

from pgmjax._internal.progress import Progress
from pgmjax.estimation.estimator import Estimator
from pgmjax.mechanisms.adaptive import Engine, Estimate, RoundPlan, SelectMeasureFit
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.candidates import Candidates
from pgmjax.mechanisms.multiplicative_weights import FactoredWeights, FullVector
from pgmjax.mechanisms.parameters import budget_share, flag, one_of, whole
from pgmjax.mechanisms.run import Request, Run, Work
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.opendp import default_backend
from pgmjax.queries import Query
from pgmjax.release.release import Release

ARMS = ("engine", "multiplicative-weights", "factored-multiplicative-weights")
PENALTIES = ("cells", "noise", "none")


@dataclasses.dataclass(frozen=True)
class MWEM(Mechanism):
    """In each round, measure the query with the largest error in the current estimate.

    Args:
        rounds: number of rounds. Default: one per attribute of the domain.
        split: the measurement's share of each round's budget, in (0, 1); the selection gets the rest.
        select: "marginals" selects among the whole marginals of the workload's cliques by the L1 error
            of their cells minus a penalty, "queries" among the single queries of the workload.
        penalty: penalty of a whole marginal: "cells" (one count per cell), "noise" (the expected L1 norm of
            its noise, much of which a fit removes if there are many cells) or "none".
        repeat: whether a marginal may be measured again before others within the limits have been measured
            as often. Single queries may always be repeated.
        estimate: "engine", or the baselines "multiplicative-weights" (every cell of the domain) and
            "factored-multiplicative-weights" (independent factors, merged if measurements overlap).
        max_cells: in round i of T, only candidates that leave the estimate with at most max_cells * i / T
            cells can be selected, or those with the fewest cells. None sets no limit. The limit depends on
            the measured queries, not on the table. The whole domain's cells are limited by memory only.
        history: whether an update uses all measurements so far or only the newest. The engine requires all.
        sweeps: number of passes over the measurements in an update of multiplicative weights.
        steps: the largest number of solver steps of the engine's fits between two rounds. Default: they end
            where noise hides what is left to gain. The last fit uses the estimator's own tolerance and limit.
        total_share: the share of the budget for measuring the total first, if it is private.

    Raises:
        TypeError: a setting has the wrong type.
        ValueError: a setting is out of range or unknown, or history is off for the engine.

    Guarantees:
        delta = 0: epsilon-DP. Selections use scores with the sensitivity of a marginal (1 under ADD_REMOVE,
        2 under REPLACE_ONE) or of a counting query (1), measurements have discrete Laplace noise of scale
        (L1 sensitivity) / epsilon_i, and all parts sum to epsilon exactly.
        delta > 0: the same with rho-zCDP, hence (epsilon, delta)-DP, by the bounded range of the
        exponential mechanism and discrete Gaussian noise; the parts sum to rho exactly.
        The number of rounds does not depend on the answers. The total is public under REPLACE_ONE without
        weights; otherwise it is measured first and estimated from all answers.

    References:
        Hardt, Ligett and McSherry 2012; McKenna et al. 2019, section 4 and Appendix C.

    Example:
        >>> from pgmjax.data.relation import Relation
        >>> MWEM(epsilon=1, relation=Relation.ADD_REMOVE, rounds=3).split
        Fraction(9, 10)
    """

    rounds: int | None = whole(None, low=1)
    split: Any = budget_share("9/10")
    select: str = one_of("marginals", ("marginals", "queries"))
    penalty: str = one_of("cells", PENALTIES)
    repeat: bool = flag(False)
    estimate: str = one_of("engine", ARMS)
    max_cells: int | None = whole(2**21, low=1, optional=True)
    history: bool = flag(True)
    sweeps: int = whole(20, low=1)
    steps: int | None = whole(None, low=1)
    total_share: Any = budget_share("1/20")

    name: ClassVar[str] = "mwem"
    summary: ClassVar[str] = "choose what the estimate gets most wrong, measure it, and repeat"
    chooses: ClassVar[bool] = True
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {
        "select": ("marginals", "queries"),
        "penalty": PENALTIES,
        "estimate": ARMS,
        "max_cells": (2**21, 20, None),
        "sweeps": (20, 1),
        "steps": (5, 1),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.history and self.estimate == "engine":
            raise ValueError(
                "history=False is for the multiplicative weights: the engine fits all measurements anew."
            )

    def plan(self, request: Request) -> Rounds:
        """Return the candidates of all rounds and what each round costs."""
        domain = request.domain
        candidates = Candidates.of(domain, request.workload, self.select)
        self._check_sizes(candidates, self._estimate(request))
        number = len(domain) if self.rounds is None else self.rounds
        share = Fraction(0) if request.total_is_public else self.total_share
        rounds = Rounds.of(candidates, request.budget, number, self.split, share)
        candidates.check(request, rounds.choices[0], rounds.answers[0], self.backend or default_backend())
        if rounds.total:
            request.noise([request.everybody], *rounds.total)
        return rounds

    def _work(self, request: Request, plan: Rounds) -> Work:
        """Return the work of all rounds."""
        most = request.domain.size() if self.max_cells is None else self.max_cells
        cliques, number = list(dict.fromkeys(plan.candidates.cliques)), len(plan.choices)
        return Work.of_choice(request.domain, cliques, most, number, measured=number)

    def execute(self, run: Run) -> Release:
        """Measure the total if it is private, then select, measure and update in rounds."""
        plan, show, request = run.plan, run.show_progress, run.request
        run = dataclasses.replace(run, show_progress=False)  # the rounds have the bar
        counted = run.measure([request.everybody], plan.total) if plan.total else []
        loop = SelectMeasureFit(run, self._estimate(request, run.estimator), counted)
        with Progress("MWEM rounds", len(plan.choices), show) as bar:
            fit = loop.follow(self._rounds(loop, bar))
        return run.release(loop.answers, fit)

    def _rounds(self, loop: SelectMeasureFit, bar: Progress) -> Iterator[RoundPlan]:
        """Yield what Algorithm 1 of Hardt et al. measures; the loop updates the estimate after each step."""
        run, plan = loop.run, loop.run.plan
        for number, cost in enumerate(plan.answers):
            # 1. Exponential mechanism: select the query with the largest error in the estimate.
            kept = self._open(loop, number)
            offsets = [self._penalty(run.request, query, cost) for query in kept.queries]
            score = kept.score(loop.estimates(kept.queries), offsets)
            chosen = kept.chosen(score, run.select(score, plan.choices[number]))
            # 2. Laplace mechanism: measure it.
            yield [chosen], [cost], number + 1 == len(plan.answers)
            # 3. Multiplicative weights, or with the engine a fit: the estimate is that of all answers now.
            bar.advance()

    def _estimate(self, request: Request, last: Estimator | None = None) -> Estimate:
        """Return a new estimate; the engine's last fit is by the estimator `last`."""
        domain, estimator = request.domain, request.estimator
        if self.estimate == "engine":
            last = dataclasses.replace(last or estimator, progress=False)
            return Engine(domain, estimator, self.steps, last)
        kind = FullVector if self.estimate == ARMS[1] else FactoredWeights
        return kind(domain, estimator.max_bytes, self.sweeps, self.history)

    def _open(self, loop: SelectMeasureFit, number: int) -> Candidates:
        """Return a round's candidates: those within its limit of cells that were measured least often."""
        kept = loop.run.plan.candidates
        if self.max_cells is not None:
            cells = loop.estimate.cells(kept.cliques)
            # the smallest candidate always fits, so that no round is without one
            limit = max(self.max_cells * (number + 1) // len(loop.run.plan.answers), min(cells))
            kept = kept.keep([i for i, held in enumerate(cells) if held <= limit])
        if self.repeat or not kept.whole:
            return kept
        times = Counter(measurement.query for measurement in loop.measured)
        least = min(times[query] for query in kept.queries)
        return kept.keep([i for i, query in enumerate(kept.queries) if times[query] == least])

    def _penalty(self, request: Request, query: Query, cost: Fraction) -> float:
        """Return the penalty that is subtracted from a query's error (counts)."""
        if self.penalty == "none" or self.select == "queries":
            return 0.0
        rows = query.num_rows(request.domain)
        return float(rows) if self.penalty == "cells" else rows * request.noise([query], cost).mean_absolute

    def _check_sizes(self, candidates: Candidates, estimate: Estimate) -> None:
        cells = estimate.cells(candidates.cliques)
        least = min(cells)
        smallest = candidates.cliques[cells.index(least)]
        estimate.check(smallest, self.max_cells)
        if self.max_cells is not None and least > self.max_cells and self.estimate != ARMS[1]:
            raise ValueError(
                f"No candidate is within max_cells = {self.max_cells:,}: the smallest, on {smallest}, needs "
                f"{least:,} cells. Raise max_cells, or add smaller marginals to the workload."
            )


@dataclasses.dataclass(frozen=True)
class Rounds:
    """The public plan of a run. The costs sum exactly to the budget.

    Attributes:
        candidates: the candidates of the selections.
        total: cost of measuring the total; empty if it is public.
        choices: cost of each round's selection.
        answers: cost of each round's measurement.
    """

    candidates: Candidates
    total: tuple[Fraction, ...]
    choices: tuple[Fraction, ...]
    answers: tuple[Fraction, ...]

    @classmethod
    def of(
        cls, candidates: Candidates, budget: Budget, rounds: int, split: Fraction, total_share: Fraction
    ) -> Rounds:
        """Divide the remaining budget among rounds of equal cost. Nothing is spent.

        Args:
            candidates: the candidates.
            budget: the budget.
            rounds: number of rounds.
            split: the measurement's share of a round's cost.
            total_share: the share of the whole for measuring the total; 0 if it is public.
        """
        each = (1 - total_share) / rounds
        first = [total_share] if total_share else []
        parts = budget.split([*first, *[each * (1 - split), each * split] * rounds])
        costs = parts[len(first) :]
        return cls(candidates, parts[: len(first)], costs[::2], costs[1::2])
