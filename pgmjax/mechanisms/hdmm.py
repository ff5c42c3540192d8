"""HDMM: measure the queries that answer a workload with the least error, then fit one model to them.

`ErrorReport` predicts the error of a strategy's answers, for the noise that a run would draw.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Clique, Domain
from pgmjax.mechanisms.candidates import fits_memory
from pgmjax.mechanisms.measure_once import MeasurementPlan, MeasureOnce
from pgmjax.mechanisms.parameters import one_of, whole
from pgmjax.mechanisms.run import Request, Work
from pgmjax.queries.workload import Workload
from pgmjax.release.release import ANSWERS
from pgmjax.strategies import NAMES, SPLITS, Strategy, answered_alone, candidates, check_cells, strategy


@dataclasses.dataclass(frozen=True)
class HDMM(MeasureOnce):
    """Choose queries by expected error, measure them once, and fit a model.

    Args:
        strategy: "best" of all by expected error, or one of `strategies.NAMES`: "union" (OPT_+: an optimised
            product for each set of attributes), "kron" (OPT_kron: one product over all), "marginals"
            (OPT_M), "identity", "h2", "hb", "wavelet", "workload" (the workload's own queries).
        split: division of the budget between the measured queries: "optimal" by expected error, or "equal".
        restarts: number of random starts of the optimisation, which depends on the workload only.
        restart_seed: seed of the random starts; it does not affect the noise.
        answer: how the workload is answered: "engine" by the fitted model, or the papers' baselines "local"
            (least squares from the one measurement that answers an entry best) and "global" (from one vector
            of cells). A model is fitted in any case.

    Raises:
        TypeError: epsilon or delta is a bool or not a number.
        ValueError: epsilon or delta is out of range, or the relation, strategy, split or answer is unknown.

    Guarantees:
        The strategy depends on domain, workload and settings only. Its entries are rounded to integers
        before measuring, and sensitivities are computed from the rounded entries. delta = 0:
        epsilon-DP, with discrete Laplace noise of scale (L1 sensitivity) / epsilon_i, and the epsilon_i
        sum to epsilon exactly. delta > 0: rho-zCDP, hence (epsilon, delta)-DP, with discrete Gaussian noise
        of variance (squared L2 sensitivity) / (2 rho_i), and the rho_i sum to rho exactly. The model is
        post-processing; its total is estimated from the noisy answers if it is not public.

    `Release.answers` returns the answers, and can also apply the other methods to the same measurements.

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

    strategy: str = one_of("best", ("best", *NAMES))
    split: str = one_of("optimal", SPLITS)
    restarts: int = whole(5, low=1)
    restart_seed: int = whole(0)
    answer: str = one_of("engine", ANSWERS)

    name: ClassVar[str] = "hdmm"
    summary: ClassVar[str] = (
        "measure what answers the workload with the least expected error (matrix mechanism)"
    )
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {
        "strategy": ("best", *NAMES),
        "split": SPLITS,
        "restarts": (1, 2),
        "restart_seed": (0, 1),
        "answer": ANSWERS,
    }

    def plan(self, request: Request) -> MeasurementPlan:
        """Return the strategy's queries and division of the budget."""
        workload = request.workload
        named = {name for clique in workload.cliques for name in clique}
        cliques = [tuple(sorted(named))] if self.strategy == "kron" else workload.cliques
        request.estimator.plan(request.domain, cliques)
        chosen = self.choose(workload, request.domain)
        return MeasurementPlan(request.measurable(chosen.queries), _weights(chosen), chosen.name, self.answer)

    def _work(self, request: Request, plan: MeasurementPlan) -> Work:
        """Return the work of searching a strategy and of measuring its queries."""
        answers = sum(entry.query.num_rows(request.domain) for entry in request.workload.entries)
        searched = answers if self._rough() is not self else 0
        return dataclasses.replace(super()._work(request, plan), searched=searched)

    def _rough(self) -> HDMM:
        """The workload's own queries, where a strategy would be searched: the model has the same cliques."""
        searches = self.strategy in ("best", "union", "kron", "marginals") and self.answer == "engine"
        return dataclasses.replace(self, strategy="workload") if searches else self

    def describe(self, plan: MeasurementPlan) -> dict[str, Any]:
        """Return the settings of the chosen strategy, without the method of answering the workload."""
        names = ("split", "restarts", "restart_seed")
        return {"strategy": plan.name, **{name: getattr(self, name) for name in names}}

    def choose(self, workload: Workload, domain: Domain) -> Strategy:
        """Return the strategy for a workload. Reads no data and spends nothing.

        Raises:
            ValueError: the workload does not fit the domain, or cannot be answered by the chosen method.
        """
        norm = "l1" if self.delta == 0 else "l2"
        search: dict[str, Any] = {"split": self.split, "restarts": self.restarts, "seed": self.restart_seed}

        def fits(cliques: Sequence[Clique]) -> bool:
            return fits_memory(domain, [*cliques, *workload.cliques], self._fitted_by())

        if self.strategy == "best":
            pairs = candidates(workload, domain, norm, self._neighbours, fits=fits, **search)
            found = [made for made, _ in pairs]
        else:
            found = [strategy(self.strategy, workload, domain, norm, self.relation, **search)]
        if self.answer == "local":
            return answered_alone(found, workload, domain, norm, self._neighbours)
        if self.answer == "global":
            check_cells(domain, [*(query.clique for query in found[0].queries), *workload.cliques])
        return found[0]

    def expected_errors(
        self, workload: Workload, domain: Domain, max_weight: int | None = None, max_records: int = 1
    ) -> ErrorReport:
        """Return the expected error of the answers, before any budget is spent.

        The values are exact expectations for least squares, with the discrete noise and rounded queries of a
        run. They are for local answers, except for the strategy "marginals" if `answer` is not "local".
        Global answers are at least as accurate. A fitted model is usually more accurate, since its counts are
        non-negative and it combines measurements; if noise is small it may be less accurate.

        Args:
            workload: the workload.
            domain: the attributes.
            max_weight: the public bound on a record's weight, for weighted data.
            max_records: the largest number of records of a unit of privacy.

        Raises:
            ValueError: see `choose`.
        """
        checks.kind(
            workload, Workload, "workload must be a Workload", "write expected_errors(workload, domain)"
        )
        chosen, bounds = self.choose(workload, domain), (max_weight, self._fitted_by(), max_records)
        request = Request(domain, workload, self._neighbours, self.budget(), *bounds)
        planned = request._planned(chosen.queries, _weights(chosen), self.backend)
        errors = chosen.errors([float(np.asarray(each.distribution.variance)) for each in planned])
        entries = [
            EntryError(entry.clique, entry.query.num_rows(domain), float(error))
            for entry, error in zip(workload.entries, errors, strict=True)
        ]
        return ErrorReport(chosen.name, sum(each.rows for each in planned), tuple(entries))


def _weights(chosen: Strategy) -> list[Fraction]:
    """Return integer weights for the budget, since the float shares need not sum to exactly 1."""
    return [Fraction(max(1, round(share * 10**9))) for share in chosen.shares]


@dataclasses.dataclass(frozen=True)
class EntryError:
    """The expected error of one entry of a workload.

    Attributes:
        clique: the attributes.
        queries: the number of answers.
        squared_error: expected total squared error of all answers (counts squared).
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
        strategy: the name of the strategy.
        measured: the number of noisy answers.
        entries: one error per entry of the workload.
    """

    strategy: str
    measured: int
    entries: tuple[EntryError, ...]

    @property
    def squared_error(self) -> float:
        """Expected total squared error of all answers (counts squared)."""
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
