"""Estimates: intervals as SciPy's normal distribution has them, in every shape; what notebooks show."""

import numpy as np
import pytest
from scipy import stats

from pgmjax import Domain, GraphicalModel, LinearMeasurement
from pgmjax.measurements.estimates import Estimates
from pgmjax.measurements.marginals import noisy_marginal
from pgmjax.uncertainty import error_bars


@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_intervals_are_those_of_a_normal_distribution(shape, level):
    size = int(np.prod(shape))
    values, stddevs = np.linspace(-5, 50, size).reshape(shape), np.linspace(0.5, 7, size).reshape(shape)
    low, high = stats.norm.interval(level, values, stddevs)
    got = Estimates(values, stddevs).interval(level)
    np.testing.assert_allclose(got, np.stack([low, high], axis=-1), rtol=1e-12)


def test_without_a_standard_deviation_there_is_no_interval():
    got = Estimates(np.array([1.0, 2.0]), np.array([np.nan, 1.0])).interval()
    assert np.isnan(got).tolist() == [[True, True], [False, False]]


@pytest.mark.parametrize("level", [0, 1, 1.5, float("nan")])
def test_a_level_lies_between_nought_and_one(level):
    noisy = [LinearMeasurement(("a",), [5.0, 7.0], stddev=2.0)]
    bars = error_bars(GraphicalModel.from_potentials(Domain({"a": 2}), {}, total=12), noisy, [("a",)])
    for estimates in (Estimates(np.ones(1), np.ones(1)), bars):
        with pytest.raises(ValueError, match="level"):
            estimates.interval(level)


def test_a_marginal_of_several_attributes_shows_each_cell():
    measured = LinearMeasurement(("a", "b"), [5.0, 7.0, 1.0, 3.0], stddev=2.0)
    found = noisy_marginal(Domain({"a": 2, "b": 2}), [measured], ("b", "a"))
    assert isinstance(found, Estimates) and found.interval(0.9).shape == (2, 2, 2)
    assert found.stddev is found.stddevs and repr(found) == "NoisyMarginal(answers=4)"
    assert found._repr_html_().count("<tr") == 5
