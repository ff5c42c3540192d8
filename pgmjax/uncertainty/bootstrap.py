"""Parametric bootstrap: refit to answers of the fitted model with redrawn noise.

Non-negativity and a pull bias a fit, and less so about its own model, which has been bent already, than about
the table. `pooled_errors` therefore measures the bias: the mean square distance of the model's answers from
those of least squares, less what noise alone explains of it, over many answers of like size.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from pgmjax import random
from pgmjax._internal import checks
from pgmjax.estimation.constraints import Constraint
from pgmjax.estimation.estimator import Estimator
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import CONTINUOUS, Gaussian, normal_quantile
from pgmjax.measurements.residual import BestAnswers
from pgmjax.model.graphical import GraphicalModel
from pgmjax.model.sampling import INDEPENDENT
from pgmjax.queries import Query

GROUP, MOST_GROUPS = 100, 4
"""Errors are pooled over at least so many answers, in at most so many groups."""
_TINY = np.finfo(np.float64).tiny


def redrawn(
    model: GraphicalModel,
    measurements: Sequence[LinearMeasurement],
    draws: int,
    seed: int,
    *,
    people: bool = False,
) -> list[list[LinearMeasurement]]:
    """Return measurements simulated from the model.

    Noise is drawn from the distribution of each measurement where it is known, else from the continuous
    distribution of its family and standard deviation (a Gaussian one for counts of responses). It is no
    protection of anything.

    Args:
        model: the model to simulate from.
        measurements: whose queries, standard deviations and distributions are used; their values are not.
        draws: how many lists.
        seed: the same seed gives the same noise.
        people: whether the true answers are those of people drawn from the model, anew in each list, and not
            those of the model itself.
    """
    generator = random.generator(seed)
    if people:
        answers = [_answers_of_people(model, measurements, generator) for _ in range(draws)]
    else:
        answers = [[np.ravel(model.answer(m.query)) for m in measurements]] * draws
    noise = [_noise(m, draws, generator) for m in measurements]
    stddevs = [m.stddev.reshape(-1) if m.stddev.ndim else m.stddev for m in measurements]
    return [
        [
            LinearMeasurement(m.clique, answer + drawn[k], stddev, m.query, m.noise, m.distribution)
            for m, stddev, answer, drawn in zip(measurements, stddevs, answers[k], noise, strict=True)
        ]
        for k in range(draws)
    ]


@dataclasses.dataclass(frozen=True)
class Refits:
    """Refits of a model to redrawn measurements.

    Attributes:
        answers: of the refitted models [draws, answers] (counts).
        noise: that was drawn, over its standard deviations [draws, measured values].
        pulled: whether the fits were pulled, by a prior or by regularisation.
    """

    answers: np.ndarray
    noise: np.ndarray
    pulled: bool


def refitted(
    model: GraphicalModel,
    measurements: Sequence[LinearMeasurement],
    queries: Sequence[Query],
    *,
    draws: int,
    seed: int,
    estimator: Estimator,
    total: float | None,
    constraints: Sequence[Constraint] = (),
    prior: GraphicalModel | None = None,
    prior_weight: float = 0.0,
) -> Refits:
    """Return the answers of models fitted to redrawn measurements.

    All fits run as one batch (`Estimator.fit_batch`).

    References:
        Efron and Tibshirani 1993, "An introduction to the bootstrap", section 6.5.
    """
    quiet = dataclasses.replace(estimator, progress=False) if estimator.progress is None else estimator
    rows = redrawn(model, measurements, draws, seed)
    batch = quiet.fit_batch(
        model.domain, rows, total, constraints=constraints, prior=prior, prior_weight=prior_weight
    )
    answers = [np.concatenate([np.ravel(fit.model.answer(query)) for query in queries]) for fit in batch]
    center = [np.ravel(model.answer(m.query)) for m in measurements]
    noise = [
        np.concatenate([(m.flat_values() - c) / m.row_stddevs() for m, c in zip(row, center, strict=True)])
        for row in rows
    ]
    pulled = prior_weight > 0 or any(fit.regularisation is not None for fit in batch)
    return Refits(np.array(answers), np.array(noise), pulled)


@dataclasses.dataclass(frozen=True)
class PooledErrors:
    """The errors of a model's answers.

    Attributes:
        stddevs: root mean square error of each answer, by noise and bias together [answers]; that of a fit to
            the model where too few answers are determined.
        biases: the part of the bias, in standard errors of least squares common to a group; NaN where too few
            answers are determined [answers].
        half_widths: of intervals about the model's answers; NaN where an answer is not determined, and for a
            pulled fit where too few are [answers].
    """

    stddevs: np.ndarray
    biases: np.ndarray
    half_widths: np.ndarray


def pooled_errors(
    values: np.ndarray, refits: Refits, linear: BestAnswers, drawn: np.ndarray, level: float
) -> PooledErrors:
    """Return the errors of a model's answers.

    Everything is in standard errors of least squares, and determined answers of like size form a group. With
    e a model's error, d its distance from least squares and c the covariance of the two estimates,
    ``E e**2 = E d**2 - 1 + 2 c``, where the refits give c. Of its mean over a group, what is above the
    variance of the refits is bias. A half-width is that root mean square error, times the quantile that the
    refits' own errors have in such units: errors of a biased model are no Gaussian ones.

    Args:
        values: the model's answers [answers] (counts).
        refits: the refits.
        linear: least squares of the same answers.
        drawn: the errors of least squares for the noise of each refit [draws, answers].
        level: of the intervals.

    References:
        Efron 2004, "The estimation of prediction error: covariance penalties and cross-validation",
        equation 2.8; the pooling over groups as in Armstrong, Kolesar and Plagborg-Moller 2022, "Robust
        empirical Bayes confidence intervals".
    """
    stddevs, biases = np.sqrt(np.mean((refits.answers - values) ** 2, axis=0)), np.full(len(values), np.nan)
    trusted = linear.determined & (not refits.pulled)
    widths = normal_quantile(level) * np.where(trusted, stddevs, np.nan)
    exact = linear.determined & (linear.stddevs == 0)
    stddevs[exact], biases[exact], widths[exact] = 0.0, 0.0, 0.0
    known = np.flatnonzero(linear.determined & ~exact)
    if len(known) < GROUP:
        if refits.pulled and len(known):
            checks.warn(
                f"The bootstrap has no interval for {checks.counted(len(known), 'answer', 'answers')}: it "
                f"tells bias from noise over {GROUP} determined ones or more. Ask more at once, or take the "
                "method linear."
            )
        return PooledErrors(stddevs, biases, widths)
    unit, draws = linear.stddevs[known], len(refits.answers)
    errors = (refits.answers[:, known] - values[known]) / unit
    noise = drawn[:, known] / unit
    centre = errors.mean(axis=0)
    variances = errors.var(axis=0, ddof=1)
    shared = ((errors - centre) * (noise - noise.mean(axis=0))).sum(axis=0) / (draws - 1)
    excess = ((linear.values[known] - values[known]) / unit) ** 2 - 1 + 2 * shared - variances
    # the squared mean of few draws holds their variance over their number, which is no bias
    shift = centre**2 - variances / draws
    order = np.argsort(values[known] / unit, kind="stable")
    for group in np.array_split(order, min(MOST_GROUPS, len(known) // GROUP)):
        bias = max(float(np.mean(excess[group])), 0.0)
        # a group without any error is not divided by 0
        own = np.sqrt(variances[group] + max(float(np.mean(shift[group])), 0.0) + _TINY)
        reach = np.quantile(np.abs(errors[:, group]) / own, level)
        place, error = known[group], unit[group] * np.sqrt(variances[group] + bias)
        biases[place], stddevs[place], widths[place] = unit[group] * np.sqrt(bias), error, reach * error
    return PooledErrors(stddevs, biases, widths)


def _answers_of_people(
    model: GraphicalModel, measurements: Sequence[LinearMeasurement], generator: np.random.Generator
) -> list[np.ndarray]:
    """Return the answers of as many people as the model has, drawn independently of one another."""
    # independent of one another, as rows that are dealt evenly lack the sampling variance
    codes = model.sample(round(model.total), int(generator.integers(2**31)), method=INDEPENDENT)
    found = []
    for m in measurements:
        shape = model.domain.shape_of(m.clique)
        cells = np.ravel_multi_index([codes[name] for name in m.clique], shape)
        counts = np.bincount(cells, minlength=math.prod(shape)).reshape(shape)
        found.append(np.ravel(m.query.apply(counts.astype(np.float64))))
    return found


def _noise(measurement: LinearMeasurement, draws: int, generator: np.random.Generator) -> np.ndarray:
    """Draw the noise [draws, values] of one measurement."""
    shape = draws, measurement.values.size
    if measurement.distribution is not None:
        return measurement.distribution.simulate(generator, shape)
    standard = CONTINUOUS.get(measurement.noise, Gaussian).of_stddev(1.0)
    return standard.simulate(generator, shape) * measurement.row_stddevs()
