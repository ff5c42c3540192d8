"""Squared norms of queries under a prior: the kernel's diagonal without the kernel."""

from __future__ import annotations

import numpy as np

from pgmjax.history.kernel import projection
from pgmjax.history.kernel.kernel import kernel, same_domain
from pgmjax.history.kernel.pair_products import chunks
from pgmjax.history.prior import ProductPrior
from pgmjax.history.rows import Group, Rows

_BLOCK = 64
_CHUNK_NUMBERS = 4_000_000


def squared_norms(rows: Rows, prior: ProductPrior | None = None) -> np.ndarray:
    """Return each row's inner product with itself: the mean of its squared entry under the prior.

    Args:
        rows: queries.
        prior: weights of the cells; None is the uniform prior.

    Returns:
        float64 [rows], >= 0.

    Example:
        >>> from pgmjax.data.domain import Domain
        >>> from pgmjax.queries import marginal
        >>> squared_norms(Rows.of(marginal(["age"]), Domain({"age": 4}))).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    prior = same_domain(rows, None, prior)
    result = np.zeros(rows.num_rows)
    groups = np.zeros(rows.num_rows, np.int64)
    for group in rows.groups:
        groups[group.rows] += 1
        result[group.rows] = _single(rows, group, prior) if group.single else _several(rows, group, prior)
    mixed = np.flatnonzero(groups > 1)
    for low in range(0, len(mixed), _BLOCK):
        some = mixed[low : low + _BLOCK]
        result[some] = np.diagonal(kernel(rows.take(some), None, prior))
    return result


def _single(rows: Rows, group: Group, prior: ProductPrior) -> np.ndarray:
    result = rows.coefficients[group.terms] ** 2
    for place in group.attributes:
        squares = rows.vectors[place] ** 2 @ prior.probabilities[place]
        result = result * squares[rows.index[group.terms, place]]
    return result


def _several(rows: Rows, group: Group, prior: ProductPrior) -> np.ndarray:
    """Write the rows out over the attributes they name, a few at a time."""
    weights = projection.weights(group.attributes, prior)
    result = np.empty(len(group.rows))
    for low, high in chunks(group, len(weights), _CHUNK_NUMBERS):
        some = rows.take(group.rows[low:high])
        table = np.zeros((high - low, len(weights)))
        for part in some.groups:  # a row of several groups is done again by the caller
            if part.attributes == group.attributes:
                table[part.rows] = projection.project(some, part, part.attributes, prior)
        result[low:high] = table**2 @ weights
    return result
