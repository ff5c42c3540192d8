"""Batches of fits with the same cliques and queries but different values, stddevs and totals."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from pgmjax._internal import checks, device
from pgmjax._internal.device import precision
from pgmjax._internal.memory import readable_bytes
from pgmjax.data.domain import Domain
from pgmjax.estimation.fit import Fit, fit_steps
from pgmjax.estimation.losses import Loss
from pgmjax.estimation.problem import FitProblem
from pgmjax.estimation.solvers.batch import Queue, run_batch
from pgmjax.estimation.solvers.loop import FitSteps
from pgmjax.estimation.views import batch_html
from pgmjax.inference import oracles
from pgmjax.inference.plan.forecast import ModelTooLargeError, device_bytes
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.total import estimate_total
from pgmjax.model.graphical import GraphicalModel

# On a CPU the rows of one program share the overhead of launching its operations. Beyond this many
# numbers there is no gain (measured: 8, 16 and 32 rows of 15,000 cells take the same time per row, 4 a
# fifth more), and the rows that end last leave more slots idle.
CPU_NUMBERS = 1 << 17
CPU_SLOTS = 64
MOST_SLOTS = 1024
BOUND_TOGETHER = 64  # rows
# Bytes per row and measured cell, kept until the end: marginals, potentials, and the loss's own copies.
ROW_BYTES = 40


@dataclasses.dataclass(frozen=True)
class BatchFit:
    """The fits of a batch, in the order of its rows: a sequence of `Fit`.

    Attributes:
        fits: one `Fit` per row.
    """

    fits: tuple[Fit, ...]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.fits)

    def __iter__(self) -> Iterator[Fit]:
        """Iterate over the fits."""
        return iter(self.fits)

    def __getitem__(self, row: int) -> Fit:
        """The fit of a row."""
        return self.fits[row]

    def _repr_html_(self) -> str:
        return batch_html(self.fits)

    @property
    def status(self) -> np.ndarray:
        """Status of each row, as the integers of `Status` [rows]."""
        return np.array([int(fit.status) for fit in self.fits])

    @property
    def steps(self) -> np.ndarray:
        """Steps of each row [rows]."""
        return np.array([fit.steps for fit in self.fits])

    @property
    def loss(self) -> np.ndarray:
        """Loss of each row in float64 [rows]."""
        return np.array([fit.loss for fit in self.fits])

    @property
    def gap(self) -> np.ndarray:
        """Certified bound on `loss - optimum` of each row [rows]."""
        return np.array([fit.gap for fit in self.fits])


def same_structure(
    domain: Domain, rows: Sequence[Sequence[LinearMeasurement]]
) -> list[tuple[LinearMeasurement, ...]]:
    """Return the rows of a batch, checked and with standard deviations of the same form.

    Args:
        domain: the attributes.
        rows: the measurements of each row.

    Raises:
        TypeError: not a list of lists of measurements.
        ValueError: no rows, or one whose cliques or queries differ from the first row's.
    """
    if isinstance(rows, LinearMeasurement) or any(isinstance(row, LinearMeasurement) for row in rows):
        raise TypeError("measurements of a batch must be a list of lists, one list a row.")
    lists = [tuple(row) for row in rows]
    if not lists:
        raise ValueError("a batch needs at least one row of measurements, got none.")
    for number, row in enumerate(lists):
        if len(row) != len(lists[0]):
            raise ValueError(
                f"all rows of a batch must have the same cliques and queries in the same order: row 0 has "
                f"{len(lists[0])} measurements, row {number} has {len(row)}. Fit it apart."
            )
        for place, (one, first) in enumerate(zip(row, lists[0], strict=True)):
            checks.kind(one, LinearMeasurement, "measurements must be LinearMeasurement")
            if number == 0 or one.values.shape != first.values.shape:
                one.validate(domain)
            if one.clique != first.clique or one.query != first.query:
                differ = "clique" if one.clique != first.clique else "query"
                raise ValueError(
                    f"all rows of a batch must have the same cliques and queries in the same order: "
                    f"measurement {place} of row {number} has another {differ} ({one!r}) than that of row 0 "
                    f"({first!r}). Fit it apart."
                )
    for place in range(len(lists[0])):
        if len({row[place].stddev.ndim > 0 for row in lists}) > 1:
            lists = [(*row[:place], _each(row[place]), *row[place + 1 :]) for row in lists]
    return lists


def _each(measurement: LinearMeasurement) -> LinearMeasurement:
    """Return the measurement with one standard deviation per value."""
    stddevs = measurement.row_stddevs().reshape(measurement.values.shape)
    query, noise = measurement.query, measurement.noise
    return LinearMeasurement(measurement.clique, measurement.values, stddevs, query, noise)


def row_totals(
    domain: Domain, rows: Sequence[Sequence[LinearMeasurement]], totals: float | Sequence[float] | None
) -> list[float]:
    """Return the total of every row: common, given per row, or estimated per row.

    Raises:
        ValueError: the number of totals differs from that of rows, or one is not positive.
    """
    if totals is None:
        return [estimate_total(domain, row)[0] for row in rows]
    if np.ndim(totals) == 0:
        totals = [totals] * len(rows)  # type: ignore[list-item]
    given = list(totals)  # type: ignore[arg-type]
    if len(given) != len(rows):
        raise ValueError(f"totals must be one number or one a row: {len(rows)} rows, got {len(given)}.")
    return [checks.total(total) for total in given]


def slots_and_threads(plan: oracles.Plan, rows: int, mesh: jax.sharding.Mesh | None) -> tuple[int, int]:
    """Return the number of slots per program and of concurrent programs (threads).

    Args:
        plan: plan of one row.
        rows: number of rows.
        mesh: devices that share the slots.

    Raises:
        ModelTooLargeError: not even one row per device fits next to the results of all.
    """
    cost = plan.oracle.forecast
    limit = device_bytes() if plan.max_bytes is None else plan.max_bytes
    kept = rows * ROW_BYTES * cost.inputs
    one = plan.peak_bytes + plan.copies * cost.inputs * plan.itemsize  # a waiting row keeps its state
    devices = 1 if mesh is None else mesh.size
    per_device = (limit - kept) // one
    if per_device < 1:
        raise ModelTooLargeError(
            f"The results of {rows:,} fits take about {readable_bytes(kept)} and one fit at work about "
            f"{readable_bytes(one)}; {readable_bytes(limit)} is available. Fit fewer rows at a time, or set "
            "max_bytes."
        )
    wanted, threads = min(MOST_SLOTS, -(-rows // devices)), 1
    if mesh is None and device.is_cpu():
        numbers = max(cost.largest, cost.inputs, 1)
        threads = min(_cores(), rows)
        cached = 1 << max(CPU_NUMBERS // numbers, 1).bit_length() - 1  # the power of two below
        wanted = min(-(-rows // threads), CPU_SLOTS, cached)
    slots = min(1 << (wanted - 1).bit_length(), per_device)
    return slots * devices, max(1, min(threads, per_device // slots))


def _bind(problems: Sequence[FitProblem]) -> None:
    """Bind the losses of some rows together."""
    settings, domain = problems[0].estimator, problems[0].domain
    rows = [problem.measurements for problem in problems]
    with precision(settings.dtype):
        bound = problems[0].loss.bind_rows(domain, rows, [p.total for p in problems], settings.dtype)
    for problem, loss in zip(problems, bound, strict=True):
        problem.bounds[settings.dtype] = loss


def check_rows(loss: Any, rows: Sequence[Sequence[LinearMeasurement]]) -> None:
    """Refuse a function as the loss of fits to different answers: it knows those of one fit alone.

    Raises:
        TypeError: it is one, and would fit the same numbers in every row.
    """
    if isinstance(loss, str | Loss):  # `Custom(function)` says that it is meant
        return
    answers = [[measurement.flat_values().tolist() for measurement in row] for row in rows]
    if any(row != answers[0] for row in answers):
        raise TypeError(
            "The loss is a function, which holds the answers of one fit, and these are several fits, to "
            "other answers each: write it as a class of losses.Loss, whose bind gets them (docs/own.md), or "
            "losses.Custom(function) if it is the same for all."
        )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fit_all(
    problems: Sequence[FitProblem],
    starts: Sequence[GraphicalModel | None],
    mesh: jax.sharding.Mesh | None = None,
) -> list[Fit]:
    """Run the fits of a batch.

    Args:
        problems: one per row, which share their plans.
        starts: an initial model for each row, or None.
        mesh: devices to share the rows, or None.

    Returns:
        The fits.

    Raises:
        ModelTooLargeError: the model does not fit in memory, or not next to the results of all rows.
    """
    first = problems[0]
    check_rows(first.estimator.loss, [problem.measurements for problem in problems])
    slots, threads = slots_and_threads(first.plan(), len(problems), mesh)
    first.fits_in_float64()  # planned before the threads, which share the plans
    binding = threading.Lock()

    def steps(number: int) -> FitSteps[Fit]:
        with binding:
            if number and not problems[number].bounds:
                _bind(problems[number : number + BOUND_TOGETHER])
        result = yield from fit_steps(problems[number], starts[number])
        problems[number].bounds.clear()  # as much memory as the result
        return result

    queue: Queue[Fit] = Queue(map(steps, range(len(problems))))
    if threads == 1:
        run_batch(queue, slots, mesh)
    else:
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(run_batch, queue, slots) for _ in range(threads)]:
                done.result()
    return [queue.results[number] for number in range(len(problems))]
