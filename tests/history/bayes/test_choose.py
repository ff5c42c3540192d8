"""Three methods for the distribution of a sum, against sums over all values, closed forms and each other."""

import functools

import numpy as np
import pytest
from scipy import stats

from pgmjax.history.bayes import inference
from pgmjax.history.bayes.distribution import FourierDistribution, NoiseSum, invert
from pgmjax.history.bayes.inference import distribution_of
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace

A = [0.476923077, 0.364485981, -0.032710280, 0.495327103, -0.500071891, 0.261538462, 0.070093458, 0.238389648]
B = [20.0, 10.0, 20.0, 10.0, 10.0, 40.0, 40.0, 10.0]
PAPER = NoiseSum(A, B, continuous=True)


@functools.cache
def brute(distributions, units):
    """Values and masses of sum of unit x noise over integers, by convolution of dictionaries' arrays."""
    result = {0: 1.0}
    for distribution, unit in zip(distributions, units, strict=True):
        ends = np.arange(-60, 61)
        masses = distribution.probabilities(ends)
        sums = {}
        for value, mass in result.items():
            for end, more in zip(ends, masses, strict=True):
                if mass * more > 1e-18:
                    sums[value + unit * end] = sums.get(value + unit * end, 0.0) + mass * more
        result = sums
    values = np.array(sorted(result))
    return values, np.array([result[v] for v in values])


LATTICES = [
    ((DiscreteLaplace(0.5),), (1,)),
    ((DiscreteLaplace(1.0), DiscreteLaplace(0.7)), (2, 3)),
    ((DiscreteLaplace(1.0), DiscreteGaussian(1.5)), (1, 1)),
]


@pytest.mark.parametrize(("distributions", "units"), LATTICES)
@pytest.mark.parametrize("method", ["characteristic", "convolution"])
def test_lattices_are_exact(distributions, units, method):
    values, masses = brute(distributions, units)
    distribution = distribution_of(NoiseSum(np.array(units) / 6, distributions), method)
    assert distribution.accuracy.shift == 0 and distribution.accuracy.mass < 2e-8
    for low, high in ((0, 0), (-2, 2), (-3, 7), (5, 9), (1, 100)):
        expected = masses[(values >= low) & (values <= high)].sum()
        assert distribution.between(low / 6, high / 6) == pytest.approx(expected, abs=2e-8)
    for level in (0.5, 0.9, 0.99):
        width = distribution.half_width(level)
        assert masses[np.abs(values) <= 6 * width + 1e-6].sum() >= level
        assert masses[np.abs(values) <= 6 * width - 1e-6].sum() < level + 2e-8


def test_the_shortest_window_of_a_lattice():
    distribution = invert(NoiseSum([1.0], 0.5))
    one = DiscreteLaplace(0.5).probabilities(np.arange(0, 3))
    level = one[0] + one[1] / 2  # between one point and two
    low, high = distribution.shortest(level)
    assert high - low == 1.0 and distribution.half_width(level) == 1.0
    assert distribution.between(low, high) >= level
    two = NoiseSum([2.0, 3.0], [DiscreteLaplace(1.0), DiscreteLaplace(0.7)])
    values, masses = brute((DiscreteLaplace(1.0), DiscreteLaplace(0.7)), (2, 3))
    grid = np.zeros(401)
    for value, mass in zip(values, masses, strict=True):
        if abs(value) <= 200:
            grid[value + 200] = mass
    sums = np.concatenate([[0], np.cumsum(grid)])
    for level in (0.6, 0.8, 0.95):
        best = min(
            (b - a for a in range(401) for b in range(a, 401) if sums[b + 1] - sums[a] >= level + 1e-10),
        )
        low, high = invert(two).shortest(level)
        assert high - low == pytest.approx(best)


@pytest.mark.parametrize(("count", "scale"), [(1, 3.0), (2, 3.0), (3, 0.5), (5, 10.0)])
def test_equal_continuous_laplace_terms(count, scale):
    """The difference of two gamma variables: against numeric integration."""
    distribution = distribution_of(NoiseSum([1.0] * count, scale, continuous=True), "characteristic")
    grid = np.linspace(0, 40 * scale, 20_001)
    gamma = stats.gamma(count, scale=scale)
    for end in (0.5 * scale, 2 * scale, 5 * scale):
        expected = np.trapezoid(gamma.pdf(grid) * gamma.cdf(grid + end), grid)
        assert 0.5 + distribution.between(0, end) == pytest.approx(expected, abs=1e-6)


def test_the_papers_equation_23():
    """n = 2 at z = 1, alpha = 0.7: the density 0.14773413 of the difference of two gamma variables."""
    distribution = invert(NoiseSum([1.0, 1.0], 1 / 0.7, continuous=True))
    assert (distribution.between(1, 1.0001) / 1e-4) == pytest.approx(0.14773413, abs=5e-6)


