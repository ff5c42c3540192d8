"""Conjugate gradients and what preconditions them, against dense solves."""

import numpy as np

from pgmjax.history.kernel import ridge

RNG = np.random.default_rng(6)
ROOT = RNG.standard_normal((40, 12))
MATRIX = ROOT @ ROOT.T + 0.01 * np.eye(40)


def solve(right, precondition, **settings):
    settings = {"tolerance": 1e-12, "max_steps": 200, **settings}
    return ridge.solve(lambda array: MATRIX @ array, right, precondition, **settings)


def test_several_right_hand_sides():
    right = np.column_stack([RNG.standard_normal((40, 3)), np.zeros(40)])
    got = solve(right, lambda array: array)
    # the steps end by a residual that is kept up; that of the solution differs by the rounding of products
    sizes = np.linalg.norm(got.solution[:, :3], axis=0) / np.linalg.norm(right[:, :3], axis=0)
    rounding = len(MATRIX) * np.finfo(float).eps * np.linalg.norm(MATRIX, 2) * sizes.max()
    assert got.residual <= 1e-12 + rounding
    np.testing.assert_allclose(got.solution, np.linalg.solve(MATRIX, right), atol=1e-8)
    np.testing.assert_array_equal(got.solution[:, 3], 0)


def test_the_residual_is_that_of_the_solution():
    """Steps that go on at the limit of the digits shrink the residual that is kept up, not the real one."""
    matrix = np.diag(np.geomspace(1e-9, 1.0, 40))
    right = RNG.standard_normal((40, 2))
    got = ridge.solve(
        lambda array: matrix @ array, right, lambda array: array, tolerance=1e-16, max_steps=2000
    )
    rest = np.linalg.norm(right - matrix @ got.solution, axis=0) / np.linalg.norm(right, axis=0)
    assert got.residual == rest.max()


def test_the_low_rank_inverse_is_that_of_the_approximation():
    kernel = ROOT @ ROOT.T
    some = np.array([0, 5, 17])
    inverse = ridge.low_rank_inverse(kernel[:, some], kernel[np.ix_(some, some)], 0.01)
    near = kernel[:, some] @ np.linalg.solve(kernel[np.ix_(some, some)], kernel[some]) + 0.01 * np.eye(40)
    right = RNG.standard_normal((40, 2))
    np.testing.assert_allclose(inverse(right), np.linalg.solve(near, right), rtol=1e-6, atol=1e-6)


def test_enough_columns_solve_it_at_once():
    """With as many columns as the rank, and columns that repeat, the approximation is exact."""
    kernel = ROOT @ ROOT.T
    some = np.arange(25)
    inverse = ridge.low_rank_inverse(kernel[:, some], kernel[np.ix_(some, some)], 0.01)
    right = RNG.standard_normal((40, 1))
    assert solve(right, inverse, tolerance=1e-9).steps <= 3 < solve(right, lambda a: a, tolerance=1e-9).steps


def test_it_says_how_far_it_came():
    got = solve(RNG.standard_normal((40, 1)), lambda array: array, max_steps=2)
    assert got.steps == 2 and got.residual > 1e-12
