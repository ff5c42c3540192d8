"""Distributions of selection against brute force, and the loss they claim against exact enumeration."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmjax.privacy import selection
from pgmjax.privacy.selection import ExponentialMechanism, PermuteAndFlip

DISTRIBUTIONS = [PermuteAndFlip, ExponentialMechanism]
SCORES = [[3], [0, 1], [5, 5], [0, 1, 1, 4], [-7, 2, 2, 2, 0, 1], [0, 10**6], [2**53 - 1, 1 - 2**53, 0]]
small = st.lists(st.integers(-6, 6), min_size=1, max_size=6)


def by_orderings(scores, scale):
    """Permute-and-flip as its definition reads: over all orders, the first that its coin takes."""
    taken = [math.exp((score - max(scores)) / scale) for score in scores]
    result = np.zeros(len(scores))
    for order in itertools.permutations(range(len(scores))):
        left = 1.0
        for i in order:
            result[i] += left * taken[i]
            left *= 1 - taken[i]
    return result / math.factorial(len(scores))


def by_fractions(scores, scale):
    """The integral of its density, coefficient by coefficient in exact fractions."""
    q = [Fraction(math.exp((score - max(scores)) / scale)) for score in scores]
    result = []
    for i in range(len(q)):
        polynomial = [Fraction(1)]
        for j in range(len(q)):
            if j != i:
                shifted = [Fraction(0), *(-q[j] * c for c in polynomial)]
                polynomial = [a + b for a, b in zip([*polynomial, Fraction(0)], shifted, strict=True)]
        result.append(float(q[i] * sum(c / (k + 1) for k, c in enumerate(polynomial))))
    return np.array(result)


def losses(distribution, scores, changes):
    """The largest log-ratio of two probabilities, and its largest range, over changes of the scores."""
    worst = spread = 0.0
    before = np.log(distribution.probabilities(np.array(scores)))
    for change in changes:
        ratio = before - np.log(distribution.probabilities(np.array(scores) + change))
        worst, spread = max(worst, np.abs(ratio).max()), max(spread, np.ptp(ratio))
    return worst, spread


def test_figures():
    assert PermuteAndFlip(1.0).probabilities(np.array([0, 1]))[0] == pytest.approx(0.1839, abs=5e-5)
    assert PermuteAndFlip(1.0).probabilities(np.array([0, 1]))[0] == pytest.approx(math.exp(-1) / 2)
    assert ExponentialMechanism(1.0).probabilities(np.array([0, 1]))[0] == pytest.approx(0.2689, abs=5e-5)


@pytest.mark.parametrize("scores", SCORES, ids=str)
@pytest.mark.parametrize("scale", [0.3, 1.0, 25.0])
def test_permute_and_flip_is_what_its_definition_says(scores, scale):
    distribution = PermuteAndFlip(scale).probabilities(np.array(scores))
    np.testing.assert_allclose(distribution, by_orderings(scores, scale), rtol=1e-12, atol=1e-300)


@given(small, st.floats(0.1, 100))
@settings(max_examples=40, deadline=None)
def test_permute_and_flip_of_any_scores(scores, scale):
    distribution = PermuteAndFlip(scale).probabilities(np.array(scores))
    np.testing.assert_allclose(distribution, by_orderings(scores, scale), rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(distribution, by_fractions(scores, scale), rtol=1e-11, atol=1e-300)


def test_permute_and_flip_of_many_candidates():
    spread = [i % 37 for i in range(60)]
    distribution = PermuteAndFlip(9.0).probabilities(np.array(spread))
    np.testing.assert_allclose(distribution, by_fractions(spread, 9.0), rtol=1e-11)
    for scores, scale in [(np.arange(5000), 40.0), (np.zeros(5000, int), 1.0), (np.arange(5000) % 2, 0.5)]:
        distribution = PermuteAndFlip(scale).probabilities(scores)
        assert (
            distribution.sum() == pytest.approx(1, abs=1e-11)
            and (np.diff(distribution[np.argsort(scores)]) >= -1e-18).all()
        )
    np.testing.assert_allclose(PermuteAndFlip(2.0).probabilities(np.zeros(3000, int)), 1 / 3000, rtol=1e-11)


@given(small, st.floats(0.1, 100))
@settings(max_examples=40, deadline=None)
def test_exponential_weights(scores, scale):
    distribution = ExponentialMechanism(scale).probabilities(np.array(scores))
    odds = [math.exp((score - scores[0]) / scale) for score in scores]
    np.testing.assert_allclose(distribution, np.array(odds) / math.fsum(odds), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@given(scores=small, scale=st.floats(0.1, 100), shift=st.integers(-(2**50), 2**50))
@settings(max_examples=25, deadline=None)
def test_only_differences_and_no_places_matter(distribution, scores, scale, shift):
    once = distribution(scale).probabilities(np.array(scores))
    moved = distribution(scale).probabilities(np.array(scores[::-1]) + shift)
    np.testing.assert_allclose(once, moved[::-1], rtol=1e-11, atol=1e-300)
    assert once.dtype == np.float64 and once.sum() == pytest.approx(1, abs=1e-12)


CHANGES = [np.array(change) for change in itertools.product([-1, 0, 1], repeat=3)]
GRID = list(itertools.product(range(-2, 3), repeat=3))


@pytest.mark.parametrize("distribution_for", [selection.permute_and_flip_for, selection.exponential_for])
def test_the_loss_is_what_was_paid_and_half_the_scale_would_not_do(distribution_for):
    """Over 125 score vectors and every change by at most 1; equality is reached to a percent or so."""
    distribution = distribution_for(1, Fraction(1))
    worst = [losses(distribution, scores, CHANGES) for scores in GRID]
    assert 0.9 < max(w for w, _ in worst) <= 1 + 1e-12
    if distribution_for is selection.exponential_for:
        assert max(spread for _, spread in worst) <= 1 + 1e-12  # bounded range: epsilon^2/8-zCDP
    halved = type(distribution)(distribution.scale / 2)
    assert max(losses(halved, scores, CHANGES)[0] for scores in GRID) > 1.5


def test_permute_and_flip_has_no_bounded_range():
    """Why its choice may not be charged epsilon^2/8: the range of its loss is beyond epsilon."""
    distribution = selection.permute_and_flip_for(1, Fraction(1))
    assert max(losses(distribution, scores, CHANGES)[1] for scores in GRID) > 1.1


@given(st.integers(1, 10**6), st.fractions(min_value=Fraction(1, 10**6), max_value=64))
def test_scales_are_never_too_small_and_hardly_too_large(sensitivity, epsilon):
    exact = 2 * Fraction(sensitivity) / epsilon
    for distribution_for in (selection.permute_and_flip_for, selection.exponential_for):
        scale = Fraction(distribution_for(sensitivity, epsilon).scale)
        assert exact <= scale <= exact * (1 + Fraction(1, 2**52))


@pytest.mark.parametrize("distribution_for", [selection.permute_and_flip_for, selection.exponential_for])
def test_scales_out_of_range_are_refused(distribution_for):
    assert distribution_for(0, Fraction(1)) == distribution_for(1, Fraction(1))
    with pytest.raises(ValueError, match=r"scale above 2\^50"):
        distribution_for(1, Fraction(1, 10**40))
    with pytest.raises(ValueError, match=r"^epsilon about 1e-300 for scores"):
        distribution_for(1, Fraction(1, 10**300))
    with pytest.raises(ValueError, match=r"leaves nothing to chance .* at most 128 times"):
        distribution_for(1, Fraction(129))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize(
    "scale, message",
    [(0.0, "scale.*0"), (-1.0, "scale.*-1"), (math.nan, "finite"), (2.0**51, r"at most 2\^50")],
)
def test_scales_that_cannot_be_drawn_from(distribution, scale, message):
    with pytest.raises(ValueError, match=message):
        distribution(scale)
    with pytest.raises(TypeError, match=r"scale.*bool"):
        distribution(True)


@pytest.mark.parametrize(
    "scores, error, message",
    [
        ([], ValueError, "at least one candidate"),
        ([[1, 2]], ValueError, "one axis, the candidates, got 2 axes"),
        ([0.0, 123.5], TypeError, "scores must be integers, got float64"),
        ([math.nan, 1.0], TypeError, "must be integers"),
        ([math.inf, 1.0], TypeError, "must be integers"),
        ([True, False], TypeError, "must be integers, got bool"),
        ([10**30, 1], TypeError, "must be integers, got object"),
        ([123, 2**53], ValueError, r"between -2\^53 and 2\^53"),
        ([123, -(2**53)], ValueError, r"between -2\^53 and 2\^53"),
        (np.array([2**63 + 5], dtype=np.uint64), ValueError, r"between -2\^53 and 2\^53"),
        (np.array([-(2**63), 0]), ValueError, r"between -2\^53 and 2\^53"),
    ],
    ids=str,
)
def test_bad_scores_are_refused_without_showing_one(scores, error, message):
    scores = np.array(scores, dtype=float) if error is TypeError and "object" not in message else scores
    scores = np.array([True, False]) if "bool" in message else scores
    with pytest.raises(error, match=message) as refusal:
        selection.checked_scores(scores)
    assert "123" not in str(refusal.value)


def test_scores_of_any_integer_type_become_int64():
    for dtype in (np.int8, np.uint16, np.int64, np.uint64):
        checked = selection.checked_scores(np.arange(6, dtype=dtype)[::2])
        assert checked.dtype == np.int64 and checked.flags.c_contiguous and checked.tolist() == [0, 2, 4]
