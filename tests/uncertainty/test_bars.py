"""The result: intervals only where the measurements determine an answer."""

import numpy as np
import pytest

from pgmjax.uncertainty.bars import normal_quantile, of_stddevs


def bars():
    values, stddevs = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 0.5])
    seen = np.array([True, False, True])
    return of_stddevs(values, stddevs, seen, seen, level=0.9, method="laplace", sizes=(1, 2))


def test_intervals_are_gaussian_and_missing_where_nothing_determines():
    got = bars().intervals
    assert np.isnan(got[1]).all()
    assert np.allclose(got[0], 1 + 1.6448536 * np.array([-1, 1])) and np.allclose(got[2].mean(), 3)


def test_a_query_has_its_own_part():
    whole = bars()
    assert len(whole) == 2 and whole[1].values.tolist() == [2, 3] and whole[-1].sizes == (2,)
    assert "2 determined" in repr(whole)
    with pytest.raises(IndexError):
        whole[2]


@pytest.mark.parametrize("level", [0, 1, 1.5, float("nan")])
def test_a_level_lies_between_nought_and_one(level):
    with pytest.raises(ValueError, match="level"):
        normal_quantile(level)
