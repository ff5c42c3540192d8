"""Mechanisms whose queries do not depend on the records, so that they only plan them.

`MeasureOnce` is their base; many runs of one can be measured first and fitted in one batch. `Marginals` and
`MaximumEntropy` measure the workload itself, and differ in what they fit to the answers.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, cast

from pgmjax._internal import checks
from pgmjax.data.dataset import Dataset
from pgmjax.estimation.estimator import MAX_ENTROPY, Estimator, Fit
from pgmjax.history.history import History
from pgmjax.history.max_entropy import fit as max_entropy
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.total import estimate_total
from pgmjax.mechanisms.base import Mechanism
from pgmjax.mechanisms.parameters import declared, one_of
from pgmjax.mechanisms.run import Request, Run, Work, carry_measurements
from pgmjax.model.graphical import GraphicalModel
from pgmjax.privacy.ledger import Ledger
from pgmjax.queries import Query
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Release
from pgmjax.release.run_folder import RunFolder


@dataclasses.dataclass(frozen=True)
class MeasurementPlan:
    """Queries that do not depend on the records, with their weights.

    Attributes:
        queries: the queries, each measured once.
        weights: integer or exact weights > 0. The cost of query i is proportional to its weight.
        name: the name of their strategy, if any.
        answered_by: how the release answers its workload, one of `release.ANSWERS`.
    """

    queries: Sequence[Query]
    weights: Sequence[Any]
    name: str = ""
    answered_by: str = "engine"


@dataclasses.dataclass(frozen=True)
class MeasureOnce(Mechanism):
    """A mechanism whose measured queries depend on public information only, so that it only plans them.

    Many runs, such as trials or budgets, can be measured first and fitted together with `release_together`.
    """

    adapts: ClassVar[bool] = False

    @abc.abstractmethod
    def plan(self, request: Request) -> MeasurementPlan:
        """Return the queries to measure, with weights that divide the budget.

        Raises:
            ValueError: the run is infeasible. The message states the reason and the remedy.
        """

    def measure(
        self,
        data: Dataset,
        workload: Workload,
        *,
        ledger: Ledger | None = None,
        key: str | None = None,
        show_progress: bool | None = None,
        folder: RunFolder | None = None,
    ) -> Measured:
        """Measure like `run`, without the fit; see `release_together`. Answers are kept as they are there."""
        with self._keeping(ledger, key, folder) as keeping:
            return self._measured(self._start(data, workload, keeping, show_progress))

    def execute(self, run: Run) -> Release:
        """Measure, fit and return the release."""
        return self._measured(run).release()

    def _fitted(self, run: Run, measurements: Sequence[LinearMeasurement]) -> Fit:
        """Fit the measured answers: by the run's estimator, if a mechanism has no fit of its own.

        Raises:
            FitError: the fit failed. The error carries the measurements, whose cost is spent.
        """
        return run.fit(measurements)

    def _work(self, request: Request, plan: MeasurementPlan) -> Work:
        """Return the work of measuring the plan's queries."""
        return Work.of_queries(request.domain, plan.queries)

    def _measured(self, run: Run) -> Measured:
        costs = run.budget.split(run.plan.weights)
        return Measured(run, tuple(run.measure(run.plan.queries, costs)))


@dataclasses.dataclass(frozen=True)
class Measured:
    """Measured noisy answers, with everything that a release needs except the model.

    Attributes:
        run: the run in which they were measured.
        measurements: the noisy answers.
    """

    run: Run
    measurements: tuple[LinearMeasurement, ...]

    def release(self, fit: Fit | None = None) -> Release:
        """Return the release.

        Args:
            fit: a fit to these answers. Default: a new fit.

        Raises:
            FitError: the fit failed. The error carries the measurements, whose cost is spent.
        """
        mechanism = cast(MeasureOnce, self.run.mechanism)
        fit = mechanism._fitted(self.run, self.measurements) if fit is None else fit
        return self.run.release(self.measurements, fit, answered_by=self.run.plan.answered_by)


def release_together(runs: Sequence[Measured]) -> list[Release]:
    """Fit the answers of many runs in one batch and return their releases, in the same order.

    Args:
        runs: runs over one domain that measured the same queries; values and noise may differ.

    Raises:
        ValueError: there is no run, or the runs did not measure the same queries.
        FitError: the fit failed. The error carries the measurements of all runs, whose cost is spent.

    Example:
        >>> import pgmjax as pj
        >>> data = pj.Dataset.from_columns(pj.Domain({"a": 2}), {"a": [0, 1, 1]})
        >>> plain = pj.mechanisms.Marginals(epsilon=1, relation=pj.Relation.REPLACE_ONE)
        >>> runs = [plain.measure(data, pj.Workload([["a"]])) for _ in range(3)]
        >>> [release.model.total for release in release_together(runs)]
        [3.0, 3.0, 3.0]
    """
    several = checks.several("runs", runs, "Measured")
    if not several:
        raise ValueError("a batch needs at least one run, got none.")
    if type(several[0].run.mechanism)._fitted is not MeasureOnce._fitted:
        return [each.release() for each in several]
    request = several[0].run.request
    totals = [each.run.total for each in several]
    public = [total for total in totals if total is not None]
    with carry_measurements([measurement for each in several for measurement in each.measurements]):
        fits = several[0].run.estimator.fit_batch(
            request.domain,
            [each.measurements for each in several],
            totals=public if len(public) == len(several) else None,
        )
    return [each.release(fit) for each, fit in zip(several, fits, strict=True)]


