"""One row of a query is that row of its matrix."""

import numpy as np
import pytest

from pgmjax import queries
from pgmjax.data.domain import Domain
from pgmjax.queries.rows import row

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
IDENTITY, TOTAL = queries.identity(), queries.total()


@pytest.mark.parametrize(
    "query",
    [
        queries.marginal(("c", "a")),
        queries.Product({"c": queries.prefix(), "b": TOTAL, "a": IDENTITY}),
        queries.Product({"c": queries.all_ranges(), "a": queries.matrix([[1, -2, 0], [0, 0, 0], [1, 1, 1]])}),
        queries.Product({"c": queries.compression([0, 1, 0, 2])}),
        queries.DenseMatrix(("b", "a"), np.arange(12).reshape(2, 6) - 4),
        queries.WeightedSum(
            [
                (2, queries.Product({"a": IDENTITY, "b": TOTAL})),
                (-1, queries.Product({"b": queries.point(1), "a": IDENTITY})),
            ]
        ),
    ],
    ids=lambda query: f"{type(query).__name__}-{'-'.join(query.clique)}",
)
def test_every_row(query):
    matrix = query.matrix(DOMAIN)
    for number, entries in enumerate(matrix):
        one = row(query, DOMAIN, number)
        assert one.num_rows(DOMAIN) == 1 and one.is_integral(DOMAIN)
        assert one.matrix(DOMAIN).tolist() == [entries.tolist()]
        assert type(one) is type(query)


def test_rows_of_products_are_written_in_short():
    query = queries.Product({"c": queries.prefix(), "a": IDENTITY})
    specs = [row(query, DOMAIN, number).to_spec()["queries"] for number in (0, 4, 11)]
    assert specs[0] == {"c": {"subset": [0]}, "a": {"point": 0}}
    assert specs[1] == {"c": {"subset": [0, 1]}, "a": {"point": 1}}
    assert specs[2] == {"c": "total", "a": {"point": 2}}
