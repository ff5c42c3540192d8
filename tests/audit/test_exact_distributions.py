"""Exact figures of integer noise against long sums, and of selection distributions by enumeration."""

import functools
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from pgmjax.audit import exact
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from tests.audit import channels

FALSE_ALARMS = 0.0  # nothing is sampled

DISTRIBUTIONS = [kind(scale) for kind in (DiscreteLaplace, DiscreteGaussian) for scale in (0.5, 3.0, 50.0)]


def shifted_laws(distribution, shift):
    """P(k) and P(k - shift) on a long range of integers."""
    width = int(60 * distribution.scale) + 100
    values = np.arange(-width, width + 1)
    return distribution.probabilities(values), distribution.probabilities(values - shift)


@pytest.mark.parametrize("scale", [0.5, 3.0, 50.0])
@pytest.mark.parametrize("shift", [-3, 0, 1, 7])
def test_epsilon_of_the_laplace_against_all_integers(scale, shift):
    here, there = shifted_laws(DiscreteLaplace(scale), shift)
    worst = np.abs(np.log(here) - np.log(there)).max()
    assert exact.noise_epsilon(DiscreteLaplace(scale), shift) == pytest.approx(worst, rel=1e-9, abs=1e-12)


def test_epsilon_of_the_gaussian_is_infinite_unless_the_sensitivity_is_zero():
    assert exact.noise_epsilon(DiscreteGaussian(9.0), 1) == math.inf
    assert exact.noise_epsilon(DiscreteGaussian(9.0), 0) == 0.0


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=repr)
@pytest.mark.parametrize("shift", [-3, 0, 1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.0])
def test_delta_of_noise_against_a_long_sum(distribution, shift, epsilon):
    here, there = shifted_laws(distribution, shift)
    truth = math.fsum(np.maximum(here - math.exp(epsilon) * there, 0))
    assert exact.noise_delta(distribution, shift, epsilon) == pytest.approx(truth, rel=1e-10, abs=1e-15)


def test_delta_of_the_gaussian_keeps_its_digits_where_it_is_tiny():
    """Against a sum in 60 decimal digits; at epsilon 1.15 the terms of P and Q cancel to 1e-30."""
    scale, shift, epsilon = Decimal(10), Decimal(1), Decimal("1.15")
    with localcontext(prec=60):
        masses = {k: (-(Decimal(k) ** 2) / (2 * scale**2)).exp() for k in range(-401, 402)}
        excess = (masses[k] - epsilon.exp() * masses[k - 1] for k in range(-400, 401))
        truth = sum(e for e in excess if e > 0) / sum(masses.values())
    assert truth < Decimal("1e-28")
    assert exact.noise_delta(DiscreteGaussian(10.0), int(shift), float(epsilon)) == pytest.approx(
        float(truth), rel=1e-9, abs=0
    )


def test_delta_of_the_laplace_is_zero_from_its_epsilon_on():
    distribution = DiscreteLaplace(4.0)
    assert exact.noise_delta(distribution, 2, 0.5) == 0.0
    assert exact.noise_delta(distribution, 2, 0.49) > 0


def test_refused_noise():
    with pytest.raises(TypeError, match=r"shift.*float 0\.5"):
        exact.noise_epsilon(DiscreteLaplace(1.0), 0.5)
    with pytest.raises(TypeError, match="give the probabilities of another distribution to channel_epsilon"):
        exact.noise_epsilon("laplace", 1)
    with pytest.raises(ValueError, match=r"epsilon.*-1"):
        exact.noise_delta(DiscreteLaplace(1.0), 1, -1.0)
    with pytest.raises(ValueError, match="take a smaller scale or shift"):
        exact.noise_delta(DiscreteGaussian(1e8), 1, 1.0)


def test_exponential_mechanism_and_the_missing_half():
    assert round(exact.selection_epsilon(channels.exponential), 4) == 0.9748
    without = functools.partial(channels.exponential, half=1.0)
    assert round(exact.selection_epsilon(without), 4) == 1.9971


def test_permute_and_flip_attains_its_epsilon():
    assert exact.selection_epsilon(channels.permute_and_flip) == pytest.approx(1.0, rel=1e-12)


def test_monotone_scores_need_no_half():
    without = functools.partial(channels.exponential, half=1.0)
    found = exact.selection_epsilon(without, monotone=True)
    assert 0.98 < found <= 1.0 + 1e-12
    assert exact.selection_epsilon(without, 2, monotone=True) < 1.0


def test_a_larger_sensitivity_costs_more():
    """The replace-one bug: noise calibrated for moves by 1 loses twice its epsilon under moves by 2."""
    assert exact.selection_epsilon(channels.permute_and_flip, sensitivity=2) == pytest.approx(2.0, rel=1e-12)


def test_a_selection_of_the_best_without_noise_is_caught():
    def best(scores):
        return np.eye(len(scores))[np.argmax(scores)]

    assert exact.selection_epsilon(best, 2) == math.inf


def test_a_selection_that_ignores_scores_reveals_nothing():
    assert exact.selection_epsilon(lambda scores: np.full(len(scores), 1 / len(scores))) == 0.0


def test_refused_selections():
    with pytest.raises(ValueError, match="take fewer candidates"):
        exact.selection_epsilon(channels.exponential, candidates=12)
    with pytest.raises(ValueError, match="must return 3 probabilities"):
        exact.selection_epsilon(lambda scores: scores * 1.0)
    with pytest.raises(ValueError, match=r"candidates.*1"):
        exact.selection_epsilon(channels.exponential, 1)
    with pytest.raises(TypeError, match=r"sensitivity.*float 0\.5"):
        exact.selection_epsilon(channels.exponential, 3, 0.5)
