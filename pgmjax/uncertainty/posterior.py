"""Several tables to analyse like real ones, and the rule by which their estimates are combined.

A draw of the posterior simulates the people of the fitted model, adds the mechanism's noise anew and fits
again, so that cells that noise alone may fill stay empty (`emptied`). Records of a draw are then drawn
independently of one another: the rule subtracts their sampling variance, which rows that are dealt evenly do
not have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.migration import Named
from pgmjax.measurements.linear import LinearMeasurement, is_marginal
from pgmjax.model.graphical import GraphicalModel
from pgmjax.uncertainty import bootstrap


@dataclasses.dataclass(frozen=True)
class Combined(Named):
    """An estimate from several tables.

    Attributes:
        estimate: mean of the tables' estimates.
        stderr: its standard error, of the noise and of the people drawn.
        interval: (low, high).
        df: degrees of freedom of its t distribution.
        rests_on_model: whether it is of attributes that no measured marginal holds together, so that the
            error of the model there is in no interval; None if nobody knows.
    """

    estimate: Any
    stderr: Any
    interval: tuple[Any, Any]
    df: Any
    rests_on_model: bool | None = None


def combine(estimates: Any, variances: Any, *, level: float = 0.95) -> Combined:
    """Combine one estimate from each of several tables of a release.

    With b the variance of the estimates, u the mean of their variances and m their number, the variance is
    T = (1 + 1/m) b - u, with (m - 1) (1 - u / ((1 + 1/m) b))**2 degrees of freedom, at least 1. Each table
    is drawn from another draw of the model: b holds u once for its people and once for its records, and the
    noise beside. So T is (1 + 2/m) u without any noise, and where it comes out below that, it is that, with
    m - 1 degrees of freedom (docs/lab/coverage.md has how often such intervals hold). Tables of fewer records
    than there are people get too large errors so. Those of another origin, whose people are not simulated
    anew, need the published rule, without that floor.

    Args:
        estimates: of each table [m] or [m, ...], in the analysis' own units.
        variances: the squared standard error of each, as the analysis of the one table gives it.
        level: of the interval.

    Raises:
        TypeError: what is given is no numbers.
        ValueError: fewer than two tables, shapes that differ, estimates that are not finite, or variances
            that are negative or not finite.

    References:
        Raghunathan, Reiter and Rubin 2003, "Multiple imputation for statistical disclosure limitation",
        section 2; Raisa, Jalko, Kaski and Honkela 2023, "Noise-aware statistical inference with
        differentially private synthetic data".

    Example:
        >>> found = combine([10.0, 12.0, 11.0, 13.0], [0.5, 0.5, 0.5, 0.5])
        >>> found.estimate, round(found.stderr, 3), [round(x, 2) for x in found.interval]
        (11.5, 1.258, [5.2, 17.8])
    """
    given, own = _numbers("estimates", estimates), _numbers("variances", variances)
    level = checks.number("level", level, above=0, below=1)
    if given.ndim == 0 or given.shape != own.shape:
        raise ValueError(
            "Estimates and variances must be one for each of the tables, such as 20 of release.tables(20): "
            f"got shapes {given.shape} and {own.shape}."
        )
    if len(given) < 2:
        raise ValueError(f"Estimates of at least two tables are needed, got {len(given)}: draw more tables.")
    bad = [number for number in range(len(given)) if not np.isfinite(given[number]).all()]
    bad += [
        number for number in range(len(own)) if not (own[number] >= 0).all() or np.isinf(own[number]).any()
    ]
    if bad:
        raise ValueError(
            "Estimates must be finite, and variances finite and at least 0: those of table "
            f"{bad[0]} are not. Leave the table out only if the reason has nothing to do with its values."
        )
    m = len(given)
    centre, between, within = given.mean(axis=0), given.var(axis=0, ddof=1), own.mean(axis=0)
    spread, least = (1 + 1 / m) * between, (1 + 2 / m) * within
    above = spread - within > least
    variance = np.where(above, spread - within, least)
    share = np.divide(within, spread, out=np.zeros_like(spread), where=above)
    df = np.where(above, np.maximum((m - 1) * (1 - share) ** 2, 1.0), m - 1.0)
    return _combined(centre, np.sqrt(variance), df, level)


def around(estimate: Any, plain: Any, draws: Sequence[Any], *, level: float = 0.95) -> Combined:
    """Return an estimate with an error from draws of a fit that nothing pulls.

    With d the deviations of m draws from that fit, and p that of the estimate from it, the variance is
    (1 + 1/m) mean(d**2) + p**2, with m degrees of freedom. A fit without negative counts is off to one side,
    and one that is pulled is further: both are part of the error.

    Args:
        estimate: of the release.
        plain: the same of a fit that nothing pulls.
        draws: the same of fits to noise drawn anew about that.
        level: of the interval.
    """
    given = np.asarray(draws, np.float64)
    m, centre, about = len(given), np.asarray(estimate, np.float64), np.asarray(plain, np.float64)
    variance = (1 + 1 / m) * np.square(given - about).mean(axis=0) + np.square(centre - about)
    return _combined(centre, np.sqrt(variance), np.full(centre.shape, float(m)), level)


def _combined(centre: np.ndarray, stderr: np.ndarray, df: np.ndarray, level: float) -> Combined:
    from scipy import special  # late, as importing it takes as long as importing NumPy

    half = special.stdtrit(df, (1 + level) / 2) * stderr
    found = (centre, stderr, centre - half, centre + half, df)
    mean, error, low, high, freedom = (
        each.item() if each.ndim == 0 else each for each in map(np.asarray, found)
    )
    return Combined(mean, error, (low, high), freedom)


def _numbers(name: str, given: Any) -> np.ndarray:
    """Return real numbers as an array; what is refused is not shown, as it may be data."""
    try:
        found = np.asarray(given)
        if found.dtype.kind in "biuf":
            return found.astype(np.float64)
    except (TypeError, ValueError):
        pass
    raise TypeError(
        f"{name} must be numbers, one or an array of one shape for each table, got {type(given).__name__} of "
        "other values."
    ) from None


EMPTY, ROUNDS, FLOOR = 8.0, 2, 0.15
"""Share of a table's lowering over that of its negative answers, refits, and the least count by which a noise
is divided, in its standard deviations. Chosen for the coverage of slopes and means of single tables of two
columns at three levels of noise (docs/lab/coverage.md)."""
Fits = Callable[[Sequence[Sequence[LinearMeasurement]], Sequence[float] | None, bool], list[GraphicalModel]]
"""Fits models to rows of noisy answers of one structure. Given are the rows, the number of records of each
(None for answers as they were drawn), and whether roughly will do."""


def draws_of(
    model: GraphicalModel,
    measurements: Sequence[LinearMeasurement],
    draws: int,
    seed: int,
    *,
    fitted: Fits,
    people: bool = True,
) -> list[GraphicalModel]:
    """Return models of people simulated from a model, each fitted to their answers with noise drawn anew.

    Args:
        model: the fitted model.
        measurements: whose queries and noise are used; their values are not.
        draws: how many.
        seed: the same seed gives the same draws; it protects nothing.
        fitted: how to fit.
        people: whether people are simulated, for what is true of the population that they are a sample of.
    """
    return emptied(bootstrap.redrawn(model, measurements, draws, seed, people=people), fitted)


def emptied(rows: Sequence[Sequence[LinearMeasurement]], fitted: Fits) -> list[GraphicalModel]:
    """Return models of rows of noisy answers, in which cells that noise alone may fill are empty.

    A model has no negative counts. So the noise of empty cells stays in a fit where it is positive, and all
    other cells give up what that adds: what depends on one another seems to depend less, and less again in
    fits about such a fit. Here each fit after the first one is to answers that are lowered by
    ``share * stddev**2 / (count + FLOOR * stddev)``, with the count of the fit before: steps of reweighting
    that lower the loss plus ``share`` times the sum of log(count + FLOOR * stddev). With a share of 1, cells
    below about two standard deviations become empty. The share of a table is `EMPTY` times that of its
    negative answers, at most 1, as a table without empty cells has hardly any; answers other than counts of
    cells stay. The number of records is that of the first fit.

    Args:
        rows: noisy answers, of the same cliques and queries in each row.
        fitted: how to fit.

    References:
        Candes, Wakin and Boyd 2008, "Enhancing sparsity by reweighted l1 minimization", equation 8.
    """
    shares = [[_empty_share(one) for one in row] for row in rows]
    rounds = ROUNDS if np.any(shares) else 0
    models = fitted(rows, None, rounds > 0)
    # lowered answers add up to fewer records than there are
    totals = [float(model.total) for model in models]
    for left in reversed(range(rounds)):
        lowered = [
            [_lowered(one, share, model) for one, share in zip(row, own, strict=True)]
            for row, own, model in zip(rows, shares, models, strict=True)
        ]
        models = fitted(lowered, totals, left > 0)
    return models


def _empty_share(measurement: LinearMeasurement) -> float:
    if not is_marginal(measurement):
        return 0.0
    return min(1.0, EMPTY * float(np.mean(measurement.flat_values() < 0)))


def _lowered(measurement: LinearMeasurement, share: float, model: GraphicalModel) -> LinearMeasurement:
    """Return answers lowered by what a cell's noise may add to its count, none far below 0."""
    values, spread = measurement.flat_values().astype(np.float64), measurement.row_stddevs()
    less = values - share * spread**2 / (np.ravel(model.answer(measurement.query)) + FLOOR * spread)
    # further down they would change no fit, but its loss, by which it is judged whether noise explains it
    less = np.maximum(less, np.minimum(values, -spread))
    stddev = measurement.stddev.reshape(-1) if measurement.stddev.ndim else measurement.stddev
    return LinearMeasurement(
        measurement.clique, less, stddev, measurement.query, measurement.noise, measurement.distribution
    )
