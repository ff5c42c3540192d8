"""MWEM: choose what the estimate gets most wrong, measure it, improve the estimate, and repeat."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from pgmjax._internal import checks
from pgmjax.data.dataset import Dataset
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.mechanisms.base import Settings, check_table_and_workload, read_settings
from pgmjax.mechanisms.mwem_baselines import ARMS, Estimate, make
from pgmjax.mechanisms.mwem_rounds import PENALTIES, Candidates, Rounds
from pgmjax.privacy.backend import NoiseBackend, default_backend
from pgmjax.privacy.exact import as_text, exact
from pgmjax.privacy.ledger import Ledger
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Release


@dataclasses.dataclass(frozen=True)
class MWEM:
    """Measure in rounds, each time what the estimate so far gets most wrong.

    Args:
        epsilon: all that may be spent: a number, or an exact string such as "1/3".
        relation: which tables are neighbours; there is no default.
        delta: 0 chooses by permute-and-flip and measures with discrete Laplace noise under pure
            differential privacy; more than 0 the exponential mechanism and discrete Gaussian noise
            under zCDP.
        rounds: how many are measured; None is one for each attribute of the domain.
        split: the share of each round's budget that measures, in (0, 1); the rest chooses.
        select: "marginals" chooses among the whole marginals of the workload's cliques by the L1 error
            of their cells less a penalty, "queries" among the single queries of the workload.
        penalty: of a whole marginal: "cells" (one count a cell), "noise" (the expected L1 norm of its noise,
            of which a fit leaves much less where cells are many) or "none".
        repeat: whether a marginal may be measured again while others within the limits were not so often.
            Single queries may be at any time.
        estimate: "engine", or the baselines "multiplicative-weights" (every cell of the domain) and
            "factored-multiplicative-weights" (independent factors, merged where measurements overlap).
        max_cells: in round i of T only what leaves the estimate with at most max_cells * i / T cells is
            let be chosen, or what needs the fewest; None sets no limit. It is a matter of what was
            measured, not of the table. The whole domain's cells are bound by memory alone.
        history: whether an update uses all measurements so far or only the newest, which the engine
            cannot do.
        sweeps: how often an update of multiplicative weights goes through the measurements.
        steps: the most solver steps of the engine's fits between two rounds; the last fit is the
            estimator's.
        total_share: the share of the budget that measures the total first, where that is private.
        estimator: how the engine fits; None is `Estimator()`. Its max_bytes bind the baselines too.
        backend: source of noise; None is the secure one.

    Raises:
        TypeError: a setting of a wrong type.
        ValueError: a setting outside its range, no such relation or choice, or no history for the engine.

    Guarantees:
        delta = 0: epsilon-DP. Choices cost their epsilons for scores of the sensitivity that a marginal
        (1 under ADD_REMOVE, 2 under REPLACE_ONE) or a counting query (1) has, measurements have discrete
        Laplace noise of scale (L1 sensitivity) / epsilon_i, and all parts sum to epsilon exactly.
        delta > 0: the same with rho-zCDP, hence (epsilon, delta)-DP, by the bounded range of the
        exponential mechanism and discrete Gaussian noise; the parts sum to rho exactly.
        All rounds are made, whatever their answers. The total is public under REPLACE_ONE without
        weights; otherwise it is measured first and estimated from all answers.

    References:
        Hardt, Ligett and McSherry 2012; McKenna et al. 2019, section 4 and Appendix C.

    Example:
        >>> MWEM(epsilon=1, relation=Relation.ADD_REMOVE, rounds=3).split
        Fraction(9, 10)
    """

    epsilon: Any
    relation: Relation
    delta: Any = 0
    rounds: int | None = None
    split: Any = "9/10"
    select: str = "marginals"
    penalty: str = "cells"
    repeat: bool = False
    estimate: str = "engine"
    max_cells: int | None = 2**21
    history: bool = True
    sweeps: int = 20
    steps: int = 100
    total_share: Any = "1/20"
    estimator: Estimator | None = None
    backend: NoiseBackend | None = None

    name: ClassVar[str] = "mwem"
    summary: ClassVar[str] = "choose what the estimate gets most wrong, measure it, and repeat"

    def __post_init__(self) -> None:
        settings = read_settings(self.epsilon, self.delta, self.relation)
        for name in ("epsilon", "delta", "relation"):
            object.__setattr__(self, name, getattr(settings, name))
        for name in ("split", "total_share"):
            share = exact(name, getattr(self, name))
            if not 0 < share < 1:
                raise ValueError(f"{name} must be a share of the budget in (0, 1), got {as_text(share)}.")
            object.__setattr__(self, name, share)
        for name in ("rounds", "max_cells"):
            if getattr(self, name) is not None:
                checks.integer(name, getattr(self, name), low=1)
        for name in ("sweeps", "steps"):
            checks.integer(name, getattr(self, name), low=1)
        checks.choice("select", self.select, ("marginals", "queries"))
        checks.choice("penalty", self.penalty, PENALTIES)
        checks.choice("estimate", self.estimate, ARMS)
        for name in ("repeat", "history"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False, got {type(getattr(self, name)).__name__}.")
        if not self.history and self.estimate == "engine":
            raise ValueError(
                "history=False is for the multiplicative weights: the engine fits all measurements anew."
            )

    def run(
        self,
        data: Dataset,
        workload: Workload,
        *,
        ledger: Ledger | None = None,
        key: str | None = None,
        show_progress: bool | None = None,
    ) -> Release:
        """Make a release.

        Args:
            data: the private table.
            workload: what is to be answered well; a part of it is measured.
            ledger: where the table's budget is kept; None keeps no account beyond this run.
            key: the run's name in the ledger; None names it by what is asked. Asked again under the same
                name it gives the same answers and costs nothing, also after an interruption.
            show_progress: None shows a bar in terminals only, False never.

        Raises:
            ValueError: a bad workload, no candidate within the limits, tables larger than memory or a
                bad table; nothing was spent.
            BudgetExceeded: the table's budget in the ledger does not suffice; nothing was spent.
            LedgerError: the ledger cannot be used; nothing was spent.
            FitError: the estimate failed after a spend; the error carries the measurements so far.
        """
        settings = Settings(self.epsilon, self.delta, self.relation)
        estimator = Estimator() if self.estimator is None else self.estimator
        check_table_and_workload(data, workload)
        candidates = Candidates.of(data.domain, workload, self.select)
        candidates.check()
        estimate = make(self.estimate, data.domain, estimator, self.steps, self.sweeps, self.history)
        self._check_sizes(candidates, estimate)
        table = settings.open(data, workload, self.backend, self._request(), ledger, key)
        rounds = len(data.domain) if self.rounds is None else self.rounds
        names = ("split", "total_share", "max_cells", "penalty", "repeat")
        shared = {name: getattr(self, name) for name in names}
        course = Rounds(table, candidates, estimate, rounds, **shared)
        course.check(default_backend() if self.backend is None else self.backend)
        measurements = course.run(show_progress)
        return settings.release(self.name, table, workload, measurements, estimator, estimate.fit())

    def _request(self) -> dict[str, Any]:
        names = (
            "rounds",
            "select",
            "penalty",
            "repeat",
            "estimate",
            "max_cells",
            "history",
            "sweeps",
            "steps",
        )
        shares = {name: as_text(getattr(self, name)) for name in ("split", "total_share")}
        return {"mechanism": self.name, **{name: getattr(self, name) for name in names}, **shares}

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
