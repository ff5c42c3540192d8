"""The level of the noise alone is the expected loss of the truth."""

import math

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.estimation.losses import L1, L2, setting
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy.seeded import SeededBackend

DOMAIN = pj.Domain({"a": 20, "b": 30, "c": 10})
PAIRS = [("a", "b"), ("b", "c")]


def measured(distribution, seed=0, cliques=PAIRS):
    """Noisy marginals of a smooth table, and its exact ones."""
    rng = np.random.default_rng(1)
    truth = rng.dirichlet(np.full(20 * 30 * 10, 5.0)).reshape(20, 30, 10) * 50_000
    backend = SeededBackend(seed, insecure=True)
    exact = [np.rint(truth.sum(axis=tuple({0, 1, 2} - {"abc".index(n) for n in c}))) for c in cliques]
    noisy = [e.astype(np.int64) + backend.draw(distribution, e.size).reshape(e.shape) for e in exact]
    made = [
        pj.LinearMeasurement.released(pj.queries.marginal(c), values.reshape(-1), distribution)
        for c, values in zip(cliques, noisy, strict=True)
    ]
    return made, exact


@pytest.mark.parametrize(
    "distribution", [DiscreteLaplace(200.0), DiscreteGaussian(200.0)], ids=["laplace", "gaussian"]
)
@pytest.mark.parametrize("loss", ["l2", "l1"])
def test_it_is_the_expected_loss_of_the_truth(distribution, loss):
    """900 draws: the mean over 40 seeds lies within 4 standard errors."""
    losses = []
    for seed in range(40):
        made, exact = measured(distribution, seed)
        scaled = [
            (m.flat_values() - e.reshape(-1)) / m.row_stddevs() for m, e in zip(made, exact, strict=True)
        ]
        flat = np.concatenate(scaled)
        losses.append(0.5 * (flat**2).sum() if loss == "l2" else np.abs(flat).sum())
    level = setting(loss).noise_level(made)
    error = np.std(losses) / math.sqrt(len(losses))
    assert abs(np.mean(losses) - level) < 4 * error
    assert {"l2": L2(), "l1": L1()}[loss].noise_level(made) == level


def test_of_a_function_nobody_knows_it():
    assert setting(lambda marginals: 0.0).noise_level(measured(DiscreteLaplace(200.0))[0]) == 0.0
