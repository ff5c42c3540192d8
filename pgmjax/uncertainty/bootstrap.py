"""Parametric bootstrap: refit to answers of the fitted model with redrawn noise."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from pgmjax import random
from pgmjax.estimation.estimator import Estimator
from pgmjax.estimation.feasibility import Constraint
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import CONTINUOUS, Gaussian
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries import Query


def redrawn(
    model: GraphicalModel, measurements: Sequence[LinearMeasurement], draws: int, seed: int
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
    """
    generator = random.generator(seed)
    answers = [np.ravel(model.answer(m.query)) for m in measurements]
    noise = [_noise(m, draws, generator) for m in measurements]
    return [
        [
            LinearMeasurement(m.clique, answer + drawn[k], _flat(m.stddev), m.query, m.noise, m.distribution)
            for m, answer, drawn in zip(measurements, answers, noise, strict=True)
        ]
        for k in range(draws)
    ]


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
) -> np.ndarray:
    """Return the answers of models fitted to redrawn measurements [draws, answers] (counts).

    All fits run as one batch (`Estimator.fit_batch`).

    References:
        Efron and Tibshirani 1993, "An introduction to the bootstrap", section 6.5.
    """
    quiet = dataclasses.replace(estimator, progress=False) if estimator.progress is None else estimator
    rows = redrawn(model, measurements, draws, seed)
    batch = quiet.fit_batch(
        model.domain, rows, total, constraints=constraints, prior=prior, prior_weight=prior_weight
    )
    return np.array(
        [np.concatenate([np.ravel(fit.model.answer(query)) for query in queries]) for fit in batch]
    )


def _noise(measurement: LinearMeasurement, draws: int, generator: np.random.Generator) -> np.ndarray:
    """Draw the noise [draws, values] of one measurement."""
    shape = draws, measurement.values.size
    if measurement.distribution is not None:
        return measurement.distribution.simulate(generator, shape)
    standard = CONTINUOUS.get(measurement.noise, Gaussian).of_stddev(1.0)
    return standard.simulate(generator, shape) * measurement.row_stddevs()


def _flat(stddev: np.ndarray) -> np.ndarray:
    return stddev.reshape(-1) if stddev.ndim else stddev
