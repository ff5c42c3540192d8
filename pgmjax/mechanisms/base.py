"""The parts that every mechanism shares: what it declares, and how it runs.

`Mechanism.run` is the same for all. It calls `plan`, which sees public information only and raises if the run
is infeasible. It then opens the table under the budget and passes a `Run` to `execute`, which measures and
constructs the release. A mechanism whose queries do not depend on the records only has to plan them, see
`mechanisms.measure_once`.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
import logging
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from pgmjax._internal import checks
from pgmjax.data.dataset import Dataset
from pgmjax.data.definition import outside_of_found
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Unit
from pgmjax.discovery import Discovery, OpenTable
from pgmjax.discovery.discover import DiscoveryRun
from pgmjax.estimation.estimator import Estimator
from pgmjax.mechanisms.parameters import Keeping, PrivacyParameters, workload_over
from pgmjax.mechanisms.run import Request, Run, Work
from pgmjax.privacy import Budget, Ledger
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.left_out import CountLeftOut, count_left_out
from pgmjax.privacy.measuring import PlannedMeasurement
from pgmjax.queries.workload import KWay, Workload
from pgmjax.release.release import Release
from pgmjax.release.run_folder import RunFolder

_LOG = logging.getLogger("pgmjax")


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
        checks.kind(self.estimator, Estimator | None, "estimator must be an Estimator such as Estimator()")

    summary: ClassVar[str]
    """One line for lists of mechanisms."""
    audited_with: ClassVar[Mapping[str, Any]] = {}
    """Settings used by audits on tiny tables."""
    audited_values: ClassVar[Mapping[str, Sequence[Any]]] = {}
    """Values of options used by audits, where the option's type does not tell them."""
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
        discover: Discovery | Any = None,
        ledger: Ledger | None = None,
        key: str | None = None,
        show_progress: bool | None = None,
        folder: RunFolder | None = None,
        count_left_out: CountLeftOut | Any = None,
    ) -> Release:
        """Run the mechanism and return a release.

        Args:
            data: the private table; an open one, some of whose columns nobody described, needs `discover`.
            workload: the queries that the release should answer; for an open table all marginals of k
                attributes, a `KWay`, as its domain is not known yet, or queries of described columns.
            discover: what the discovery of an open table's domain may cost: a share of the budget, or a
                `discovery.Discovery`.
            ledger: the ledger with the table's budget. Default: no record beyond this run.
            key: the run's name in the ledger. Default: derived from the request. Repeating a run under the
                same name returns the same answers at no cost, also after an interruption.
            show_progress: None shows a progress bar in terminals only, False never.
            folder: where every noisy answer is on disk before it is used; a run that was interrupted goes on
                from it at no further cost. Default: the ledger keeps the answers, if there is one. Without,
                they are in the user's state folder until this returns, see `release.run_folder`: the same
                call goes on from there. Repeatable noise (a seed) is not kept.
            count_left_out: the share of the budget for counting what the records that count leave out of the
                table, or a `privacy.CountLeftOut`. Default: it is not counted.

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
        with self._keeping(ledger, key, folder) as keeping:
            counting = CountLeftOut.of(count_left_out)
            share = discover if discover is None or isinstance(discover, Discovery) else Discovery(discover)
            return self.execute(self._start(data, workload, keeping, show_progress, share, counting))

    def _all_kway(self, domain: Domain, every: KWay) -> Workload:
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

    def _work(self, request: Request, plan: Any) -> Work:
        """Return what a run does, as far as it is known beforehand. Default: it measures the workload."""
        return Work.of_queries(request.domain, [entry.query for entry in request.workload.entries])

    def _likely(self, request: Request, plan: Any) -> list[PlannedMeasurement]:
        """Return what a run measures unless what it finds on the way forbids it; [] if that is open."""
        return []

    def _rough(self) -> Mechanism:
        """Return the mechanism by whose forecast limits are compared: itself, unless planning is slow."""
        return self

    def describe(self, plan: Any) -> dict[str, Any]:
        """Return the JSON-serialisable settings that identify the run's measurements in a ledger."""
        given = {name: getattr(self, name) for name in options(type(self))}
        return {name: as_text(v) if isinstance(v, Fraction) else v for name, v in given.items()}

    def _request(
        self,
        domain: Domain,
        workload: Workload,
        *,
        unit: Unit | None = None,
        max_weight: int | None = None,
        budget: Budget | None = None,
        estimator: Estimator | None = None,
    ) -> Request:
        """Return the public part of a run.

        Args:
            domain: of the table.
            workload: the queries that the release should answer.
            unit: the unit of privacy, None for one record.
            max_weight: bound on the records' weights, None without weights.
            budget: for the run. Default: the whole.
            estimator: by which the run decides what to measure. Default: that which fits the model.
        """
        estimator = self._fitted_by() if estimator is None else estimator
        budget = self.budget() if budget is None else budget
        records = 1 if unit is None else unit.max_records
        return Request(domain, workload, self._neighbours, budget, max_weight, estimator, records)

    def _fitted_by(self, show_progress: bool | None = None) -> Estimator:
        """Return the estimator that fits the model."""
        return Estimator(progress=show_progress) if self.estimator is None else self.estimator

    def _start(
        self,
        data: Dataset | OpenTable,
        workload: Workload | KWay,
        keeping: Keeping,
        show_progress: bool | None = None,
        discover: Discovery | None = None,
        counting: CountLeftOut | None = None,
    ) -> Run:
        """Check and plan, then open the table, and find its domain and count what it leaves out, if asked."""
        if isinstance(data, OpenTable):
            return self._discovered(data, workload, keeping, show_progress, discover, counting)
        if discover is not None:
            made = "make one by discovery.OpenTable.from_frame(frame)"
            how = "a Dataset has its domain: leave discover out" if isinstance(data, Dataset) else made
            raise ValueError(f"discover goes with an OpenTable; {how}.")
        self._check_table(data)
        workload = self._over(workload, data.domain)
        data = keeping.unit_of(data)
        estimator = self._fitted_by(show_progress)
        max_weight = data.max_weight if data.weighted else None
        budget = self.budget()
        kept, rest = self._parts(budget, counting)
        request = self._request(
            data.domain, workload, unit=data.unit, max_weight=max_weight, budget=rest, estimator=estimator
        )
        plan = self.plan(request)
        settings = {"mechanism": self.name, **self.describe(plan)}
        settings |= {} if counting is None else {"count_left_out": counting.to_dict()}
        table = self._open_table(data, workload, settings, keeping, budget)
        began = self._began(estimator, keeping)
        if began != estimator:
            request = dataclasses.replace(request, estimator=began)
            plan = self.plan(request)
        self._log_begin(len(data.domain))
        found = () if counting is None else count_left_out(table, counting, kept)
        table = table if rest is budget else table.within(rest)
        return Run(self, request, plan, table, show_progress, keeping.folder, last=estimator, left_out=found)

    def _parts(self, whole: Budget, counting: CountLeftOut | None) -> tuple[Fraction, Budget]:
        """Return what of a budget is kept for counting what is left out, and the rest as a budget."""
        kept = Fraction(0) if counting is None else counting.cost(self._neighbours, whole.cap)
        return kept, whole.part(whole.remaining - kept) if kept else whole

    def _discovered(
        self,
        table: OpenTable,
        workload: Workload | KWay,
        keeping: Keeping,
        show_progress: bool | None,
        settings: Discovery | None,
        counting: CountLeftOut | None = None,
    ) -> Run:
        """Find the domain of an open table for a part of the budget, and start a run with the rest of it."""
        if settings is None or not self.discovers:
            raise ValueError(
                "Columns of this table are open: "
                + (
                    f"{self.name} takes none, describe them."
                    if settings
                    else "say what share of the budget discovery may cost, such as discover=0.1."
                )
            )
        search = DiscoveryRun.of(table, settings, keeping.ledger)
        asked = {
            "mechanism": self.name,
            **Mechanism.describe(self, None),
            **search.describe(),
            "workload": workload.to_dict() if isinstance(workload, KWay) else workload.to_list(),
            **({} if counting is None else {"count_left_out": counting.to_dict()}),
        }
        budget = search.budget(self.epsilon, self.delta)
        kept = self._kept_beside(search, counting, budget)
        opened = self._opened(search.look, asked, keeping, budget, search.held)
        self._log_begin(len(search.table.draft.columns))
        found, rest = search.find(opened, keeping.ledger, show_progress, kept)
        domain = found.domain
        _LOG.info("%s: found the domain of %d columns", self.name, len(domain))
        try:
            over, estimator = self._over(workload, domain), self._fitted_by(show_progress)
            began, left = self._began(estimator, keeping), rest.budget.part(rest.budget.remaining - kept)
            request = self._request(domain, over, unit=search.table.unit, budget=left, estimator=began)
            plan = self.plan(request)
        except ValueError as error:
            raise ValueError(
                f"The domain that was found, at the cost of the discovery, does not allow this run: {error} "
                f"Its columns are {', '.join(domain)}."
            ) from error
        left_out = () if counting is None else count_left_out(rest, counting, kept)
        within = rest.within(left)
        return Run(self, request, plan, within, show_progress, keeping.folder, found, estimator, left_out)

    def _kept_beside(self, search: DiscoveryRun, counting: CountLeftOut | None, whole: Budget) -> Fraction:
        """Return what of a budget that discovery divides is kept for counting what is left out.

        Raises:
            ValueError: there will be nothing to count, or the two leave nothing of the budget.
        """
        if counting is None:
            return Fraction(0)
        drops = outside_of_found(self._neighbours) == "drop"
        counting.plan(self._neighbours, search.table.unit, drops=drops, weighted=False)
        kept = counting.cost(self._neighbours, whole.cap)
        if kept + whole.cap * search.settings.share >= whole.cap:
            raise ValueError(
                "discover and count_left_out are shares of one budget, and "
                "leave nothing of it to measure with: make them smaller. Nothing was spent."
            )
        return kept

    def _over(self, workload: Workload | KWay, domain: Domain) -> Workload:
        """Return a workload over the domain of a table; raises as `workload_over` does."""
        every = self._all_kway(domain, workload) if isinstance(workload, KWay) else workload
        return workload_over(every, domain)

    def _began(self, estimator: Estimator, keeping: Keeping) -> Estimator:
        """Return the estimator that a run in a folder began with, which decides what it measures."""
        if keeping.folder is None or not self.adapts:
            return estimator
        return keeping.folder.rounds_fitted_by(estimator)

    def _log_begin(self, columns: int) -> None:
        budget = ", ".join(f"{name} {as_text(getattr(self, name))}" for name in ("epsilon", "delta"))
        _LOG.info("%s: begun on %d columns, %s, %s", self.name, columns, budget, self._neighbours.value)


def options(mechanism: type[Any]) -> dict[str, Any]:
    """Return a mechanism's own options, besides those shared by all, with their defaults.

    Example:
        >>> from pgmjax.mechanisms import Marginals
        >>> options(Marginals)
        {'split': 'weighted'}
    """
    checks.kind(mechanism, type, "options are those of a class of mechanisms", "give mechanisms.AIM")
    shared = {field.name for field in dataclasses.fields(Mechanism)}
    return {field.name: field.default for field in dataclasses.fields(mechanism) if field.name not in shared}
