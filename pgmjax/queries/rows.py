"""One row of a query, as a query of its own."""

from __future__ import annotations

import numpy as np

from pgmjax import queries
from pgmjax.data.domain import Domain
from pgmjax.queries import AttributeQuery, DenseMatrix, Product, Query, WeightedSum


def row(query: Query, domain: Domain, number: int) -> Query:
    """Return the query that asks one answer of another.

    Args:
        query: what is asked.
        domain: the attributes.
        number: which of its answers, row-major.

    Returns:
        A query of one row, in the form of the given one where that is a product or a sum of products.

    Example:
        >>> row(queries.marginal(["a", "b"]), Domain({"a": 2, "b": 3}), 4).to_spec()["queries"]
        {'a': {'point': 1}, 'b': {'point': 1}}
    """
    if isinstance(query, Product):
        places = np.unravel_index(number, query.shape(domain))
        parts = zip(query.clique, query.blocks, places, strict=True)
        return Product({name: _block_row(block, domain[name], int(i)) for name, block, i in parts})
    if isinstance(query, WeightedSum):
        rows = [row(product, domain, number) for product in query.products]
        terms = zip(query.coefficients, rows, strict=True)
        return WeightedSum([(c, product) for c, product in terms if isinstance(product, Product)])
    return DenseMatrix(query.clique, query.matrix(domain)[number : number + 1])


def _block_row(block: AttributeQuery, size: int, number: int) -> AttributeQuery:
    if isinstance(block, queries.identity):
        return queries.point(number)
    if block.rows(size) == 1:
        return block
    entries = block.matrix(size)[number]
    codes = np.flatnonzero(entries)
    if codes.size == size and np.all(entries == 1):
        return queries.total()
    if codes.size and np.all(entries[codes] == 1):
        return queries.subset(codes.tolist())
    return queries.matrix(entries[None])
