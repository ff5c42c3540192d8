"""Sums of noises: grouping, variance, tails, lattices."""

import numpy as np
import pytest

from pgmjax.history.bayes.distribution import NoiseSum, as_distribution
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace


def test_terms_are_grouped_and_rounding_is_left_out():
    distribution = NoiseSum([1.0, -1.0, 1e-17, 0.5, 0.0], 2.0)
    assert (
        distribution.num_terms == 3
        and distribution.sizes.tolist() == [1.0, 0.5]
        and distribution.counts.tolist() == [2, 1]
    )
    assert distribution.variance == pytest.approx(2.25 * DiscreteLaplace(2.0).variance)


def test_variance_of_the_distribution_used():
    assert NoiseSum([2.0], 1.0, continuous=True).variance == pytest.approx(8.0)
    assert NoiseSum([2.0], 1.0).variance == pytest.approx(4 * 1.841, abs=2e-3)
    assert NoiseSum([2.0], 1.0, continuous=True).variance == pytest.approx(8.0)


@pytest.mark.parametrize("coefficients", [[1.0], [0.3, 0.4], list(np.linspace(0.1, 1, 12))])
@pytest.mark.parametrize("noise", [DiscreteLaplace(3.0), DiscreteGaussian(3.0)])
def test_radius_bounds_the_tail(coefficients, noise):
    rng = np.random.default_rng(0)
    distribution = NoiseSum(coefficients, noise)
    ends = np.arange(-200, 201)
    probabilities = noise.probabilities(ends)
    draws = rng.choice(ends, p=probabilities / probabilities.sum(), size=(200_000, len(coefficients)))
    sums = np.abs(draws @ np.array(coefficients))
    for outside in (0.5, 0.1, 0.01):
        assert (sums > distribution.radius(outside)).mean() <= outside
    assert distribution.radius(1e-12) < 60 * distribution.stddev


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
    with pytest.raises(ValueError, match="one distribution a term, 2, or one for all, got 3"):
        NoiseSum([1.0, 2.0], [1.0, 1.0, 1.0])


def test_a_number_is_the_scale_of_the_distribution_really_drawn():
    assert as_distribution("x", 2.0) == DiscreteLaplace(2.0)
    assert as_distribution("x", 2.0, continuous=True) == Laplace(2.0)
    assert as_distribution("x", DiscreteGaussian(2.0), continuous=True) == Gaussian(2.0)


@pytest.mark.parametrize(("bad", "kind"), [(0.0, ValueError), (np.nan, ValueError), ("wide", TypeError)])
def test_bad_distributions(bad, kind):
    with pytest.raises(kind, match="row 3 needs a distribution of noise or a Laplace scale"):
        as_distribution("row 3", bad)
