"""How strongly a weighted linear query bends a squared loss: the constants of gradient steps."""

from __future__ import annotations

import numpy as np

from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.queries import DenseMatrix, Product, Query
from pgmjax.queries.block import contract

_MAX_ENTRIES = 4_000_000


def curvature(query: Query, domain: Domain, weights: np.ndarray) -> float:
    """Return at least the largest ``sum_i (Q_ij weights_i)**2`` over the cells j.

    Exact up to rounding for products with small blocks, small matrices and equal weights; otherwise
    the largest weight stands for all.

    Args:
        query: the query Q.
        domain: the sizes.
        weights: one over the standard deviation of each row [rows, in any shape], in whatever unit.
    """
    largest = float(np.max(weights))
    if float(np.min(weights)) < largest:
        columns = _weighted_columns(query, domain, weights**2)
        if columns is not None:
            return float(columns.max())
    return largest**2 * float(query.l2_sensitivity_squared(Relation.ADD_REMOVE, domain))


def _weighted_columns(query: Query, domain: Domain, squares: np.ndarray) -> np.ndarray | None:
    """Return ``sum_i Q_ij**2 squares_i`` for every cell j, or None where it would cost too much."""
    if isinstance(query, Product):
        result = squares.reshape(query.shape(domain))
        for axis, (name, block) in enumerate(zip(query.clique, query.blocks, strict=True)):
            size = domain[name]
            if block.kind == "identity":
                continue
            if block.rows(size) * size > _MAX_ENTRIES:
                return None
            result = contract(block.matrix(size).astype(np.float64).T ** 2, result, axis, np)
        return result
    if isinstance(query, DenseMatrix) or query.num_rows(domain) * domain.size(query.clique) <= _MAX_ENTRIES:
        return (query.matrix(domain).astype(np.float64) ** 2).T @ squares.reshape(-1)
    return None
