"""Sums of noises: grouping, variance, tails, lattices."""

import numpy as np
import pytest

from pgmjax.history.bayes.noise_sum import NoiseSum
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace


def test_terms_are_grouped_and_rounding_is_left_out():
    law = NoiseSum([1.0, -1.0, 1e-17, 0.5, 0.0], 2.0)
    assert law.num_terms == 3 and law.sizes.tolist() == [1.0, 0.5] and law.counts.tolist() == [2, 1]
    assert law.variance == pytest.approx(2.25 * DiscreteLaplace(2.0).variance)


def test_variance_of_the_law_used():
    assert NoiseSum([2.0], 1.0, continuous=True).variance == pytest.approx(8.0)
    assert NoiseSum([2.0], 1.0).variance == pytest.approx(4 * 1.841, abs=2e-3)
    assert NoiseSum([2.0], 1.0).continuous().variance == pytest.approx(8.0)


@pytest.mark.parametrize("coefficients", [[1.0], [0.3, 0.4], list(np.linspace(0.1, 1, 12))])
@pytest.mark.parametrize("noise", [DiscreteLaplace(3.0), DiscreteGaussian(3.0)])
def test_radius_bounds_the_tail(coefficients, noise):
    rng = np.random.default_rng(0)
    law = NoiseSum(coefficients, noise)
    ends = np.arange(-200, 201)
    probabilities = noise.probabilities(ends)
    draws = rng.choice(ends, p=probabilities / probabilities.sum(), size=(200_000, len(coefficients)))
    sums = np.abs(draws @ np.array(coefficients))
    for outside in (0.5, 0.1, 0.01):
        assert (sums > law.radius(outside)).mean() <= outside
    assert law.radius(1e-12) < 60 * law.stddev


@pytest.mark.parametrize(
    ("coefficients", "step"),
    [([1.0], 1.0), ([0.5, 0.75], 0.25), ([1 / 3, 0.5], 1 / 6), ([1.0, np.sqrt(2)], None), ([2.0, 4.0], 2.0)],
)
def test_lattice(coefficients, step):
    found = NoiseSum(coefficients, 2.0).lattice()
    assert found is None if step is None else found == pytest.approx(step)


def test_continuous_noise_has_no_lattice():
    assert NoiseSum([1.0], 2.0, continuous=True).lattice() is None


def test_bad_input():
    with pytest.raises(ValueError, match="coefficients must be finite numbers"):
        NoiseSum([np.inf], 1.0)
    with pytest.raises(ValueError, match="one law a term, 2, or one for all, got 3"):
        NoiseSum([1.0, 2.0], [1.0, 1.0, 1.0])
