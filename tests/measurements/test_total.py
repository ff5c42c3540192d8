"""The estimate of the total: closed forms, brute-force least variance, unbiasedness, refusals."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmjax as pj
from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.measurements import total as module
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.total import check_counts, estimate_total
from pgmjax.queries.spec import as_query


def best_by_brute_force(matrix, stddevs, values):
    """Least-variance weights a with a Q = 1, from the KKT system in float64."""
    rows, cells = matrix.shape
    system = np.block([[np.diag(2 * stddevs**2), matrix], [matrix.T, np.zeros((cells, cells))]])
    a = np.linalg.lstsq(system, np.r_[np.zeros(rows), np.ones(cells)], rcond=None)[0][:rows]
    np.testing.assert_allclose(a @ matrix, 1, atol=1e-9)
    return a @ values, (a**2 * stddevs**2).sum()


@pytest.mark.parametrize(
    ("size", "query", "variance"),
    [
        (4, None, 4.0),
        (3, np.vstack([np.eye(3), np.ones((1, 3))]), 0.75),
        (5, "prefix", 1.0),
        (7, "total", 1.0),
        (6, {"a": q.compression([0, 0, 2, 2, 2, 2])}, 2.0),
    ],
)
def test_closed_forms(size, query, variance):
    """||1 Q^+||^2 of I_4, [I_3; 1] and Prefix(5), for unit variance."""
    domain = Domain({"a": size})
    query = as_query(("a",), query)
    counts = np.arange(size) * 10
    measurement = LinearMeasurement(("a",), query.apply(counts), 1.0, query)
    assert estimate_total(domain, [measurement]) == pytest.approx((counts.sum(), variance), rel=1e-12)
    scaled = LinearMeasurement(("a",), query.apply(counts), 3.0, query)
    assert estimate_total(domain, [scaled])[1] == pytest.approx(9 * variance, rel=1e-12)


@given(
    st.lists(
        st.one_of(
            st.sampled_from([q.identity(), q.prefix(), q.total(), q.all_ranges(), q.compression([0, 1, 0])]),
            st.integers(0, 5).map(
                lambda seed: q.matrix(np.vstack([np.eye(3), np.random.default_rng(seed).normal(size=(2, 3))]))
            ),
        ),
        min_size=1,
        max_size=3,
    ),
    st.booleans(),
    st.integers(0, 9),
)
@settings(max_examples=50, deadline=None)
def test_products_reach_the_least_variance(blocks, each, seed):
    rng = np.random.default_rng(seed)
    domain = Domain(dict.fromkeys("abc"[: len(blocks)], 3))
    query = q.Product(dict(zip("abc", blocks, strict=False)))
    rows = query.num_rows(domain)
    stddevs = rng.uniform(0.5, 5, rows) if each else np.full(rows, 2.0)
    counts = rng.integers(0, 50, 3 ** len(blocks))
    values = query.matrix(domain) @ counts + rng.normal(size=rows)
    stddev = stddevs if each else 2.0
    got = estimate_total(domain, [LinearMeasurement(query.clique, values, stddev, query)])
    expected = best_by_brute_force(query.matrix(domain).astype(float), stddevs, values)
    np.testing.assert_allclose(got, expected, rtol=1e-7)


def test_joint_matrices_and_sums():
    rng = np.random.default_rng(1)
    domain = Domain({"a": 3, "b": 2})
    counts = rng.integers(1, 50, (3, 2))
    stddevs = rng.uniform(1, 3, 8)
    dense = q.DenseMatrix(("a", "b"), np.vstack([np.eye(6), rng.normal(size=(2, 6))]))
    sums = q.WeightedSum([(2, q.marginal(("a", "b"))), (1, q.Product({"a": q.prefix(), "b": q.identity()}))])
    for query, deviation in ((dense, stddevs), (sums, stddevs[:6])):
        values = query.apply(counts).reshape(-1)
        got = estimate_total(domain, [LinearMeasurement(("a", "b"), values, deviation, query)])
        expected = best_by_brute_force(query.matrix(domain).astype(float), deviation, values)
        np.testing.assert_allclose(got, expected, rtol=1e-9)
        assert got[0] == pytest.approx(counts.sum())


def test_inverse_variance_weights_and_those_that_tell_nothing():
    domain = Domain({"a": 2, "b": 5})
    measurements = [
        LinearMeasurement(("a",), [40, 70], 2.0),  # 110, variance 8
        LinearMeasurement(("b",), [20, 40, 60, 80, 100], 1.0, "prefix"),  # 100, variance 1
        LinearMeasurement(("b",), [1e9], 0.001, q.point(0)),
        LinearMeasurement(("b",), [1e9], 0.001, q.mean()),
    ]
    total, variance = estimate_total(domain, measurements)
    assert variance == pytest.approx(1 / (1 / 8 + 1))
    assert total == pytest.approx((110 / 8 + 100) * variance)


def test_unbiased_with_the_variance_it_states():
    rng = np.random.default_rng(7)
    domain = Domain({"a": 4, "b": 3})
    counts = rng.integers(0, 100, (4, 3))
    asked = [(None, rng.uniform(1, 9, 12)), ({"a": "all_ranges"}, 3.0), ({"b": "prefix", "a": "total"}, 5.0)]
    draws = []
    for _ in range(2000):
        measurements = []
        for query, stddev in asked:
            query = as_query(("a", "b"), query)
            answers = query.apply(counts).reshape(-1)
            measurements.append(
                LinearMeasurement(("a", "b"), answers + rng.normal(size=len(answers)) * stddev, stddev, query)
            )
        total, variance = estimate_total(domain, measurements)
        draws.append(total)
    z = (np.mean(draws) - counts.sum()) / np.sqrt(variance / len(draws))
    assert abs(z) < 4
    ratio = np.var(draws, ddof=1) / variance
    assert abs(ratio - 1) < 4 * np.sqrt(2 / len(draws))


def test_large_products_need_no_matrix():
    domain = Domain({"a": 1000, "b": 2000})
    query = q.Product({"a": q.identity(), "b": q.prefix()})
    values = np.zeros((1000, 2000))
    values[:, -1] = 5.0
    stddevs = np.full((1000, 2000), 2.0)
    stddevs[0, -1] = 10.0
    total, variance = estimate_total(domain, [LinearMeasurement(("a", "b"), values, stddevs, query)])
    assert (total, variance) == pytest.approx((5000.0, 999 * 4.0 + 100.0))


def test_large_redundant_products_with_a_stddev_a_row_state_their_variance(monkeypatch):
    """Where no weighted solution is computed the plain one is used, with its exact variance."""
    domain = Domain({"a": 3, "b": 4})
    query = q.Product({"a": q.all_ranges(), "b": q.identity()})
    rng = np.random.default_rng(0)
    stddevs = rng.uniform(1, 5, 24)
    values = query.matrix(domain) @ rng.integers(0, 9, 12)
    measurement = LinearMeasurement(("a", "b"), values, stddevs, query)
    best = estimate_total(domain, [measurement])
    monkeypatch.setattr(module, "_MAX_ENTRIES", 20)
    plain = estimate_total(domain, [measurement])
    weights = np.ones(12) @ np.linalg.pinv(query.matrix(domain).astype(float))
    assert plain == pytest.approx((best[0], ((weights * stddevs) ** 2).sum()))
    assert plain[1] > best[1]


def test_totals_above_two_to_the_24_keep_every_unit():
    domain = Domain({"a": 3})
    counts = [2**40 + 1, 2**33 + 1, 5]
    assert estimate_total(domain, [LinearMeasurement(("a",), counts, 1.0)])[0] == sum(counts)


@pytest.mark.parametrize("values", [[-20, 3], [0.2, 0.1], [0, 0]])
def test_an_estimate_below_one_record_becomes_one_with_a_warning(values):
    with pytest.warns(UserWarning, match=r"below 1; 1 is used.*or give the number of records"):
        total, variance = estimate_total(Domain({"a": 2}), [LinearMeasurement(("a",), values, 10.0)])
    assert total == 1.0 and variance == pytest.approx(200.0)


@pytest.mark.parametrize(
    "measurements",
    [
        [],
        [LinearMeasurement(("a",), [1], 1.0, q.point(0))],
        [LinearMeasurement(("a",), [1], 1.0, q.subset([0, 2]))],
        [LinearMeasurement(("a",), [1], 1.0, q.mean())],
        [LinearMeasurement(("a",), [1, 2], 1.0, q.moments(2))],
        [LinearMeasurement(("a",), [1, 2], 1.0, np.array([[1, -1, 0], [0, 1, -1]]))],
        [LinearMeasurement(("a",), [1, 2], 1.0, np.array([[1, 1, 0], [2, 2, 0]]))],
        [LinearMeasurement(("a",), [0], 1.0, np.zeros((1, 3)))],
        [LinearMeasurement(("a", "b"), [1, 2], 1.0, {"a": q.point(1)})],
        [LinearMeasurement(("a", "b"), [1], 1.0, np.array([[1, 1, 1, 1, 1, 0]]))],
    ],
)
def test_nothing_tells_the_total(measurements):
    words = (
        rf"none of the {len(measurements)} measurements.*or pass total="
        if measurements
        else r"there is no measurement: give at least one"
    )
    with pytest.raises(ValueError, match=words):
        estimate_total(Domain({"a": 3, "b": 2}), measurements)


def test_too_large_to_tell_counts_as_not_telling(monkeypatch):
    monkeypatch.setattr(module, "_MAX_ENTRIES", 5)
    domain = Domain({"a": 3})
    for query in (q.Product({"a": q.all_ranges()}), q.DenseMatrix(("a",), np.eye(3))):
        with pytest.raises(ValueError, match="is unknown"):
            estimate_total(domain, [LinearMeasurement(("a",), np.ones(query.num_rows(domain)), 1.0, query)])


def test_measurements_are_checked():
    with pytest.raises(ValueError, match=r"\(3,\).*\(2,\)"):
        estimate_total(Domain({"a": 3}), [LinearMeasurement(("a",), [1, 2], 1.0)])


def test_shares_given_as_counts_are_told_and_noisy_counts_are_not():
    """100 shares beside a total of 400; counts whose sum is off by noise alone, in 200 fits of their own."""
    domain = pj.Domain({"a": 4})
    for values, total in (([0.7, 0.1, 0.1, 0.1], 400), ([70, 10, 10, 10], 400), ([300.0] * 4, 400)):
        with pytest.warns(UserWarning, match="if these are shares or percent"):
            pj.Estimator(max_steps=5).fit(domain, [pj.LinearMeasurement(("a",), values, 1.0)], total)
    # cells that were not published have a standard deviation of all records: those that were exceed the total
    apart = pj.LinearMeasurement(("a",), [70.0, 60.0, 0.0, 0.0], [1.0, 1.0, 1e5, 1e5])
    with pytest.warns(UserWarning, match="add up to about 130, and the total given"):
        check_counts(domain, apart, 20)
    with pytest.warns(UserWarning, match="add up to about 1 record"):
        pj.Estimator(max_steps=5).fit(domain, [pj.LinearMeasurement(("a",), [0.7, 0.1, 0.1, 0.1], 0.01)])
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for _ in range(200):
            noisy = pj.LinearMeasurement(("a",), rng.normal(100, 40, 4), 40.0)
            check_counts(domain, noisy, 400)
        check_counts(domain, apart, 140)
        check_counts(domain, apart, 1000)  # the others may have the rest


def test_a_float_count_of_one_in_every_cell_is_no_share():
    ones = LinearMeasurement(("a",), np.ones(9), stddev=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert estimate_total(Domain({"a": 9}), [ones])[0] == 9
