"""Exact epsilons, deltas and Renyi divergences of reference channels; seeded bugs must differ."""

import math

import numpy as np
import pytest

from pgmjax.audit import exact
from tests.audit import channels

FALSE_ALARMS = 0.0  # nothing is sampled

LINE = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))


@pytest.mark.parametrize("size", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0])
def test_randomised_response_has_its_epsilon(size, epsilon):
    assert exact.channel_epsilon(channels.response(size, epsilon)) == pytest.approx(epsilon, rel=1e-12)


def test_a_lie_that_may_be_the_truth_is_another_channel():
    """Its epsilon is far from the stated one in the direction of too much noise, so it must be compared."""
    wrong = exact.channel_epsilon(channels.lie_may_be_truth(4, 1.0))
    assert not math.isclose(wrong, 1.0, rel_tol=1e-3)
    truth = 1 - (3 / (math.e + 3)) * 3 / 4
    assert wrong == pytest.approx(math.log(truth / ((1 - truth) / 3)), rel=1e-12)


def test_unary_encoding_and_the_bug_of_one_epsilon_per_bit():
    assert exact.channel_epsilon(channels.optimised_unary(4, 1.0)) == pytest.approx(1.0, rel=1e-12)
    assert exact.channel_epsilon(channels.unary_per_bit(4, 1.0)) == pytest.approx(2.0, rel=1e-12)


def test_only_neighbouring_inputs_count():
    chain = np.array([[0.4, 0.6], [0.5, 0.5], [0.6, 0.4]])
    assert exact.channel_epsilon(chain) == pytest.approx(math.log(1.5))
    assert exact.channel_epsilon(chain, [(0, 1), (1, 2)]) == pytest.approx(math.log(1.25))
    assert exact.channel_epsilon(chain, [(1, 0)]) == exact.channel_epsilon(chain, [(0, 1)])
    assert exact.channel_delta(chain, 0.0, [(0, 1)]) == pytest.approx(0.1)


def test_one_input_or_no_neighbours_reveal_nothing():
    single = np.array([[0.25, 0.75]])
    assert exact.channel_epsilon(single) == exact.channel_delta(single, 0.0) == 0.0


def test_different_supports_have_no_epsilon():
    leaking = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    assert exact.channel_epsilon(leaking) == math.inf
    assert exact.channel_delta(leaking, 3.0) == pytest.approx(0.5)
    unused = np.array([[0.5, 0.5, 0.0], [0.25, 0.75, 0.0]])  # an output that never comes is no leak
    assert exact.channel_epsilon(unused) == pytest.approx(math.log(2))


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.0])
def test_delta_against_a_sum_over_all_events(epsilon):
    """Brute force: the supremum of P(E) - e^eps Q(E) over every subset of outputs."""
    channel = np.random.default_rng(0).dirichlet(np.ones(6), size=2)
    events = (np.arange(64)[:, None] >> np.arange(6)) & 1
    p, q = events @ channel.T[:, 0], events @ channel.T[:, 1]
    truth = max((p - math.exp(epsilon) * q).max(), (q - math.exp(epsilon) * p).max())
    assert exact.channel_delta(channel, epsilon) == pytest.approx(truth, abs=1e-15)


def test_delta_is_zero_at_the_channel_epsilon():
    channel = channels.response(5, 1.0)
    assert exact.channel_delta(channel, exact.channel_epsilon(channel) + 1e-12) == 0.0
    assert exact.channel_delta(channel, 0.99) > 0


@pytest.mark.parametrize(
    "channel", [np.ones(3), np.zeros((0, 2)), [[0.5, 0.6]], [[1.5, -0.5]], [[np.nan, 1.0]], [[0.5, 0.4]]]
)
def test_refused_channels(channel):
    with pytest.raises(ValueError, match=r"matrix \[inputs, outputs\]|holds probabilities"):
        exact.channel_epsilon(channel)


def test_refused_arguments():
    channel = channels.response(3, 1.0)
    with pytest.raises(ValueError, match=r"integer array \[pairs, 2\]"):
        exact.channel_epsilon(channel, [0, 1])
    with pytest.raises(ValueError, match=r"integer array \[pairs, 2\]"):
        exact.channel_epsilon(channel, [(0.0, 1.0)])
    with pytest.raises(ValueError, match=r"not in 0\.\.2"):
        exact.channel_epsilon(channel, [(0, 3)])
    with pytest.raises(ValueError, match=r"epsilon.*-0\.1"):
        exact.channel_delta(channel, -0.1)
