"""Closed forms of Renyi divergences against long sums, in sixty digits."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from pgmjax.privacy.accounting import events

mpmath = pytest.importorskip("mpmath")
mp = mpmath.mp
ORDERS = [1.001, 1.1, 1.5, 2.0, 5.0, 35.0]


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(60):
        yield


def long_sum(step, shift, order):
    """log sum P(k)^a P(k - m)^(1 - a) / (a - 1) over enough integers, both tails."""
    h, a = mp.mpf(step), mp.mpf(order)
    mass = mp.tanh(h / 2)
    reach = int(120 / step) + shift
    terms = (mp.exp(-h * (a * abs(k) + (1 - a) * abs(k - shift))) for k in range(-reach, reach + 1))
    return mp.log(mass * mpmath.fsum(terms)) / (a - 1)


def response(epsilon, order):
    """Binary randomised response, written as its two outcomes."""
    e, a = mp.mpf(epsilon), mp.mpf(order)
    p = 1 / (1 + mp.exp(-e))
    return mp.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)


@pytest.mark.parametrize("step, shift", [(0.3, 1), (0.3, 7), (2.5, 2), (8.0, 1), (0.11, 3)])
def test_laplace_against_long_sums(step, shift):
    found = events.laplace_divergence(step, shift, np.array(ORDERS))
    for order, value in zip(ORDERS, found, strict=True):
        excess = float(mp.mpf(float(value)) / long_sum(step, shift, order) - 1)
        assert 0 <= excess < 1e-10


@pytest.mark.parametrize("moves", [(1, 1), (2, 1, 1), (3, 3, 3)])
def test_laplace_noise_on_several_answers_costs_the_sum_over_all_of_them(moves):
    """Answers that move by the same amount are still as many releases."""
    found = events.LaplaceEvent(Fraction(sum(moves), 2), moves, scale=2.0).renyi(np.array(ORDERS))
    for order, value in zip(ORDERS, found, strict=True):
        exact = mpmath.fsum(long_sum(0.5, move, order) for move in moves)
        assert 0 <= float(mp.mpf(float(value)) / exact - 1) < 1e-10


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 0.05, 1.0, 30.0, 1000.0])
def test_pure_is_randomised_response_and_below_the_simple_bounds(epsilon):
    orders = np.array([*ORDERS, 1000.0, 1e6])
    with mpmath.workdps(1000):
        for order, value in zip(orders, events.pure_divergence(epsilon, orders), strict=True):
            assert 0 <= float(mp.mpf(float(value)) / response(epsilon, float(order)) - 1) < 3e-12
            assert value <= min(order * epsilon**2 / 2, epsilon) * (1 + 2e-12)


@pytest.mark.parametrize("step", [1e-6, 0.02, 0.5, 3.0])
def test_more_move_costs_more_and_a_split_move_costs_no_more_than_a_whole_one(step):
    orders = np.array([*ORDERS, 1e4])
    cost = {m: events.laplace_divergence(step, m, orders) for m in range(1, 13)}
    for m in range(1, 12):
        assert (cost[m] <= cost[m + 1]).all()
    for first, second in itertools.combinations_with_replacement(range(1, 7), 2):
        assert (cost[first] + cost[second] <= cost[first + second] * (1 + 1e-9)).all()


def test_nothing_overflows_at_the_ends():
    orders = np.array([1 + 1e-6, 2.0, 1e14])
    for step, shift in [(1e-15, 1), (64.0, 1), (64.0, 10**9), (1e-15, 10**15)]:
        assert np.isfinite(events.laplace_divergence(step, shift, orders)).all()
    for epsilon in (1e-300, 1e-15, 1e4, 1e300):
        found = events.pure_divergence(epsilon, orders)
        assert (found >= 0).all() and (found <= epsilon * (1 + 2e-12)).all()
