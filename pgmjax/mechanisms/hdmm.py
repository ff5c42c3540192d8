"""HDMM: measure the queries from which a workload can be answered best, then fit one model to them.

`ErrorReport` forecasts the error of a strategy's answers, under the noise that a run would really draw.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.mechanisms.base import Settings, Unfitted, check_request, check_table_and_workload, read_settings
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.ledger import Ledger
from pgmjax.queries import Query
from pgmjax.queries.workload import Workload
from pgmjax.release.release import ANSWERS, Release
from pgmjax.strategies import NAMES, SPLITS, Strategy, answered_alone, candidates, check_cells, strategy


@dataclasses.dataclass(frozen=True)
class HDMM:
    """Choose what to measure by expected error, measure it once, and fit a model.

    Args:
        epsilon: all that may be spent: a number, or an exact string such as "1/3".
        relation: which tables are neighbours; there is no default.
        delta: 0 measures with discrete Laplace noise under pure differential privacy; more than 0
            with discrete Gaussian noise under zCDP.
        strategy: "best" of all by expected error, or one of `strategies.NAMES`: "union" (OPT_+: an optimised
            product for each set of attributes), "kron" (OPT_kron: one product over all), "marginals"
            (OPT_M), "identity", "h2", "hb", "wavelet", "workload" (what is asked, as it is).
        split: of the budget between the queries measured, "optimal" by expected error, or "equal".
        restarts: random starts of the optimisation, which sees the workload alone.
        restart_seed: of those starts; it makes no noise.
        answer: of the workload: "engine" by the fitted model, or the papers' baselines "local" (least squares
            from the one measurement that answers an entry best) and "global" (from one vector of cells).
            A model is fitted in any case.
        estimator: how the model is fitted; None is `Estimator()`.
        backend: source of noise; None is the secure one.

    Raises:
        TypeError: epsilon or delta is a bool or no number.
        ValueError: epsilon or delta outside its range, no such relation, strategy, split or answer.

    Guarantees:
        The strategy depends on domain, workload and settings only. Its entries are rounded to integers
        before anything is measured, and sensitivities are computed from the rounded ones. delta = 0:
        epsilon-DP, with discrete Laplace noise of scale (L1 sensitivity) / epsilon_i, and the epsilon_i
        sum to epsilon exactly. delta > 0: rho-zCDP, hence (epsilon, delta)-DP, with discrete Gaussian noise
        of variance (squared L2 sensitivity) / (2 rho_i), and the rho_i sum to rho exactly. The model is
        post-processing; its total is estimated from the noisy answers where it is not public.

    `Release.answers` gives the answers, of the same measurements also in the other ways.

    References:
        McKenna et al. 2018, "Optimizing error of high-dimensional statistical queries under differential
        privacy"; McKenna et al. 2019, sections 3 and 5.

    Example:
        >>> from pgmjax.data.relation import Relation
        >>> mechanism = HDMM(epsilon=1, relation=Relation.ADD_REMOVE, restarts=1)
        >>> workload = Workload([{"clique": ["age"], "queries": {"age": "prefix"}}])
        >>> report = mechanism.expected_errors(workload, Domain({"age": 64}))
        >>> report.strategy, bool(report.root_mean_square < 6)
        ('union', True)
    """

    epsilon: Any
    relation: Relation
    delta: Any = 0
    strategy: str = "best"
    split: str = "optimal"
    restarts: int = 5
    restart_seed: int = 0
    answer: str = "engine"
    estimator: Estimator | None = None
    backend: NoiseBackend | None = None

    name: ClassVar[str] = "hdmm"
    summary: ClassVar[str] = (
        "measure what answers the workload with the least expected error (matrix mechanism)"
    )

    def __post_init__(self) -> None:
        settings = read_settings(self.epsilon, self.delta, self.relation)
        checks.choice("strategy", self.strategy, ("best", *NAMES))
        checks.choice("split", self.split, SPLITS)
        checks.choice("answer", self.answer, ANSWERS)
        checks.integer("restarts", self.restarts, low=1)
        checks.integer("restart_seed", self.restart_seed, low=0)
        for name in ("epsilon", "delta", "relation"):
            object.__setattr__(self, name, getattr(settings, name))

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
            workload: what is to be answered.
            ledger: where the table's budget is kept; None keeps no account beyond this run.
            key: the run's name in the ledger; None names it by what is measured. Asked again under the same
                name it gives the same answers and costs nothing, also after an interruption.
            show_progress: None shows a bar in terminals only, False never.

        Raises:
            ValueError: a bad workload, one that the strategy cannot answer in the way asked for, a model too
                large for memory or a bad table; nothing was spent.
            BudgetExceeded: the table's budget in the ledger does not suffice; nothing was spent.
            LedgerError: the ledger cannot be used; nothing was spent.
            FitError: the fit failed after the spend; the error carries the measurements.
        """
        return self.measure(data, workload, ledger=ledger, key=key, show_progress=show_progress).release()

    def measure(
        self,
        data: Dataset,
        workload: Workload,
        *,
        ledger: Ledger | None = None,
        key: str | None = None,
        show_progress: bool | None = None,
    ) -> Unfitted:
        """Measure, as `run`, and leave the fit to the caller: see `base.release_together`."""
        settings = Settings(self.epsilon, self.delta, self.relation)
        estimator = Estimator(progress=show_progress) if self.estimator is None else self.estimator
        check_table_and_workload(data, workload)
        cliques = [entry.clique for entry in workload.entries]
        named = {name for clique in cliques for name in clique}
        estimator.plan(data.domain, [tuple(sorted(named))] if self.strategy == "kron" else cliques)
        chosen = self.choose(workload, data.domain)
        queries = check_request(data, Workload(chosen.queries), self.relation, estimator)
        request = {name: getattr(self, name) for name in ("split", "restarts", "restart_seed")}
        asked = {"mechanism": self.name, "strategy": chosen.name, **request}
        table = settings.open(data, workload, self.backend, asked, ledger, key)
        shares = table.budget.split(_weights(chosen))
        costs = {"epsilons" if table.budget.unit == "epsilon" else "rhos": shares}
        measurements = table.measure(queries, **costs, show_progress=show_progress)
        return Unfitted(
            self.name, settings, table, workload, tuple(measurements), estimator, answered_by=self.answer
        )

    def choose(self, workload: Workload, domain: Domain) -> Strategy:
        """Return the strategy for a workload; reads no data and spends nothing.

        Raises:
            ValueError: the workload does not fit the domain, or cannot be answered in the way asked for.
        """
        norm = "l1" if self.delta == 0 else "l2"
        search: dict[str, Any] = {"split": self.split, "restarts": self.restarts, "seed": self.restart_seed}

        def fits(cliques: Sequence[Clique]) -> bool:
            return self._fits(domain, [*cliques, *workload.cliques])

        if self.strategy == "best":
            pairs = candidates(workload, domain, norm, self.relation, fits=fits, **search)
            found = [made for made, _ in pairs]
        else:
            found = [strategy(self.strategy, workload, domain, norm, self.relation, **search)]
        if self.answer == "local":
            return answered_alone(found, workload, domain, norm, self.relation)
        if self.answer == "global":
            check_cells(domain, [*(query.clique for query in found[0].queries), *workload.cliques])
        return found[0]

    def expected_errors(
        self, workload: Workload, domain: Domain, max_weight: int | None = None
    ) -> ErrorReport:
        """Return what error the answers will have, before any budget is spent.

        The figures are exact expectations for answers by least squares, local ones but for the strategy
        "marginals" unless `answer` is "local", from the discrete laws and the rounded queries that a run
        would use. Global ones do as well or better. A fitted model mostly does better, since it never
        counts below zero and lets measurements help each other; where noise is small it may do worse.

        Args:
            workload: what is to be answered.
            domain: the attributes.
            max_weight: for weighted data the largest weight of a record (public).

        Raises:
            ValueError: as `choose`.
        """
        chosen = self.choose(workload, domain)
        budget = Settings(self.epsilon, self.delta, self.relation).budget()
        shares = budget.split(_weights(chosen))
        return ErrorReport.of(chosen, workload, domain, self.relation, budget.unit, shares, max_weight)

    def _fits(self, domain: Domain, cliques: Sequence[Clique]) -> bool:
        estimator = Estimator() if self.estimator is None else self.estimator
        try:
            estimator.plan(domain, cliques)
        except ValueError:
            return False
        return True


