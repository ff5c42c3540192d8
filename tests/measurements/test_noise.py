"""Distributions of noise against sums over the integers, integrals of densities, and SciPy."""

import math
from decimal import Decimal

import numpy as np
import pytest
from scipy import integrate, stats

from pgmjax.measurements import noise
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace

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
        (0.0, ValueError, "scale.*0"),
        (-1.0, ValueError, "scale.*-1"),
        (math.nan, ValueError, "scale"),
        (math.inf, ValueError, "scale"),
        (True, TypeError, "scale.*bool"),
        (np.True_, TypeError, "scale.*bool"),
        ("1", TypeError, "scale.*str"),
        (None, TypeError, "scale.*NoneType"),
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


@pytest.mark.parametrize("scale", [1e-4, 0.2, 0.5, 1.0, 3.9, 4.0, 50.0])
@pytest.mark.parametrize("kind", [noise.DiscreteLaplace, noise.DiscreteGaussian])
def test_the_mean_absolute_value_is_a_sum_over_the_integers(kind, scale):
    values = np.arange(-4000, 4001)
    true = math.fsum(np.abs(values) * kind(scale).probabilities(values))
    # from scale 4 on by Euler-Maclaurin, whose next term is 1 / (240 scale^4)
    assert kind(scale).mean_absolute == pytest.approx(true, rel=2e-5, abs=1e-300)


def test_the_mean_absolute_value_at_large_scales_is_the_continuous_one():
    assert noise.DiscreteLaplace(1e6).mean_absolute == pytest.approx(1e6, rel=1e-9)
    assert noise.DiscreteGaussian(1e6).mean_absolute == pytest.approx(math.sqrt(2 / math.pi) * 1e6, rel=1e-12)


DISCRETE = [
    kind(scale) for kind in (DiscreteLaplace, DiscreteGaussian) for scale in (0.2, 0.7, 1.0, 3.7, 25.0)
]
CONTINUOUS = [(Laplace(1.7), stats.laplace(scale=1.7)), (Gaussian(1.7), stats.norm(scale=1.7))]
EVERY = [*DISCRETE, *(distribution for distribution, _ in CONTINUOUS)]
ANGLES = np.array([0.0, 1e-3, 0.1, 0.5, 1.0, 3.0, np.pi, 6.0, 20.0])


def masses(distribution):
    values = np.arange(-4000, 4001)
    return values, distribution.probabilities(values)


@pytest.mark.parametrize("distribution", DISCRETE, ids=str)
def test_transforms_and_tails_of_discrete_noise_against_sums(distribution):
    values, probabilities = masses(distribution)
    expected = np.cos(np.multiply.outer(ANGLES, values)) @ probabilities
    np.testing.assert_allclose(distribution.characteristic(ANGLES), expected, atol=1e-12)
    for edge in (0, 0.5, 1, 3, 3.2, 40):
        np.testing.assert_allclose(
            distribution.above(np.array([float(edge)])),
            probabilities[values > edge].sum(),
            rtol=1e-9,
            atol=1e-300,
        )
    arguments = np.array([0.1, 0.5, 0.9]) * min(distribution.largest_argument, 1.0)
    near = probabilities > 1e-280
    terms = np.multiply.outer(arguments, values[near]) + np.log(probabilities[near])
    moments = np.log(np.exp(terms).sum(axis=1))
    bound = distribution.log_moment(arguments)
    assert (bound >= moments - 1e-9).all()
    if distribution.noise == "laplace":
        np.testing.assert_allclose(bound, moments, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("distribution", "known"), CONTINUOUS, ids=["laplace", "gaussian"])
def test_continuous_noise_against_integrals_and_scipy(distribution, known):
    assert distribution.variance == pytest.approx(known.var()) and distribution.stddev == pytest.approx(
        known.std()
    )
    assert distribution.mean_absolute == pytest.approx(known.expect(abs))
    for angle in (0.0, 0.3, 2.0):
        value = integrate.quad(lambda x, t=angle: np.cos(t * x) * known.pdf(x), -60, 60, limit=400)[0]
        assert distribution.characteristic(np.array([angle]))[0] == pytest.approx(value, abs=1e-8)
    value = integrate.quad(lambda x: np.exp(0.2 * x) * known.pdf(x), -150, 150, limit=400)[0]
    assert distribution.log_moment(np.array([0.2]))[0] == pytest.approx(np.log(value))
    np.testing.assert_allclose(
        distribution.above(np.array([0.0, 1.0, 30.0])), known.sf([0, 1, 30]), rtol=1e-9
    )
    for level in (0.1, 0.95, 1 - 1e-9):
        assert distribution.half_width(level) == pytest.approx(known.ppf(0.5 + level / 2), rel=1e-6)
        assert distribution.outside(distribution.half_width(level)) == pytest.approx(1 - level, rel=1e-6)


