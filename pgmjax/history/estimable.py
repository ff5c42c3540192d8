"""Estimability of queries: a bound, over all cells, on the residual of combinations of others.

The norm of the residual, a mean over all cells, is not informative on a large domain: a query that differs in
one cell out of 10^12 has nearly the same norm, yet every record may be in that cell. Here the difference is
expanded in bases of every attribute's vectors, the constant first, in which equal parts of different terms
cancel. The sum of the absolute coefficients bounds its largest entry.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from pgmjax.history.prior import ProductPrior
from pgmjax.history.rows import MAX_JOINT_CELLS, Rows, TermGroup, kronecker

TOLERANCE = 1e-7
"""Largest residual entry of a query that counts as estimable, relative to the query's largest entry."""
_MOST_ATTRIBUTES = 10
_MOST_TARGETS = 64
_RANK = 1e-12


def is_estimable(
    targets: Rows, rows: Rows, weights: np.ndarray, prior: ProductPrior | None = None, constants: object = 0.0
) -> np.ndarray:
    """Return whether each query equals a combination of rows in every cell, bool [targets].

    Args:
        targets: queries.
        rows: over the same domain.
        weights: what each query is compared to, in terms of the rows [targets, rows].
        prior: cells of probability 0 do not count; None for the uniform prior.
        constants: a multiple of the query that counts all records, added to the combination [targets].

    Example:
        >>> from pgmjax.data.domain import Domain
        >>> from pgmjax.queries import Product, marginal, point
        >>> domain = Domain({"a": 3, "b": 2})
        >>> targets, rows = (Rows.of(query, domain) for query in (marginal(["b"]), marginal(["a", "b"])))
        >>> is_estimable(targets, rows, np.array([[1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 0.99]])).tolist()
        [True, False]
    """
    return np.asarray(bounds(targets, rows, weights, prior, constants) <= TOLERANCE * targets.largest())


def bounds(
    targets: Rows, rows: Rows, weights: np.ndarray, prior: ProductPrior | None = None, constants: object = 0.0
) -> np.ndarray:
    """Return upper bounds on the largest entries of residuals [targets]; arguments of `is_estimable`.

    If the products of basis vectors are too many for a table, only equal terms cancel.
    """
    every = targets.concatenated(rows)
    bases = []
    for place, vectors in enumerate(every.vectors):
        possible = slice(None) if prior is None else prior.probabilities[place] > 0
        bases.append(_in_basis(vectors[:, possible]))
    signed = np.concatenate([np.eye(targets.num_rows), -np.asarray(weights, np.float64)], axis=1)
    added = np.broadcast_to(np.asarray(constants, np.float64), (targets.num_rows,))
    result = np.empty(targets.num_rows)
    tables = [_cells(group, bases) for group in every.groups]
    width = max((cells for cells in tables if cells <= MAX_JOINT_CELLS), default=1)
    block = max(1, min(_MOST_TARGETS, MAX_JOINT_CELLS // width))
    for low in range(0, targets.num_rows, block):
        some = slice(low, low + block)
        result[some] = _bounds(every, signed[some], added[some], bases)
    return result


def _in_basis(vectors: np.ndarray) -> np.ndarray:
    """Return vectors [n, size] by the constant and basis vectors of largest entry 1, as [n, 1 + rank]."""
    means = vectors.mean(axis=1, keepdims=True)
    centred = vectors - means
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    moving = lengths[:, 0] > _RANK * np.abs(vectors).max(axis=1, initial=0)
    _, values, basis = np.linalg.svd(centred[moving] / lengths[moving], full_matrices=False)
    basis = basis[values > _RANK * values.max(initial=0)]
    sizes = np.abs(basis).max(axis=1, initial=0)
    return np.concatenate([means, (centred @ basis.T) * sizes], axis=1)


def _cells(group: TermGroup, bases: list[np.ndarray]) -> int:
    return math.prod(bases[place].shape[1] for place in group.attributes)


def _bounds(every: Rows, signed: np.ndarray, added: np.ndarray, bases: list[np.ndarray]) -> np.ndarray:
    parts: dict[tuple[int, ...], np.ndarray] = {(): -added}
    result = np.zeros(len(signed))
    for group in every.groups:
        numbers = group.terms
        coefficients = signed[:, every.owner[numbers]] * every.coefficients[numbers]
        if _cells(group, bases) > MAX_JOINT_CELLS or len(group.attributes) > _MOST_ATTRIBUTES:
            result += _apart(every, group, coefficients)
            continue
        table = _table(every, group, coefficients, bases)
        for varies in itertools.product((False, True), repeat=len(group.attributes)):
            some = tuple(place for place, each in zip(group.attributes, varies, strict=True) if each)
            part = table[(slice(None), *(slice(1, None) if each else 0 for each in varies))]
            parts[some] = parts.get(some, 0.0) + part
    for part in parts.values():
        result += np.abs(part).reshape(len(signed), -1).sum(axis=1)
    return result


def _table(every: Rows, group: TermGroup, coefficients: np.ndarray, bases: list[np.ndarray]) -> np.ndarray:
    """Return the sums of a group's terms over the products of basis vectors [targets, ...]."""
    shape = [bases[place].shape[1] for place in group.attributes]
    result = np.zeros((len(coefficients), math.prod(shape)))
    used = np.flatnonzero(coefficients.any(axis=0))
    chunk = max(1, MAX_JOINT_CELLS // result.shape[1])
    for low in range(0, len(used), chunk):
        some = used[low : low + chunk]
        factors = (bases[place][every.index[group.terms[some], place]] for place in group.attributes)
        result += coefficients[:, some] @ kronecker(np.ones((len(some), 1)), factors)
    return result.reshape(len(coefficients), *shape)


def _apart(every: Rows, group: TermGroup, coefficients: np.ndarray) -> np.ndarray:
    """Return the sums of the largest entries of a group's distinct terms [targets]."""
    distinct, which = np.unique(every.index[group.terms], axis=0, return_inverse=True)
    sums = np.zeros((len(distinct), len(coefficients)))
    np.add.at(sums, which.reshape(-1), coefficients.T)
    largest = np.ones(len(distinct))
    for place in group.attributes:
        largest *= np.abs(every.vectors[place]).max(axis=1)[distinct[:, place]]
    return np.asarray(largest @ np.abs(sums))
