"""The parts that every mechanism shares: privacy parameters, checks before spending, a run, the release.

`Mechanism.run` is the same for all. It calls `plan`, which sees public information only and raises if the run
is infeasible. It then opens the table under the budget and passes a `Run` to `execute`, which measures and
constructs the release. A mechanism whose queries do not depend on the records is a `MeasureOnce`, which only
has to plan its queries.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.errors import Error
from pgmjax._internal.migration import Named
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.population import Population
from pgmjax.data.ratings import Ratings
from pgmjax.data.relation import AnyRelation, Relation
from pgmjax.discovery import Discovery, Found, OpenTable, Purpose, discover, first_look
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.measurements.inputs import PUBLIC, Input, with_inputs
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.total import estimate_total
from pgmjax.measurements.transcript import Transcript
from pgmjax.mechanisms.work import Work
from pgmjax.model.graphical import GraphicalModel
from pgmjax.privacy import tape
from pgmjax.privacy.accounting.zcdp import rho_for
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.exact import as_text, exact, exact_delta, exact_epsilon
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.ledger.journal import HeldTable, LedgerJournal
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.scores import Score
from pgmjax.queries import Query
from pgmjax.queries.workload import KWay, Workload
from pgmjax.release.release import Release
from pgmjax.release.run_folder import RunFolder
from pgmjax.release.statement import Spent, input_of
from pgmjax.release.unfinished import UnfinishedRun

_LOG = logging.getLogger("pgmjax")
"""What it is told is public: names, numbers of tables, how fits ended."""


@dataclasses.dataclass(frozen=True)
class PrivacyParameters(Named):
    """A privacy guarantee and the source of noise.

    Args:
        epsilon: the whole budget: a number, or an exact string such as "1/3".
        relation: the neighbouring relation or its name, "add-remove" or "replace-one"; there is no default.
        delta: 0 for pure differential privacy, with discrete Laplace noise and permute-and-flip. Above 0,
            the budget is the largest rho that converts to at most (epsilon, delta), with discrete Gaussian
            noise and the exponential mechanism.
        backend: source of noise. Default: the secure one.

    Raises:
        TypeError: epsilon or delta is a bool or not a number.
        ValueError: epsilon or delta is out of range, or the relation is not supported.
    """

    epsilon: Any
    relation: AnyRelation
    delta: Any = 0
    backend: NoiseBackend | None = dataclasses.field(default=None, kw_only=True)

    relations: ClassVar[tuple[Relation, ...]] = tuple(Relation)
    """The neighbouring relations that are supported."""
    accepts_weights: ClassVar[bool] = True
    """Whether tables whose records have weights are accepted."""
    restriction: ClassVar[str] = ""
    """The reason for a restriction of either, as the end of a sentence."""

    def __post_init__(self) -> None:
        self._set(
            epsilon=exact_epsilon(self.epsilon),
            delta=exact_delta(self.delta),
            relation=Relation.parse(self.relation),
        )
        if self.relation not in self.relations:
            supported = " or ".join(relation.value for relation in self.relations)
            raise ValueError(
                f"{type(self).__name__} works under {supported} only, got {self._neighbours.value}: "
                f"{self.restriction}"
            )
        if self.backend is not None and not hasattr(self.backend, "restart"):
            raise TypeError(f"backend must be a NoiseBackend, got {type(self.backend).__name__}.")

    @property
    def _neighbours(self) -> Relation:
        """The relation, for type checkers: the field takes its name too."""
        return Relation.parse(self.relation)

    @property
    def repeatable(self) -> bool:
        """True if the noise can be repeated, from a seed or a tape, so that no answer has to be kept."""
        return tape.active() is not None or (self.backend is not None and self.backend.seed is not None)

    def _set(self, **values: Any) -> None:
        """Replace settings by their checked values during initialisation."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _set_shares(self, *names: str) -> None:
        """Check settings that are shares of the budget and convert them to exact fractions."""
        for name in names:
            share = exact(name, getattr(self, name))
            if not 0 < share < 1:
                raise ValueError(f"{name} must be a share in (0, 1), got {as_text(share)}.")
            self._set(**{name: share})

    def budget(self) -> Budget:
        """Return a new budget: epsilon if delta is 0, otherwise the rho for (epsilon, delta)."""
        if self.delta == 0:
            return Budget(self.epsilon)
        return Budget(rho_for(self.epsilon, self.delta), unit="rho")

    def _check_weights(self, data: Dataset) -> None:
        """Check that a table has no weights if the mechanism does not accept them.

        Raises:
            ValueError: it has weights. The message gives the reason for the restriction.
        """
        if data.weighted and not self.accepts_weights:
            raise ValueError(f"{type(self).__name__} takes no weighted tables: {self.restriction}")

    def _open_table(
        self,
        data: Dataset,
        workload: Workload | None,
        settings: Mapping[str, Any],
        ledger: Ledger | None,
        key: str | None,
        folder: RunFolder | None = None,
    ) -> PrivateTable:
        """Return the table under a new budget; a ledger and a folder, if given, keep charge and answers.

        Args:
            data: the private table.
            workload: the requested queries, or None.
            settings: everything else that determines what is measured, public and JSON-serialisable, with
                the name of the mechanism under "mechanism". It identifies the run in the ledger.
            ledger: the ledger with the table's budget.
            key: the run's name in the ledger. Default: derived from the request.
            folder: the run's folder.

        Raises:
            ValueError: a key without a ledger, a table that is not in the ledger, or a folder of another run.
            LedgerError: the ledger cannot be read.
        """
        asked = {
            **settings,
            "domain": data.domain.to_dict(),
            "columns": data.layout,
            "max_weight": data.max_weight if data.weighted else None,
            **({} if data.unit is None else {"unit": data.unit.to_dict()}),
            "workload": None if workload is None else workload.to_list(),
        }
        return self._opened(data, asked, self.budget(), ledger, key, folder)

    def _opened(
        self,
        data: Dataset,
        asked: Mapping[str, Any],
        budget: Budget,
        ledger: Ledger | None,
        key: str | None,
        folder: RunFolder | None,
        held: HeldTable | None = None,
    ) -> PrivateTable:
        """Return the table under a budget, with the journal of what is asked; see `_open_table`."""
        kept = self._journal(data, asked, ledger, key, held)
        if folder is not None:
            place = None if kept is None else {name: kept.receipt()[name] for name in ("account", "key")}
            folder.bind({**asked, **self._parameters(), "reading": data.reading, "ledger": place}, data)
        if kept is not None and isinstance(kept.data, Dataset):
            data = kept.data
        journal = kept if folder is None else folder.journal(kept)
        return PrivateTable(data, self.relation, budget, self.backend, journal)

    def _held(self, data: Dataset, ledger: Ledger | None) -> Dataset:
        """Return a table under the unit of privacy of its account, which a plan has to know.

        Raises:
            ValueError: the table was opened with another unit.
        """
        if not isinstance(ledger, Ledger):
            return data
        if all(each.unit_of_privacy is None for each in ledger.accounts()):
            return data
        found = ledger.find_table(data)
        defined = found is not None and (found[0].definition or found[0].open) is not None
        return data.of_unit(found[0].unit_of_privacy) if found is not None and defined else data

    def _journal(
        self,
        data: Dataset | Ratings,
        asked: Mapping[str, Any],
        ledger: Ledger | None,
        key: str | None,
        held: HeldTable | None = None,
    ) -> LedgerJournal | None:
        """Return the journal of a run in a ledger, or None without a ledger.

        Args:
            data: the private table.
            asked: the request, without the privacy parameters.
            ledger: the ledger with the table's budget.
            key: the run's name in the ledger. Default: derived from the request.
            held: the table as it was found in the ledger already.

        Raises:
            TypeError: `ledger` is not a ledger.
            ValueError: a key without a ledger, or a table that is not in the ledger.
            LedgerError: the ledger cannot be read.
        """
        if ledger is None:
            if key is not None:
                raise ValueError("key names a run in a ledger: give the ledger too, or leave it out.")
            return None
        ledger = _a_ledger(ledger)
        held = HeldTable.of(ledger, data) if held is None else held
        return LedgerJournal.of_held(ledger, held, key, {**asked, **self._parameters()})

    def _parameters(self) -> dict[str, Any]:
        """Return what a request says of the guarantee and the noise."""
        delta = Fraction(0) if self.budget().unit == "epsilon" else self.delta
        return {
            "epsilon": as_text(self.epsilon),
            "delta": as_text(delta),
            "relation": self._neighbours.value,
            "seed": None if self.backend is None else self.backend.seed,
        }


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
                "to every record counted once. Add a whole marginal to the workload; nothing was spent."
            )
        return list(queries)

    def _tells_total(self, query: Query) -> bool:
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
    """

    mechanism: Mechanism
    request: Request
    plan: Any
    table: PrivateTable
    show_progress: bool | None = None
    folder: RunFolder | None = None
    found: Found | None = None
    last: Estimator | None = None

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
        return dataclasses.replace(self.table.population, discovered=self.found is not None)

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
        """Return noisy scores of all candidates, float64 [candidates].

        Raises:
            BudgetExceeded: the budget does not suffice; nothing was spent.
            TableReadError: the table could not be read; the cost remains spent.
        """
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


@dataclasses.dataclass(frozen=True)
class Mechanism(PrivacyParameters):
    """A differentially private release of a table for a workload.

    A subclass is a frozen dataclass of its own settings, with a `name`, a `summary`, a `plan` and an
    `execute`. The parameters of `PrivacyParameters` come first; `estimator` and `backend` are keyword-only.

    Args:
        estimator: the estimator that fits the model. Default: `Estimator()`.
    """

    estimator: Estimator | None = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.estimator, Estimator | None):
            what = "a class" if isinstance(self.estimator, type) else type(self.estimator).__name__
            raise TypeError(f"estimator must be an Estimator such as Estimator(), got {what}.")

    name: ClassVar[str]
    """The name on the command line and in files."""
    summary: ClassVar[str]
    """One line for lists of mechanisms."""
    audited_with: ClassVar[Mapping[str, Any]] = {}
    """Settings used by audits on tiny tables."""
    audited_values: ClassVar[Mapping[str, Sequence[Any]]] = {}
    """Values of options used by audits, where the option's type does not tell them."""
    audited_large: ClassVar[Mapping[str, Any] | None] = {}
    """Settings with which it measures a marginal of more than 2^18 cells; None if it never does."""
    chooses: ClassVar[bool] = False
    """Whether it chooses what to measure among the marginals of the workload, so that not all must fit."""
    adapts: ClassVar[bool] = True
    """Whether what it measures may depend on a fit of earlier answers."""
    discovers: ClassVar[bool] = True
    """Whether it runs within the rest of a budget, as it has to after discovery."""
    follows: ClassVar[bool] = True
    """Whether its model is fitted to measurements alone, so that it can follow an earlier release."""

    def run(
        self,
        data: Dataset | OpenTable,
        workload: Workload | KWay,
        *,
        discover: Discovery | None = None,
        ledger: Ledger | None = None,
        key: str | None = None,
        show_progress: bool | None = None,
        folder: RunFolder | None = None,
    ) -> Release:
        """Run the mechanism and return a release.

        Args:
            data: the private table; an open one, some of whose columns nobody described, needs `discover`.
            workload: the queries that the release should answer; for an open table all marginals of k
                attributes, a `KWay`, as its domain is not known yet, or queries of described columns.
            discover: what the discovery of an open table's domain may cost.
            ledger: the ledger with the table's budget. Default: no record beyond this run.
            key: the run's name in the ledger. Default: derived from the request. Repeating a run under the
                same name returns the same answers at no cost, also after an interruption.
            show_progress: None shows a progress bar in terminals only, False never.
            folder: where every noisy answer is on disk before it is used; a run that was interrupted goes on
                from it at no further cost. Default: the ledger keeps the answers, if there is one. Without,
                they are in the user's state folder until this returns, see `release.unfinished`: the same
                call goes on from there. Repeatable noise (a seed) is not kept.

        Raises:
            TypeError: an argument is not a table, a workload or a ledger.
            ValueError: the workload does not fit the table or the mechanism, the model does not fit in
                memory, or the table is invalid; nothing was spent.
            BudgetExceeded: the table's budget in the ledger does not suffice; nothing was spent.
            LedgerError: the ledger cannot be used; nothing was spent.
            FitError: the fit failed after budget was spent. The error carries the measurements.
            BaseException: any of these, and an interrupt, says where the answers so far are kept, if they
                are, and carries the path as `folder`.
        """
        with self._in_folder(ledger, folder) as kept:
            if isinstance(data, OpenTable):
                return self.execute(
                    self._discovered(data, workload, discover, ledger, key, show_progress, kept)
                )
            if discover is not None:
                raise ValueError(
                    "discover goes with an OpenTable, and this table's domain is given: leave it out."
                )
            if isinstance(workload, KWay):
                workload = self.asked(data.domain, workload)
            return self.execute(self._start(data, workload, ledger, key, show_progress, kept))

    @contextlib.contextmanager
    def _in_folder(self, ledger: Ledger | None, folder: RunFolder | None) -> Iterator[RunFolder | None]:
        """Give a run its folder while the block runs: the one that was given, or one until it is done.

        A ledger keeps the answers itself, and noise that can be repeated is kept by its seed.
        """
        with contextlib.ExitStack() as stack:
            if folder is None and ledger is None and not self.repeatable:
                folder = stack.enter_context(UnfinishedRun().kept())
            if folder is not None:
                stack.enter_context(folder.running())
            yield folder

    def asked(self, domain: Domain, every: KWay) -> Workload:
        """Return what all marginals of k attributes are over a domain, within the limit of cells.

        A mechanism that chooses among them gets each whose own table is within the limit. Others measure all,
        so that they get those that fit one model together.

        Raises:
            ValueError: no marginal is within the limit.
        """
        k, limit = min(every.k, len(domain)), every.max_cells
        if limit is None or not self.chooses:
            return Workload.all_kway(domain, k, limit)
        kept = [each for each in itertools.combinations(domain, k) if domain.size(each) <= limit]
        if not kept:
            raise ValueError(f"no {k}-way marginal has at most {limit:,} cells: raise max_cells.")
        return Workload.of_marginals(kept)

    @abc.abstractmethod
    def plan(self, request: Request) -> Any:
        """Make all public decisions and check that the run is feasible.

        No budget is spent and no private data is accessible here.

        Returns:
            The plan for `execute`, available there as `Run.plan`.

        Raises:
            ValueError: the run is infeasible. The message states the reason and the remedy.
        """

    @abc.abstractmethod
    def execute(self, run: Run) -> Release:
        """Spend the budget and return the release."""

    def work(self, request: Request, plan: Any) -> Work:
        """Return what a run does, as far as it is known beforehand. Default: it measures the workload."""
        return Work.of_queries(request.domain, [entry.query for entry in request.workload.entries])

    def describe(self, plan: Any) -> dict[str, Any]:
        """Return the JSON-serialisable settings that identify the run's measurements in a ledger."""
        return {name: as_text(v) if isinstance(v, Fraction) else v for name, v in self._options().items()}

    def _fitted_by(self, show_progress: bool | None = None) -> Estimator:
        """Return the estimator that fits the model."""
        return Estimator(progress=show_progress) if self.estimator is None else self.estimator

    def _start(
        self,
        data: Dataset,
        workload: Workload,
        ledger: Ledger | None = None,
        key: str | None = None,
        show_progress: bool | None = None,
        folder: RunFolder | None = None,
    ) -> Run:
        """Check and plan, then open the table. Nothing is spent yet."""
        workload = check_table_and_workload(data, workload)
        self._check_weights(data)
        data = self._held(data, ledger)
        max_weight = data.max_weight if data.weighted else None
        estimator = self._fitted_by(show_progress)
        records = 1 if data.unit is None else data.unit.max_records
        request = Request(
            data.domain, workload, self._neighbours, self.budget(), max_weight, estimator, records
        )
        plan = self.plan(request)
        settings = {"mechanism": self.name, **self.describe(plan)}
        table = self._open_table(data, workload, settings, ledger, key, folder)
        began = estimator if folder is None or not self.adapts else folder.rounds_fitted_by(estimator)
        if began != estimator:
            request = dataclasses.replace(request, estimator=began)
            plan = self.plan(request)
        self._log_begin(len(data.domain))
        return Run(self, request, plan, table, show_progress, folder, last=estimator)

    def _discovered(
        self,
        table: OpenTable,
        workload: Workload | KWay,
        settings: Discovery | None,
        ledger: Ledger | None,
        key: str | None,
        show_progress: bool | None,
        folder: RunFolder | None,
    ) -> Run:
        """Find the domain of an open table for a part of the budget, and start a run with the rest of it."""
        if settings is None or not self.discovers:
            raise ValueError(
                "Columns of this table are open: "
                + (f"{self.name} takes none, describe them." if settings else "say what discovery may cost.")
            )
        held, table = _held_open(table, ledger)
        whole = self._whole(table, settings)
        look = first_look(table)
        if held is not None and isinstance(held.data, Dataset):
            look = look.as_old_as(held.data)
            held = dataclasses.replace(held, data=look)
        asked = {
            "mechanism": self.name,
            **Mechanism.describe(self, None),
            "draft": table.draft.to_dict(),
            "discover": settings.to_dict(),
            "columns": look.layout,
            **({} if table.unit is None else {"unit": table.unit.to_dict()}),
            "workload": workload.to_dict() if isinstance(workload, KWay) else workload.to_list(),
        }
        opened = self._opened(look, asked, whole, ledger, key, folder, held)
        self._log_begin(len(table.draft.columns))
        share = whole.part(whole.cap * settings.share, delta=whole.delta or None)
        purpose = Purpose(whole.unit, whole.cap * (1 - settings.share), opened.max_records)
        found = discover(opened.over(look, share), table, purpose, show_progress, look)
        _LOG.info("%s: found the domain of %d columns", self.name, len(found.domain))
        receipt = opened.receipt()
        if ledger is not None and receipt is not None:
            ledger.set_discovered(receipt["account"], receipt["charge"], found.domain)
        attributes = [found.domain.attribute(name) for name in found.domain]
        data = table.under(attributes, found.rows_outside, like=look)
        rest = whole.part(whole.remaining)
        try:
            over = self.asked(found.domain, workload) if isinstance(workload, KWay) else workload
            over = check_table_and_workload(data, over)
            estimator = self._fitted_by(show_progress)
            began = estimator if folder is None or not self.adapts else folder.rounds_fitted_by(estimator)
            request = Request(found.domain, over, self._neighbours, rest, None, began, opened.max_records)
            plan = self.plan(request)
        except ValueError as error:
            raise ValueError(
                f"The domain that was found, at the cost of the discovery, does not allow this run: {error} "
                f"Its columns are {', '.join(found.domain)}."
            ) from error
        return Run(self, request, plan, opened.over(data, rest), show_progress, folder, found, estimator)

    def _whole(self, table: OpenTable, settings: Discovery) -> Budget:
        """Return the budget of discovery and run together: of delta, a share is kept for labels of text."""
        budget = self.budget()
        if budget.unit == "epsilon" or not table.may_have_labels:
            return budget
        risk = self.delta * settings.delta_share
        return Budget(rho_for(self.epsilon, self.delta - risk), unit="rho", delta=risk)

    def _log_begin(self, columns: int) -> None:
        budget = ", ".join(f"{name} {as_text(getattr(self, name))}" for name in ("epsilon", "delta"))
        _LOG.info("%s: begun on %d columns, %s, %s", self.name, columns, budget, self._neighbours.value)

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in options(type(self))}


