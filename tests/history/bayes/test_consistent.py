"""The engine as third estimator: non-negative, consistent, labelled; error bars of the noise alone."""

import numpy as np
import pytest

from pgmjax import Domain
from pgmjax.history import BestLinearUnbiased, History
from pgmjax.history.bayes.consistent import consistent_answers
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.queries import DenseMatrix, marginal

DOMAIN = Domain({"a": 3, "b": 2})
LAW = DiscreteLaplace(4.0)


def past(*measured):
    return History(DOMAIN, [LinearMeasurement.released(query, values, LAW) for query, values in measured])


def test_answers_are_those_of_one_table():
    history = past((marginal(["a"]), [-9, 60, 40]), (marginal(["b"]), [70, 35]))
    total = 100.0
    answers = consistent_answers(history, marginal(["a"]), total=total)
    assert (answers.values >= 0).all() and answers.values.sum() == pytest.approx(total, rel=1e-5)
    both = consistent_answers(history, marginal(["a", "b"]), total=total)
    np.testing.assert_allclose(both.values.reshape(3, 2).sum(axis=1), answers.values, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(
        answers.noise_stddevs, np.sqrt(BestLinearUnbiased.of(history).variances(marginal(["a"])))
    )
    assert np.isnan(both.noise_stddevs).all()  # what the history does not tell has no error bar
    assert "without the model's bias" in answers.label


def test_it_is_least_squares_where_that_is_a_table():
    history = past((marginal(["a"]), [10, 60, 30]), (DenseMatrix(("a",), [[1, 1, 0]]), [76]))
    expected = BestLinearUnbiased.of(history).combination(marginal(["a"])) @ history.values
    answers = consistent_answers(history, marginal(["a"]), total=float(expected.sum()))
    np.testing.assert_allclose(answers.values, expected, rtol=1e-3)


def test_bad_input():
    with pytest.raises(ValueError, match="no answer yet"):
        consistent_answers(past(), marginal(["a"]))
    with pytest.raises(ValueError, match="height"):
        consistent_answers(past((marginal(["a"]), [1, 2, 3])), marginal(["height"]))
