"""Choosing among predictors by their errors on validation queries.

Bounds of noise against exact distributions, simulation and closed forms.
"""

import math

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.learning.predictor import Validation, best_of, model_bound, noise_bound
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.queries import Product, prefix

DOMAIN = Domain({"x": 40})
QUERY = Product({"x": prefix()})
TRUTH = np.arange(40.0) ** 1.5


class Constant:
    """Predicts what it was given."""

    def __init__(self, answers):
        self.answers = answers

    def predict(self, query):
        return self.answers


def test_the_least_error_wins_and_noise_is_taken_off():
    rng = np.random.default_rng(0)
    validations = [Validation(QUERY, TRUTH + rng.normal(0, 9, 40), 9.0) for _ in range(500)]
    best, errors = best_of([Constant(TRUTH + 5), Constant(TRUTH + 2), Constant(TRUTH)], validations)
    assert best == 2
    # the mean squared error has a standard error of at most 9 * sqrt(2 * 81 + 4 * 25) / sqrt(20,000) < 1.1
    assert abs(errors[0] ** 2 - 25) < 6 and abs(errors[1] ** 2 - 4) < 6 and errors[2] ** 2 < 6


def test_public_answers_and_ties():
    assert best_of([Constant(TRUTH), Constant(TRUTH)], [Validation(QUERY, TRUTH)]) == (0, (0.0, 0.0))


def test_what_is_wrong_is_said():
    with pytest.raises(TypeError, match="needs a query"):
        Validation("x", [1])
    with pytest.raises(ValueError, match="finite"):
        Validation(QUERY, [np.nan] * 40)
    with pytest.raises(ValueError, match="one stddev or 40"):
        Validation(QUERY, TRUTH, [1.0, 2.0])
    with pytest.raises(ValueError, match="an answer a row, 40, got 3"):
        Validation(QUERY, [1, 2, 3]).check(DOMAIN)


def law_of_sum(distribution, weights, reach):
    """The exact distribution of a sum of whole multiples of noise, by convolution."""
    values = np.arange(-reach, reach + 1)
    result = np.array([1.0])
    for weight in weights:
        single = np.zeros(2 * reach * weight + 1)
        single[::weight] = distribution.probabilities(values)
        result = np.convolve(result, single)
    half = len(result) // 2
    return np.abs(np.arange(-half, half + 1)), result


@pytest.mark.parametrize(
    "distribution", [DiscreteLaplace(0.3), DiscreteLaplace(2.0), DiscreteGaussian(1.5)], ids=str
)
@pytest.mark.parametrize("weights", [[1], [1, 1, 1], [3, 1, 1, 1], [2] * 12], ids=str)
@pytest.mark.parametrize("beta", [0.5, 0.05, 1e-3])
def test_a_bound_holds_for_the_exact_discrete_distribution(distribution, weights, beta):
    sizes, probabilities = law_of_sum(distribution, weights, reach=60)
    bound = noise_bound(distribution, np.array(weights, float), beta)
    assert probabilities[sizes > bound].sum() <= beta


def test_equal_weights_give_the_corrected_lemma():
    """P(|sum| > t) <= 2 exp(-t^2 / (8 m b^2)) for t <= 2 sqrt(2) m b."""
    for number, scale, beta in ((100, 7.0, 0.05), (20, 1.0, 0.01)):
        bound = noise_bound(DiscreteLaplace(scale), np.ones(number), beta)
        assert bound <= 2 * math.sqrt(2) * number * scale
        assert 2 * math.exp(-(bound**2) / (8 * number * scale**2)) == pytest.approx(beta)


def test_both_forms_meet_where_they_change():
    distribution, number = DiscreteLaplace(4.0), 9
    beta = 2 * math.exp(-number)
    near = [noise_bound(distribution, np.ones(number), beta * (1 + step)) for step in (-1e-9, 1e-9)]
    assert near[0] == pytest.approx(near[1], rel=1e-6)


def test_the_bound_of_the_paper_fails():
    """exp(-m alpha^2 / (4 sigma)), sigma as it is written, is no bound for large scales."""
    scale, number, alpha = 50.0, 10, 40.0
    claimed = math.exp(-number * alpha**2 / (4 * scale))
    noise = np.random.default_rng(0).laplace(0, scale, (20_000, number)).mean(axis=1)
    assert (np.abs(noise) > alpha).mean() > 1e6 * claimed


def test_no_weights_no_noise():
    assert noise_bound(DiscreteLaplace(5.0), np.zeros(3)) == 0


def test_the_model_bound_is_hoeffdings():
    assert model_bound(1000, 200, 0.1, 50) == pytest.approx(1000 * math.sqrt(math.log(2 * 50 / 0.1) / 400))
    hits = np.random.default_rng(1).integers(0, 2, (20_000, 50)).mean(axis=1)  # errors 0 or n, mean n / 2
    assert (hits - 0.5 > model_bound(1, 50, 0.2)).mean() <= 0.1


@pytest.mark.parametrize("beta", [0, 1, -0.1, math.nan, "x"])
def test_confidence_is_a_probability(beta):
    with pytest.raises((ValueError, TypeError), match="beta"):
        noise_bound(DiscreteLaplace(1.0), np.ones(2), beta)


def test_other_numbers_are_checked():
    with pytest.raises(ValueError, match="hypotheses"):
        model_bound(10, 10, hypotheses=0.5)
    with pytest.raises(ValueError, match="count"):
        model_bound(10, 0)
