"""Linear learners against closed forms.

Least squares and its penalty against NumPy and against leaving answers out one by one.
"""

import numpy as np
import pytest

from pgmjax.learning import Linear, Ridge
from pgmjax.learning.linear import chosen_penalty, least_squares

ROWS = np.array([[1.0, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 1], [1, 1, 1]])
ANSWERS = np.array([10.0, 7, 4, 2, 13])


def test_trained_on_cells_a_prediction_is_the_sum_of_their_answers():
    noisy = np.random.default_rng(0).integers(-5, 50, 40)
    ranges = np.tril(np.ones((40, 40)))
    assert np.array_equal(Linear().fit(np.eye(40), noisy).predict(ranges), np.cumsum(noisy))


def test_weights_are_those_of_generalised_least_squares():
    weights = np.array([1, 4, 0.25, 1, 9])
    gram = (ROWS.T * weights) @ ROWS
    expected = np.linalg.solve(gram, ROWS.T @ (weights * ANSWERS))
    fitted = Linear().fit(ROWS, ANSWERS, weights=weights)
    assert np.allclose(fitted.learned["coefficients"][0], expected)


def test_a_constant_is_learned():
    fitted = Linear(intercept=True).fit(ROWS, ROWS @ [1, 2, 3] + 5)
    assert np.allclose(fitted.predict([[0, 0, 0], [1, 0, 0]]), [5, 6])


def test_each_row_of_a_batch_chooses_its_penalty():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(40, 30))
    smooth, noise = rows @ np.ones(30), 30 * rng.normal(size=40)
    fitted = Ridge().fit(rows, [smooth, smooth + noise])
    lengths = np.linalg.norm(fitted.learned["coefficients"], axis=1)
    assert lengths[0] == pytest.approx(np.sqrt(30), rel=1e-3)
    unpenalised = np.linalg.norm(Linear().fit(rows, smooth + noise).learned["coefficients"])
    assert lengths[1] < 0.8 * unpenalised


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match=r"penalty.*0"):
        Ridge(penalty=0)


def examples(queries, dimensions, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 2, (queries, dimensions)).astype(float)
    rows[:, -1] = rows[:, 0]  # never of full rank
    return rows, 100 * rng.normal(size=(3, queries)), rng.uniform(0.1, 3, queries)


@pytest.mark.parametrize("queries, dimensions", [(30, 10), (10, 30), (25, 25)])
@pytest.mark.parametrize("penalty", [0.0, 2.5])
def test_coefficients_are_those_of_numpy(queries, dimensions, penalty):
    rows, answers, weights = examples(queries, dimensions)
    roots = np.sqrt(weights)
    if penalty:
        gram = (rows.T * weights) @ rows + penalty * np.eye(dimensions)
        expected = np.linalg.solve(gram, rows.T @ (weights * answers).T).T
    else:
        expected = np.linalg.lstsq(rows * roots[:, None], (answers * roots).T, rcond=None)[0].T
    assert np.allclose(least_squares(rows, answers, weights, penalty), expected, atol=1e-6)


def test_the_penalty_is_the_one_that_leaves_out_best():
    rows, answers, weights = examples(20, 8)
    grid = np.logspace(-6, 6, 49) * ((rows**2).T @ weights).sum() / len(rows)
    for row, chosen in zip(answers, chosen_penalty(rows, answers, weights), strict=True):
        errors = []
        for penalty in grid:
            missed = []
            for out in range(len(rows)):
                kept = np.arange(len(rows)) != out
                found = least_squares(rows[kept], row[None, kept], weights[kept], penalty)[0]
                missed.append(weights[out] * (row[out] - rows[out] @ found) ** 2)
            errors.append(sum(missed))
        assert chosen == pytest.approx(grid[np.argmin(errors)])
