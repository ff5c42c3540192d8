"""The striped Cholesky factor against the dense one."""

import numpy as np
import pytest

from pgmjax.history.kernel.ridge import StripedCholesky, bytes_of

RNG = np.random.default_rng(5)
ROOT = RNG.standard_normal((23, 23))
MATRIX = ROOT @ ROOT.T + np.eye(23)


@pytest.mark.parametrize("stripe", [1, 5, 8, 23, 100])
def test_factor_and_solution(stripe):
    made = StripedCholesky.of(lambda rows: MATRIX[rows, : rows.stop].copy(), 23, stripe=stripe)
    expected = np.linalg.cholesky(MATRIX)
    for start, stop, rows in zip(made.starts[:-1], made.starts[1:], made.stripes, strict=True):
        np.testing.assert_allclose(rows, expected[start:stop, :stop], atol=1e-11)
    right = RNG.standard_normal((23, 3))
    np.testing.assert_allclose(made.solve(right), np.linalg.solve(MATRIX, right), atol=1e-10)
    np.testing.assert_allclose(made.solve(right[:, 0]), np.linalg.solve(MATRIX, right[:, 0]), atol=1e-10)
    held = sum(rows.size for rows in made.stripes)
    assert 8 * held <= bytes_of(23, stripe)


def test_nothing_is_solved_by_nothing():
    made = StripedCholesky.of(lambda rows: MATRIX[rows, : rows.stop], 0)
    assert made.solve(np.zeros((0, 2))).shape == (0, 2)


def test_a_matrix_that_is_not_positive_definite():
    with pytest.raises(np.linalg.LinAlgError):
        StripedCholesky.of(lambda rows: -MATRIX[rows, : rows.stop], 23, stripe=8)
