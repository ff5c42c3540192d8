"""L3 of an audit for a whole mechanism: many runs on two neighbouring tables of one small domain."""

from __future__ import annotations

import dataclasses
import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.checks import Error
from pgmjax._internal.progress import Progress
from pgmjax.audit.blackbox import LowerBound, epsilon_lower_bound
from pgmjax.audit.compare import differences
from pgmjax.audit.mechanism import DOMAIN, AuditCase, short_fit
from pgmjax.data.dataset import Dataset
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.measurements.inputs import with_inputs
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.mechanisms.run import FitError
from pgmjax.queries.workload import Workload

QUERY = Workload([["a"]])
"""One query, which gets the whole budget."""

RUNS = 2000
"""Default number of runs on each table."""

FITTED_RUNS = 200
"""Default number of runs if each run fits a model, which takes at least ten times as long."""

_ROWS = 40
_DIGITS = 9

Columns = dict[str, np.ndarray]


class NoMeasurementsError(Error, TypeError):
    """A mechanism's results have no measurements, which black-box runs need."""


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

    The statistic is how far the noisy answers lean towards one table's exact answers, by the likelihood of
    their noise, as for an attacker who knows all records but one. The workload is one marginal, so that the
    whole budget is spent on the answers used.

    If a mechanism takes an `estimator` and fits only after measuring, no model is fitted: runs with and
    without a fit, with the same seed, must release the same measurements bit for bit. Nothing is lost, since
    the statistic uses only measurements, and L1 shows that the rest of a release is determined by them.
    Otherwise a short fit is made in every run.

    Args:
        mechanism: a class, see `AuditCase`; its result must have `measurements`.
        relation: the neighbouring relation.
        epsilon: the mechanism's budget; 1 or 2 shows faults best.
        delta: 0 for pure differential privacy; if > 0, the bound is mostly 0 and not informative.
        trials: runs on each of the two tables. Default: 2,000, or 200 if each needs a fit.
        alpha: the probability that the bound is above the true epsilon.
        seed: seed of the first run's noise; each run has its own.
        show_progress: None shows a bar in terminals only, False never.
        options: further arguments of the mechanism.

    Raises:
        NoMeasurementsError: results have no `measurements` (a TypeError).
        TypeError: the class cannot be audited.
        ValueError: a number is invalid.
    """
    case = AuditCase(mechanism, Relation.parse(relation), epsilon, delta, seed, options)
    found = bound_case(case, trials, alpha=alpha, show_progress=show_progress)
    assert found is not None
    return found


def bound_case(
    case: AuditCase,
    trials: int | None = None,
    fitted_runs: int = FITTED_RUNS,
    *,
    alpha: float = 1e-6,
    show_progress: bool | None = None,
) -> LowerBound | None:
    """Bound the epsilon of a case from below; see `lower_bound`.

    Args:
        case: the mechanism and its claim.
        trials: runs on each of the two tables. Default: 2,000, or `fitted_runs` if each run fits a model.
        fitted_runs: 0 for none then, and no bound.
        alpha: the probability that the bound is above the true epsilon.
        show_progress: None shows a bar in terminals only, False never.
    """
    if trials is not None:
        trials = checks.integer("trials", trials, low=2)
    columns = _columns(case.relation)
    tables = [Dataset.from_columns(DOMAIN, each) for each in columns]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the noisy answers put the total")
        measurements, fits = _way_of_running(case, tables[0])
        trials = trials or (fitted_runs if fits else RUNS)
        if not trials:
            return None
        leans = np.empty((2, trials))
        with Progress("black-box runs", 2 * trials, show_progress) as progress:
            for trial in range(trials):
                for side, data in enumerate(tables):
                    released = measurements(data, case.seed + 2 * trial + side)
                    lean = sum(_lean(each, columns) for each in released)
                    leans[side, trial] = round(lean, _DIGITS)  # equal leans are equal on every processor
                    progress.advance()
    return epsilon_lower_bound(leans[0], leans[1], alpha=alpha, delta=float(case.delta))


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
    """Return a function that gives a run's measurements, without a fit if possible, and whether it fits."""

    def fitted(data: Dataset, seed: int) -> Sequence[LinearMeasurement]:
        return _measurements(case.make(seed).run(data, QUERY))

    def without_fits(data: Dataset, seed: int) -> Sequence[LinearMeasurement]:
        try:
            return _measurements(case.make(seed, estimator=no_fit).run(data, QUERY))
        except FitError as error:
            return _measurements(error)

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
    # a release names itself as their source, an error the table
    return [with_inputs(each, ()) for each in found]


def _lean(measurement: LinearMeasurement, columns: tuple[Columns, Columns]) -> float:
    """Return the lean of noisy answers towards the first table rather than the other.

    It is the logarithm of their likelihood ratio under the family of their noise, than which no statistic
    tells two tables better apart (Neyman and Pearson).
    """
    first, second = (measurement.flat_values() - _answers(measurement, each) for each in columns)
    spread = measurement.row_stddevs()
    if measurement.noise == "laplace":
        return float(np.sum(math.sqrt(2) * (np.abs(second) - np.abs(first)) / spread))
    return float(np.sum((second**2 - first**2) / (2 * spread**2)))


def _answers(measurement: LinearMeasurement, columns: Columns) -> np.ndarray:
    table = np.zeros(DOMAIN.shape_of(measurement.clique), dtype=np.int64)
    np.add.at(table, tuple(columns[name] for name in measurement.clique), 1)
    return np.asarray(measurement.query.apply(table), dtype=np.float64).reshape(-1)
