"""Rows summed out to the tables of a few attributes, weighted by a prior: equation 15's halves."""

from __future__ import annotations

import math

import numpy as np

from pgmjax.history.prior import ProductPrior
from pgmjax.history.rows import Group, Rows

_MANY_TERMS = 4
"""From so many terms a row on, a product of matrices for each row beats outer products of all terms."""
_CHUNK_NUMBERS = 4_000_000


def unshared(rows: Rows, group: Group, keep: tuple[int, ...], prior: ProductPrior) -> np.ndarray:
    """Return each term's coefficient times the means of its vectors outside `keep` [terms]."""
    result = rows.coefficients[group.terms].copy()
    for place in group.attributes:
        if place not in keep:
            vectors, index = rows.vectors[place], rows.index[group.terms, place]
            if len(index) < len(vectors):
                result *= vectors[index] @ prior.probabilities[place]
            else:
                result *= (vectors @ prior.probabilities[place])[index]
    return result


def project(rows: Rows, group: Group, keep: tuple[int, ...], prior: ProductPrior) -> np.ndarray:
    """Return the group's rows as functions of some attributes, the others averaged out.

    Args:
        rows: what the group belongs to.
        group: terms of the same attributes.
        keep: places of attributes among the group's.
        prior: weights of the others.

    Returns:
        float64 [rows of the group, cells of `keep`], cells row-major.
    """
    scale = unshared(rows, group, keep, prior)
    if not keep:
        return np.add.reduceat(scale, group.starts)[:, None]
    if group.single or len(group.terms) < _MANY_TERMS * len(group.rows):
        return _outer_products(rows, group, keep, scale)
    return _matrix_products(rows, group, keep, scale)


def _kronecker(rows: Rows, terms: np.ndarray, keep: tuple[int, ...], table: np.ndarray) -> np.ndarray:
    """Multiply [terms, 1] by the terms' vectors of some attributes: [terms, cells]."""
    for place in keep:
        vectors = rows.vectors[place][rows.index[terms, place]]
        table = (table[:, :, None] * vectors[:, None, :]).reshape(len(terms), -1)
    return table


def _outer_products(rows: Rows, group: Group, keep: tuple[int, ...], scale: np.ndarray) -> np.ndarray:
    cells = math.prod(rows.domain.shape[place] for place in keep)
    result = np.empty((len(group.rows), cells))
    at_once = max(1, _CHUNK_NUMBERS // cells)
    ends = np.append(group.starts, len(group.terms))
    low = 0
    while low < len(group.rows):
        high = max(low + 1, int(np.searchsorted(ends, ends[low] + at_once, side="right")) - 1)
        some = slice(ends[low], ends[high])
        table = _kronecker(rows, group.terms[some], keep, scale[some, None])
        result[low:high] = np.add.reduceat(table, ends[low:high] - ends[low], axis=0)
        low = high
    return result


def _matrix_products(rows: Rows, group: Group, keep: tuple[int, ...], scale: np.ndarray) -> np.ndarray:
    """Sum over the terms of a row inside one product of matrices: all attributes but the last, and it."""
    result = np.empty((len(group.rows), math.prod(rows.domain.shape[place] for place in keep)))
    ends = np.append(group.starts, len(group.terms))
    for row in range(len(group.rows)):
        some = slice(ends[row], ends[row + 1])
        left = _kronecker(rows, group.terms[some], keep[:-1], scale[some, None])
        right = rows.vectors[keep[-1]][rows.index[group.terms[some], keep[-1]]]
        result[row] = (left.T @ right).reshape(-1)
    return result


def weights(keep: tuple[int, ...], prior: ProductPrior) -> np.ndarray:
    """Return the prior's probabilities of the cells of some attributes [cells], row-major."""
    table = np.ones(1)
    for place in keep:
        table = np.multiply.outer(table, prior.probabilities[place]).reshape(-1)
    return table
