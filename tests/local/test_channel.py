"""The numbers of a distribution against enumeration and the paper's closed forms."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from pgmjax import local as co
from pgmjax.data.domain import Domain
from pgmjax.local.channel import predicted_error
from pgmjax.privacy.response import KaryResponse, response_for, unary_for


@pytest.mark.parametrize(("size", "epsilon"), [(2, 1.0), (8, 1.0), (8, 0.1), (32, 2.0), (2**20, 0.5)])
def test_numbers_of_a_distribution_are_those_of_the_paper(size, epsilon):
    """factor = (e^eps + m - 1) / (e^eps - 1), offset = 1 / (e^eps - 1), at the distribution that is drawn."""
    distribution = response_for(size, Fraction(epsilon))
    real = float(distribution.epsilon_bound)
    assert real == pytest.approx(epsilon, rel=1e-9)
    for channel in (co.Channel.of(distribution), co.Channel.at(size, epsilon)):
        assert channel.factor == pytest.approx((math.exp(real) + size - 1) / math.expm1(real), rel=1e-8)
        assert channel.offset == pytest.approx(1 / math.expm1(real), rel=1e-8)
        assert channel.truth + (size - 1) * channel.other == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize(
    ("size", "epsilon", "exact", "bound"),
    [
        (2, 1.0, 0.92067, 1.17067),
        (8, 1.0, 7.99034, 7.99706),
        (8, 0.1, 1484.567, 1484.817),
        (32, 2.0, 9.02479, 9.02571),
    ],
)
def test_worst_variances_are_the_published_figures(size, epsilon, exact, bound):
    channel = co.Channel.at(size, epsilon)
    digits = 3 if exact > 100 else 5
    assert round(channel.largest_variance(), digits) == exact
    assert round(float(channel.bound(1.0)), digits) == bound
    of_law = co.Channel.of(response_for(size, Fraction(epsilon)))
    assert of_law.largest_variance() == pytest.approx(exact, rel=1e-5)


def test_two_categories_have_the_closed_form():
    for epsilon in (0.1, 1.0, 3.0):
        expected = math.exp(epsilon) / math.expm1(epsilon) ** 2
        assert co.Channel.at(2, epsilon).largest_variance() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("size", [2, 3, 4, 7])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_largest_variance_is_that_of_the_worst_indicator(size, epsilon):
    channel = co.Channel.at(size, epsilon)
    found = []
    for values in itertools.product([0.0, 1.0], repeat=size):
        f = np.array(values)
        found.append(max(channel.variance(f, f.sum(), (f**2).sum())))
    assert channel.largest_variance() == pytest.approx(max(found), rel=1e-12)
    generator = np.random.default_rng(0)
    for f in generator.random((200, size)):
        assert channel.variance(f, f.sum(), (f**2).sum()).max() <= channel.largest_variance() * (1 + 1e-12)


def test_variance_is_that_of_the_answer():
    distribution = KaryResponse(5, 0.4)
    f = np.array([0.3, -2.0, 1.0, 1.5, 4.0])
    channel = co.Channel.of(distribution)
    probabilities = distribution.channel()
    estimates = channel.factor * (f - channel.other * f.sum())
    assert probabilities @ estimates == pytest.approx(f, abs=1e-13)
    expected = probabilities @ estimates**2 - f**2
    assert channel.variance(f, f.sum(), (f**2).sum()) == pytest.approx(expected, rel=1e-12)


def test_unbiased_counts_undo_the_channel():
    distribution = KaryResponse(6, 0.5)
    counts = np.arange(12.0).reshape(2, 6)
    assert co.Channel.of(distribution).unbiased(counts @ distribution.channel()) == pytest.approx(
        counts, abs=1e-12
    )
    assert co.Channel.of(distribution).unbiased(np.array([3, 0, 1, 0, 0, 2])).sum() == pytest.approx(6)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("cells", [2, 4])
def test_bits_by_enumeration(symmetric, cells):
    """Every answer of four bits, merged to cells: mean and variance of estimates of all functions on them."""
    distribution = unary_for(4, Fraction(1), symmetric)
    channel = co.Channel.of(distribution, Domain({"a": cells, "b": 4 // cells}), ("a",))
    bits = np.array(list(itertools.product((0.0, 1.0), repeat=4)))
    numbers = bits.reshape(-1, cells, 4 // cells).sum(axis=2)  # [answer, cell]
    chances = distribution.channel()[:: 4 // cells]  # [own cell, answer]
    assert chances @ numbers == pytest.approx(channel.matrix(), rel=1e-12)
    assert chances @ channel.unbiased(numbers, 1) == pytest.approx(np.eye(cells), abs=1e-12)
    assert channel.squares == pytest.approx(tuple((chances @ numbers**2)[0, :2]), rel=1e-12)
    found = []
    for f in [*map(np.array, itertools.product((0.0, 1.0), repeat=cells)), np.linspace(-1, 2, cells)]:
        estimates = channel.unbiased(numbers, 1) @ f
        variances = chances @ estimates**2 - f**2
        assert channel.variance(f, f.sum(), (f**2).sum()) == pytest.approx(variances, abs=1e-11)
        found.append(variances.max())
    worst = max(found[:-1])  # of functions with values in 0..1
    assert channel.largest_variance() == channel.bound(1.0) == pytest.approx(worst, rel=1e-12)
    assert predicted_error([channel], 7) == pytest.approx(math.sqrt(worst / 7), rel=1e-12)


@pytest.mark.parametrize("distribution", [response_for(6, Fraction(1)), unary_for(6, Fraction(1))])
def test_merging_is_a_sum_of_columns(distribution):
    whole, merged = co.Channel.of(distribution), co.Channel.of(distribution, Domain({"a": 2, "b": 3}), ("a",))
    blocks = whole.matrix().reshape(2, 3, 2, 3).sum(axis=1)  # [cell, own cell, own rest]
    assert blocks == pytest.approx(np.repeat(merged.matrix()[:, :, None], 3, axis=2), rel=1e-12)
    assert (whole.attributes, merged.attributes, merged.gap) == ((), ("a",), whole.gap)


@pytest.mark.parametrize(("size", "expected"), [(8, 0.0128), (1024, 1.35), (32768, 43.0)])
def test_predicted_error_of_a_census_table(size, expected):
    distribution = response_for(size, Fraction(1))
    assert co.predicted_stddev(distribution, 48842) == pytest.approx(expected, rel=6e-3)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: co.Channel.of("distribution"), TypeError, "KaryResponse"),
        (lambda: co.Channel.at(1, 1.0), ValueError, "size.*1"),
        (lambda: co.Channel.at(4, 0.0), ValueError, "epsilon.*0"),
        (lambda: co.Channel.at(4, 1e4), ValueError, "epsilon.*10000"),
        (lambda: co.predicted_stddev(KaryResponse(4, 0.2), 0), ValueError, "rows"),
    ],
)
def test_wrong_arguments_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()