def test_gaussian_sums_have_a_closed_form():
    distribution = invert(NoiseSum([3.0, 4.0], [Gaussian(1.0), Gaussian(1.0)]))
    assert distribution.half_width(0.95) == pytest.approx(5 * stats.norm.ppf(0.975))
    assert distribution.between(-1, 2) == pytest.approx(
        stats.norm(scale=5).cdf(2) - stats.norm(scale=5).cdf(-1)
    )
    assert distribution.between(1, 2) == pytest.approx(
        stats.norm(scale=5).cdf(2) - stats.norm(scale=5).cdf(1)
    )


def test_the_papers_probability_calculation():
    plan = inference.plan_convolution(PAPER, 1.0, 0.01)
    lengths = np.repeat(plan.lengths, PAPER.counts)
    order = np.argsort(-np.abs(A) * B, kind="stable")
    assert lengths.tolist() == np.array([129, 51, 11, 69, 69, 141, 39, 33])[order].tolist()
    distribution = inference.convolve(PAPER, 1.0, 0.01)
    assert len(distribution.masses) == 535
    lost = 1 - distribution.masses.sum()
    assert lost == pytest.approx(0.00735, abs=5e-6) and lost <= 0.01 and distribution.accuracy.mass >= lost
    central = np.cumsum(np.concatenate([[distribution.masses[267]], 2 * distribution.masses[268:]]))
    assert int(np.argmax(central >= 0.95)) == 48
    variance = (np.arange(-267, 268) ** 2) @ inference.convolve(PAPER, 1.0, 1e-9).masses[
        len(inference.convolve(PAPER, 1.0, 1e-9).masses) // 2 - 267 :
    ][:535]
    assert variance == pytest.approx(554.450036 + 8 / 12, abs=0.05)  # the rounding the paper leaves out


@pytest.mark.parametrize("gamma", [0.1, 1e-3, 1e-6])
def test_probability_calculation_loses_at_most_gamma_and_says_how_much(gamma):
    for total in (PAPER, NoiseSum([1.0] * 9, 10.0)):
        distribution = inference.convolve(total, 1.0, gamma)
        assert 0 <= 1 - distribution.masses.sum() <= min(gamma, distribution.accuracy.mass)


@pytest.mark.parametrize("continuous", [True, False])
def test_methods_agree_within_what_they_say(continuous):
    total = NoiseSum(A, B, continuous=continuous)
    distributions = [distribution_of(total, method) for method in ("characteristic", "convolution")]
    distributions.append(distribution_of(total, "monte-carlo", size=50_000))
    for distribution in distributions[1:]:
        for end in (5.0, 20.0, 47.0, 90.0):
            said = distributions[0].accuracy, distribution.accuracy
            shift, mass = (sum(getattr(a, name) for a in said) for name in ("shift", "mass"))
            assert (
                distribution.between(-end, end) <= distributions[0].between(-end - shift, end + shift) + mass
            )
            assert (
                distribution.between(-end, end) >= distributions[0].between(-end + shift, end - shift) - mass
            )
    if continuous:
        assert distributions[0].half_width(0.95) == pytest.approx(47.38333, abs=1e-4)


def test_incommensurate_discrete_noise_is_bracketed():
    """Against all pairs of values: the computed distribution moved by its shift holds the true one."""
    root = np.sqrt(2.0)
    one, two = DiscreteLaplace(1.0), DiscreteLaplace(0.5)
    distribution = distribution_of(NoiseSum([1.0, root], [one, two]), "characteristic")
    assert isinstance(distribution, FourierDistribution) and distribution.accuracy.shift > 0
    ends = np.arange(-40, 41)
    values = np.abs(np.add.outer(ends, root * ends))
    masses = np.multiply.outer(one.probabilities(ends), two.probabilities(ends))
    shift, mass = distribution.accuracy.shift, distribution.accuracy.mass
    for width in np.linspace(0.1, 8, 12):
        exact = masses[values <= width].sum()
        assert distribution.between(-width - shift, width + shift) >= exact - mass
        assert distribution.between(-width + shift, width - shift) <= exact + mass
    for level in (0.5, 0.8, 0.95):
        width = distribution.half_width(level)
        assert masses[values <= width].sum() >= level
        assert masses[values <= width - 4 * shift].sum() < level


def test_a_small_term_beside_a_large_one():
    """A slow series stays exact: a Laplace noise with one a million times smaller beside it."""
    distribution = distribution_of(NoiseSum([1.0, 1e-6], 1.0, continuous=True), "characteristic")
    assert (
        distribution.half_width(0.95) == pytest.approx(np.log(20), abs=1e-6)
        and distribution.accuracy.shift == 0
    )


def test_monte_carlo_error_falls_as_one_over_the_root_of_draws():
    exact = distribution_of(PAPER, "characteristic")
    ends = np.linspace(-90, 90, 61)
    truth = np.array([exact.between(-np.inf, end) for end in ends])
    errors = []
    for size in (2_000, 32_000):
        drawn = [inference.simulate(PAPER, size, seed) for seed in range(4)]
        shares = np.array([[each.between(-np.inf, end) for end in ends] for each in drawn])
        assert np.abs(shares - truth).max() < drawn[0].accuracy.mass
        errors.append(np.sqrt(((shares - truth) ** 2).mean()))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.5)


