"""Choosing among predictors by their errors on validation queries."""

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.learning.selection import Validation, best_of
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
