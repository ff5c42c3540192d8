"""Scales of noise are never too small, and hardly too large."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmjax.privacy import scales


@given(st.integers(1, 10**6), st.fractions(min_value=Fraction(1, 10**6), max_value=64))
def test_laplace_scale_is_never_too_small_and_hardly_too_large(sensitivity, epsilon):
    exact = Fraction(sensitivity) / epsilon
    scale = scales.laplace_for(sensitivity, epsilon).scale
    assert exact <= Fraction(scale) <= exact * (1 + Fraction(1, 2**52))


@given(st.integers(1, 10**9), st.fractions(min_value=Fraction(1, 10**9), max_value=64))
def test_gaussian_scale_is_never_too_small_and_hardly_too_large(square, rho):
    exact = Fraction(square) / (2 * rho)
    scale = Fraction(scales.gaussian_for(square, rho).scale)
    assert exact <= scale**2 <= exact * (1 + Fraction(1, 2**50))


def test_a_query_of_sensitivity_zero_still_gets_noise():
    assert scales.laplace_for(0, Fraction(1)) == scales.laplace_for(1, Fraction(1))
    assert scales.gaussian_for(0, Fraction(1)) == scales.gaussian_for(1, Fraction(1))


@pytest.mark.parametrize("distribution_for", [scales.laplace_for, scales.gaussian_for])
def test_scales_that_would_overflow_or_vanish_are_refused(distribution_for):
    with pytest.raises(ValueError, match="overflow 64-bit"):
        distribution_for(1, Fraction(1, 10**40))
    with pytest.raises(ValueError, match=r"^(epsilon|rho) about 1e-300 for a"):
        distribution_for(1, Fraction(1, 10**300))
    with pytest.raises(ValueError, match="no noise at all"):
        distribution_for(1, Fraction(65))
    assert distribution_for(1, Fraction(64)).stddev > 1e-15
