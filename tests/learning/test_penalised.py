"""Least squares and its penalty against NumPy and against leaving answers out one by one."""

import numpy as np
import pytest

from pgmjax.learning.penalised import chosen_penalty, least_squares


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
