"""What is relied on of OpenDP: a release of it that means something else fails here.

False alarms: FALSE_ALARMS in all, each test at alpha 1e-9 on entropy of the operating system.
"""

import math

import numpy as np
import pytest
from scipy import stats

from pgmjax.privacy import opendp as calls

dp = pytest.importorskip("opendp.prelude")

ALPHA = 1e-9
COINS = [0.5, 0.3, 0.9375, 2.0**-7, 0.99]
BOUNDS = [2, 3, 5, 200, 256, 257, 1000, 2**16, 2**31 - 1]
FALSE_ALARMS = ALPHA * (2 * len(COINS) + len(BOUNDS))


@pytest.mark.parametrize(
    "measurement, distance, loss",
    [
        (lambda: calls.laplace_sampler(10.0), 1, 0.1),
        (lambda: calls.laplace_sampler(10.0), 3, 0.3),
        (lambda: calls.gaussian_sampler(10.0), 1.0, 0.005),
        (lambda: calls.gaussian_sampler(10.0), 3.0, 0.045),
        (lambda: calls.permute_and_flip_sampler(1.0), 1, 2.0),
        (lambda: calls.permute_and_flip_sampler(10.0), 3, 0.6),
        (lambda: calls.exponential_sampler(1.0), 1, 0.5),
        (lambda: calls.exponential_sampler(10.0), 3, 0.045),
        (lambda: calls.flips(1.0), 1, 0.0),
        (lambda: calls.flips(0.5), 1, 2 * math.log(3)),
        (lambda: calls.flips(2.0**-20), 1, 2 * math.log(2.0**21 - 1)),
        (lambda: dp.m.make_randomized_response([0, 1, 2, 3], 0.7), 1, math.log(7)),
    ],
)
def test_maps_at_known_points(measurement, distance, loss):
    """Never below the exact loss, and above it by roundings only."""
    known = measurement().map(distance)
    assert known == pytest.approx(loss, rel=1e-14) and known >= loss * (1 - 1e-16)


@pytest.mark.parametrize(
    "maker",
    [
        calls.laplace_sampler,
        calls.gaussian_sampler,
        calls.permute_and_flip_sampler,
        calls.exponential_sampler,
    ],
)
def test_scales_that_are_none(maker):
    """NaN, infinity and less than 0 raise; 0 does not, and its loss is infinite."""
    for scale in (math.nan, math.inf, -1.0):
        with pytest.raises(dp.OpenDPException):
            maker(scale)
    assert maker(0.0).map(1.0 if maker is calls.gaussian_sampler else 1) == math.inf


@pytest.mark.parametrize(
    "maker", [calls.laplace_sampler, calls.permute_and_flip_sampler, calls.exponential_sampler]
)
def test_distances_that_are_none(maker):
    for distance in (-1, math.nan, math.inf, 0.5):
        with pytest.raises((dp.OpenDPException, TypeError, ValueError)):
            maker(1.0).map(distance)


def test_flips_beyond_all_bits():
    for doubled in (0.0, -0.5, 1.0000001, math.nan):
        with pytest.raises(dp.OpenDPException):
            calls.flips(doubled)


@pytest.mark.parametrize("maker", [calls.laplace_sampler, calls.gaussian_sampler])
def test_integers_of_64_bits_in_and_out(maker):
    values = np.array([0, 2**40 + 1, -(2**62), 2**53 + 1])
    noisy = np.asarray(maker(0.05)(values))  # moves an answer but once in 10^8 draws or less
    assert noisy.dtype == np.int64 and np.array_equal(noisy, values)
    with pytest.raises(TypeError):
        maker(1.0)(np.array([0.5, math.nan]))


@pytest.mark.parametrize("maker", [calls.permute_and_flip_sampler, calls.exponential_sampler])
def test_choices_are_indices_of_the_largest(maker):
    sharp = maker(1 / 64)
    assert sharp(np.array([5, 9, 7])) == 1 and sharp(np.array([2**53 - 1, 2**53 - 2])) == 0
    with pytest.raises(TypeError):
        sharp(np.array([0.5, math.inf]))
    with pytest.raises(dp.OpenDPException):
        sharp(np.array([], dtype=np.int64))


@pytest.mark.parametrize("probability", COINS)
def test_coins(probability):
    """How many, and whether all eight places of a byte have as many; their number fills no last byte."""
    size = 199_993
    drawn = calls.coins(probability, size)
    assert drawn.dtype == np.bool_ and drawn.shape == (size,)
    assert stats.binomtest(int(drawn.sum()), size, probability).pvalue > ALPHA
    for wrong in (probability / 2, (1 + probability) / 2):  # half or all of what OpenDP halves
        assert stats.binomtest(int(drawn.sum()), size, wrong).pvalue < ALPHA
    places = drawn[: size - size % 8].reshape(-1, 8).sum(axis=0)
    table = np.array([places, size // 8 - places])
    assert stats.chi2_contingency(table).pvalue > ALPHA


def test_coins_are_turned_and_not_set():
    """The flips of a vector of ones are as many: what comes back is the vector with bits turned over."""
    ones = np.unpackbits(np.frombuffer(calls.flips(2.0**-30)(b"\xff" * 64 + bytes(64)), dtype=np.uint8))
    assert ones.tolist() == [1] * 512 + [0] * 512  # but once in a million runs


def test_no_coins_at_all():
    assert calls.coins(0.3, 0).shape == (0,) and calls.coins(0.7, 1).shape == (1,)
    assert not calls.coins(2.0**-100, 1000).any() and calls.coins(1 - 2.0**-53, 1000).all()


@pytest.mark.parametrize("bound", BOUNDS)
def test_uniform_integers(bound):
    drawn = calls.uniform(bound, 100_000)
    assert drawn.dtype == np.int64 and drawn.min() >= 0 and drawn.max() < bound
    bins = min(bound, 1000)
    places = drawn * bins // bound
    expected = (
        np.bincount(np.arange(bound) * bins // bound) / bound if bound <= 2**16 else np.full(bins, 1 / bins)
    )
    assert stats.chisquare(np.bincount(places, minlength=bins), 100_000 * expected).pvalue > ALPHA


def test_uniform_over_one_value_and_for_nobody():
    assert calls.uniform(1, 5).tolist() == [0] * 5 and calls.uniform(7, 0).shape == (0,)
