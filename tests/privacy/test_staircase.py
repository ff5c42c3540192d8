"""Staircase noise: its mathematics against long sums, its samplers, its privacy by every shift."""

import math
from fractions import Fraction

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.audit.goodness import goodness_of_fit
from pgmjax.history.bayes.inference import distribution_of
from pgmjax.history.bayes.noise_sum import NoiseSum
from pgmjax.learning.selection import noise_bound
from pgmjax.measurements.noise import DiscreteLaplace, DiscreteNoise, DiscreteStaircase, read_noise
from pgmjax.privacy.accounting import events
from pgmjax.privacy.accounting.composition import Composition
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.privacy.seeded import SeededBackend

ALPHA = 1e-9  # of each fit to entropy of the operating system; those of seeds do not vary
SETTINGS = ((2.0, 5, 2), (0.5, 10, 1), (1.3, 4, 4), (7.0, 3, 1), (0.2, 6, 3))
DISTRIBUTIONS = [DiscreteStaircase(*each) for each in SETTINGS]
ORDERS = np.array([1.01, 1.5, 2.0, 8.0, 64.0])


def brute_force(distribution):
    """The definition, normalised by its sum."""
    reach = (
        math.ceil(800 * distribution.scale * distribution.width)
        if distribution.scale < 1
        else math.ceil(60 * distribution.scale * distribution.width)
    )
    values = np.arange(-reach, reach + 1)
    levels = np.abs(values) // distribution.width + (np.abs(values) % distribution.width >= distribution.step)
    masses = np.exp(-levels / distribution.scale)
    return values, masses / math.fsum(masses)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_moments_tails_and_transforms_are_sums(distribution):
    values, masses = brute_force(distribution)
    np.testing.assert_allclose(distribution.probabilities(values), masses, rtol=1e-12)
    assert distribution.variance == pytest.approx(math.fsum(masses * values.astype(float) ** 2), rel=1e-12)
    assert distribution.mean_absolute == pytest.approx(math.fsum(masses * np.abs(values)), rel=1e-12)
    for edge in (0, 1, 2.5, 7, 31):
        assert distribution.above(np.array([edge]))[0] == pytest.approx(
            math.fsum(masses[values > edge]), rel=1e-9
        )
    for level in (0.3, 0.95, 0.9999):
        width = distribution.half_width(level)
        assert math.fsum(masses[np.abs(values) <= width]) >= level - 1e-12
        assert width == 0 or math.fsum(masses[np.abs(values) <= width - 1]) < level
        assert distribution.outside(distribution.radius(1 - level)) <= 1 - level
    angles = np.array([0.0, 1e-9, 0.01, 0.7, math.pi, 5.0, 2 * math.pi, 40.0])
    expected = np.cos(np.multiply.outer(angles, values)) @ masses
    np.testing.assert_allclose(distribution.characteristic(angles), expected, atol=1e-10)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_the_log_moment_is_a_sum_and_bounded_as_it_says(distribution):
    values, masses = brute_force(distribution)
    arguments = distribution.largest_argument * np.array([0.01, 0.3, 0.5])  # half of 60 stairs: all but e^-30
    likely = masses > 0
    terms = np.multiply.outer(arguments, values[likely]) + np.log(masses[likely])
    most = terms.max(axis=1, keepdims=True)
    moments = (np.log(np.exp(terms - most).sum(axis=1, keepdims=True)) + most)[:, 0]
    np.testing.assert_allclose(distribution.log_moment(arguments), moments, rtol=1e-8, atol=1e-12)
    ends = distribution.log_moment(
        np.array([0.0, distribution.largest_argument, 2 * distribution.largest_argument])
    )
    assert ends.tolist() == [0.0, math.inf, math.inf]
    spread, limit = distribution.sub_exponential
    within = np.linspace(0, 1 / limit, 100)
    assert (
        distribution.log_moment(within) <= 0.5 * spread * within**2 + 1e-12
    ).all() and distribution.variance <= spread


