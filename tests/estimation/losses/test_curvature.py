"""The gradient's Lipschitz constant against the largest entry of the Hessian, by brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.estimation import losses
from pgmjax.estimation.losses import curvature
from pgmjax.measurements.linear import LinearMeasurement

DOMAIN = Domain({"a": 3, "b": 2})
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
    query = q.as_query(("a", "b"), query)
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
    query = q.as_query(("a", "b"), query)
    weights = np.random.default_rng(1).random(query.num_rows(DOMAIN)) + 0.5
    exact = curvature.curvature(query, DOMAIN, weights)
    monkeypatch.setattr(curvature, "_MAX_ENTRIES", 0)
    assert curvature.curvature(query, DOMAIN, weights) >= exact * (1 - 1e-12)
