"""Cells of the unit cube, and the best number of bits.

Answers about continuous attributes, with both parts of their error.
"""

import math

import numpy as np
import pytest

from pgmjax import local as co
from pgmjax.local.continuous import Grid
from pgmjax.privacy import SeededBackend


@pytest.mark.parametrize(("dimension", "bits"), [(1, 1), (1, 5), (2, 3), (3, 2)])
def test_points_lie_within_half_a_cell_of_their_midpoint(dimension, bits):
    grid = Grid(dimension, bits)
    points = np.random.default_rng(0).random((2000, dimension))
    points[0], points[1] = 0.0, 1.0
    off = np.abs(grid.midpoints()[grid.encode(points)] - points)
    assert off.max() <= 2.0 ** -(bits + 1)
    assert np.array_equal(grid.encode(grid.midpoints()), np.arange(grid.size))


def test_codes_are_those_of_the_domain():
    """A table discretised by the domain's bins and one by the grid have the same cells."""
    grid = Grid(2, 3)
    points = np.random.default_rng(1).random((500, 2))
    points[:3] = [[0, 1], [0.5, 0.125], [1, 1]]
    columns = {name: grid.domain.attribute(name).encode(points[:, k]) for k, name in enumerate(grid.domain)}
    assert np.array_equal(co.Universe(grid.domain).encode(columns), grid.encode(points))


@pytest.mark.parametrize("norm", ["max", "euclidean"])
@pytest.mark.parametrize("dimension", [1, 2])
def test_the_best_grid_has_the_least_bound(norm, dimension):
    best = co.best_grid(rows=200_000, epsilon=1.0, lipschitz=2.0, dimension=dimension, norm=norm)
    reach = math.sqrt(dimension) if norm == "euclidean" else 1.0
    bounds = {}
    for bits in range(1, 31 // dimension + 1):
        deviation = math.sqrt(co.Channel.at(2 ** (bits * dimension), 1.0).largest_variance() / 200_000)
        bounds[bits] = 2.0 * reach * (2.0 ** -(bits + 1) + deviation)
    assert best.grid.bits == min(bounds, key=bounds.get)
    assert best.bias_bound + best.stddev_bound == pytest.approx(bounds[best.grid.bits])
    assert best.useful and best.range_bound == pytest.approx(2.0 * reach)


def test_more_rows_get_more_bits_and_a_known_range_helps():
    asked = {"epsilon": 1.0, "lipschitz": 1.0}
    bits = [co.best_grid(rows=rows, **asked).grid.bits for rows in (10**3, 10**5, 10**7, 10**9)]
    assert bits == sorted(bits) and bits[0] < bits[-1]
    narrow = co.best_grid(rows=10**5, value_range=0.1, **asked)
    assert narrow.grid.bits >= co.best_grid(rows=10**5, **asked).grid.bits
    assert narrow.range_bound == 0.1
    assert not co.best_grid(rows=4, **asked).useful


def test_the_error_falls_as_the_paper_says():
    """Bits near log2(n) / 4 in one dimension: the bound falls like n^(-1/4)."""
    rows = [10**6, 10**10]
    grids = [co.best_grid(rows=n, epsilon=1.0, lipschitz=1.0) for n in rows]
    bounds = [grid.bias_bound + grid.stddev_bound for grid in grids]
    slope = math.log(bounds[1] / bounds[0]) / math.log(rows[1] / rows[0])
    assert slope == pytest.approx(-0.25, abs=0.02)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Grid(0, 1), ValueError, "dimension"),
        (lambda: Grid(4, 8), ValueError, r"bits.*1\.\.7"),
        (lambda: Grid(2, 1).encode([[0.5, 1.5], [0, 0]]), ValueError, "1 of 2 points"),
        (lambda: Grid(2, 1).encode([[0.5, np.nan]]), ValueError, "1 of 1 points"),
        (lambda: Grid(2, 1).encode([0.5]), ValueError, r"\[rows, 2\]"),
        (lambda: Grid(1, 30).midpoints(), ValueError, "fewer bits"),
        (lambda: Grid(1, 3).bias_bound(1.0, "taxi"), ValueError, "norm"),
        (lambda: co.best_grid(rows=10, epsilon=1.0, lipschitz=0.0), ValueError, "lipschitz.*0"),
        (lambda: co.best_grid(rows=0, epsilon=1.0, lipschitz=1.0), ValueError, "rows"),
    ],
)
def test_wrong_arguments_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


ROWS = 20_000
POINTS = np.random.default_rng(0).beta(2, 5, (ROWS, 2))


def ramps(points):
    """Two functions of slope 1 in the max norm."""
    return np.stack([points.max(axis=1), np.abs(points[:, 0] - 0.5)])


def released(grid, seed=0, epsilon=2):
    backend = SeededBackend(seed, insecure=True)
    distribution = backend.randomized_response(grid.size, epsilon)
    return co.PerturbedCodes(distribution, backend.respond(distribution, grid.encode(POINTS)))


def test_answers_are_within_both_bounds():
    grid = co.best_grid(rows=ROWS, epsilon=2.0, lipschitz=1.0, dimension=2).grid
    found = co.answer_lipschitz(co.group_histograms(released(grid)), grid, ramps, lipschitz=1.0)
    truth = ramps(POINTS).mean(axis=1)
    assert found.bias_bound == grid.bias_bound(1.0)
    rounded = ramps(grid.midpoints()[grid.encode(POINTS)]).mean(axis=1)
    assert np.all(np.abs(rounded - truth) <= found.bias_bound)
    # 6 standard deviations of the noise: fails once in 10^8, and the draw is seeded
    assert np.all(np.abs(found.answers.value - rounded) <= 6 * found.answers.worst_stddev)
    assert np.all(np.abs(found.answers.value - truth) <= found.half_width(0.999999))


def test_functions_may_differ_by_group():
    grid = Grid(2, 2)
    seen = co.group_histograms(released(grid), np.arange(ROWS) % 2)
    both = co.answer_lipschitz(seen, grid, [lambda p: p[:, 0], lambda p: p[:, 1]], lipschitz=1.0)
    middle = grid.midpoints()
    expected = seen.answer(np.stack([middle[:, 0], middle[:, 1]])[None])
    assert both.answers.value == pytest.approx(expected.value)


def test_a_steeper_function_is_refused():
    grid = Grid(2, 2)
    seen = co.group_histograms(released(grid))
    with pytest.raises(ValueError, match=r"above lipschitz = 0\.5"):
        co.answer_lipschitz(seen, grid, ramps, lipschitz=0.5)
    with pytest.raises(ValueError, match="8 cells"):
        co.answer_lipschitz(seen, Grid(1, 3), ramps, lipschitz=1.0)
    with pytest.raises(ValueError, match="one for each of 1 groups, got 2"):
        co.answer_lipschitz(seen, grid, [ramps, ramps], lipschitz=1.0)
    with pytest.raises(ValueError, match=r"\[queries, 16 cells\]"):
        co.answer_lipschitz(seen, grid, lambda p: p[:3, 0], lipschitz=1.0)
