"""0/1 queries: what counts as one, which records they count."""

import numpy as np
import pytest

from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.queries import integers

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
FITTING = [
    q.marginal(["b", "a"]),
    q.Product({"c": q.prefix(), "a": q.identity()}),
    q.Product({"c": q.all_ranges(), "b": q.total()}),
    q.Product({"c": q.subset([0, 2])}),
    q.DenseMatrix(("a", "b"), [[1, 0, 0, 1, 0, 1], [0, 0, 0, 0, 0, 0]]),
]


@pytest.mark.parametrize("query", FITTING)
def test_counted_records_are_those_of_the_matrix(query):
    integers.check_indicators(query, DOMAIN)
    matrix = query.matrix(DOMAIN)
    rng = np.random.default_rng(0)
    shape = DOMAIN.shape_of(query.clique)
    records = np.stack([rng.integers(0, size, 7) for size in DOMAIN.shape], axis=1)
    places = [DOMAIN.attributes.index(name) for name in query.clique]
    cells = np.ravel_multi_index(tuple(records[:, places].T), shape)
    assert np.array_equal(integers.count_records(query, DOMAIN, records), matrix[:, cells].sum(1))


@pytest.mark.parametrize(
    "query",
    [
        q.DenseMatrix(("a",), [[1, -1, 0]]),
        q.DenseMatrix(("a",), [[2, 0, 0]]),
        q.DenseMatrix(("a",), [[0.5, 0, 0]]),
        q.Product({"c": q.mean()}),
    ],
)
def test_other_entries_are_refused(query):
    with pytest.raises(ValueError, match="entries 0 and 1 only"):
        integers.check_indicators(query, DOMAIN)


@pytest.mark.parametrize(
    "records, words",
    [([[0, 0]], r"shape \[records, 3\]"), ([[0, 2, 0]], "codes from 0"), ([[-1, 0, 0]], "codes from 0")],
)
def test_codes_of_no_record(records, words):
    with pytest.raises(ValueError, match=words):
        integers.check_codes(DOMAIN, np.array(records))
