"""A run of a mechanism: its work by public values, what is asked, and the steps that spend the budget."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal.checks import Error
from pgmjax.data.domain import Clique, Domain
from pgmjax.data.population import LeftOutCount, Population
from pgmjax.data.relation import Relation
from pgmjax.discovery.discover import Found
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.inference.plan.junction_tree import total_cells
from pgmjax.inference.plan.triangulation import fitting
from pgmjax.measurements.inputs import PUBLIC, Input, with_inputs
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteNoise
from pgmjax.measurements.total import estimate_total
from pgmjax.measurements.transcript import Transcript
from pgmjax.mechanisms.parameters import PrivacyParameters
from pgmjax.model.graphical import GraphicalModel
from pgmjax.privacy import Budget, NoiseBackend, PrivateTable, Score, scales
from pgmjax.privacy.measuring import PlannedMeasurement, plan_measurements
from pgmjax.privacy.opendp import default_backend
from pgmjax.privacy.sensitivity import Sensitivity
from pgmjax.queries import Query, kronecker, marginal, total
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Release
from pgmjax.release.run_folder import RunFolder
from pgmjax.release.statement import Spent, input_of

_LOG = logging.getLogger("pgmjax")
"""What it is told is public: names, numbers of tables, how fits ended."""


@dataclasses.dataclass(frozen=True)
class Work:
    """The work that a run is expected to do, at most where it depends on noisy answers.

    Attributes:
        fitted: cliques of the last fit.
        counts: number of noisy counts.
        counted: cliques that are counted exactly, before noise is added or scores are taken.
        compared: cells of models that are compared with exact counts, over all rounds.
        fits: number of fits, the last one included.
        questions: number of marginals that are asked of a model on the way.
        searched: number of answers for which the best strategy is searched; 0 if none is.
    """

    fitted: tuple[Clique, ...]
    counts: int
    counted: tuple[Clique, ...]
    compared: int = 0
    fits: int = 1
    questions: int = 0
    searched: int = 0

    @classmethod
    def of_queries(cls, domain: Domain, queries: Sequence[Query]) -> Work:
        """Return the work of measuring some queries once."""
        cliques = tuple(query.clique for query in queries)
        return cls(cliques, sum(query.num_rows(domain) for query in queries), cliques)

    @classmethod
    def of_choice(
        cls,
        domain: Domain,
        candidates: Sequence[Clique],
        most: int,
        rounds: int,
        measured: int | None = None,
    ) -> Work:
        """Return the work of scoring all candidates in each round, and measuring those that fit a model.

        Args:
            domain: the attributes.
            candidates: the cliques to choose from.
            most: the largest number of cells of the model's junction tree.
            rounds: number of rounds that score candidates.
            measured: the largest number of cliques that are measured. Default: all that fit.
        """
        width = max(map(len, candidates), default=0)
        widest = [clique for clique in candidates if len(clique) == width > 1]
        places = np.array(numbered(domain, widest), np.int32)
        fit = fitting(domain.shape, places, most) if widest else ()
        kept = tuple(widest[i] for i in fit)[:measured]
        covered = set(itertools.chain.from_iterable(kept))
        asked = dict.fromkeys(itertools.chain.from_iterable(candidates))
        kept += tuple((name,) for name in asked if name not in covered)
        return cls(
            kept,
            sum(map(domain.size, kept)) + sum(domain[name] for name in asked),
            tuple(candidates),
            rounds * sum(map(domain.size, candidates)),
            rounds + 1,  # fits: one after each round, and one before
            rounds * len(candidates),
        )


def distribution_for(sensitivity: int, unit: str, cost: Fraction) -> DiscreteNoise:
    """Return the distribution of noise for a cost.

    Raises:
        ValueError: the noise would be too large or zero.
    """
    if unit == "epsilon":
        return scales.laplace_for(sensitivity, cost)
    return scales.gaussian_for(sensitivity, cost)


def numbered(domain: Domain, cliques: Iterable[Clique]) -> list[tuple[int, ...]]:
    """Return cliques by the places of their attributes in the domain."""
    place = {name: i for i, name in enumerate(domain.attributes)}
    return [tuple(place[name] for name in clique) for clique in cliques]


def tree_cells(domain: Domain, cliques: Iterable[Clique]) -> int:
    """Return the number of cells of a junction tree of a model's cliques."""
    return total_cells(domain.shape, numbered(domain, cliques))