@pytest.mark.parametrize(("distribution", "known"), CONTINUOUS, ids=["laplace", "gaussian"])
def test_the_decay_of_a_continuous_characteristic_function_is_its_logarithm(distribution, known):
    for angle in (0.01, 0.6, 5.0):
        fall, slope = distribution.decay(angle)
        ends = -np.log(distribution.characteristic(angle * np.exp(np.array([-1e-5, 0.0, 1e-5]))))
        assert fall == pytest.approx(ends[1], rel=1e-9)
        assert slope == pytest.approx((ends[2] - ends[0]) / 2e-5, rel=1e-6)
    assert distribution.scaled(3.0).stddev == pytest.approx(3 * known.std())
    assert type(distribution).of_stddev(2.5).stddev == pytest.approx(2.5)


@pytest.mark.parametrize("distribution", EVERY, ids=str)
@pytest.mark.parametrize("outside", [0.3, 1e-3, 1e-12])
def test_a_reach_holds_all_but_a_probability(distribution, outside):
    """The paper's closed form leaves more of the discrete Laplace distribution outside than of its own."""
    more = 2 / (1 + math.exp(-1 / distribution.scale)) if isinstance(distribution, DiscreteLaplace) else 1
    assert 2 * float(distribution.above(np.array([distribution.reach(outside)]))[0]) <= more * outside * (
        1 + 1e-9
    )


@pytest.mark.parametrize("distribution", EVERY, ids=str)
def test_a_sub_exponential_bound_is_above_the_logarithm_of_the_moment(distribution):
    spread, limit = distribution.sub_exponential
    arguments = np.linspace(0, 1 / limit if limit else 5.0, 200)[1:]
    assert (distribution.log_moment(arguments) <= 0.5 * spread * arguments**2 * (1 + 1e-12)).all()
    assert distribution.variance <= spread * (1 + 1e-12)


@pytest.mark.parametrize("distribution", EVERY, ids=str)
def test_simulated_noise_follows_its_distribution(distribution):
    """100,000 draws: chi-square over integers, Kolmogorov-Smirnov for densities; the seed is fixed."""
    draws = distribution.simulate(np.random.default_rng(5), (100, 1000))
    assert draws.shape == (100, 1000) and draws.dtype == np.float64
    if not distribution.is_discrete:
        known = dict(CONTINUOUS)[distribution]
        assert stats.kstest(draws.ravel(), known.cdf).pvalue > 1e-3
        return
    values, probabilities = masses(distribution)
    kept = probabilities * draws.size > 20
    seen = np.array([np.count_nonzero(draws == value) for value in values[kept]])
    seen, expected = np.append(seen, draws.size - seen.sum()), probabilities[kept] * draws.size
    expected = np.append(expected, draws.size - expected.sum())
    some = expected > 1
    assert (
        kept.sum() < 2
        or stats.chisquare(seen[some], expected[some] * seen[some].sum() / expected[some].sum()).pvalue > 1e-3
    )


def test_simulated_noise_too_wide_for_a_table():
    draws = DiscreteLaplace(2.0**40).simulate(np.random.default_rng(6), (10_000,))
    assert (draws == np.rint(draws)).all()
    assert stats.kstest(draws, stats.laplace(scale=2.0**40).cdf).pvalue > 1e-3
    with pytest.raises(ValueError, match="too many values"):
        DiscreteLaplace(2.0**40).table()


@pytest.mark.parametrize("distribution", DISCRETE, ids=str)
def test_a_file_holds_the_word_and_the_parameters(distribution):
    assert distribution.parameters() == {"scale": distribution.scale}
    assert (
        noise.read_noise(distribution.noise, {"noise": distribution.noise, **distribution.parameters()})
        == distribution
    )
    assert distribution.continuous() == noise.CONTINUOUS[distribution.noise](distribution.scale)
    assert distribution.continuous().continuous() == distribution.continuous()
    with pytest.raises(KeyError, match="cauchy"):
        noise.read_noise("cauchy", distribution.parameters())


def test_the_abstract_distributions_have_no_objects():
    for kind in (noise.NoiseDistribution, noise.DiscreteNoise, noise.ContinuousNoise):
        with pytest.raises(TypeError, match="abstract"):
            kind(1.0)
    assert set(noise.CONTINUOUS) <= set(noise.DISCRETE)
