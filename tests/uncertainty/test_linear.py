"""Least squares of answers on measurements, against a dense pseudo-inverse over all cells."""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.queries import kronecker, marginal, point, total
from pgmjax.uncertainty import linear
from tests.uncertainty.structures import DOMAIN, QUERIES, asked, least_squares, measurements, system


def found(public=None):
    return least_squares(DOMAIN, measurements(), QUERIES, public)


@pytest.mark.parametrize("small", [True, False])
def test_equals_dense_least_squares(monkeypatch, small):
    if not small:
        monkeypatch.setattr(linear, "_DENSE", 0)
    matrix, values = system(measurements())
    rows = asked()
    combination = rows @ np.linalg.pinv(matrix, rcond=1e-10)
    determined = np.linalg.norm(combination @ matrix - rows, axis=1) < 1e-8
    got = found()
    assert (got.determined == determined).all() and determined.any() and not determined.all()
    assert np.allclose(got.values[determined], (combination @ values)[determined], rtol=1e-8)
    assert np.allclose(got.stddevs[determined], np.linalg.norm(combination, axis=1)[determined], rtol=1e-8)
    assert np.isnan(got.stddevs[~determined]).all() and np.isnan(got.values[~determined]).all()


def test_a_public_total_is_a_measurement_without_noise():
    matrix, values = system(measurements())
    tiny = 1e-6
    matrix = np.concatenate([matrix, np.ones((1, matrix.shape[1])) / tiny])
    combination = asked() @ np.linalg.pinv(matrix, rcond=1e-13)
    wanted = combination @ np.append(values, 2000 / tiny)
    got = found(2000.0)
    seen = got.determined
    assert np.allclose(got.values[seen], wanted[seen], atol=1e-3)
    assert np.allclose(got.stddevs[seen], np.linalg.norm(combination, axis=1)[seen], atol=1e-4)


def test_a_total_can_determine_what_measurements_do_not():
    domain = pj.Domain({"a": 2})
    one = [pj.LinearMeasurement(("a",), [4.0], 2.0, query=np.array([[1.0, 0.0]]))]
    rows = [kronecker({"a": point(1)})]
    assert not least_squares(domain, one, rows).determined[0]
    got = least_squares(domain, one, rows, 10.0)
    assert got.determined[0] and got.values[0] == pytest.approx(6) and got.stddevs[0] == pytest.approx(2)


def test_marginals_of_many_attributes_need_no_domain():
    domain = pj.Domain({f"x{k}": 10 for k in range(40)})
    noisy = [pj.LinearMeasurement((f"x{k}", f"x{k + 1}"), np.full((10, 10), 5.0), 2.0) for k in range(39)]
    rows = [kronecker({"x3": point(0)}), kronecker({"x3": total(), "x5": total()})]
    got = least_squares(domain, noisy, rows)
    assert got.determined.all() and got.values[0] == pytest.approx(50)
    # 39 totals of 100 cells each, of variance 400, are averaged
    assert got.stddevs[1] == pytest.approx(np.sqrt(400 / 39), rel=1e-6)
    # the effect of x3 comes from two marginals, of variance 40 each, less the mean's share
    assert got.stddevs[0] == pytest.approx(np.sqrt(0.9 * 40 / 2 + 400 / 39 / 100), rel=1e-6)


def test_a_marginal_that_nothing_measures_is_undetermined_at_no_work():
    """Beside other queries, for which measurements are factored; an attribute of one value adds no effect."""
    domain = pj.Domain({"a": 3, "b": 2, "c": 1})
    noisy = [
        pj.LinearMeasurement(("a",), [4.0, 9.0, 12.0], 2.0, query="prefix"),
        pj.LinearMeasurement(("b",), [5.0, 7.0], 2.0),
    ]
    got = linear.BestLinear(domain, noisy, most_work=1).answers(
        [marginal(("a", "b")), marginal(("b", "c", "a"))]
    )
    assert got.values.shape == (12,) and not got.determined.any()
    best = linear.BestLinear(domain, noisy)
    alone, with_one_value = (best.answers([marginal(clique)]) for clique in (("a",), ("c", "a")))
    assert alone.determined.all() and np.array_equal(alone.values, with_one_value.values)
