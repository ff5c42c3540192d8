"""The posterior given all answers, against closed forms, a grid and the worked example."""

import numpy as np
import pytest

from pgmjax.history.bayes.blue import BestLinearUnbiased, NotEstimableError
from pgmjax.history.bayes.inference import Claim
from pgmjax.history.bayes.posterior import Posterior, posterior
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace

H = np.array(
    [
        [1, 1, 0, 0],
        [0, 0, 1, 1],
        [0, 0, 0, 1],
        [0, 0, 1, 0],
        [0, 1, 0, 1],
        [2, 1, 0, 0],
        [0, 0, 2, -1],
        [0, -1, 0, 1],
    ],
    float,
)
Y = [30.8, 30.3, 46.9, 20.2, 30.4, 68.9, 38.9, 9.5]
SCALES = [20.0, 10.0, 20.0, 10.0, 10.0, 40.0, 40.0, 10.0]
SMALL = {"chains": 32, "steps": 600, "burn_in": 100}


def test_the_worked_example_given_all_answers():
    """Mean 43.61, standard deviation 18.06, P(theta > 0) = 0.987 by 2.4 million draws of another sampler."""
    drawn = posterior(BestLinearUnbiased.from_matrix(H, Y, SCALES), [1, 0, 1, 0], **SMALL)
    assert drawn.mixed
    assert drawn.mean[0] == pytest.approx(43.61, abs=0.8)
    assert drawn.stddev[0] == pytest.approx(18.06, abs=0.6)
    share, error = drawn.probability(Claim(low=0.0))
    assert share == pytest.approx(0.987, abs=0.004 + 4 * error)
    low, high = drawn.interval(0.95)
    assert high - low == pytest.approx(79.58 - 6.55, rel=0.04)


def test_gaussian_noise_gives_the_estimates_own_distribution():
    blue = BestLinearUnbiased.from_matrix(H, Y, [DiscreteGaussian(s) for s in SCALES])
    target = [1, 0, 1, 0]
    drawn = posterior(blue, target, **SMALL)
    assert drawn.mean[0] == pytest.approx(blue.answer(target).value, abs=5 * drawn.standard_error[0])
    assert drawn.stddev[0] == pytest.approx(blue.answer(target).stddev, rel=0.03)


def test_one_cell_of_several_distributions_against_a_grid():
    distributions = [DiscreteLaplace(2.0), DiscreteLaplace(5.0), DiscreteGaussian(3.0)]
    values = np.array([4.0, 9.0, 1.0])
    grid = np.linspace(-60, 70, 26_001)
    logs = -np.abs(4 - grid) / 2 - np.abs(9 - grid) / 5 - 0.5 * ((1 - grid) / 3) ** 2
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    drawn = posterior(BestLinearUnbiased.from_matrix(np.ones((3, 1)), values, distributions), [1.0], **SMALL)
    mean = weights @ grid
    assert drawn.mean[0] == pytest.approx(mean, abs=5 * drawn.standard_error[0])
    assert drawn.stddev[0] == pytest.approx(np.sqrt(weights @ (grid - mean) ** 2), rel=0.03)
    share, error = drawn.probability(Claim(3, 5))
    assert share == pytest.approx(weights[(grid >= 3) & (grid <= 5)].sum(), abs=5 * error + 1e-3)


def test_a_target_that_is_not_estimable_has_no_posterior_and_its_neighbour_has_one():
    blue = BestLinearUnbiased.from_matrix([[1, 1, 0], [1, 1, 0], [0, 0, 1]], [5, 6, 3], 2.0)
    with pytest.raises(NotEstimableError, match="biased=True"):
        posterior(blue, [1, 0, 0])
    drawn = posterior(blue, [[1, 1, 0], [0, 0, 1]], chains=8, steps=200, burn_in=20)
    assert drawn.draws.shape == (8, 200, 2)
    assert drawn.mean[1] == pytest.approx(3, abs=1.0)


def test_bad_settings():
    blue = BestLinearUnbiased.from_matrix([[1.0]], [5], 2.0)
    with pytest.raises(ValueError, match=r"chains.*1"):
        posterior(blue, [1.0], chains=1)
    with pytest.raises(ValueError, match=r"level.*1\.5"):
        Posterior(np.zeros((2, 5, 1))).interval(1.5)
