"""Residuals of measurements: merging, precision, refusal of what float32 cannot hold.

The gradient's Lipschitz constant against the largest entry of the Hessian, by brute force.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.estimation import losses
from pgmjax.estimation.losses import linear
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.queries import DenseMatrix
from pgmjax.queries.spec import as_query

DOMAIN = Domain({"a": 3, "b": 2})


def test_measurements_of_one_query_on_one_clique_are_answered_once():
    rng = np.random.default_rng(0)
    repeated = [LinearMeasurement(("a", "b"), rng.random((3, 2)), 1.0) for _ in range(3)]
    turned = LinearMeasurement(("b", "a"), rng.random((2, 3)), rng.random((2, 3)) + 1)
    other = LinearMeasurement(("b", "a"), rng.random((2, 3)), 2.0, {"a": "prefix"})
    linear = losses.build("l1", DOMAIN, [*repeated, turned, other], 10.0)
    assert linear.layout.shapes == ((3, 2),) and len(linear.layout.asked) == 2 and linear.layout.rows == 30
    assert linear.values.shape == (6,) and [v.shape for v in linear.asked_values] == [(3, 3, 2), (1, 3, 2)]
    assert [w.shape for w in linear.asked_weights] == [(3, 3, 2), (1, 1, 1)]
    np.testing.assert_allclose(linear.asked_values[0][2], turned.values.T / 10, rtol=1e-7)


def test_repeated_cells_merge_into_their_weighted_mean_under_l2():
    rng = np.random.default_rng(3)
    several = [LinearMeasurement(("a", "b"), rng.random((3, 2)), s) for s in (1.0, 2.0)]
    bound = losses.build("l2", DOMAIN, several, 1.0, "float64")
    assert not bound.layout.asked
    expected = (4 * several[0].values + several[1].values) / 5
    np.testing.assert_allclose(bound.values.reshape(3, 2), expected, rtol=1e-12)
    table = rng.dirichlet(np.ones(6)).reshape(3, 2)
    with jax.enable_x64(True):
        np.testing.assert_allclose(bound((table,)), bound.exact([table]), rtol=1e-12)


def test_names_are_not_part_of_the_structure():
    """The same queries over attributes of other names share a compiled program."""
    other = Domain({"x": 3, "y": 2})
    pair = [
        losses.build(
            "l2", domain, [LinearMeasurement((first, second), np.ones((3, 2)), 1.0, {first: "prefix"})], 6.0
        )
        for domain, first, second in ((DOMAIN, "a", "b"), (other, "x", "y"))
    ]
    assert len({jax.tree_util.tree_structure(bound) for bound in pair}) == 1


def test_padding_does_not_count():
    rng = np.random.default_rng(4)
    bound = losses.build("l1", DOMAIN, [LinearMeasurement(("a",), rng.random(3), 1.0)], 2.0)
    table = rng.dirichlet(np.ones(3)).astype(np.float32)
    longer = bound.padded(8)
    np.testing.assert_allclose(longer.flat(jnp.asarray([*table, 5, 5, 5, 5, 5])), bound((table,)), rtol=1e-6)
    assert (jax.grad(longer.flat)(jnp.ones(8))[3:] == 0).all()


@pytest.mark.parametrize("name", ["l1", "l2"])
def test_the_order_of_attributes_and_measurements_does_not_matter(name):
    rng = np.random.default_rng(1)
    values, stddevs, matrix = rng.random((3, 2)), rng.random((3, 2)) + 0.5, rng.integers(-2, 3, (4, 3, 2))
    table = rng.dirichlet(np.ones(6)).reshape(3, 2)
    first = [
        LinearMeasurement(("a", "b"), values, stddevs, {"a": "prefix"}),
        LinearMeasurement(("a", "b"), np.arange(4.0), 2.0, matrix.reshape(4, 6)),
        LinearMeasurement(("a",), [1, 2, 3], 1.0),
    ]
    second = [
        LinearMeasurement(("a",), [1, 2, 3], 1.0),
        LinearMeasurement(("b", "a"), np.arange(4.0), 2.0, matrix.transpose(0, 2, 1).reshape(4, 6)),
        LinearMeasurement(("b", "a"), values.T, stddevs.T, {"a": "prefix"}),
    ]
    bounds = [losses.build(name, DOMAIN, each, 5.0) for each in (first, second)]
    assert [bound.cliques for bound in bounds] == [(("a", "b"), ("a",)), (("a",), ("b", "a"))]
    tables = [(table, table.sum(1)), (table.sum(1), table.T)]
    exact = [bound.exact(each) for bound, each in zip(bounds, tables, strict=True)]
    np.testing.assert_allclose(*exact, rtol=1e-13)


def test_values_are_divided_by_the_total_in_float64():
    """Counts above 2**24 and their exact differences reach the residual undamaged."""
    values = np.array([2**40 + 1, 2**40 - 3, 2**40 + 7])
    total = float(3 * 2**40)
    bound = losses.build("l2", DOMAIN, [LinearMeasurement(("a",), values, 2.0)], total)
    assert bound.exact([np.full(3, 1 / 3)]) == pytest.approx(0.5 * (1 + 9 + 49) / 4, rel=1e-9)


def test_extreme_scales_stay_finite_in_float32():
    """Total 1e9 with stddev 1e-3: squares of 1e24, gradients included."""
    measurement = LinearMeasurement(("a",), [1e9, -5, 0], 1e-3)
    for name in ("l1", "l2"):
        bound = losses.build(name, DOMAIN, [measurement], 1e9).with_smoothing(1e-3)
        tables = (jnp.array([0.0, 0.0, 1.0]),)
        value, gradient = jax.value_and_grad(bound.__call__)(tables)
        assert np.isfinite(value) and np.isfinite(gradient[0]).all()
        np.testing.assert_allclose(value, bound.exact([np.array([0.0, 0.0, 1.0])]), rtol=1e-5)


@pytest.mark.parametrize(
    ("values", "stddev", "total"),
    [([1.0, 2, 3], 1.0, 1e30), ([1e-8, 2e-8, 0], 1e-18, 1e10), ([1e30, 0, 0], 1e20, 1e-10)],
)
def test_what_float32_cannot_hold_is_refused_and_float64_offered(values, stddev, total):
    measurement = LinearMeasurement(("a",), values, stddev)
    with pytest.raises(ValueError, match=r"measurement on \('a',\) could reach 1e.*dtype='float64' or check"):
        losses.build("l2", DOMAIN, [measurement], total)
    losses.build("l2", DOMAIN, [measurement], total, "float64")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_no_float_can_tell_apart_is_warned_about_and_has_the_noise_that_it_can(dtype):
    point = [np.array([0.5, 0.25, 0.25])]
    fine = losses.build("l2", DOMAIN, [LinearMeasurement(("a",), [1e12, 0, 0], 1.0)], 1e12, dtype)
    with pytest.warns(
        UserWarning, match=r"on \('a',\) are up to 1e\+15 times their noise, more than the 1e\+12"
    ):
        far = losses.build("l2", DOMAIN, [LinearMeasurement(("a",), [1e12, 0, 0], 1e-3)], 1e12, dtype)
    assert far.exact(point) == fine.exact(point)


def test_coefficients_of_which_float64_cannot_hold_the_squares_are_refused():
    query = DenseMatrix(("a",), np.array([[1e160, 1.0, 1.0]]))
    with pytest.raises(ValueError, match=r"above what float64 holds .*: check that stddev"):
        losses.build("l2", DOMAIN, [LinearMeasurement(("a",), [1.0], 1.0, query)], 10.0, "float64")


def test_a_wrong_number_of_marginals_is_an_error():
    bound = losses.build("l2", DOMAIN, [LinearMeasurement(("a",), [1, 2, 3], 1.0)], 6.0)
    with pytest.raises(ValueError, match="expected 1 marginals, one a clique, got 2"):
        bound([np.ones(3), np.ones(2)])


def test_the_same_counts_in_other_units_give_the_same_loss():
    rng = np.random.default_rng(2)
    values, table = rng.random(3) * 100, rng.dirichlet(np.ones(3))
    losses_of = [
        losses.build("l2", DOMAIN, [LinearMeasurement(("a",), values * c, 3.0 * c)], 150.0 * c).exact([table])
        for c in (1.0, 1000.0)
    ]
    np.testing.assert_allclose(*losses_of, rtol=1e-13)


def test_queries_may_be_negative():
    difference = LinearMeasurement(("b",), [-4.0], 2.0, query=q.matrix([[1, -1]]))
    bound = losses.build("l1", DOMAIN, [difference], 10.0)
    assert bound.exact([np.array([0.5, 0.5])]) == 2.0
    assert bound.exact([np.array([0.3, 0.7])]) == pytest.approx(0.0, abs=1e-15)


TOTAL = 50.0
QUERIES = [
    None,
    {"a": "prefix"},
    {"a": "all_ranges", "b": "total"},
    q.Product({"a": q.matrix([[1, -2, 0], [0, 1, 1]]), "b": q.identity()}),
    q.WeightedSum([(2, q.marginal(("a", "b"))), (-1, q.Product({"a": q.prefix(), "b": q.identity()}))]),
    np.array([[1, -1, 0, 0, 2, 0], [0, 0, 3, 0, 0, 1]]),
]


def hessian(measurements):
    """Second derivative of the L2 loss in the joint probabilities over (a, b)."""
    result = np.zeros((6, 6))
    for m in measurements:
        weighted = m.query.matrix(DOMAIN) * (TOTAL / m.row_stddevs())[:, None]
        result += weighted.T @ weighted
    return result


def measurement(query, rng, each):
    query = as_query(("a", "b"), query)
    rows = query.num_rows(DOMAIN)
    return LinearMeasurement(("a", "b"), rng.random(rows), rng.random(rows) + 0.5 if each else 2.0, query)


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("query", QUERIES)
def test_exact_for_one_measurement(query, each):
    only = measurement(query, np.random.default_rng(0), each)
    constant = losses.build("l2", DOMAIN, [only], TOTAL).lipschitz()
    np.testing.assert_allclose(constant, np.abs(hessian([only])).max(), rtol=1e-12)


@given(
    st.lists(st.tuples(st.integers(0, len(QUERIES) - 1), st.booleans()), min_size=1, max_size=4),
    st.integers(0, 9),
)
@settings(max_examples=30, deadline=None)
def test_upper_bound_for_several(chosen, seed):
    rng = np.random.default_rng(seed)
    several = [measurement(QUERIES[index], rng, each) for index, each in chosen]
    constant = losses.build("l2", DOMAIN, several, TOTAL).lipschitz()
    assert np.abs(hessian(several)).max() <= constant * (1 + 1e-12)


def test_the_smoothed_l1_constant_is_that_over_the_smoothing():
    only = [measurement(None, np.random.default_rng(0), False)]
    squared = losses.build("l2", DOMAIN, only, TOTAL).lipschitz()
    assert losses.build(losses.L1(0.25), DOMAIN, only, TOTAL).lipschitz() == pytest.approx(squared / 0.25)


@pytest.mark.parametrize("query", QUERIES)
def test_where_explicit_blocks_are_too_large_it_is_a_bound(query, monkeypatch):
    query = as_query(("a", "b"), query)
    weights = np.random.default_rng(1).random(query.num_rows(DOMAIN)) + 0.5
    exact = linear.curvatures(query, DOMAIN, weights[None])
    monkeypatch.setattr(linear, "_MAX_ENTRIES", 0)
    assert linear.curvatures(query, DOMAIN, weights[None]) >= exact * (1 - 1e-12)


@pytest.mark.parametrize("loss", ["l1", "l2"])
@pytest.mark.parametrize("twice", [False, True])
def test_rows_of_a_batch_are_bound_as_each_alone(loss, twice):
    rng = np.random.default_rng(5)

    def row(scale):
        found = [
            LinearMeasurement(("b", "a"), 9 * rng.random((2, 3)), scale + rng.random((2, 3))),
            LinearMeasurement(("b", "a"), 9 * rng.random((2, 3)), 2.0, {"a": "prefix"}),
            LinearMeasurement(("b",), 9 * rng.random(2), scale),
        ]
        return [*found, LinearMeasurement(("b",), 9 * rng.random(2), 3.0)] if twice else found

    rows, totals = [row(scale) for scale in (1.0, 4.0, 0.5)], [10.0, 20.0, 15.0]
    bounds = losses.setting(loss).bind_rows(DOMAIN, rows, totals, "float32")
    for one, total, bound in zip(rows, totals, bounds, strict=True):
        alone = losses.build(loss, DOMAIN, one, total)
        assert jax.tree.structure(alone) == jax.tree.structure(bound)
        for expected, found in zip(jax.tree.leaves(alone), jax.tree.leaves(bound), strict=True):
            np.testing.assert_array_equal(found, expected)
        marginals = [np.full(DOMAIN.shape_of(c), 1 / DOMAIN.size(c)) for c in alone.cliques]
        assert bound.exact(marginals) == alone.exact(marginals)
        assert bound.lipschitz() == pytest.approx(alone.lipschitz(), rel=1e-12)


def test_a_row_of_a_batch_out_of_range_is_refused_as_alone():
    fine = LinearMeasurement(("b",), [3.0, 4.0], 1.0)
    with pytest.raises(ValueError, match=r"the loss of the measurement on \('b',\) could reach 1e"):
        losses.setting("l2").bind_rows(DOMAIN, [[fine], [fine]], [10.0, 1e30], "float32")


def test_rows_of_the_residuals_are_what_they_change_by_with_each_cell():
    rng = np.random.default_rng(8)
    noisy = [
        LinearMeasurement(("b",), rng.random(2), 1.0),
        LinearMeasurement(("a", "b"), rng.random((3, 2)), rng.random((3, 2)) + 1, {"a": "prefix"}),
        LinearMeasurement(("a", "b"), rng.random((3, 2)), 2.0, {"a": "prefix"}),
        LinearMeasurement(("a",), rng.random(2), 1.5, DenseMatrix(("a",), rng.normal(size=(2, 3)))),
    ]
    loss = losses.build("l2", DOMAIN, noisy, 7.0, "float64")
    cells = sum(np.prod(shape) for shape in loss.shapes)
    point, unit = rng.random(cells), np.eye(cells)
    found = loss.residuals(point)
    rows = [loss.residuals(point + one).values - found.values for one in unit]
    np.testing.assert_allclose(found.rows, np.stack(rows, axis=1), atol=1e-12)
    tables = np.split(point, np.cumsum([np.prod(shape) for shape in loss.shapes])[:-1])
    tables = [table.reshape(shape) for table, shape in zip(tables, loss.shapes, strict=True)]
    own = loss.exact_residuals(tables)
    measured = found.values[np.any(found.rows != 0, axis=1)]
    assert np.sum(own**2) == pytest.approx(np.sum(measured**2), rel=1e-9)