def _held_open(table: OpenTable, ledger: Ledger | None) -> tuple[HeldTable | None, OpenTable]:
    """Return an open table as its holder defined it, and its place in the ledger; as it is without one.

    Raises:
        TypeError: `ledger` is not a ledger.
        ValueError: the ledger has no account for the table, or its holder defined it otherwise.
    """
    if ledger is None:
        return None, table
    held = HeldTable.open(_a_ledger(ledger), first_look(table))
    definition = held.account.open
    return held, table if definition is None else table.held_as(definition)


def _a_ledger(ledger: Any) -> Ledger:
    if not isinstance(ledger, Ledger):
        raise TypeError(f"ledger must be a Ledger, got {type(ledger).__name__}: see Ledger.open.")
    return ledger


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
        with self._in_folder(ledger, folder) as kept:
            return self._measured(self._start(data, workload, ledger, key, show_progress, kept))

    def execute(self, run: Run) -> Release:
        """Measure, fit and return the release."""
        return self._measured(run).release()

    def work(self, request: Request, plan: MeasurementPlan) -> Work:
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


def options(mechanism: type[Any]) -> dict[str, Any]:
    """Return a mechanism's own options, besides those shared by all, with their defaults.

    Example:
        >>> from pgmjax.mechanisms import Marginals
        >>> options(Marginals)
        {'split': 'equal'}
    """
    shared = {field.name for field in dataclasses.fields(Mechanism)}
    return {field.name: field.default for field in dataclasses.fields(mechanism) if field.name not in shared}


def check_table_and_workload(data: Dataset, workload: Workload) -> Workload:
    """Return the workload over the table's domain; check that the arguments are a table and a workload.

    Raises:
        TypeError: an argument is not a table or not a workload.
        ValueError: the workload does not fit the domain.
    """
    if not isinstance(data, Dataset):
        call = "mechanism.run(data, workload), with Dataset.from_frame(domain, frame) for data"
        raise TypeError(f"data must be a pgmjax.Dataset, got {type(data).__name__}: write {call}.")
    if not isinstance(workload, Workload):
        raise TypeError(
            f"workload must be a pgmjax.Workload, got {type(workload).__name__}: see Workload.of_marginals."
        )
    return workload.over(data.domain)
