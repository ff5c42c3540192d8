"""Scales of columns."""

import numpy as np

from pgmjax.learning.base import Scale

ROWS = np.array([[1.0, 5, 3], [3, 5, -3]])


def test_columns_get_mean_zero_and_deviation_one():
    scale = Scale.of(ROWS)
    assert scale.apply(ROWS).tolist() == [[-1, 0, 1], [1, 0, -1]]
    assert np.array_equal(scale.undo(scale.apply(ROWS)), ROWS)


def test_none_changes_nothing():
    assert np.array_equal(Scale.none(ROWS).apply(ROWS), ROWS)
