"""A query's transpose: weights of its rows, spread over the cells that the rows count."""

from __future__ import annotations

import numpy as np

from pgmjax.data.domain import Domain
from pgmjax.queries.block import contract
from pgmjax.queries.blocks import Identity
from pgmjax.queries.dense import DenseMatrix
from pgmjax.queries.query import Query


def transposed(query: Query, domain: Domain, weights: np.ndarray) -> np.ndarray:
    """Apply a query's transpose, factor by factor where it has factors.

    Args:
        query: the query.
        domain: the attributes.
        weights: a number for each row of the query, flat [rows].

    Returns:
        float64 [size of each attribute of the query's clique].

    Example:
        >>> from pgmjax.queries import kronecker, prefix
        >>> transposed(kronecker({"a": prefix()}), Domain({"a": 3}), np.array([1.0, 10.0, 100.0]))
        array([111., 110., 100.])
    """
    shape = domain.shape_of(query.clique)
    if isinstance(query, DenseMatrix):
        return np.asarray(query.entries.array.T @ weights, np.float64).reshape(shape)
    result = np.zeros(shape)
    for coefficient, blocks in query.factors(domain):
        table = weights.reshape(query.shape(domain))
        for axis, name in enumerate(query.clique):
            if blocks[name] != Identity():
                table = contract(blocks[name].matrix(domain[name]).T.astype(float), table, axis, np)
        result += float(coefficient) * table
    return result
