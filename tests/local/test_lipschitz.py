"""Answers about continuous attributes, with both parts of their error."""

import numpy as np
import pytest

from pgmjax import local as co
from pgmjax.privacy import SeededBackend

ROWS = 20_000
POINTS = np.random.default_rng(0).beta(2, 5, (ROWS, 2))


def ramps(points):
    """Two functions of slope 1 in the max norm."""
    return np.stack([points.max(axis=1), np.abs(points[:, 0] - 0.5)])


def released(grid, seed=0, epsilon=2):
    backend = SeededBackend(seed, insecure=True)
    law = backend.randomized_response(grid.size, epsilon)
    return co.PerturbedCodes(law, backend.respond(law, grid.encode(POINTS)))


def test_answers_are_within_both_bounds():
    grid = co.best_grid(rows=ROWS, epsilon=2.0, lipschitz=1.0, dimension=2).grid
    found = co.answer_lipschitz(co.group_histograms(released(grid)), grid, ramps, lipschitz=1.0)
    truth = ramps(POINTS).mean(axis=1)
    assert found.bias_bound == grid.bias_bound(1.0)
    rounded = ramps(grid.midpoints()[grid.encode(POINTS)]).mean(axis=1)
    assert np.all(np.abs(rounded - truth) <= found.bias_bound)
    # 6 standard deviations of the noise: fails once in 10^8, and the draw is seeded
    assert np.all(np.abs(found.answers.value - rounded) <= 6 * found.answers.worst_stddev)
    assert found.error_bound == pytest.approx(np.hypot(found.bias_bound, found.answers.worst_stddev))
    assert np.all(np.abs(found.answers.value - truth) <= found.half_width(0.999999))


def test_functions_may_differ_by_group():
    grid = co.Grid(2, 2)
    seen = co.group_histograms(released(grid), np.arange(ROWS) % 2)
    both = co.answer_lipschitz(seen, grid, [lambda p: p[:, 0], lambda p: p[:, 1]], lipschitz=1.0)
    middle = grid.midpoints()
    expected = seen.answer(np.stack([middle[:, 0], middle[:, 1]])[None])
    assert both.answers.value == pytest.approx(expected.value)


def test_a_steeper_function_is_refused():
    grid = co.Grid(2, 2)
    seen = co.group_histograms(released(grid))
    with pytest.raises(ValueError, match=r"above lipschitz = 0\.5"):
        co.answer_lipschitz(seen, grid, ramps, lipschitz=0.5)
    with pytest.raises(ValueError, match="8 cells"):
        co.answer_lipschitz(seen, co.Grid(1, 3), ramps, lipschitz=1.0)
    with pytest.raises(ValueError, match="one for each of 1 groups, got 2"):
        co.answer_lipschitz(seen, grid, [ramps, ramps], lipschitz=1.0)
    with pytest.raises(ValueError, match=r"\[queries, 16 cells\]"):
        co.answer_lipschitz(seen, grid, lambda p: p[:3, 0], lipschitz=1.0)
