"""The level of the noise alone: its expectation, and fits that end there."""

import math

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.estimation.losses import L1, L2
from pgmjax.estimation.losses.build import noise_level
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy.seeded import SeededBackend
from tests.optimum import to_optimum

pytestmark = pytest.mark.filterwarnings("ignore:stop='noise' is deprecated")

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
    level = noise_level(loss, made)
    error = np.std(losses) / math.sqrt(len(losses))
    assert abs(np.mean(losses) - level) < 4 * error
    assert noise_level({"l2": L2(), "l1": L1()}[loss], made) == level


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("solver", ["accelerated", "mirror_descent"])
def test_a_fit_ends_there_and_is_nearer_to_the_truth(dtype, solver):
    made, exact = measured(DiscreteLaplace(200.0))
    settings = {"dtype": dtype, "solver": solver, "max_steps": 3000, "progress": False}
    total = float(exact[0].sum())
    early = to_optimum(stop="noise", **settings).fit(DOMAIN, made, total=total)
    late = to_optimum(**settings).fit(DOMAIN, made, total=total)
    level = noise_level("l2", made)
    assert early.status is pj.Status.NOISE_LEVEL and early.steps < late.steps
    assert late.loss < early.loss <= level * (1 + 1e-6)
    errors = [
        sum(np.abs(fit.model.marginal(c) - e).sum() for c, e in zip(PAIRS, exact, strict=True))
        for fit in (early, late)
    ]
    assert errors[0] < errors[1]


def test_a_level_that_is_never_reached_changes_nothing():
    """Consistent noise far above its standard deviation: the optimum's loss is above the level."""
    made = [pj.LinearMeasurement(("a",), np.full(20, 100.0 * k), stddev=0.1) for k in (1, 3)]
    fits = [to_optimum(stop=stop).fit(DOMAIN, made, total=4000) for stop in ("optimum", "noise")]
    assert fits[0].status is fits[1].status is pj.Status.CONVERGED
    assert fits[0].loss == pytest.approx(fits[1].loss, rel=1e-4)


def test_rows_of_a_batch_end_there_too():
    rows = [measured(DiscreteLaplace(200.0), seed)[0] for seed in range(3)]
    batch = to_optimum(stop="noise", progress=False).fit_batch(DOMAIN, rows, totals=50_000.0)
    assert batch.status.tolist() == [pj.Status.NOISE_LEVEL] * 3


def test_a_loss_without_a_level_is_refused():
    with pytest.raises(ValueError, match="needs a loss whose noise level is known, l2 or l1"):
        to_optimum(loss=lambda marginals: 0.0, stop="noise")
    with pytest.raises(ValueError, match="stop must be one of 'optimum', 'noise'"):
        to_optimum(stop="early")
