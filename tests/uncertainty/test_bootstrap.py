"""The parametric bootstrap: noise of the right distributions, and the deviations that theory gives."""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.queries import marginal
from pgmjax.uncertainty import bootstrap

DOMAIN = pj.Domain({"a": 3, "b": 2})
MODEL = pj.GraphicalModel.from_potentials(DOMAIN, {("a",): [0.0, 1.0, 2.0]}, total=3000)


@pytest.mark.parametrize(
    "measurement",
    [
        pj.LinearMeasurement.released(marginal(("a",)), [0, 0, 0], DiscreteLaplace(3.0)),
        pj.LinearMeasurement(("a",), [0.0, 0.0, 0.0], [1.0, 5.0, 2.0]),
        pj.LinearMeasurement(("a",), [0.0, 0.0, 0.0], 4.0, noise="laplace"),
    ],
)
def test_redrawn_noise_has_the_stated_mean_and_deviation(measurement):
    draws = 4000
    rows = bootstrap.redrawn(MODEL, [measurement], draws, seed=0)
    noise = np.array([row[0].values for row in rows]) - MODEL.marginal(("a",))
    spread = measurement.row_stddevs()
    # six standard errors; a Laplace distribution's fourth moment is 6: its variance has a relative one of
    # sqrt(5 / n)
    assert (np.abs(noise.mean(axis=0)) <= 6 * spread / np.sqrt(draws)).all()
    assert (np.abs(noise.var(axis=0) / spread**2 - 1) <= 6 * np.sqrt(5.5 / draws)).all()


def test_the_same_seed_gives_the_same_noise():
    noisy = [pj.LinearMeasurement(("a",), [0.0, 0.0, 0.0], 2.0)]
    one, other, third = (bootstrap.redrawn(MODEL, noisy, 2, seed)[1][0].values for seed in (1, 1, 2))
    assert (one == other).all() and not (one == third).all()


def test_answers_spread_as_the_measurements_do():
    noisy = [pj.LinearMeasurement(("a",), MODEL.marginal(("a",)), 5.0)]
    answers = bootstrap.refitted(
        MODEL,
        noisy,
        [marginal(("a",)), marginal(("b",))],
        draws=300,
        seed=0,
        estimator=pj.Estimator(progress=False),
        total=None,
    )
    assert answers.shape == (300, 5)
    # six standard errors of a standard deviation, 1 / sqrt(2 n)
    assert np.allclose(answers[:, :3].std(axis=0), 5.0, rtol=6 / np.sqrt(600))
    assert np.allclose(answers[:, 3:].std(axis=0), 5.0 * np.sqrt(3) / 2, rtol=6 / np.sqrt(600))
