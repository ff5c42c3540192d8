"""A single row of a query, as a query."""

from __future__ import annotations

import numpy as np

from pgmjax import queries
from pgmjax.data.attribute import Attribute, named_code
from pgmjax.data.domain import Domain
from pgmjax.queries import DenseMatrix, Product, Query, WeightedSum
from pgmjax.queries.blocks import AttributeQuery, Identity


def row(query: Query, domain: Domain, number: int) -> Query:
    """Return one row of a query as a query.

    Args:
        query: the query.
        domain: the domain.
        number: number of the row, row-major.

    Returns:
        A query of one row; a product or weighted sum if the given query is one.

    Example:
        >>> row(queries.marginal(["a", "b"]), Domain({"a": 2, "b": 3}), 4).to_spec()["queries"]
        {'a': {'point': 1}, 'b': {'point': 1}}
    """
    if isinstance(query, Product):
        places = np.unravel_index(number, query.shape(domain))
        parts = zip(query.clique, query.blocks, places, strict=True)
        return Product({name: _block_row(block, domain.attribute(name), int(i)) for name, block, i in parts})
    if isinstance(query, WeightedSum):
        rows = [row(product, domain, number) for product in query.products]
        terms = zip(query.coefficients, rows, strict=True)
        return WeightedSum([(c, product) for c, product in terms if isinstance(product, Product)])
    return DenseMatrix(query.clique, query.matrix(domain)[number : number + 1])


def _block_row(block: AttributeQuery, attribute: Attribute, number: int) -> AttributeQuery:
    size = attribute.size
    if isinstance(block, Identity):
        return queries.point(named_code(attribute, number))
    if block.rows(size) == 1:
        return block
    entries = block.matrix(size)[number]
    codes = np.flatnonzero(entries)
    if codes.size == size and np.all(entries == 1):
        return queries.total()
    if codes.size and np.all(entries[codes] == 1):
        return queries.subset(named_code(attribute, code) for code in codes.tolist())
    return queries.matrix(entries[None])
