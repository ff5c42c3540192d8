"""The parts that every mechanism shares: privacy parameters, checks before spending, the release.

`Unfitted` is what a mechanism has measured and paid for before a model is fitted to it: by one fit, or by
many in a batch.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.errors import Error
from pgmjax.data.dataset import Dataset
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator, Fit
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.total import estimate_total
from pgmjax.measurements.transcript import Transcript
from pgmjax.privacy.accounting.zcdp import rho_for
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.exact import as_text, exact_delta, exact_epsilon
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.ledger.journal import LedgerJournal
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.queries import Query
from pgmjax.queries.workload import Workload
from pgmjax.release.release import Release, Spent


@dataclasses.dataclass(frozen=True)
class Settings:
    """Privacy parameters, exact.

    Attributes:
        epsilon: > 0.
        delta: in [0, 1); 0 is pure differential privacy.
        relation: which tables are neighbours.
    """

    epsilon: Fraction
    delta: Fraction
    relation: Relation

    def budget(self) -> Budget:
        """Return what a run may spend: epsilon for delta 0, otherwise the rho that fits both."""
        if self.delta == 0:
            return Budget(self.epsilon)
        return Budget(rho_for(self.epsilon, self.delta), unit="rho")

    def open(
        self,
        data: Dataset,
        workload: Workload,
        backend: NoiseBackend | None,
        request: Mapping[str, Any],
        ledger: Ledger | None = None,
        key: str | None = None,
    ) -> PrivateTable:
        """Return the table under this budget, with its charge and answers kept in a ledger if there is one.

        Args:
            data: the private table.
            workload: what is asked.
            backend: source of noise; None is the secure one.
            request: the mechanism and its own public settings.
            ledger: where the table's budget is kept.
            key: the run's name in it; None names it by the request.

        Raises:
            ValueError: a key without a ledger, or a table that the ledger does not know.
            LedgerError: the ledger cannot be read.
        """
        journal = None
        if ledger is not None:
            asked = {**request, **self._asked(data, workload, backend)}
            journal = LedgerJournal.of_table(ledger, data, key, asked)
        elif key is not None:
            raise ValueError("key names a run in a ledger: give the ledger too, or leave it out.")
        return PrivateTable(data, self.relation, self.budget(), backend, journal)

    def _asked(self, data: Dataset, workload: Workload, backend: NoiseBackend | None) -> dict[str, Any]:
        return {
            "epsilon": as_text(self.epsilon),
            "delta": as_text(self.delta),
            "relation": self.relation.value,
            "domain": data.domain.to_dict(),
            "columns": data.layout,
            "max_weight": data.max_weight if data.weighted else None,
            "workload": workload.to_list(),
            "seed": None if backend is None else backend.seed,
        }

    def release(
        self,
        mechanism: str,
        table: PrivateTable,
        workload: Workload,
        measurements: Sequence[LinearMeasurement],
        estimator: Estimator,
        fit: Fit | None = None,
    ) -> Release:
        """Fit a model to what was measured and return the release, with what its budget says was spent.

        Args:
            mechanism: its command-line name.
            table: what was measured.
            workload: what was asked.
            measurements: the noisy answers.
            estimator: how the model is fitted.
            fit: one to these answers that is there already; None makes one.

        Raises:
            FitError: the fit failed; it carries the measurements, which are paid for.
        """
        if fit is None:
            fit = self._fit(table, measurements, estimator)
        budget = table.budget
        if budget.unit == "epsilon":
            spent = Spent(budget.spent, Fraction(0))
        else:
            spent = Spent(self.epsilon, self.delta, budget.spent)
        return Release(
            mechanism=mechanism,
            domain=table.domain,
            workload=workload,
            model=fit.model,
            fit=fit,
            measurements=tuple(measurements),
            epsilon=self.epsilon,
            delta=self.delta,
            spent=spent,
            relation=self.relation,
            secure=table.secure,
            seed=table.seed,
            weighted=table.weighted,
            max_weight=table.max_weight,
            ledger=table.receipt(),
        )

    def _fit(
        self, table: PrivateTable, measurements: Sequence[LinearMeasurement], estimator: Estimator
    ) -> Fit:
        total = table.public_total()
        with paid_for(measurements):
            return estimator.fit(table.domain, measurements, total=total)


def read_settings(epsilon: Any, delta: Any, relation: Any) -> Settings:
    """Return privacy parameters as exact values.

    Raises:
        TypeError: a bool or no number.
        ValueError: a value outside its range, or no relation.
    """
    return Settings(exact_epsilon(epsilon), exact_delta(delta), Relation.parse(relation))


def check_request(data: Dataset, workload: Workload, relation: Relation, estimator: Estimator) -> list[Query]:
    """Return the queries of a workload that can be measured and fitted; reads nothing of the table.

    Raises:
        TypeError: not a table or not a workload.
        ValueError: the workload does not fit the domain, its model exceeds the memory, or its answers
            cannot tell a total that is private.
    """
    check_table_and_workload(data, workload)
    queries = [entry.query for entry in workload.entries]
    estimator.plan(data.domain, [query.clique for query in queries])
    if relation is Relation.ADD_REMOVE or data.weighted:
        _check_total_is_told(data, queries)
    return queries


def check_table_and_workload(data: Dataset, workload: Workload) -> None:
    """Refuse what is no table, no workload, or a workload that does not fit the table's domain.

    Raises:
        TypeError: not a table or not a workload.
        ValueError: the workload does not fit the domain.
    """
    if not isinstance(data, Dataset):
        raise TypeError(f"data must be a pgmjax.Dataset, got {type(data).__name__}.")
    if not isinstance(workload, Workload):
        raise TypeError(
            f"workload must be a pgmjax.Workload, got {type(workload).__name__}: see Workload.of_marginals."
        )
    workload.validate(data.domain)


def _check_total_is_told(data: Dataset, queries: Sequence[Query]) -> None:
    """Refuse queries from whose answers the total, records or their weight, cannot be estimated."""
    domain = data.domain
    for query in queries:
        table = np.ones(domain.shape_of(query.clique), dtype=np.int64)
        rehearsed = LinearMeasurement(query.clique, query.apply(table), 1.0, query)
        try:
            estimate_total(domain, [rehearsed])
        except ValueError:
            continue
        return
    total = "total weight" if data.weighted else "number of records"
    raise ValueError(
        f"The {total} is private and cannot be estimated from this workload: no query's rows add up "
        "to every record counted once. Add a whole marginal to the workload; nothing was spent."
    )


@dataclasses.dataclass(frozen=True)
class Unfitted:
    """Noisy answers that are paid for, with all that a release needs but the model.

    Mechanisms whose measured queries do not depend on the records hand it out by `measure`, so that many
    runs (trials, budgets) can be fitted together by `release_together`.

    Attributes:
        mechanism: its command-line name.
        settings: the privacy parameters.
        table: what was measured.
        workload: what was asked.
        measurements: the noisy answers.
        estimator: how the model is to be fitted.
        answered_by: how the release answers its workload.
    """

    mechanism: str
    settings: Settings
    table: PrivateTable
    workload: Workload
    measurements: tuple[LinearMeasurement, ...]
    estimator: Estimator
    answered_by: str = "engine"

    def release(self, fit: Fit | None = None) -> Release:
        """Return the release.

        Args:
            fit: one to these answers that is there already; None makes one.

        Raises:
            FitError: the fit failed; it carries the measurements, which are paid for.
        """
        made = self.settings.release(
            self.mechanism, self.table, self.workload, self.measurements, self.estimator, fit
        )
        return dataclasses.replace(made, answered_by=self.answered_by)


def release_together(rows: Sequence[Unfitted]) -> list[Release]:
    """Fit the answers of many runs in one batch and return their releases, in the same order.

    Args:
        rows: runs over one domain that measured the same queries; values and noise are their own.

    Raises:
        ValueError: no run, or runs that did not measure the same queries.
        FitError: the batch failed; it carries the measurements of all runs, which are paid for.

    Example:
        >>> import pgmjax as pj
        >>> data = pj.Dataset.from_columns(pj.Domain({"a": 2}), {"a": [0, 1, 1]})
        >>> plain = pj.mechanisms.Marginals(epsilon=1, relation=pj.Relation.REPLACE_ONE)
        >>> runs = [plain.measure(data, pj.Workload([["a"]])) for _ in range(3)]
        >>> [release.model.total for release in release_together(runs)]
        [3.0, 3.0, 3.0]
    """
    several = checks.several("rows", rows, "Unfitted")
    if not several:
        raise ValueError("a batch needs at least one run, got none.")
    first = several[0]
    totals = [row.table.public_total() for row in several]
    public = [total for total in totals if total is not None]
    with paid_for([measurement for row in several for measurement in row.measurements]):
        fits = first.estimator.fit_batch(
            first.table.domain,
            [row.measurements for row in several],
            totals=public if len(public) == len(several) else None,
        )
    return [row.release(fit) for row, fit in zip(several, fits, strict=True)]


class FitError(Error, RuntimeError):
    """No model could be fitted to answers that are already paid for.

    Attributes:
        measurements: the noisy answers, a valid private release: fit them in another way.
        transcript: of a mechanism that plays a game instead, likewise.
    """

    transcript: Transcript | None = None

    def __init__(self, reason: str, measurements: tuple[LinearMeasurement, ...]):
        super().__init__(
            f"The fit failed after the budget was spent: {reason} The noisy answers are not lost: they are "
            "in this error's `measurements`, to be fitted in another way."
        )
        self.measurements = measurements


@contextlib.contextmanager
def paid_for(measurements: Sequence[LinearMeasurement]) -> Iterator[None]:
    """Turn whatever fails in the block into a `FitError` that carries what was measured.

    Raises:
        FitError: something failed; the answers so far are paid for.
    """
    try:
        yield
    except Exception as error:
        raise FitError(str(error), tuple(measurements)) from error