@pytest.mark.parametrize(
    "noise",
    [
        DiscreteLaplace(0.5),
        DiscreteLaplace(30.0),
        DiscreteGaussian(0.6),
        DiscreteGaussian(2000.0),
        Laplace(2.0),
    ],
)
def test_draws_have_the_distribution(noise):
    draws = inference.draw_sums(np.ones((1, 1)), [noise], 100_000, seed=3)[:, 0]
    assert draws.mean() == pytest.approx(0, abs=4 * noise.stddev / np.sqrt(1e5))
    assert draws.var() == pytest.approx(noise.variance, rel=0.04)
    if not isinstance(noise, Laplace):
        assert (draws == np.rint(draws)).all()
        values = np.arange(-2, 3)
        shares = (draws[:, None] == values).mean(axis=0)
        np.testing.assert_allclose(shares, noise.probabilities(values), atol=0.008)


def test_draws_repeat_with_their_seed_and_are_as_many_as_asked():
    first, again, other = (inference.draw_sums(np.ones((2, 3)), [Laplace(1.0)] * 3, 7, s) for s in (1, 1, 2))
    assert first.shape == (7, 2) and (first == again).all() and (first != other).any()


def test_no_noise_at_all():
    for method in ("characteristic", "convolution", "auto"):
        distribution = distribution_of(NoiseSum([0.0], 1.0), method)
        assert distribution.between(-0.5, 0.5) == 1.0 and distribution.half_width(0.9) == 0.0


@pytest.mark.parametrize("method", ["characteristic", "convolution", "monte-carlo"])
def test_bad_levels(method):
    distribution = distribution_of(PAPER, method, **({"size": 1000} if method == "monte-carlo" else {}))
    for level in (0.0, 1.0, np.nan):
        with pytest.raises(ValueError, match="level"):
            distribution.half_width(level)
    if method != "monte-carlo":
        with pytest.raises(ValueError, match="closer to 1 than this distribution is computed"):
            distribution.half_width(1 - 1e-15)


def test_bad_methods():
    with pytest.raises(ValueError, match=r"method.*'auto'.*'characteristic'"):
        distribution_of(PAPER, "guess")
    with pytest.raises(ValueError, match=r"gamma.*0"):
        distribution_of(PAPER, "convolution", gamma=0.0)
    with pytest.raises(ValueError, match=r"points, above the limit .* wider step"):
        distribution_of(PAPER, "convolution", step=1e-6)
    with pytest.raises(ValueError, match=r"size.*0"):
        distribution_of(PAPER, "monte-carlo", size=0)


@pytest.mark.parametrize(("size", "step"), [(1.0, 0.7), (np.sqrt(2.0), 0.9), (1.0, 0.013)])
def test_probability_calculation_off_the_lattice_reaches_its_level(size, step):
    """Against single atoms and all pairs of values: rounding, and masses spread over cells."""
    one, two = DiscreteLaplace(1.0), DiscreteLaplace(0.5)
    ends = np.arange(-40, 41)
    for coefficients, distributions in (([1.0], [one]), ([1.0, size], [one, two])):
        distribution = inference.convolve(NoiseSum(coefficients, distributions), step=step)
        assert distribution.cells
        values, masses = np.abs(ends).astype(float), one.probabilities(ends)
        if len(distributions) == 2:
            values = np.abs(np.add.outer(ends, size * ends))
            masses = np.multiply.outer(masses, two.probabilities(ends))
        shift, mass = distribution.accuracy.shift, distribution.accuracy.mass
        for width in np.linspace(0.1, 8, 30):
            exact = masses[values <= width + 1e-9].sum()
            assert distribution.between(-width - shift - 1e-9, width + shift + 1e-9) >= exact - mass
            assert distribution.between(-width + shift, width - shift) <= exact + mass
        for level in (0.3, 0.5, 0.8, 0.95):
            assert masses[values <= distribution.half_width(level)].sum() >= level


def test_a_lattice_far_finer_than_the_step_is_no_lattice():
    plan = inference.plan_convolution(NoiseSum([1, 0.7, 1e-10], 1.0), step=1.0)
    assert not plan.exact and plan.shift > 0
    assert not inference.plan_convolution(NoiseSum([1, 0.7], 1.0), step=1.0).exact
    assert inference.plan_convolution(NoiseSum([1, 0.7], 1.0), step=0.1).exact


def test_simulated_half_widths_hold_their_level():
    """Over 200 simulations of atoms and a continuous part: the share of draws alone misses half of them."""
    for distribution in (NoiseSum([1.0], [Laplace(1.0)]), NoiseSum([0.1, 0.2], 1.0)):
        exact = distribution_of(distribution, "characteristic")
        held = [
            exact.between(-width, width) >= 0.9 - 1e-9
            for width in (
                inference.simulate(distribution, 10_000, seed).half_width(0.9) for seed in range(200)
            )
        ]
        assert np.mean(held) >= 0.98
    with pytest.raises(ValueError, match="closer to 1 than this distribution is computed"):
        inference.simulate(PAPER, 1000).half_width(0.9999)