def _weights(chosen: Strategy) -> list[Fraction]:
    """Return whole weights of the budget's parts; shares are floats and need not sum exactly."""
    return [Fraction(max(1, round(share * 10**9))) for share in chosen.shares]


@dataclasses.dataclass(frozen=True)
class EntryError:
    """The expected error of one entry of a workload.

    Attributes:
        clique: its attributes.
        queries: the number of its answers.
        squared_error: expected, of all its answers together (counts squared).
    """

    clique: Clique
    queries: int
    squared_error: float

    @property
    def root_mean_square(self) -> float:
        """The expected root mean squared error of one answer (counts)."""
        return float(np.sqrt(self.squared_error / self.queries))


@dataclasses.dataclass(frozen=True)
class ErrorReport:
    """Expected errors of all entries, for answers by least squares.

    Attributes:
        strategy: what would be measured.
        measured: the number of noisy answers.
        entries: one an entry of the workload.
    """

    strategy: str
    measured: int
    entries: tuple[EntryError, ...]

    @classmethod
    def of(
        cls,
        strategy: Strategy,
        workload: Workload,
        domain: Domain,
        relation: Relation,
        unit: str,
        shares: Sequence[Fraction],
        max_weight: int | None = None,
    ) -> ErrorReport:
        """Return the report of a strategy whose queries cost these parts of a budget, in its unit."""
        variances = [
            _variance(query, domain, relation, unit, share, max_weight)
            for query, share in zip(strategy.queries, shares, strict=True)
        ]
        errors = strategy.errors(variances)
        entries = [
            EntryError(entry.clique, entry.query.num_rows(domain), float(error))
            for entry, error in zip(workload.entries, errors, strict=True)
        ]
        measured = sum(query.num_rows(domain) for query in strategy.queries)
        return cls(strategy.name, measured, tuple(entries))

    @property
    def squared_error(self) -> float:
        """Expected squared error of all answers together (counts squared)."""
        return float(sum(entry.squared_error for entry in self.entries))

    @property
    def root_mean_square(self) -> float:
        """Expected root mean squared error of one answer (counts)."""
        return float(np.sqrt(self.squared_error / sum(entry.queries for entry in self.entries)))

    def __str__(self) -> str:
        lines = [f"strategy {self.strategy}: {self.measured:,} noisy answers", "rms error  queries  on"]
        for entry in self.entries:
            lines.append(f"{entry.root_mean_square:9.4g}  {entry.queries:7,}  {', '.join(entry.clique)}")
        queries = sum(entry.queries for entry in self.entries)
        return "\n".join([*lines, f"{self.root_mean_square:9.4g}  {queries:7,}  all"])


def _variance(
    query: Query, domain: Domain, relation: Relation, unit: str, share: Fraction, max_weight: int | None
) -> float:
    if unit == "epsilon":
        distance = query.l1_sensitivity(relation, domain, max_weight) or 1  # as the noise takes it
        return DiscreteLaplace(float(Fraction(distance) / share)).variance
    squared = query.l2_sensitivity_squared(relation, domain, max_weight) or 1
    return DiscreteGaussian(float(np.sqrt(float(Fraction(squared) / (2 * share))))).variance
