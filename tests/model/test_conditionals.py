"""Cumulated tables and their inverse, against NumPy's own search."""

import numpy as np
import pytest

from pgmjax.model import conditionals


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 9, 100])
def test_inverse_finds_what_searchsorted_finds(size):
    generator = np.random.default_rng(size)
    logs = generator.normal(size=(6, size))
    logs[:, 1:][generator.random((6, size - 1)) < 0.4] = -np.inf
    cumulated = conditionals.cumulate(logs)
    group, position = generator.integers(6, size=500), generator.random(500)
    position[:3] = 0.0, np.nextafter(1.0, 0.0), 0.5
    position[3:6] = np.minimum(cumulated[group[3:6], 0], np.nextafter(1.0, 0.0))  # on the edge of a cell
    found = conditionals.inverse(cumulated, group, position)
    assert found.tolist() == [
        np.searchsorted(cumulated[g], p, side="right") for g, p in zip(group, position, strict=True)
    ]
    assert np.isfinite(logs[group, found]).all()


def test_a_first_cell_that_is_impossible_is_not_found_by_position_zero():
    cumulated = conditionals.cumulate(np.array([[-np.inf, 0.0, 0.0]]))
    assert conditionals.inverse(cumulated, np.zeros(1, np.int64), np.zeros(1)).tolist() == [1]


def test_cumulated_rows_end_at_one_even_where_nothing_is_possible():
    cumulated = conditionals.cumulate(np.array([[0.0, 0.0], [-np.inf, -np.inf], [-1e4, -np.inf]]))
    assert cumulated.tolist() == [[0.5, 1.0], [0.5, 1.0], [1.0, 1.0]]
