"""The noise, time and memory of a release, told before anything is spent, from public values alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from pgmjax._internal.memory import readable_bytes
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.data.unit import Unit
from pgmjax.mechanisms.base import MeasureOnce, Mechanism, Request
from pgmjax.privacy.backend import default_backend
from pgmjax.privacy.measuring import plan_measurements
from pgmjax.queries.workload import Workload

_SHOWN = 12


@dataclasses.dataclass(frozen=True)
class PlannedTable:
    """A table that a release will measure.

    Attributes:
        clique: its attributes.
        cells: number of its answers.
        stddev: of the noise of each.
    """

    clique: Clique
    cells: int
    stddev: float


@dataclasses.dataclass(frozen=True)
class ReleaseForecast:
    """The tables, noise, time and memory of a release, as far as they are known beforehand.

    Attributes:
        mechanism: its name.
        tables: what it will measure; empty if the mechanism chooses that while it runs.
        step_seconds: forecast of one step of the fit; None as `peak_bytes` without tables.
        compile_seconds: forecast of compiling it.
        peak_bytes: forecast of the memory of the fit.
        rates: where the rates of the forecast come from.
    """

    mechanism: str
    tables: tuple[PlannedTable, ...]
    step_seconds: float | None
    compile_seconds: float | None
    peak_bytes: int | None
    rates: str | None = None

    def lines(self, steps: int, rows: int | None = None) -> Iterator[str]:
        """Yield what is to be said.

        Args:
            steps: most steps of the fit.
            rows: number of records, if it is public.
        """
        if not self.tables:
            yield (
                f"{self.mechanism} chooses what it measures while it runs: its tables and their noise are "
                "known afterwards."
            )
            return
        counts = sum(table.cells for table in self.tables)
        yield f"Will be measured: {len(self.tables):,} tables of {counts:,} counts."
        for table in self.tables[:_SHOWN]:
            average = ""
            if rows is not None:
                each = rows / table.cells
                average = f", {each:,.4g} records a cell on average"
                average += ": less than the noise" * (each < table.stddev)
            yield (
                f"  {', '.join(table.clique)}: {table.cells:,} counts, noise of standard deviation "
                f"{table.stddev:,.4g} each{average}"
            )
        if len(self.tables) > _SHOWN:
            yield f"  and {len(self.tables) - _SHOWN:,} more"
        if rows is not None:
            below = sum(table.cells for table in self.tables if rows / table.cells < table.stddev)
            yield f"Below the noise on average: {below:,} of {counts:,} counts."
        else:
            yield "How many counts lie below the noise depends on the table: --rows N tells, if N is public."
        if self.step_seconds is not None and self.compile_seconds is not None and self.peak_bytes is not None:
            seconds = self.compile_seconds + steps * self.step_seconds
            yield (
                f"The fit: up to {seconds:,.0f} s for {steps:,} steps (forecast; rates: {self.rates}), "
                f"{readable_bytes(self.peak_bytes)} of memory."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast for JSON."""
        return {**dataclasses.asdict(self), "tables": [dataclasses.asdict(table) for table in self.tables]}


def forecast(
    mechanism: Mechanism,
    domain: Domain,
    workload: Workload,
    *,
    unit: Unit | None = None,
    max_weight: int | None = None,
) -> ReleaseForecast:
    """Return what a release will measure, with what noise, time and memory. Nothing is spent or read.

    Args:
        mechanism: with its settings.
        domain: of the table.
        workload: as for `Mechanism.run`.
        unit: the unit of privacy, None for one record.
        max_weight: bound on the records' weights, None without weights.

    Raises:
        ValueError: the run would be refused.

    Example:
        >>> import pgmjax as pj
        >>> plain = pj.mechanisms.Marginals(epsilon=1, relation="add-remove")
        >>> found = forecast(plain, pj.Domain({"a": 3, "b": 2}), pj.Workload([["a"], ["b"]]))
        >>> [(table.clique, table.cells, round(table.stddev, 2)) for table in found.tables]
        [(('a',), 3, 2.8), (('b',), 2, 2.8)]
    """
    workload.validate(domain)
    records = 1 if unit is None else unit.max_records
    estimator = mechanism._fitted_by(False)
    request = Request(
        domain, workload, mechanism._neighbours, mechanism.budget(), max_weight, estimator, records
    )
    plan = mechanism.plan(request)
    if not isinstance(mechanism, MeasureOnce):
        return ReleaseForecast(mechanism.name, (), None, None, None)
    budget = request.budget
    backend = mechanism.backend or default_backend()
    given = (request.relation, max_weight, backend, records)
    planned = [
        plan_measurements(query, budget.unit, cost, domain, *given)
        for query, cost in zip(plan.queries, budget.split(plan.weights), strict=True)
    ]
    tables = [
        PlannedTable(each.query.clique, each.rows, float(np.asarray(each.distribution.stddev)))
        for each in planned
    ]
    inference = estimator.plan(domain, [table.clique for table in tables])
    found = inference.oracle.forecast
    return ReleaseForecast(
        mechanism.name,
        tuple(tables),
        inference.step_seconds,
        found.compile_seconds,
        inference.peak_bytes,
        inference.rates.source,
    )