@dataclasses.dataclass(frozen=True)
class Request:
    """The public part of a run, known before any record is read.

    Attributes:
        domain: the domain of the table.
        workload: the requested queries.
        relation: the neighbouring relation.
        budget: the run's budget, still unspent.
        max_weight: the public bound on a record's weight; None without weights.
        estimator: the estimator by which a run decides what to measure, between rounds too.
        max_records: the largest number of records of a unit of privacy; 1 if it is one record.
    """

    domain: Domain
    workload: Workload
    relation: Relation
    budget: Budget
    max_weight: int | None
    estimator: Estimator
    max_records: int = 1

    @property
    def total_is_public(self) -> bool:
        """True if the number of records is public: records are replaced and have no weights."""
        return self.relation is Relation.REPLACE_ONE and self.max_weight is None

    @property
    def everybody(self) -> Query:
        """The query that counts all records."""
        return kronecker({self.domain.attributes[0]: total()})

    def sensitivity(self, marginals: Iterable[Clique | Query], unit: str | None = None) -> int:
        """Return the largest sensitivity of some marginals: L1 for an epsilon, squared L2 for a rho.

        Args:
            marginals: cliques or queries.
            unit: "epsilon" or "rho". Default: that of the budget.
        """
        norm = "l1" if (unit or self.budget.unit) == "epsilon" else "l2_squared"
        queries = (each if isinstance(each, Query) else marginal(each) for each in marginals)
        moved = (Sensitivity.of(each, self.domain, self.relation, norm, self.max_weight) for each in queries)
        return max(1, *(each.of_unit(self.max_records).value for each in moved))

    def noise(self, marginals: Iterable[Clique | Query], cost: Fraction) -> DiscreteNoise:
        """Return the largest noise of some marginals at a cost each.

        Raises:
            ValueError: the noise would be too large or zero.
        """
        return distribution_for(self.sensitivity(marginals), self.budget.unit, cost)

    def _planned(
        self, queries: Sequence[Query], weights: Sequence[Any], backend: NoiseBackend | None = None
    ) -> list[PlannedMeasurement]:
        """Return how queries that divide the budget by weights are measured, with what noise.

        Raises:
            ValueError: a query is not integral, or its noise would be too large or zero.
        """
        backend = default_backend() if backend is None else backend
        given = (self.domain, self.relation, self.max_weight, backend, self.max_records)
        return [
            plan_measurements(query, self.budget.unit, cost, *given)
            for query, cost in zip(queries, self.budget.split(weights), strict=True)
        ]

    def measurable(self, queries: Sequence[Query]) -> list[Query]:
        """Return the queries, after checking that a model fits in memory and the total is known or estimable.

        Raises:
            ValueError: the model does not fit in memory, or the total is private and not estimable.
        """
        self.estimator.plan(self.domain, [query.clique for query in queries])
        if not self.total_is_public and not any(map(self._tells_total, queries)):
            total = "number of records" if self.max_weight is None else "total weight"
            raise ValueError(
                f"The {total} is private and cannot be estimated from this workload: no query's rows add up "
                "to every record counted once. Add a whole marginal to the workload, such as "
                f"[{self.domain.attributes[0]!r}]; nothing was spent."
            )
        return list(queries)

    def _tells_total(self, query: Query) -> bool:
        # any answers do, as it follows from the query whether its rows add up to the total
        table = np.ones(self.domain.shape_of(query.clique), dtype=np.int64)
        try:
            estimate_total(self.domain, [LinearMeasurement(query.clique, query.apply(table), 1.0, query)])
        except ValueError:
            return False
        return True


