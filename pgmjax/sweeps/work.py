"""Run the trials of a group, as one batch if its queries are fixed in advance, otherwise one by one.

The memory of a group is forecast before it starts; the forecast does not read the data.

Errors are measured against the true table: for research only, NEVER part of a release. What measures them
reads the exact table without noise. An error against the true answers
is itself information about the table: publishing it voids the guarantee.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pgmjax import mechanisms
from pgmjax._internal import checks
from pgmjax._internal.memory import readable_bytes
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.estimation import batch
from pgmjax.estimation.estimator import Estimator
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.job import Job
from pgmjax.mechanisms.measure_once import release_together
from pgmjax.model.graphical import many_marginals
from pgmjax.queries import marginal
from pgmjax.queries.workload import Workload
from pgmjax.release.look import total_variation
from pgmjax.release.release import Release
from pgmjax.sweeps.grid import Cell, Group, Table


@dataclasses.dataclass(frozen=True)
class Truth:
    """The exact answers to a workload. Private.

    Attributes:
        workload: the workload.
        tables: exact marginal of each of its cliques (counts).
        answers: exact answers of each of its entries (counts).
        records: number of records, or their total weight.
    """

    workload: Workload
    tables: tuple[np.ndarray, ...]
    answers: tuple[np.ndarray, ...]
    records: int

    @classmethod
    def of(cls, data: Dataset, workload: Workload) -> Truth:
        """Compute the exact answers of a table."""
        named = list(dict.fromkeys([*workload.cliques, *(entry.clique for entry in workload.entries)]))
        tables = dict(zip(named, data.marginals(named), strict=True))
        answers = [
            np.asarray(entry.query.apply(tables[entry.clique]), np.float64).reshape(-1)
            for entry in workload.entries
        ]
        return cls(workload, tuple(tables[c] for c in workload.cliques), tuple(answers), data.count())

    def errors(self, release: Release) -> dict[str, float]:
        """Return the errors of a release's answers and of its model's marginals. Not private.

        Returns:
            Of the answers of the workload the mean absolute error, the root mean square error and the largest
            absolute error (counts), each also as a share of the records; and the total variation of the
            model's marginals from the true ones, the mean over the workload's cliques (0 to 1).
        """
        answers = release.answers()
        distances = np.concatenate(
            [np.abs(ours - true) for ours, true in zip(answers, self.answers, strict=True)]
        )
        counts = {
            "mean_absolute": float(distances.mean()),
            "root_mean_square": float(np.sqrt(np.mean(np.square(distances)))),
            "largest": float(distances.max()),
        }
        shares = {f"{name}_share": value / self.records for name, value in counts.items()}
        return {**counts, **shares, "total_variation": float(np.mean(self._variations(release, answers)))}

    def _variations(self, release: Release, answers: list[np.ndarray]) -> list[float]:
        entries = self.workload.entries
        cliques = self.workload.cliques
        # the model's answers to whole marginals are its marginals: do not compute them twice
        if release.answered_by == "engine" and [entry.query for entry in entries] == list(
            map(marginal, cliques)
        ):
            ours = [answer.reshape(true.shape) for answer, true in zip(answers, self.tables, strict=True)]
        else:
            ours = many_marginals(release.model, cliques)
        return [total_variation(each, true) for each, true in zip(ours, self.tables, strict=True)]


Row = dict[str, Any]
DONE, FAILED, REFUSED = "done", "failed", "refused"

_ANSWER_BYTES = 4 * 8  # per answer and cell: true value, estimate, their distance, a marginal


def rows_of(cells: Sequence[Cell], error: str | None = None) -> list[Row]:
    """Return the rows of trials that have failed, or not run yet."""
    return [
        {"key": cell.key, "trial": cell.trial, "seed": cell.seed, "status": FAILED, "error": error}
        for cell in cells
    ]


def run_group(
    group: Group, cells: Sequence[Cell], table: Table, check: Callable[[], None] = lambda: None
) -> list[Row]:
    """Run trials of a group and return a row for each; the row of a failed trial holds its traceback.

    Args:
        group: the group to run.
        cells: the trials to run.
        table: the private table.
        check: called before a failure is recorded; raises if the failure was caused by an interrupt.

    Returns:
        Rows with key, trial, seed, status, error and forecast. Rows with status "done" also have the errors,
        times and the fit.
    """
    start = time.perf_counter()
    rows = rows_of(cells)
    try:
        expected = forecast(group, table.domain)
        for row in rows:
            row.update(forecast_bytes=expected.bytes)
        if expected.refused:
            for row in rows:
                row.update(status=REFUSED, error=expected.refused)
        else:
            truth = Truth.of(table.data, group.asked)
            if measures_once(group):
                _together(group, cells, table, truth, rows)
            else:
                _one_by_one(group, cells, table, truth, rows, check)
    except Exception:
        _fail(rows, check)
    whole = time.perf_counter() - start
    for row in rows:
        row.update(group_seconds=whole, batch=len(rows) if measures_once(group) else 1, peak_bytes=_peak())
    return rows


def _together(group: Group, cells: Sequence[Cell], table: Table, truth: Truth, rows: list[Row]) -> None:
    start = time.perf_counter()
    chosen: list[Any] = [_job(group, cell, table).chosen for cell in cells]
    measured = [each.measure(table.data, group.asked, show_progress=False) for each in chosen]
    releases = release_together(measured)
    seconds = time.perf_counter() - start
    for row, release in zip(rows, releases, strict=True):
        _record(row, release, truth, seconds / len(rows), seconds)


def _one_by_one(
    group: Group, cells: Sequence[Cell], table: Table, truth: Truth, rows: list[Row], check: Any
) -> None:
    first = None
    for cell, row in zip(cells, rows, strict=True):
        start = time.perf_counter()
        try:
            release = _job(group, cell, table).run(show_progress=False)
            seconds = time.perf_counter() - start
            first = seconds if first is None else first
            _record(row, release, truth, seconds, first)
        except Exception:
            _fail([row], check)


def _job(group: Group, cell: Cell, table: Table) -> Job:
    return Job(
        records=table.data,
        domain=table.domain,
        workload=group.asked,
        mechanism=group.mechanism.name,
        options=group.mechanism.options,
        epsilon=group.epsilon,
        delta=group.grid.delta,
        relation=group.grid.relation,
        estimator=Estimator(progress=False, **group.grid.estimator),
        insecure_seed=cell.seed,
    )


def _record(row: Row, release: Release, truth: Truth, seconds: float, first: float) -> None:
    row.update(
        truth.errors(release),
        status=DONE,
        error=None,
        fit_status=release.fit.status.name,
        steps=release.fit.steps,
        loss=checks.finite(release.fit.loss),
        gap=checks.finite(release.fit.gap),
        seconds=seconds,
        first_seconds=first,
    )


def _fail(rows: Sequence[Row], check: Callable[[], None]) -> None:
    """Write the traceback of the current exception into the rows that are not done."""
    check()
    said = traceback.format_exc()
    for row in rows:
        if row["status"] != DONE:
            row.update(status=FAILED, error=said)


def _peak() -> int | None:
    """Peak memory of this process in bytes, or None if the system does not report it."""
    with contextlib.suppress(ImportError):
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return None


@dataclasses.dataclass(frozen=True)
class MemoryForecast:
    """Forecast of the memory of a group.

    Attributes:
        bytes: peak memory in addition to the table; None if the mechanism itself limits the model's size.
        refused: why the group will not be started, or "".
    """

    bytes: int | None
    refused: str = ""

    def __str__(self) -> str:
        if self.refused:
            return "refused: too large"
        return "limited by the mechanism" if self.bytes is None else readable_bytes(self.bytes)


def measures_once(group: Group) -> bool:
    """Return whether the measured queries do not depend on the records, so that trials form one batch."""
    return hasattr(mechanisms.names()[group.mechanism.name], "measure")


def forecast(group: Group, domain: Domain) -> MemoryForecast:
    """Return the memory forecast of a group, or why it is refused.

    Mechanisms that choose what to measure use only part of the workload; their forecast is for all of it.

    Args:
        group: the group.
        domain: domain of the table.
    """
    estimator = Estimator(**{**group.grid.estimator, "devices": 1})  # a worker has them
    cliques = [entry.clique for entry in group.asked.entries]
    if group.mechanism.options.get("strategy") == "kron":
        cliques = [tuple(sorted({name for clique in cliques for name in clique}))]
    answers = group.asked.num_queries(domain) + sum(map(domain.size, group.asked.cliques))
    try:
        plan = estimator.plan(domain, cliques, batch=measures_once(group))
        inputs = plan.oracle.forecast.inputs
        one = plan.peak_bytes
        if measures_once(group):
            slots, threads = batch.slots_and_threads(plan, group.grid.trials, None)
            one = slots * threads * (one + plan.copies * inputs * plan.itemsize)
            one += group.grid.trials * batch.ROW_BYTES * inputs
    except ModelTooLargeError as error:
        return MemoryForecast(None, str(error) if measures_once(group) else "")
    return MemoryForecast(one + _ANSWER_BYTES * answers)
