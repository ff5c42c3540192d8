"""The stated standard deviations are those of the discrete laws, to float64."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmjax.privacy import laws

SCALES = [0.1, 0.5, 1.0, 2.0, 3.999, 4.0, 4.001, 10.0, 50.0]


def brute_force(law):
    """Mass and variance of a law by a long sum over the integers in math.fsum."""
    width = int(60 * law.scale) + 60
    values = np.arange(-width, width + 1)
    if law.noise == "laplace":
        masses = np.exp(-np.abs(values) / law.scale)
    else:
        masses = np.exp(-(values.astype(float) ** 2) / (2 * law.scale**2))
    total = math.fsum(masses)
    return values, masses / total, math.fsum(values.astype(float) ** 2 * masses) / total


@pytest.mark.parametrize("kind", [laws.DiscreteLaplace, laws.DiscreteGaussian])
@pytest.mark.parametrize("scale", SCALES)
def test_variance_and_probabilities_against_a_long_sum(kind, scale):
    law = kind(scale)
    values, masses, variance = brute_force(law)
    assert law.variance == pytest.approx(variance, rel=1e-12)
    assert law.stddev == pytest.approx(math.sqrt(variance), rel=1e-12)
    np.testing.assert_allclose(law.probabilities(values), masses, rtol=1e-11, atol=1e-300)


def test_figures_of_the_discrete_laplace():
    """2q / (1 - q)^2 with q = exp(-1 / b): 1.841 at b = 1, 7.835 at b = 2 (continuous: 2 and 8)."""
    assert round(laws.DiscreteLaplace(1.0).variance, 3) == 1.841
    assert round(laws.DiscreteLaplace(2.0).variance, 3) == 7.835
    q = math.exp(-1 / 3)
    assert laws.DiscreteLaplace(3.0).variance == pytest.approx(2 * q / (1 - q) ** 2, rel=1e-13)


def test_laplace_stddev_keeps_its_digits_at_huge_scales():
    """The textbook form loses all digits in 1 - q; the limit is sqrt(2) b."""
    assert laws.DiscreteLaplace(2.0**50).stddev == pytest.approx(math.sqrt(2) * 2.0**50, rel=1e-14)


@given(st.integers(1, 10**6), st.fractions(min_value=Fraction(1, 10**6), max_value=64))
def test_laplace_scale_is_never_too_small_and_hardly_too_large(sensitivity, epsilon):
    exact = Fraction(sensitivity) / epsilon
    scale = laws.laplace_for(sensitivity, epsilon).scale
    assert exact <= Fraction(scale) <= exact * (1 + Fraction(1, 2**52))


@given(st.integers(1, 10**9), st.fractions(min_value=Fraction(1, 10**9), max_value=64))
def test_gaussian_scale_is_never_too_small_and_hardly_too_large(square, rho):
    exact = Fraction(square) / (2 * rho)
    scale = Fraction(laws.gaussian_for(square, rho).scale)
    assert exact <= scale**2 <= exact * (1 + Fraction(1, 2**50))


def test_a_query_of_sensitivity_zero_still_gets_noise():
    assert laws.laplace_for(0, Fraction(1)) == laws.laplace_for(1, Fraction(1))
    assert laws.gaussian_for(0, Fraction(1)) == laws.gaussian_for(1, Fraction(1))


@pytest.mark.parametrize("law_for", [laws.laplace_for, laws.gaussian_for])
def test_scales_that_would_overflow_or_vanish_are_refused(law_for):
    with pytest.raises(ValueError, match="overflow 64-bit"):
        law_for(1, Fraction(1, 10**40))
    with pytest.raises(ValueError, match="no noise at all"):
        law_for(1, Fraction(65))
    assert law_for(1, Fraction(64)).stddev > 1e-15
