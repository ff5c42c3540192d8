"""The transpose of a query, against its matrix."""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax import queries
from pgmjax.queries import DenseMatrix, WeightedSum, kronecker, marginal, mean, prefix, ranges
from pgmjax.queries.sums import transposed

DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 2})
QUERIES = [
    marginal(("c", "a")),
    kronecker({"b": prefix(), "a": ranges([(0, 1), (1, 2)])}),
    kronecker({"b": mean([-2.0, 0.5, 1.0, 3.0])}),
    WeightedSum([(1, kronecker({"a": prefix()})), (-2, marginal(("a",)))]),
    WeightedSum(
        [
            (2, kronecker({"a": queries.identity(), "b": queries.total()})),
            (-1, kronecker({"b": queries.point(1), "a": queries.identity()})),
        ]
    ),
    DenseMatrix(("a", "c"), np.random.default_rng(0).normal(size=(5, 6))),
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: type(query).__name__)
def test_equals_the_matrix_turned(query):
    weights = np.random.default_rng(1).normal(size=query.num_rows(DOMAIN))
    found = transposed(query, DOMAIN, weights)
    assert found.shape == DOMAIN.shape_of(query.clique) and found.dtype == np.float64
    np.testing.assert_allclose(found.ravel(), query.matrix(DOMAIN).T.astype(float) @ weights, atol=1e-13)
