"""The stated standard deviations are those of the discrete distributions, to float64."""

import math
from decimal import Decimal

import numpy as np
import pytest

from pgmjax.measurements import noise

SCALES = [0.1, 0.5, 1.0, 2.0, 3.999, 4.0, 4.001, 10.0, 50.0]


def brute_force(distribution):
    """Mass and variance of a distribution by a long sum over the integers in math.fsum."""
    width = int(60 * distribution.scale) + 60
    values = np.arange(-width, width + 1)
    if distribution.noise == "laplace":
        masses = np.exp(-np.abs(values) / distribution.scale)
    else:
        masses = np.exp(-(values.astype(float) ** 2) / (2 * distribution.scale**2))
    total = math.fsum(masses)
    return values, masses / total, math.fsum(values.astype(float) ** 2 * masses) / total


@pytest.mark.parametrize("kind", [noise.DiscreteLaplace, noise.DiscreteGaussian])
@pytest.mark.parametrize("scale", SCALES)
def test_variance_and_probabilities_against_a_long_sum(kind, scale):
    distribution = kind(scale)
    values, masses, variance = brute_force(distribution)
    assert distribution.variance == pytest.approx(variance, rel=1e-12)
    assert distribution.stddev == pytest.approx(math.sqrt(variance), rel=1e-12)
    np.testing.assert_allclose(distribution.probabilities(values), masses, rtol=1e-11, atol=1e-300)


def test_figures_of_the_discrete_laplace():
    """2q / (1 - q)^2 with q = exp(-1 / b): 1.841 at b = 1, 7.835 at b = 2 (continuous: 2 and 8)."""
    assert round(noise.DiscreteLaplace(1.0).variance, 3) == 1.841
    assert round(noise.DiscreteLaplace(2.0).variance, 3) == 7.835
    q = math.exp(-1 / 3)
    assert noise.DiscreteLaplace(3.0).variance == pytest.approx(2 * q / (1 - q) ** 2, rel=1e-13)


def test_laplace_stddev_keeps_its_digits_at_huge_scales():
    """The textbook form loses all digits in 1 - q; the limit is sqrt(2) b."""
    assert noise.DiscreteLaplace(2.0**50).stddev == pytest.approx(math.sqrt(2) * 2.0**50, rel=1e-14)


@pytest.mark.parametrize("kind", [noise.DiscreteLaplace, noise.DiscreteGaussian])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("level", [0.01, 0.5, 0.95, 0.9999])
def test_half_widths_are_the_smallest_that_hold_the_level(kind, scale, level):
    distribution = kind(scale)
    values, masses, _ = brute_force(distribution)
    width = distribution.half_width(level)
    inside = math.fsum(masses[np.abs(values) <= width])
    assert inside >= level - 1e-12 and width >= 0
    assert width == 0 or math.fsum(masses[np.abs(values) <= width - 1]) < level
    assert distribution.outside(width) == pytest.approx(1 - inside, abs=1e-12)


@pytest.mark.parametrize("kind", [noise.DiscreteLaplace, noise.DiscreteGaussian])
@pytest.mark.parametrize("delta", [0.3, 1e-9, 1e-16, 1e-25, 1e-200])
def test_a_radius_is_the_smallest_however_far_the_tail(kind, delta):
    distribution = kind(3.0)
    radius = distribution.radius(delta)
    laplace = kind is noise.DiscreteLaplace
    masses = [(Decimal(-k) / 3 if laplace else Decimal(-k * k) / 18).exp() for k in range(radius + 600)]
    whole = 2 * sum(masses) - 1
    assert 2 * sum(masses[radius + 1 :]) <= Decimal(delta) * whole < 2 * sum(masses[radius:])


@pytest.mark.parametrize("delta", [0, 1, -0.1, math.nan])
def test_a_radius_needs_a_probability(delta):
    with pytest.raises(ValueError, match="delta"):
        noise.DiscreteLaplace(1.0).radius(delta)


def test_the_wide_gaussian_tail_meets_the_sum():
    scale = 2000.5
    distribution = noise.DiscreteGaussian(scale)
    values, masses, _ = brute_force(distribution)
    for width in (0, 100, 2000, 5000, 9000):
        assert distribution.outside(width) == pytest.approx(
            math.fsum(masses[np.abs(values) > width]), abs=1e-7
        )


@pytest.mark.parametrize("level", [0, 1, -0.1, 1.5, math.nan, True])
def test_a_level_is_a_probability(level):
    with pytest.raises((ValueError, TypeError), match="level"):
        noise.DiscreteLaplace(1.0).half_width(level)


@pytest.mark.parametrize("kind", [noise.DiscreteLaplace, noise.DiscreteGaussian])
@pytest.mark.parametrize(
    "scale, error, words",
    [
        (0.0, ValueError, "scale must be > 0, got 0"),
        (-1.0, ValueError, "scale must be > 0"),
        (math.nan, ValueError, "scale must be finite"),
        (math.inf, ValueError, "scale must be finite"),
        (True, TypeError, "scale must be a number, got bool"),
        (np.True_, TypeError, "scale must be a number, got bool"),
        ("1", TypeError, "scale must be a number, got str"),
        (None, TypeError, "scale must be a number, got NoneType"),
    ],
)
def test_scales_that_are_none(kind, scale, error, words):
    with pytest.raises(error, match=words):
        kind(scale)


@pytest.mark.parametrize("kind", [noise.DiscreteLaplace, noise.DiscreteGaussian])
def test_a_numpy_scale_becomes_a_float(kind):
    assert type(kind(np.float64(2)).scale) is float and kind(np.float64(2)) == kind(2)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [noise.DiscreteLaplace, noise.DiscreteGaussian])
@pytest.mark.parametrize("scale", [5e-324, 1e-200, 1e-5, 1e-4, 1 / 1421, 1e-3])
def test_tiny_scales_are_no_noise(kind, scale):
    distribution = kind(scale)
    assert distribution.variance == 0 and 0 <= distribution.stddev < 1e-200
    assert distribution.probabilities(np.arange(-2, 3)).tolist() == [0, 0, 1, 0, 0]
    assert distribution.outside(0) == 0 and distribution.half_width(0.999) == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [noise.DiscreteLaplace, noise.DiscreteGaussian])
def test_huge_scales_do_not_overflow(kind):
    distribution = kind(1e200)
    assert distribution.stddev == pytest.approx(
        1e200 * (2**0.5 if distribution.noise == "laplace" else 1), rel=1e-14
    )
    assert (
        distribution.variance == math.inf
        and distribution.outside(0) == 1
        and (distribution.probabilities(np.arange(2)) > 0).all()
    )
