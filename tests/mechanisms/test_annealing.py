"""Rounds' budgets: exact, doubled in noise's terms where nothing was learnt, and the rest in the last."""

from fractions import Fraction

import numpy as np
import pytest

from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.mechanisms.annealing import Round, is_noise
from pgmjax.queries import marginal

NINE_TENTHS = Fraction(9, 10)


@pytest.mark.parametrize("unit, factor", [("rho", 4), ("epsilon", 2)])
def test_annealing_halves_noise(unit, factor):
    now = Round.of(Fraction(1, 80), NINE_TENTHS, unit)
    assert (now.choose, now.measure) == (Fraction(1, 800), Fraction(9, 800))
    after = now.next(Fraction(1), anneal=True)
    assert (after.choose, after.measure) == (factor * now.choose, factor * now.measure) and not after.last
    assert now.next(Fraction(1)) == now


@pytest.mark.parametrize("unit", ["rho", "epsilon"])
@pytest.mark.parametrize("anneal", [False, True])
def test_the_last_round_takes_all_that_is_left(unit, anneal):
    now = Round.of(Fraction(1, 80), NINE_TENTHS, unit)
    cost = now.next(Fraction(1), anneal).cost
    for left in (Fraction(1, 10**6), cost, 2 * cost):
        last = now.next(left, anneal)
        assert last.last and last.cost == left and last.measure == NINE_TENTHS * left
    assert not now.next(2 * cost + Fraction(1, 10**12), anneal).last


@pytest.mark.parametrize("quiet", [lambda i: True, lambda i: False, lambda i: i % 3 == 0])
@pytest.mark.parametrize("rounds", [1, 2, 7, 224])
def test_any_course_ends_with_exactly_the_budget(quiet, rounds):
    left, number = Fraction(5, 7), 0
    now = Round.of(left / rounds, NINE_TENTHS, "rho").next(left)
    while True:
        left, number = left - now.cost, number + 1
        assert left >= 0 and number <= rounds
        if now.last:
            break
        now = now.next(left, quiet(number))
    assert left == 0


@pytest.mark.parametrize(
    "law, size", [(DiscreteGaussian(10.0), np.sqrt(2 / np.pi) * 10), (DiscreteLaplace(10.0), 9.983)]
)
def test_a_move_within_the_expected_noise_is_noise(law, size):
    """Only the model's two answers and the law count, not the noisy values."""
    before = np.array([[10.0, 20.0], [30.0, 40.0]])
    within = 0.99 * size * np.array([[1, -1], [1, 1]])
    beyond = 4.01 * size * np.array([[1, 0], [0, 0]])
    for values in ([0, 0, 0, 0], [1000, -1000, 5, 7]):
        measurement = LinearMeasurement.released(marginal(["a", "b"]), values, law)
        assert is_noise(before, before + within, measurement)
        assert not is_noise(before, before + beyond, measurement)
