"""Error bars as users ask for them: three methods that agree, flags, and errors that say what to do.

The result: intervals only where the measurements determine an answer.
"""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.measurements.noise import normal_quantile
from pgmjax.uncertainty.intervals import ErrorBars
from tests.uncertainty.structures import DOMAIN, QUERIES, measurements

error_bars = pj.uncertainty.error_bars


@pytest.fixture(scope="module")
def fit():
    return pj.Estimator(dtype="float64", tol=1e-8, max_steps=3000, progress=False, regularisation="none").fit(
        DOMAIN, measurements()
    )


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


def test_biases_are_zero_where_there_is_none_and_nan_where_they_are_unknown(fit):
    linear = error_bars(fit, measurements(), QUERIES)
    assert (linear.biases[linear.determined] == 0).all() and np.isnan(linear.biases[~linear.determined]).all()
    assert 0 < linear.determined.sum() < len(linear.determined)
    assert np.isnan(error_bars(fit, measurements(), QUERIES, method="laplace").biases).all()
    few = error_bars(fit, measurements(), QUERIES, method="bootstrap", draws=2)
    assert np.isnan(few.biases).all()  # fewer than a hundred determined answers
    known = pj.queries.kronecker({DOMAIN.attributes[0]: pj.queries.total()})
    for method in ("linear", "laplace", "bootstrap"):
        bars = error_bars(fit, measurements(), [known], method=method, total=fit.model.total, draws=2)
        assert bars.stddevs == bars.biases == 0, method


def test_laplace_gives_no_interval_where_cells_are_held_at_zero():
    noisy = [pj.LinearMeasurement(("a",), [100.0, 50.0, -30.0, 20.0], 5.0)]
    domain = pj.Domain({"a": 4})
    bound = pj.Estimator(dtype="float64", max_steps=5000, progress=False).fit(domain, noisy, total=170)
    pairs = pj.queries.kronecker({"a": pj.queries.ranges([(0, 0), (0, 1), (2, 2)])})
    bars = error_bars(bound, noisy, [pairs], method="laplace", total=170)
    assert bars.determined.all() and np.isnan(bars.intervals).all()
    assert bars.stddevs[2] < 0.1 < 5 * np.sqrt(3) / 2
    assert np.isfinite(error_bars(bound, noisy, [pairs], total=170).intervals).all()


def pulled(noisy, weight, sigma, total):
    """Shares that minimise squared loss and weight * KL(p || uniform), by Newton; what noise does to them."""
    tangent = np.linalg.svd(np.ones((1, len(noisy))))[2][1:].T
    shares = np.full(len(noisy), 1 / len(noisy))
    for _ in range(50):
        slope = (total / sigma) ** 2 * (shares - np.array(noisy) / total) + weight * np.log(shares)
        curve = tangent.T @ np.diag((total / sigma) ** 2 + weight / shares) @ tangent
        shares = shares - tangent @ np.linalg.solve(curve, tangent.T @ slope)
    moved = tangent @ np.linalg.solve(curve, tangent.T) * total / sigma  # of one standard deviation each
    return shares * total, total * np.linalg.norm(moved, axis=1)


def test_a_prior_that_pulls_is_in_the_bootstrap_and_gives_no_interval():
    domain, total, sigma, weight = pj.Domain({"a": 3}), 3000.0, 5.0, 1e5
    noisy = [pj.LinearMeasurement(("a",), [500.0, 900.0, 1600.0], sigma)]
    pull = {"prior": pj.GraphicalModel.from_potentials(domain, {}), "prior_weight": weight}
    estimator = pj.Estimator(dtype="float64", tol=1e-12, max_steps=5000, progress=False)
    fit = estimator.fit(domain, noisy, total=total, **pull)
    values, _ = pulled(noisy[0].values, weight, sigma, total)
    assert np.allclose(fit.model.marginal(("a",)), values, atol=1e-3)
    asked = {"queries": [("a",)], "total": total}
    drawn = error_bars(fit, noisy, method="bootstrap", draws=400, estimator=estimator, **asked, **pull)
    again, spread = pulled(values, weight, sigma, total)
    # six standard errors of a standard deviation; the prior pulls the fits of the bootstrap once more
    wanted = np.sqrt(spread**2 + (again - values) ** 2)
    assert np.allclose(drawn.stddevs, wanted, rtol=6 / np.sqrt(800))
    assert (spread < 0.7 * sigma).all() and (np.abs(again - values) > sigma).any()
    assert drawn.determined.all() and np.isnan(drawn.intervals).all()
    assert np.isfinite(error_bars(fit, noisy, **asked, **pull).intervals).all()
    with pytest.raises(ValueError, match="laplace is the curvature of the loss alone"):
        error_bars(fit, noisy, method="laplace", **asked, **pull)


