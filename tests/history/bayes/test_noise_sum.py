"""Sums of noises: grouping, variance, tails, lattices.

What distributions of noise tell, against sums and integrals of their probabilities.
"""

import numpy as np
import pytest
from scipy import integrate, stats

from pgmjax.history.bayes import noise_sum
from pgmjax.history.bayes.noise_sum import Gaussian, Laplace, NoiseSum, as_distribution
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace


def test_terms_are_grouped_and_rounding_is_left_out():
    distribution = NoiseSum([1.0, -1.0, 1e-17, 0.5, 0.0], 2.0)
    assert (
        distribution.num_terms == 3
        and distribution.sizes.tolist() == [1.0, 0.5]
        and distribution.counts.tolist() == [2, 1]
    )
    assert distribution.variance == pytest.approx(2.25 * DiscreteLaplace(2.0).variance)


def test_variance_of_the_law_used():
    assert NoiseSum([2.0], 1.0, continuous=True).variance == pytest.approx(8.0)
    assert NoiseSum([2.0], 1.0).variance == pytest.approx(4 * 1.841, abs=2e-3)
    assert NoiseSum([2.0], 1.0).continuous().variance == pytest.approx(8.0)


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


DISCRETE = [
    kind(scale) for kind in (DiscreteLaplace, DiscreteGaussian) for scale in (0.2, 0.7, 1.0, 3.7, 25.0)
]
CONTINUOUS = [(Laplace(1.7), stats.laplace(scale=1.7)), (Gaussian(1.7), stats.norm(scale=1.7))]
ANGLES = np.array([0.0, 1e-3, 0.1, 0.5, 1.0, 3.0, np.pi, 6.0, 20.0])


def masses(distribution):
    values = np.arange(-4000, 4001)
    return values, distribution.probabilities(values)


@pytest.mark.parametrize("distribution", DISCRETE, ids=str)
def test_discrete_laws_against_sums(distribution):
    values, probabilities = masses(distribution)
    expected = np.cos(np.multiply.outer(ANGLES, values)) @ probabilities
    np.testing.assert_allclose(noise_sum.characteristic(distribution, ANGLES), expected, atol=1e-12)
    for edge in (0, 0.5, 1, 3, 3.2, 40):
        np.testing.assert_allclose(
            noise_sum.above(distribution, np.array([float(edge)])),
            probabilities[values > edge].sum(),
            rtol=1e-9,
            atol=1e-300,
        )
    arguments = np.array([0.1, 0.5, 0.9]) * min(noise_sum.largest_argument(distribution), 1.0)
    near = probabilities > 1e-280
    terms = np.multiply.outer(arguments, values[near]) + np.log(probabilities[near])
    moments = np.log(np.exp(terms).sum(axis=1))
    bound = noise_sum.log_moment(distribution, arguments)
    assert (bound >= moments - 1e-9).all()
    if distribution.noise == "laplace":
        np.testing.assert_allclose(bound, moments, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("distribution", "known"), CONTINUOUS, ids=["laplace", "gaussian"])
def test_continuous_laws_against_integrals(distribution, known):
    assert distribution.variance == pytest.approx(known.var()) and distribution.stddev == pytest.approx(
        known.std()
    )
    for angle in (0.0, 0.3, 2.0):
        value = integrate.quad(lambda x, t=angle: np.cos(t * x) * known.pdf(x), -60, 60, limit=400)[0]
        assert noise_sum.characteristic(distribution, np.array([angle]))[0] == pytest.approx(value, abs=1e-8)
    value = integrate.quad(lambda x: np.exp(0.2 * x) * known.pdf(x), -150, 150, limit=400)[0]
    assert noise_sum.log_moment(distribution, np.array([0.2]))[0] == pytest.approx(np.log(value))
    np.testing.assert_allclose(
        noise_sum.above(distribution, np.array([0.0, 1.0, 30.0])), known.sf([0, 1, 30]), rtol=1e-9
    )


def test_a_number_is_the_scale_of_the_law_really_drawn():
    assert as_distribution("x", 2.0) == DiscreteLaplace(2.0)
    assert as_distribution("x", 2.0, continuous=True) == Laplace(2.0)
    assert as_distribution("x", DiscreteGaussian(2.0), continuous=True) == Gaussian(2.0)


@pytest.mark.parametrize(("bad", "kind"), [(0.0, ValueError), (np.nan, ValueError), ("wide", TypeError)])
def test_bad_laws(bad, kind):
    with pytest.raises(kind, match="row 3 needs a distribution of noise or a Laplace scale"):
        as_distribution("row 3", bad)
