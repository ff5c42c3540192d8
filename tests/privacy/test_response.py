"""Randomised response: its loss against 80-digit arithmetic, its channel, its refusals."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmjax.privacy import response
from pgmjax.privacy.response import KaryResponse, response_for

SIZES = [2, 3, 4, 5, 1000, 1024, 2**31]
epsilons = st.fractions(min_value=Fraction(1, 10**4), max_value=64, max_denominator=10**9)


def loss(size, lie):
    """Epsilon to 80 digits, as a fraction."""
    with mpmath.workdps(80):
        exact = Fraction(lie)
        odds = (1 - exact) * (size - 1) / exact
        man, power = mpmath.log(mpmath.mpf(odds.numerator) / odds.denominator).man_exp
        return Fraction(int(man)) * Fraction(2) ** power


@pytest.mark.parametrize("size", SIZES)
@given(epsilon=epsilons)
@settings(max_examples=30, deadline=None)
def test_the_least_lie_that_pays_for_itself(size, epsilon):
    distribution = response_for(size, epsilon)
    assert distribution.size == size and loss(size, distribution.lie) <= epsilon
    assert loss(size, math.nextafter(distribution.lie, 0.0)) > epsilon


@pytest.mark.parametrize("size", SIZES)
@given(epsilon=epsilons)
@settings(max_examples=20, deadline=None)
def test_the_bound_is_above_and_tight(size, epsilon):
    distribution = response_for(size, epsilon)
    exact = loss(size, distribution.lie)
    assert exact < distribution.epsilon_bound <= exact * (1 + Fraction(1, 10**50))
    assert distribution.truth + Fraction(distribution.lie) == 1 and distribution.truth > Fraction(1, size)


def test_known_distributions():
    assert response_for(2, Fraction(1)).lie == pytest.approx(1 / (1 + math.e), rel=1e-15)
    assert response_for(4, Fraction(1)).lie == pytest.approx(3 / (3 + math.e), rel=1e-15)
    assert float(KaryResponse(4, 0.3).epsilon_bound) == pytest.approx(math.log(0.7 / 0.1), rel=1e-15)
    assert float(KaryResponse(2, 0.25).epsilon_bound) == pytest.approx(math.log(3), rel=1e-15)


@pytest.mark.parametrize("size", [2, 3, 7])
def test_an_epsilon_that_is_all_but_too_small(size):
    """The loss just below uniform answers is a few units of float64; below that there is no distribution."""
    most = response.floor_float(Fraction(size - 1, size))
    most = math.nextafter(most, 0.0) if Fraction(most) == Fraction(size - 1, size) else most
    least = KaryResponse(size, most).epsilon_bound
    assert 0 < least < 1e-14 and response_for(size, least).lie == most
    with pytest.raises(ValueError, match=f"too small for randomised response over {size} categories"):
        response_for(size, least * Fraction(999, 1000))
    with pytest.raises(ValueError, match="too small"):
        response_for(size, Fraction(1, 10**300))


@pytest.mark.parametrize("size, lie", [(2, 0.3), (3, 0.5), (5, 0.75), (200, 0.9)])
def test_the_channel(size, lie):
    channel = KaryResponse(size, lie).channel()
    assert channel.shape == (size, size) and channel.dtype == np.float64
    np.testing.assert_allclose(channel.sum(axis=1), 1, rtol=1e-13)
    assert (np.diag(channel) == 1 - lie).all() and len(np.unique(channel)) == 2
    worst = np.log(channel.max(axis=0) / channel.min(axis=0)).max()
    assert worst == pytest.approx(float(KaryResponse(size, lie).epsilon_bound), rel=1e-13)


def test_a_channel_too_large_to_write():
    with pytest.raises(ValueError, match="channel of 2147483648 categories is too large"):
        response_for(2**31, Fraction(1)).channel()


@pytest.mark.parametrize(
    "size, lie, error, message",
    [
        (1, 0.1, ValueError, r"size.*2\.\.2147483648"),
        (2**31 + 1, 0.1, ValueError, "size"),
        (2.5, 0.1, TypeError, "size"),
        (True, 0.1, TypeError, "size"),
        (2, 0.5, ValueError, r"below \(size - 1\) / size"),
        (4, 0.75, ValueError, r"likeliest of 4 categories"),
        (4, 1.0, ValueError, r"below \(size - 1\) / size"),
        (4, 0.0, ValueError, "lie"),
        (4, -0.1, ValueError, "lie"),
        (4, math.nan, ValueError, "lie.*nan"),
        (4, "0.1", TypeError, "lie.*str"),
    ],
)
def test_distributions_that_are_none(size, lie, error, message):
    with pytest.raises(error, match=message):
        KaryResponse(size, lie)


def test_epsilons_out_of_range():
    for size in (1, 2**31 + 1):
        with pytest.raises(ValueError, match="size"):
            response_for(size, Fraction(1))
    with pytest.raises(ValueError, match="no answer is ever a lie"):
        response_for(2, Fraction(65))


@pytest.mark.parametrize(
    "codes, error, message",
    [
        ([0, 1, 77, -88, 2], ValueError, r"2 of 5 codes lie outside 0\.\.2: nothing was drawn"),
        (np.array([1, 2**63 + 77], np.uint64), ValueError, "1 of 2 codes"),
        (np.array([77], np.int8), ValueError, "1 of 1 codes"),
        ([0.0, 1.0], TypeError, "codes must be integers, got float64"),
        ([math.nan], TypeError, "codes must be integers"),
        ([True], TypeError, "got bool"),
        ([[0]], ValueError, "one axis, the records, got 2 axes"),
    ],
    ids=str,
)
def test_bad_codes_are_counted_and_not_shown(codes, error, message):
    with pytest.raises(error, match=message) as refusal:
        response.checked_codes(3, codes)
    assert "77" not in str(refusal.value) and "88" not in str(refusal.value)


def test_good_codes_are_not_copied():
    codes = np.array([0, 2, 1], np.uint8)
    assert response.checked_codes(3, codes) is codes and response.checked_codes(2**31, codes) is codes
    assert response.checked_codes(3, np.zeros(0, np.int64)).size == 0


@pytest.mark.parametrize("size", [2, 3, 6])
def test_every_other_category_is_one_lie(size):
    """Over all truths and all draws: each category but the truth, once."""
    for truth in range(size):
        codes = np.full(size - 1, truth, np.uint8)
        lying = response.answered(codes, np.ones(size - 1, bool), np.arange(size - 1))
        assert sorted(lying.tolist()) == [c for c in range(size) if c != truth]
        assert lying.dtype == np.int64
        honest = response.answered(codes, np.zeros(size - 1, bool), np.zeros(0, np.int64))
        assert (honest == truth).all()