@dataclasses.dataclass(frozen=True)
class Run:
    """A run of a mechanism on one table. Costs are in the budget's unit.

    Attributes:
        mechanism: the mechanism with its settings.
        request: the public request.
        plan: the value that `Mechanism.plan` returned.
        table: the private table under its budget.
        show_progress: None shows progress bars in terminals only, False never.
        folder: where the run's noisy answers are kept, or None.
        found: what discovery found before, or None.
        last: the estimator of the last fit. A run that goes on from its folder may be given another one than
            it began with, which is still the one that decides what it measures.
        left_out: what was counted of what the records that count leave out.
    """

    mechanism: PrivacyParameters
    request: Request
    plan: Any
    table: PrivateTable
    show_progress: bool | None = None
    folder: RunFolder | None = None
    found: Found | None = None
    last: Estimator | None = None
    left_out: tuple[LeftOutCount, ...] = ()

    @property
    def estimator(self) -> Estimator:
        """The estimator of the last fit."""
        return self.request.estimator if self.last is None else self.last

    @property
    def budget(self) -> Budget:
        """The table's budget."""
        return self.table.budget

    @functools.cached_property
    def total(self) -> int | None:
        """The number of records if it is public, otherwise None."""
        return self.table.public_total()

    @property
    def population(self) -> Population:
        """The records that all answers are of."""
        found = self.found is not None
        return dataclasses.replace(self.table.population, discovered=found, left_out=self.left_out)

    def measure(self, queries: Sequence[Query], costs: Sequence[Fraction]) -> list[LinearMeasurement]:
        """Measure queries, each at its own cost (epsilon or rho).

        Raises:
            BudgetExceeded: the budget does not suffice; nothing was spent.
            TableReadError: the table could not be read; the cost remains spent.
        """
        given = {f"{self.budget.unit}s": list(costs)}
        measured = self.table.measure(list(queries), **given, show_progress=self.show_progress)
        _LOG.info("%s: measured %d tables", self.mechanism.name, len(measured))
        if self.folder is not None:
            self.folder.record(measured, self.table.secure, self.table.seed, self.population)
        return list(measured)

    def select(self, score: Score, cost: Fraction) -> int:
        """Select a candidate, by permute-and-flip for an epsilon or the exponential mechanism for a rho.

        Raises:
            BudgetExceeded: the budget does not suffice; nothing was spent.
            TableReadError: the table could not be read; the cost remains spent.
        """
        given: dict[str, Any] = {self.budget.unit: cost}
        return self.table.select(score, **given)

    def measure_scores(self, score: Score, cost: Fraction) -> np.ndarray:
        """Return noisy scores of all candidates, float64 [candidates]; raises as `select` does."""
        given: dict[str, Any] = {self.budget.unit: cost}
        return self.table.measure_scores(score, **given)

    def fit(
        self,
        measurements: Sequence[LinearMeasurement],
        warm_start: GraphicalModel | None = None,
        estimator: Estimator | None = None,
    ) -> Fit:
        """Fit a model.

        Args:
            measurements: the noisy answers.
            warm_start: an earlier model to start from.
            estimator: the estimator. Default: that of the last fit.

        Raises:
            FitError: the fit failed. The error carries the measurements, whose cost is spent.
        """
        estimator = self.estimator if estimator is None else estimator
        with carry_measurements(measurements):
            return estimator.fit(self.request.domain, measurements, self.total, warm_start)

    def release(
        self,
        measurements: Sequence[LinearMeasurement],
        fit: Fit | None = None,
        *,
        of: type[Release] = Release,
        spent: Spent | None = None,
        facts: Sequence[str] = (),
        **fields: Any,
    ) -> Release:
        """Return the release, with the cost recorded by the budget.

        Args:
            measurements: the noisy answers.
            fit: a fit to these answers. Default: a new fit.
            of: the class of the release.
            spent: the cost. Default: of the budget.
            facts: names of public facts that it rests on.
            fields: additional fields of the release, which override the default ones.

        Raises:
            FitError: the fit failed. The error carries the measurements, whose cost is spent.
        """
        fit = self.fit(measurements) if fit is None else fit
        mechanism, table = self.mechanism, self.table
        _LOG.info("%s: fit %s after %d steps, gap %g", mechanism.name, fit.status.name, fit.steps, fit.gap)
        if spent is None and self.budget.whole.unit == "epsilon":
            spent = Spent(self.budget.whole.spent, Fraction(0))
        elif spent is None:
            spent = Spent(mechanism.epsilon, mechanism.delta, self.budget.whole.spent)
        keys = "0" if self.found is None else self.found.cost["delta"]
        numbers, played = [each.values for each in measurements], fields.get("transcript")
        numbers += [np.array([each.value]) for each in self.left_out]
        own = input_of(mechanism.name, table, spent, numbers, played, keys)
        inputs = (own, *(Input(fact, None, role=PUBLIC) for fact in facts))
        fit = dataclasses.replace(fit, model=with_inputs(fit.model, inputs))
        made = {
            "mechanism": mechanism.name,
            "domain": table.domain,
            "workload": self.request.workload,
            "model": fit.model,
            "fit": fit,
            "measurements": tuple(with_inputs(each, (own,)) for each in measurements),
            "epsilon": mechanism.epsilon,
            "delta": mechanism.delta,
            "inputs": inputs,
            "relation": mechanism.relation,
            "seed": table.seed,
            "weighted": table.weighted,
            "max_weight": table.max_weight,
            "unit": table.unit,
            "population": self.population,
            "ledger": table.receipt(),
            "discovery": None if self.found is None else self.found.to_dict(),
        }
        return of(**{**made, **fields})


class FitError(Error, RuntimeError):
    """The fit failed after the budget was spent.

    Attributes:
        measurements: the noisy answers. They are a valid private release and can be fitted in another way.
        transcript: the transcript of a mechanism that plays a game instead of measuring.
    """

    transcript: Transcript | None = None

    def __init__(self, reason: str, measurements: tuple[LinearMeasurement, ...]):
        super().__init__(
            f"The fit failed after the budget was spent: {reason} The noisy answers are not lost: they are "
            "in this error's `measurements`, to be fitted in another way."
        )
        self.measurements = measurements


@contextlib.contextmanager
def carry_measurements(measurements: Sequence[LinearMeasurement]) -> Iterator[None]:
    """Convert any exception in the block to a `FitError` that carries the measurements.

    Raises:
        FitError: the block raised an exception.
    """
    try:
        yield
    except Exception as error:
        raise FitError(str(error), tuple(measurements)) from error
