"""Error bars as users ask for them: three methods that agree, flags, and errors that say what to do."""

import numpy as np
import pytest

import pgmjax as pj
from tests.uncertainty.structures import DOMAIN, QUERIES, measurements

error_bars = pj.uncertainty.error_bars


@pytest.fixture(scope="module")
def fit():
    return pj.Estimator(dtype="float64", tol=1e-8, max_steps=3000, progress=False).fit(DOMAIN, measurements())


def test_three_methods_agree_at_an_interior_optimum(fit):
    found = {
        method: error_bars(fit, measurements(), QUERIES, method=method, draws=200)
        for method in ("linear", "laplace", "bootstrap")
    }
    linear, curved, drawn = found["linear"], found["laplace"], found["bootstrap"]
    seen = linear.determined
    assert (curved.determined == seen).all() and (drawn.determined == seen).all()
    assert np.allclose(curved.stddevs[seen], linear.stddevs[seen], rtol=1e-4)
    # six standard errors of a standard deviation
    assert np.allclose(drawn.stddevs, curved.stddevs, rtol=6 / np.sqrt(400))
    assert np.isnan(curved.intervals[~seen]).all() and np.isfinite(curved.intervals[seen]).all()


def test_values_are_the_models_or_least_squares(fit):
    curved = error_bars(fit.model, measurements(), QUERIES, method="laplace")
    wanted = np.concatenate([np.ravel(fit.model.answer(query)) for query in QUERIES])
    assert (curved.values == wanted).all()
    linear = error_bars(fit, measurements(), QUERIES)
    assert (linear.values[~linear.determined] == wanted[~linear.determined]).all()
    # least squares is unbiased: it may differ from the model by a few of its deviations
    assert np.allclose(linear[0].values, curved[0].values, atol=6 * linear[0].stddevs.max())


def test_laplace_gives_no_interval_where_cells_are_held_at_zero():
    noisy = [pj.LinearMeasurement(("a",), [100.0, 50.0, -30.0, 20.0], 5.0)]
    domain = pj.Domain({"a": 4})
    bound = pj.Estimator(dtype="float64", max_steps=5000, progress=False).fit(domain, noisy, total=170)
    pairs = pj.queries.kronecker({"a": pj.queries.ranges([(0, 0), (0, 1), (2, 2)])})
    bars = error_bars(bound, noisy, [pairs], method="laplace", total=170)
    assert bars.determined.all() and np.isnan(bars.intervals).all()
    assert bars.stddevs[2] < 0.1 < 5 * np.sqrt(3) / 2
    assert np.isfinite(error_bars(bound, noisy, [pairs], total=170).intervals).all()


def test_intervals_of_least_squares_cover_as_they_say():
    domain = pj.Domain({"a": 4, "b": 3})
    truth = np.arange(12.0).reshape(4, 3) * 5
    model = pj.GraphicalModel.from_potentials(domain, {("a", "b"): np.log(truth + 1)}, total=truth.sum())
    generator, hits = np.random.default_rng(3), []
    for _ in range(300):
        noisy = [
            pj.LinearMeasurement(("a", "b"), truth + generator.normal(0, 4, (4, 3)), 4.0),
            pj.LinearMeasurement(("b",), truth.sum(0) + generator.normal(0, 2, 3), 2.0),
        ]
        bars = error_bars(model, noisy, [("a",), ("b",)], level=0.9)
        exact = np.concatenate([truth.sum(1), truth.sum(0)])
        hits.append(np.mean((bars.intervals[:, 0] <= exact) & (exact <= bars.intervals[:, 1])))
    error = np.std(hits, ddof=1) / np.sqrt(len(hits))
    assert abs(np.mean(hits) - 0.9) <= 5 * error  # seeded


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        ({"method": "delta"}, ValueError, "method must be one of"),
        ({"level": 1.0}, ValueError, "level must be < 1"),
        ({"draws": 1}, ValueError, "draws must be an integer >= 2"),
        ({"total": -1.0}, ValueError, "total must be > 0"),
        ({"seed": -1, "method": "bootstrap"}, ValueError, "seed must be an integer >= 0"),
        ({"estimator": "l2"}, TypeError, "estimator must be an Estimator"),
        ({"fit": "model"}, TypeError, "a Fit or a GraphicalModel"),
        ({"queries": []}, ValueError, "at least one query"),
        ({"queries": QUERIES[0]}, TypeError, r"write \[it\]"),
        ({"queries": [3]}, TypeError, "queries or tuples of attribute names"),
        ({"queries": [("z",)]}, ValueError, "z"),
        ({"measurements": []}, ValueError, "the measurements that the model"),
        ({"measurements": measurements()[0]}, TypeError, r"write \[it\]"),
        ({"measurements": [3]}, TypeError, "must be LinearMeasurement"),
    ],
)
def test_wrong_inputs_say_what_to_do(fit, change, kind, said):
    given = {"fit": fit, "measurements": measurements(), "queries": QUERIES, **change}
    with pytest.raises(kind, match=said):
        error_bars(**given)
