"""What answers cost, by enumeration of neighbours, and the least that an accuracy costs."""

import itertools

import numpy as np
import pytest

from pgmjax.history.session.costs import cell_costs, least_epsilon, sensitivities, system_cost
from pgmjax.measurements.noise import DiscreteLaplace

H = np.array(
    [
        [1, 1, 0, 0],
        [0, 0, 1, 1],
        [0, 0, 0, 1],
        [0, 0, 1, 0],
        [0, 1, 0, 1],
        [2, 1, 0, 0],
        [0, 0, 2, -1],
        [0, -1, 0, 1],
    ],
    float,
)
ALPHA = np.array([0.05, 0.1, 0.05, 0.1, 0.1, 0.05, 0.05, 0.1])


def test_the_papers_costs():
    np.testing.assert_allclose(sensitivities(H), [1, 1, 1, 1, 1, 2, 2, 1])
    np.testing.assert_allclose(cell_costs(H, ALPHA), [0.1, 0.275, 0.25, 0.375])
    assert system_cost(H, ALPHA) == pytest.approx(0.375)
    assert system_cost(H, ALPHA) < ALPHA.sum()
    assert system_cost(H, ALPHA, relation="replace-one") == pytest.approx(0.525)


def test_replace_one_by_pairs_of_cells():
    rng = np.random.default_rng(0)
    matrix, epsilons = rng.normal(size=(7, 9)), rng.uniform(0.1, 1, 7)
    moves = sensitivities(matrix, "replace-one")
    rates = epsilons / moves
    pairs = itertools.combinations(range(9), 2)
    expected = max(float(rates @ np.abs(matrix[:, j] - matrix[:, k])) for j, k in pairs)
    cost = system_cost(matrix, epsilons, moves, "replace-one")
    assert cost == pytest.approx(expected)
    assert cost <= epsilons.sum()


@pytest.mark.parametrize("width", [0, 0.5, 1, 7.3, 100, 12345])
@pytest.mark.parametrize("delta", [0.9, 0.2, 1e-6])
def test_least_epsilon_is_enough_and_the_least(width, delta):
    epsilon = least_epsilon(2.0, width, delta)
    assert DiscreteLaplace(2.0 / epsilon).outside(int(width)) <= delta
    assert DiscreteLaplace(2.0 / (epsilon * (1 - 1e-9))).outside(int(width)) > delta
    if width and width == int(width):
        assert epsilon <= least_epsilon(2.0, width, delta, continuous=True)


def test_least_epsilon_of_the_paper():
    assert least_epsilon(1.0, 100.0, 0.2, continuous=True) == pytest.approx(np.log(5) / 100)


def test_bad_input():
    with pytest.raises(ValueError, match="half_width must be > 0"):
        least_epsilon(1.0, 0.0, 0.1, continuous=True)
    with pytest.raises(ValueError, match="delta must be < 1"):
        least_epsilon(1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="epsilons must be 8 finite numbers > 0"):
        cell_costs(H, ALPHA * 0)
    with pytest.raises(ValueError, match="moves must be 8 finite numbers"):
        cell_costs(H, ALPHA, [1.0])
    with pytest.raises(ValueError, match=r"\[rows, cells\], got shape \(4,\)"):
        cell_costs(H[0], ALPHA)
    with pytest.raises(ValueError, match="relation must be"):
        system_cost(H, ALPHA, relation="swap")
