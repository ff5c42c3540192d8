"""Unary responses: exact epsilon by enumeration, the least lie, variances of the paper, refusals."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmjax.audit.exact import channel_epsilon
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.privacy.response import UnaryResponse, unary_for
from pgmjax.privacy.seeded import SeededBackend

both = pytest.mark.parametrize("symmetric", [False, True], ids=["optimal", "symmetric"])
epsilons = st.fractions(min_value=Fraction(1, 10**4), max_value=64, max_denominator=10**9)


def enumerated(distribution):
    """The loss by every answer of every pair of categories, odds as exact fractions."""
    truth, lie = distribution.truth, Fraction(distribution.lie)
    worst = Fraction(0)
    for answer in itertools.product((0, 1), repeat=distribution.size):
        chances = []
        for category in range(distribution.size):
            ones = [truth if place == category else lie for place in range(distribution.size)]
            chances.append(math.prod(one if bit else 1 - one for one, bit in zip(ones, answer, strict=True)))
        worst = max(worst, max(chances) / min(chances))
    return worst


@both
@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("epsilon", ["1/10", "1", "4"])
def test_the_exact_loss_of_all_answers(size, epsilon, symmetric):
    distribution = unary_for(size, Fraction(epsilon), symmetric)
    odds = enumerated(distribution)
    lie = Fraction(distribution.lie)
    assert odds == distribution.truth * (1 - lie) / ((1 - distribution.truth) * lie)
    assert math.log(odds) <= distribution.epsilon_bound * (1 + Fraction(1, 10**15))
    assert distribution.epsilon_bound <= Fraction(epsilon)
    # a float64 logarithm of a product of floats is right to a few units in the last place
    assert channel_epsilon(distribution.channel()) == pytest.approx(float(Fraction(epsilon)), rel=1e-13)


@both
@given(epsilon=epsilons)
@settings(max_examples=60, deadline=None)
def test_the_least_lie_that_pays_for_itself(symmetric, epsilon):
    distribution = unary_for(7, epsilon, symmetric)
    assert distribution.epsilon_bound <= epsilon
    assert UnaryResponse(7, math.nextafter(distribution.lie, 0.0), symmetric).epsilon_bound > epsilon


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_variances_of_the_paper(epsilon):
    """q (1 - q) / (p - q)^2 of rare categories: 4 e^eps / (e^eps - 1)^2, and with half of eps."""
    exp = math.exp(epsilon)
    for symmetric, expected in ((False, 4 * exp / (exp - 1) ** 2), (True, exp**0.5 / (exp**0.5 - 1) ** 2)):
        distribution = unary_for(10, Fraction(str(epsilon)), symmetric)
        found = (
            distribution.lie * (1 - distribution.lie) / (float(distribution.truth) - distribution.lie) ** 2
        )
        assert found == pytest.approx(expected, rel=1e-12)


@both
@pytest.mark.parametrize(
    "source", [OpenDPBackend(), SeededBackend(3, insecure=True)], ids=["secure", "seeded"]
)
def test_bits_follow_the_channel(source, symmetric):
    """Each bit's frequency within 6 standard errors: 24 bits, a right program fails 5e-8 of the time."""
    distribution = source.unary_response(4, Fraction(1), symmetric)
    records = 200_000
    truths = np.arange(records) % 4
    bits = source.respond_bits(distribution, truths)
    assert bits.shape == (records, 4) and bits.dtype == bool
    for truth in range(4):
        expected = np.where(np.arange(4) == truth, float(distribution.truth), distribution.lie)
        error = np.sqrt(expected * (1 - expected) / (records / 4))
        assert np.all(np.abs(bits[truths == truth].mean(axis=0) - expected) < 6 * error)
    together = np.corrcoef(bits[truths == 0].T) - np.eye(4)
    assert np.abs(together).max() < 6 / math.sqrt(records / 4)


def test_no_records_and_one():
    for source in (OpenDPBackend(), SeededBackend(3, insecure=True)):
        distribution = source.unary_response(3, Fraction(1))
        assert source.respond_bits(distribution, np.zeros(0, int)).shape == (0, 3)
        assert source.respond_bits(distribution, np.array([2], np.uint8)).shape == (1, 3)


@pytest.mark.parametrize(
    "source", [OpenDPBackend(), SeededBackend(3, insecure=True)], ids=["secure", "seeded"]
)
def test_categories_outside_are_errors(source):
    distribution = source.unary_response(3, Fraction(1))
    for codes in ([3], [-1], [0, 1, 9]):
        with pytest.raises(ValueError, match=r"0\.\.2"):
            source.respond_bits(distribution, np.array(codes))
    with pytest.raises(TypeError, match=r"codes.*float64"):
        source.respond_bits(distribution, np.array([0.5]))
    with pytest.raises(TypeError, match="distribution must be a UnaryResponse, got KaryResponse"):
        source.respond_bits(source.randomized_response(3, Fraction(1)), np.array([0]))


@pytest.mark.parametrize(
    "made, kind, words",
    [
        (lambda: UnaryResponse(1, 0.2), ValueError, r"size.*2\.\.65536"),
        (lambda: UnaryResponse(3, 0.5), ValueError, r"lie.*0\.5"),
        (lambda: UnaryResponse(3, 0.2, 1), TypeError, "symmetric must be True or False, got int"),
        (lambda: unary_for(3, Fraction(1, 10**30)), ValueError, r"epsilon 0\.0"),
        (lambda: unary_for(3, Fraction(10**6)), ValueError, "epsilon 1000000.*64"),
        (lambda: UnaryResponse(11, 0.2).channel(), ValueError, "11 bits is too large"),
    ],
)
def test_refusals(made, kind, words):
    with pytest.raises(kind, match=words):
        made()