@dataclasses.dataclass(frozen=True)
class Marginals(MeasureOnce):
    """Measure the workload's queries once with equal or weighted budget, and fit a model.

    Args:
        split: "equal" gives every entry of the workload the same budget, "weighted" a budget in
            proportion to its weight.

    Guarantees:
        delta = 0: epsilon-DP. Query i is answered with discrete Laplace noise of scale
        (its L1 sensitivity under `relation`) / epsilon_i, and the epsilon_i sum to epsilon exactly.
        delta > 0: rho-zCDP, hence (epsilon, delta)-DP, for the largest rho that dp-accounting converts
        to at most epsilon. Query i has discrete Gaussian noise of variance
        (its squared L2 sensitivity) / (2 rho_i), and the rho_i sum to rho exactly.
        The model is post-processing. Under ADD_REMOVE the total is estimated from the noisy answers. Under
        REPLACE_ONE the number of records is public and used, but the total weight of a weighted table is
        private and estimated.

    References:
        McKenna et al. 2019, section 3.

    Example:
        >>> from pgmjax.data.relation import Relation
        >>> Marginals(epsilon=1, relation=Relation.ADD_REMOVE).epsilon
        Fraction(1, 1)
    """

    split: str = one_of("weighted", ("equal", "weighted"))

    name: ClassVar[str] = "marginals"
    summary: ClassVar[str] = "measure every query of the workload once, with equal or weighted budget"
    audited_values: ClassVar[dict[str, tuple[str, ...]]] = {"split": ("equal", "weighted")}

    def plan(self, request: Request) -> MeasurementPlan:
        """Return the workload's queries with equal weights or their own."""
        entries = request.workload.entries
        weights = [Fraction(1) if self.split == "equal" else Fraction(entry.weight) for entry in entries]
        return MeasurementPlan(request.measurable([entry.query for entry in entries]), weights)


@dataclasses.dataclass(frozen=True)
class MaximumEntropy(MeasureOnce):
    """Measure the workload's queries once with equal budget, and publish the distribution of maximum entropy.

    Of all distributions the release takes the one that is closest to the uniform one among those that the
    noise makes likely, see `pgmjax.history.MaxEntropy`. The paper asks for all pairs of attributes.

    Args:
        alpha: weight of the likelihood of the answers relative to the entropy, > 0. Default: chosen from the
            noise.

    Raises:
        ValueError: `alpha` is not above 0, or the estimator has its own loss, solver, regularisation or class
            of oracles: of its settings those of steps, tolerance, oracle and memory apply.

    Guarantees:
        Those of `Marginals` with equal budgets: the distribution is post-processing. The total is public or
        estimated as there.

    References:
        Chen, Zhou and Bhowmick 2012, sections 4 and 5.2. The paper's noise for all pairs, of scale
        d (d - 1) / 2, costs epsilon = 1 under ADD_REMOVE and 2 under REPLACE_ONE, for which it is stated.

    Example:
        >>> from pgmjax.data.relation import Relation
        >>> MaximumEntropy(epsilon=1, relation=Relation.ADD_REMOVE, alpha=0.01).alpha
        0.01
    """

    alpha: float | None = declared(None, lambda name, value: checks.number(name, value, above=0))

    follows: ClassVar[bool] = False
    name: ClassVar[str] = "maximum-entropy"
    summary: ClassVar[str] = "measure every query of the workload once, and take the most even distribution"
    audited_values: ClassVar[dict[str, tuple[Any, ...]]] = {"alpha": (None, 0.1)}

    def __post_init__(self) -> None:
        super().__post_init__()
        own, plain = self.estimator or Estimator(), Estimator()
        for setting in ("loss", "solver", "regularisation", "oracle"):
            given = getattr(own, setting)
            if given != getattr(plain, setting) and not (setting == "oracle" and isinstance(given, str)):
                raise ValueError(
                    f"maximum entropy has no {setting} to choose: leave it out; alpha says how closely the "
                    "noisy answers are followed."
                )

    def plan(self, request: Request) -> MeasurementPlan:
        """Return the workload's queries with equal weights."""
        queries = request.measurable([entry.query for entry in request.workload.entries])
        return MeasurementPlan(queries, [1] * len(queries))

    def describe(self, plan: MeasurementPlan) -> dict[str, Any]:
        """Return nothing: alpha has no part in what is measured."""
        return {}

    def _fitted(self, run: Run, measurements: Sequence[LinearMeasurement]) -> Fit:
        """Return the distribution of maximum entropy, with its objective as the loss (nats)."""
        domain, estimator = run.request.domain, run.estimator
        with carry_measurements(measurements):
            plan = estimator.plan(domain, [each.clique for each in measurements])
            slow = plan.oracle.forecast.seconds > max_entropy.SLOW_SECONDS
            settings = max_entropy.MaxEntropy(
                alpha=self.alpha,
                solver="newton" if slow else "exact",
                oracle=str(estimator.oracle),
                max_steps=estimator.max_steps,
                tol=max_entropy.LEAST_TOLERANCE if estimator.tol is None else estimator.tol,
                max_bytes=estimator.max_bytes,
                progress=estimator.progress,
            )
            total = estimate_total(domain, measurements)[0] if run.total is None else run.total
            history = History(domain, measurements, relation=run.request.relation)
            found = settings.fit(history, total)
        model = cast(GraphicalModel, found.model)
        return Fit(model, found.status, found.steps, found.objective, found.gap, plan, method=MAX_ENTROPY)
