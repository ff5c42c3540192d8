"""MWEM: select the query with the largest error in the estimate, measure it, update the estimate, repeat."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from pgmjax._internal import checks
from pgmjax.estimation.estimator import Estimator
from pgmjax.mechanisms.base import Mechanism, Request, Run
from pgmjax.mechanisms.mwem_baselines import ARMS, Estimate, make
from pgmjax.mechanisms.mwem_rounds import PENALTIES, Candidates, Rounds
from pgmjax.mechanisms.work import Work
from pgmjax.privacy.backend import default_backend
from pgmjax.release.release import Release

_OF_ROUNDS = ("split", "total_share", "max_cells", "penalty", "repeat")


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

    rounds: int | None = None
    split: Any = "9/10"
    select: str = "marginals"
    penalty: str = "cells"
    repeat: bool = False
    estimate: str = "engine"
    max_cells: int | None = 2**21
    history: bool = True
    sweeps: int = 20
    steps: int | None = None
    total_share: Any = "1/20"

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
    audited_large: ClassVar[dict[str, Any]] = {"rounds": 1, "steps": 1}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_shares("split", "total_share")
        checks.set_integers(self, "rounds", "max_cells", "steps", low=1, optional=True)
        checks.set_integers(self, "sweeps", low=1)
        checks.set_choice(self, "select", ("marginals", "queries"))
        checks.set_choice(self, "penalty", PENALTIES)
        checks.set_choice(self, "estimate", ARMS)
        for name in ("repeat", "history"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False, got {type(getattr(self, name)).__name__}.")
        if not self.history and self.estimate == "engine":
            raise ValueError(
                "history=False is for the multiplicative weights: the engine fits all measurements anew."
            )

    def _fitted_by(self, show_progress: bool | None = None) -> Estimator:
        """Return the engine's estimator. The rounds have their own progress bar."""
        return Estimator() if self.estimator is None else self.estimator

    def plan(self, request: Request) -> Rounds:
        """Return the rounds to run, with a new estimate."""
        candidates = Candidates.of(request.domain, request.workload, self.select)
        candidates.check()
        estimate = make(
            self.estimate, request.domain, request.estimator, self.steps, self.sweeps, self.history
        )
        self._check_sizes(candidates, estimate)
        number = len(request.domain) if self.rounds is None else self.rounds
        shared = {name: getattr(self, name) for name in _OF_ROUNDS}
        rounds = Rounds(request, candidates, estimate, number, **shared)
        rounds.check(default_backend() if self.backend is None else self.backend)
        return rounds

    def work(self, request: Request, plan: Rounds) -> Work:
        """Return the work of all rounds."""
        most = request.domain.size() if self.max_cells is None else self.max_cells
        cliques = list(dict.fromkeys(plan.candidates.cliques))
        return Work.of_choice(request.domain, cliques, most, plan.rounds, measured=plan.rounds)

    def execute(self, run: Run) -> Release:
        """Make the rounds."""
        rounds: Rounds = run.plan
        rounds.estimate.ends_with(run.estimator)
        return run.release(rounds.make(run), rounds.estimate.fit())

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