def test_stairs_of_width_one_are_the_discrete_laplace():
    one, laplace, values = DiscreteStaircase(3.0, 1, 1), DiscreteLaplace(3.0), np.arange(-50, 51)
    np.testing.assert_allclose(one.probabilities(values), laplace.probabilities(values), rtol=1e-12)
    assert one.variance == pytest.approx(laplace.variance) and one.half_width(0.95) == laplace.half_width(
        0.95
    )


@pytest.mark.parametrize(("scale", "width"), [(0.5, 10), (2.0, 5), (1.0, 1)])
def test_the_best_step_has_the_least_variance_and_less_than_laplace_noise(scale, width):
    best = DiscreteStaircase.least_variance(scale, width)
    every = [brute_force(DiscreteStaircase(scale, width, step)) for step in range(1, width + 1)]
    variances = [math.fsum(masses * values.astype(float) ** 2) for values, masses in every]
    assert best.step == 1 + int(np.argmin(variances))
    assert best.variance <= DiscreteLaplace(scale * width).variance * (1 + 1e-12)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_a_move_costs_as_many_stairs_as_it_touches(distribution):
    """The largest log-ratio over all integers, for every shift, in multiples of 1 / scale."""
    values = np.arange(-40 * distribution.width, 40 * distribution.width + 1)
    for shift in range(1, 3 * distribution.width + 2):
        with np.errstate(under="ignore"):
            logs = np.log(distribution.probabilities(values)) - np.log(
                distribution.probabilities(values + shift)
            )
        stairs = -(-shift // distribution.width)
        assert np.abs(logs).max() * distribution.scale == pytest.approx(stairs, rel=1e-9)
        least = Fraction(stairs) / Fraction(distribution.scale)
        event = events.StaircaseEvent(least, distribution.width, (shift,), distribution.scale)
        assert event.epsilon == least and event.stairs == (stairs,)
        with pytest.raises(ValueError, match="too small for moves over"):
            events.StaircaseEvent(
                least * Fraction(999, 1000), distribution.width, (shift,), distribution.scale
            )


def test_stairs_of_one_are_laplace_noise():
    event = events.StaircaseEvent(1, 1, (1,), 1.0)
    assert (event.epsilon, event.stairs) == (1, (1,))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_renyi_divergences_are_below_those_of_the_event(distribution):
    """Two answers, moved by the width and by one: independent noise, so that divergences add up."""
    _, masses = brute_force(distribution)
    moves = (distribution.width, 1)
    event = events.StaircaseEvent(
        2 / Fraction(distribution.scale), distribution.width, moves, distribution.scale
    )
    bound = event.renyi(ORDERS)
    for place, order in enumerate(ORDERS):
        exact = 0.0
        for move in moves:
            p, q = masses[move:], masses[:-move]
            some = (p > 0) & (q > 0)
            exact += math.log(math.fsum(np.exp(order * np.log(p[some]) + (1 - order) * np.log(q[some])))) / (
                order - 1
            )
        assert exact <= bound[place] * (1 + 1e-9)
    assert (bound <= ORDERS * float(event.rho) * (1 + 1e-11)).all() and event.rho == 1 / Fraction(
        distribution.scale
    ) ** 2


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
@pytest.mark.parametrize("name", ["opendp", "seeded", "simulated"])
def test_draws_follow_the_distribution(name, distribution):
    size = 20_000
    if name == "simulated":
        draws = distribution.simulate(np.random.default_rng(3), (4, size // 4)).ravel().astype(np.int64)
    else:
        backend = OpenDPBackend() if name == "opendp" else SeededBackend(4, insecure=True)
        draws = backend.draw(distribution, size)
    assert draws.shape == (size,) and draws.dtype == np.int64
    assert goodness_of_fit(draws, distribution).p_value > ALPHA
    wrong = [DiscreteStaircase(1.2 * distribution.scale, distribution.width, distribution.step)]
    if distribution.scale <= 2:  # else the stairs are too flat for so few draws
        wrong.append(
            DiscreteStaircase(
                distribution.scale,
                distribution.width,
                distribution.width if distribution.step < distribution.width else 1,
            )
        )
    assert all(goodness_of_fit(draws, one).p_value < 1e-6 for one in wrong)


@pytest.mark.parametrize("method", ["characteristic", "convolution", "monte-carlo"])
def test_sums_of_noises_are_computed_without_knowing_the_kind(method):
    distribution = DISTRIBUTIONS[0]
    values, masses = brute_force(distribution)
    twice = np.zeros(2 * values.size - 1)
    twice[::2] = masses
    sums, ends = np.convolve(masses, twice), np.arange(3 * values[0], 3 * values[-1] + 1)
    found = distribution_of(NoiseSum([1.0, -2.0], distribution), method)
    for width in (1, 3, 10, 40, 90):
        expected = math.fsum(sums[np.abs(ends) <= width])
        assert found.between(-width, width) == pytest.approx(expected, abs=found.accuracy.mass + 1e-9)


def test_a_history_keeps_the_distribution(tmp_path):
    distribution, domain = DiscreteStaircase(2.0, 5, 2), pj.Domain({"a": 3})
    measured = pj.LinearMeasurement.released(pj.queries.marginal(["a"]), [5, 2, 1], distribution)
    pj.history.History(domain, [measured]).save(tmp_path / "history")
    (again,) = pj.history.History.load(tmp_path / "history").measurements
    assert (
        again.distribution == distribution
        and again.noise == "staircase"
        and float(again.stddev) == distribution.stddev
    )
    assert noise_bound(distribution, np.ones(3)) > 0
    with pytest.raises(ValueError, match="noise of the measurement"):
        pj.LinearMeasurement(("a",), [5, 2, 1], 1.0, noise="staircase")


def test_a_backend_without_a_sampler_refuses():
    class Other(DiscreteStaircase):
        """A distribution that no backend knows."""

    for backend in (OpenDPBackend(), SeededBackend(0, insecure=True)):
        with pytest.raises(TypeError, match="Backend has no sampler for Other; it draws DiscreteLaplace,"):
            backend.draw(Other(1.0, 2, 1), 3)


def test_records_files_and_budgets():
    distribution = DiscreteStaircase(2.0, 5, 2)
    assert (
        isinstance(distribution, DiscreteNoise)
        and read_noise("staircase", distribution.parameters()) == distribution
    )
    event = events.StaircaseEvent("0.5", 5, (5,), 2.0)
    record = event.to_dict()
    assert record["kind"] == "staircase" and events.read_event(record) == event
    assert events.read_event(record).to_dict() == record
    budget = Budget(1)
    budget.charge([event, event])
    assert budget.remaining == 0
    plan = Composition([event], "add-remove")
    assert plan.epsilon("1e-6", "pld").epsilon <= 0.5 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: DiscreteStaircase(1.0, 0, 1), ValueError, "width must be"),
        (lambda: DiscreteStaircase(1.0, 3, 4), ValueError, "step must be"),
        (lambda: DiscreteStaircase(1.0, 3, 1.5), TypeError, "step must be"),
        (lambda: DiscreteStaircase(0.01, 3, 1), ValueError, "scale must be at least 1/64"),
        (lambda: DiscreteStaircase(2.0**50, 3, 1), ValueError, "at most 2\\^50"),
        (lambda: DiscreteStaircase(-1.0, 3, 1), ValueError, "scale must be > 0"),
        (lambda: DiscreteStaircase(1.0, 3, 1).continuous(), ValueError, "no continuous distribution"),
        (lambda: events.StaircaseEvent(1, 3, None), TypeError, "shifts must be whole numbers"),
        (lambda: events.StaircaseEvent(1, 0, (1,)), ValueError, "width must be"),
    ],
)
def test_refusals(make, error, words):
    with pytest.raises(error, match=words):
        make()
