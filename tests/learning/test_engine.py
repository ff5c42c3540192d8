"""The engine as a learner: counts that are not negative, totals, spreading."""

import numpy as np
import pytest

from pgmjax.learning import Linear
from pgmjax.learning.linear import EngineLearner


def test_counts_are_not_negative_where_least_squares_goes_below_zero():
    rows, answers = np.eye(4), [10.0, -6, 3, 1]
    assert Linear().fit(rows, answers).learned["coefficients"].min() < 0
    cells = EngineLearner(total=14).fit(rows, answers).learned["coefficients"][0]
    assert cells.min() >= 0 and cells.sum() == pytest.approx(14)


def test_it_is_the_projection_onto_counts_of_the_total():
    answers = np.array([10.0, -6, 3, 1])
    cells = EngineLearner(total=8, tolerance=1e-9).fit(np.eye(4), answers).learned["coefficients"][0]
    # the nearest point with sum 8 takes one amount off each cell and stops at zero
    assert np.allclose(cells, [8 - 0.5, 0, 0.5, 0], atol=1e-3)


def test_answers_tell_the_total_where_they_span_it():
    rows = np.array([[1.0, 1, 0], [0, 0, 1], [1, 1, 1]])
    fitted = EngineLearner().fit(rows, [[6, 4, 10], [9, 3, 15]], weights=[1, 1, 1])
    cells = fitted.learned["coefficients"]
    expected = Linear().fit(rows, [[6, 4, 10], [9, 3, 15]]).predict([[1, 1, 1]])[:, 0]
    assert np.allclose(cells.sum(axis=1), expected)
    assert np.allclose(cells[:, 0], cells[:, 1], rtol=1e-4)


def test_a_total_below_one_is_one():
    assert EngineLearner().fit([[1.0, 1]], [-50]).learned["coefficients"].sum() == pytest.approx(1)


@pytest.mark.parametrize("settings", [{"total": 0}, {"max_steps": 0}, {"tolerance": 0}])
def test_bad_settings_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        EngineLearner(**settings)
