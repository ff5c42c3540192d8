"""L3 of an audit for a whole mechanism: many runs on two neighbouring tables of one small domain."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.errors import Error
from pgmjax._internal.progress import Progress
from pgmjax.audit.blackbox import LowerBound, epsilon_lower_bound
from pgmjax.audit.compare import differences
from pgmjax.audit.mechanism import DOMAIN, AuditCase, short_fit
from pgmjax.data.dataset import Dataset
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.base import FitError
from pgmjax.queries.workload import Workload

QUERY = Workload([["a"]])
"""One query, on which the whole budget goes."""

RUNS = 2000
"""Runs on each table where nothing is said of their number."""

FITTED_RUNS = 200
"""The same where a model is fitted in every run, which takes ten times as long and more."""

_ROWS = 40

Columns = dict[str, np.ndarray]


class NoMeasurementsError(Error, TypeError):
    """Results of a mechanism hold no measurements, which black-box runs look at."""


class _NotFitted(Exception):
    """No model was fitted, on purpose."""


class _NoFit(Estimator):
    def fit(self, *given: Any, **more: Any) -> Any:
        raise _NotFitted

    def fit_batch(self, *given: Any, **more: Any) -> Any:
        raise _NotFitted


def lower_bound(
    mechanism: Any,
    relation: Relation | str,
    *,
    epsilon: Any = 1,
    delta: Any = 0,
    trials: int | None = None,
    alpha: float = 1e-6,
    seed: int = 0,
    show_progress: bool | None = None,
    **options: Any,
) -> LowerBound:
    """Run a mechanism many times on two neighbouring tables and bound its epsilon from below.

    What is looked at is how far the noisy answers lean to one table's exact answers, weighed by their
    noise, as an attacker would who knows all records but one. The workload is one marginal, so that all of
    the budget is spent on what is looked at.

    Where a mechanism takes an `estimator` and only fits once it has measured, nothing is fitted: a run with
    and one without a fit, of the same seed, must have released the same measurements bit for bit. This
    leaves nothing out: the statistic reads measurements alone, and L1 shows that the rest of a release
    repeats given them. Otherwise a short fit is made in every run.

    Args:
        mechanism: a class, see `AuditCase`; its result must have `measurements`.
        relation: which tables are neighbours.
        epsilon: what it may spend; 1 or 2 shows faults best.
        delta: 0 for pure differential privacy; with more, the bound is mostly 0 and shows nothing.
        trials: runs on each of the two tables; None makes 2,000, or 200 where each needs a fit.
        alpha: the probability that the bound is above the true epsilon.
        seed: of the first run's noise; each run has its own.
        show_progress: None shows a bar in terminals only, False never.
        options: more arguments of the mechanism.

    Raises:
        NoMeasurementsError: results have no `measurements` (a TypeError).
        TypeError: a class that cannot be audited.
        ValueError: a bad number.
    """
    case = AuditCase(mechanism, Relation.parse(relation), epsilon, delta, seed, options)
    return bound_case(case, trials, alpha=alpha, show_progress=show_progress)


def bound_case(
    case: AuditCase, trials: int | None = None, *, alpha: float = 1e-6, show_progress: bool | None = None
) -> LowerBound:
    """Bound the epsilon of a case from below; see `lower_bound`."""
    if trials is not None:
        checks.integer("trials", trials, low=2)
    columns = _columns(case.relation)
    tables = [Dataset.from_columns(DOMAIN, each) for each in columns]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the noisy answers put the total")
        measurements, fits = _way_of_running(case, tables[0])
        trials = trials or (FITTED_RUNS if fits else RUNS)
        leans = np.empty((2, trials))
        with Progress("black-box runs", 2 * trials, show_progress) as progress:
            for trial in range(trials):
                for side, data in enumerate(tables):
                    released = measurements(data, case.seed + 2 * trial + side)
                    leans[side, trial] = sum(_lean(each, columns) for each in released)
                    progress.advance()
    return epsilon_lower_bound(leans[0], leans[1], alpha=alpha, delta=float(case.delta))


def fits_in_every_run(case: AuditCase) -> bool:
    """Return whether measurements of a case follow from fits on the way, so that black-box runs take long."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the noisy answers put the total")
        return _way_of_running(case, Dataset.from_columns(DOMAIN, _columns(case.relation)[0]))[1]


def _columns(relation: Relation) -> tuple[Columns, Columns]:
    codes = np.zeros((len(DOMAIN), _ROWS), dtype=np.int64)
    other = codes.copy()
    other[:, -1] = [size - 1 for size in DOMAIN.shape]
    if relation is Relation.ADD_REMOVE:
        other = codes[:, :-1]
    first, second = (dict(zip(DOMAIN.attributes, each, strict=True)) for each in (codes, other))
    return first, second


def _way_of_running(
    case: AuditCase, data: Dataset
) -> tuple[Callable[[Dataset, int], Sequence[LinearMeasurement]], bool]:
    """Return how to come by the measurements of a run, without a fit if they are the same, and if it fits."""

    def fitted(data: Dataset, seed: int) -> Sequence[LinearMeasurement]:
        return _measurements(case.make(seed).run(data, QUERY))

    def without_fits(data: Dataset, seed: int) -> Sequence[LinearMeasurement]:
        try:
            return _measurements(case.make(seed, estimator=no_fit).run(data, QUERY))
        except FitError as error:
            return error.measurements

    full = fitted(data, case.seed)
    if not full:
        raise NoMeasurementsError("A run released no measurements, which black-box runs look at.")
    short = short_fit()
    no_fit = _NoFit(**{field.name: getattr(short, field.name) for field in dataclasses.fields(short)})
    try:
        same = not differences(list(full), list(without_fits(data, case.seed)))
    except Exception:  # it takes no estimator, or needs its fit on the way
        same = False
    takes_fit = "estimator" in inspect.signature(case.mechanism).parameters
    return (without_fits, False) if same else (fitted, takes_fit)


def _measurements(result: Any) -> Sequence[LinearMeasurement]:
    found = getattr(result, "measurements", None)
    if not isinstance(found, list | tuple) or not all(isinstance(each, LinearMeasurement) for each in found):
        raise NoMeasurementsError(
            f"Black-box runs look at `measurements`, LinearMeasurements in a tuple, which a result of type "
            f"{type(result).__name__} does not have: use audit_blackbox with a number of your own."
        )
    return found


def _lean(measurement: LinearMeasurement, columns: tuple[Columns, Columns]) -> float:
    """Return the lean of noisy answers towards the first table rather than the other."""
    exact = [_answers(measurement, each) for each in columns]
    distance = (exact[0] - exact[1]) / measurement.row_stddevs() ** 2
    return float(distance @ (measurement.flat_values() - (exact[0] + exact[1]) / 2))


def _answers(measurement: LinearMeasurement, columns: Columns) -> np.ndarray:
    table = np.zeros(DOMAIN.shape_of(measurement.clique), dtype=np.int64)
    np.add.at(table, tuple(columns[name] for name in measurement.clique), 1)
    return np.asarray(measurement.query.apply(table), dtype=np.float64).reshape(-1)