def test_a_prior_without_weight_leaves_intervals_as_they_are():
    domain = pj.Domain({"a": 3, "b": 2})
    noisy = [pj.LinearMeasurement(("a",), [500.0, 900.0, 1600.0], 5.0)]
    prior = pj.GraphicalModel.from_potentials(domain, {("a", "b"): [[0.0, 1.0], [2.0, 0.0], [0.0, 0.5]]})
    estimator = pj.Estimator(dtype="float64", tol=1e-12, max_steps=5000, progress=False)
    fit = estimator.fit(domain, noisy, total=3000, prior=prior)
    for method in ("linear", "laplace", "bootstrap"):
        settings = {"method": method, "total": 3000, "draws": 400, "estimator": estimator, "prior": prior}
        bars = error_bars(fit, noisy, [("a",), ("a", "b")], **settings)
        assert bars.determined.tolist() == [True] * 3 + [False] * 6
        # the total is public: what is left of 5 is 5 * sqrt(2 / 3)
        assert np.allclose(bars[0].stddevs, 5 * np.sqrt(2 / 3), rtol=6 / np.sqrt(800))
        assert np.isfinite(bars[0].intervals).all() and np.isnan(bars[1].intervals).all()


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
        ({"method": "delta"}, ValueError, "method.*'delta'"),
        ({"level": 1.0}, ValueError, "level.*1"),
        ({"draws": 1}, ValueError, "draws.*1"),
        ({"total": -1.0}, ValueError, "total.*-1"),
        ({"seed": -1, "method": "bootstrap"}, ValueError, "seed.*-1"),
        ({"estimator": "l2"}, TypeError, "estimator must be an Estimator"),
        ({"fit": "model"}, TypeError, "a Fit or a GraphicalModel"),
        ({"queries": []}, ValueError, "at least one query"),
        ({"queries": QUERIES[0]}, TypeError, "queries"),
        ({"queries": [3]}, TypeError, r"pgmjax\.queries.*int"),
        ({"queries": [("z",)]}, ValueError, "z"),
        ({"measurements": []}, ValueError, "the measurements that the model"),
        ({"measurements": measurements()[0]}, TypeError, "measurements.*LinearMeasurement"),
        ({"measurements": [3]}, TypeError, "LinearMeasurement.*int"),
    ],
)
def test_wrong_inputs_say_what_to_do(fit, change, kind, said):
    given = {"fit": fit, "measurements": measurements(), "queries": QUERIES, **change}
    with pytest.raises(kind, match=said):
        error_bars(**given)


def bars():
    values, stddevs = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 0.5])
    seen = np.array([True, False, True])
    widths = normal_quantile(0.9) * np.where(seen, stddevs, np.nan)
    intervals = np.stack([values - widths, values + widths], axis=-1)
    return ErrorBars(values, stddevs, intervals, seen, 0.9, "laplace", (1, 2), np.zeros(3))


def test_intervals_are_gaussian_and_missing_where_nothing_determines():
    got = bars().intervals
    assert np.isnan(got[1]).all()
    assert np.allclose(bars().interval(0.9), got, equal_nan=True)
    assert np.allclose(got[0], 1 + 1.6448536 * np.array([-1, 1])) and np.allclose(got[2].mean(), 3)


def test_a_query_has_its_own_part():
    whole = bars()
    assert len(whole) == 2 and whole[1].values.tolist() == [2, 3] and whole[-1].sizes == (2,)
    assert "2 determined" in repr(whole)
    with pytest.raises(IndexError):
        whole[2]


@pytest.mark.parametrize("method", ["linear", "laplace"])
def test_intervals_of_another_level_need_no_other_call(fit, method):
    first, second = (error_bars(fit, measurements(), QUERIES, method=method, level=p) for p in (0.5, 0.99))
    np.testing.assert_allclose(first.interval(0.99), second.intervals)
    np.testing.assert_allclose(first[0].interval(0.5), first[0].intervals)


@pytest.mark.parametrize("setting", ["auto", 20.0, "none"])
def test_a_bootstrap_repeats_the_whole_fit(setting):
    estimator = pj.Estimator(regularisation=setting, progress=False)
    whole = estimator.fit(DOMAIN, measurements())
    found, wanted = (
        error_bars(whole, measurements(), QUERIES, method="bootstrap", draws=4, estimator=given)
        for given in (None, estimator)
    )
    assert (found.stddevs == wanted.stddevs).all()
