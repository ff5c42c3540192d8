"""How far single answers of a query move when one record changes: what a sharper account needs.

A sensitivity is one number for the whole move. Where every neighbouring change moves the answers by at
most the same few whole numbers, in some order, the noise's privacy loss is known exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.queries import Product, Query

Shifts = tuple[int, ...]

_MAX_ENTRIES = 1_000_000
_MAX_PAIR_ENTRIES = 20_000_000
_MAX_MOVED = 4096


def shifts_of(
    query: Query, domain: Domain, relation: Relation, max_weight: int | None = None
) -> Shifts | None:
    """Return the moves of single answers that bound every neighbouring change, largest first.

    Args:
        query: an integral query.
        domain: the domain of the table.
        relation: which tables are neighbours.
        max_weight: for weighted data the largest weight of a record (public); None without weights.

    Returns:
        Whole numbers >= 1, at most 4096 of them, whose sum is the query's L1 sensitivity and whose
        squares sum to its squared L2 sensitivity; None where no such moves are known: no change is as
        large in every place as any other, or the matrix is too large to look at.

    Guarantees:
        For any neighbours, the absolute moves of the answers, sorted, are at most these, one by one.

    Example:
        >>> from pgmjax.queries import marginal
        >>> domain = Domain({"age": 5, "sex": 2})
        >>> shifts_of(marginal(["age", "sex"]), domain, Relation.REPLACE_ONE)
        (1, 1)
        >>> shifts_of(marginal(["age", "sex"]), domain, Relation.ADD_REMOVE, max_weight=9)
        (9,)
    """
    relation = Relation.parse(relation)
    weight = 1 if max_weight is None else checks.integer("max_weight", max_weight, low=1)
    query.check(domain)
    if not query.is_integral(domain):
        return None
    norms = [
        Fraction(query.l1_sensitivity(relation, domain, max_weight)),
        Fraction(query.l2_sensitivity_squared(relation, domain, max_weight)),
    ]
    column = _largest_column(query, domain)
    if column is not None:
        # |w a - v b| <= max(w, v) max(a, b), entry by entry, where no entry is negative
        twice = relation is Relation.REPLACE_ONE
        if not twice or query.is_nonnegative(domain):
            moves = sorted((weight * move for move in column * (1 + twice)), reverse=True)
            if _norms(moves) == norms:
                return tuple(moves)
    if relation is Relation.REPLACE_ONE and max_weight is None:
        differences = _largest_difference(query, domain)
        if differences is not None and _norms(differences) == norms:
            return differences
    return None


def _norms(moves: Iterable[int]) -> list[Fraction]:
    moves = list(moves)
    return [Fraction(sum(moves)), Fraction(sum(move**2 for move in moves))]


def _largest_column(query: Query, domain: Domain) -> list[int] | None:
    """Return bounds of the absolute entries of every column, sorted; not always those of one column."""
    if not isinstance(query, Product):
        matrix = _small_matrix(query, domain)
        return None if matrix is None else _bounds(matrix)
    columns = []
    for name, block in zip(query.clique, query.blocks, strict=True):
        size = domain[name]
        if block.kind == "identity":
            continue
        if block.rows(size) * size > _MAX_ENTRIES:
            return None
        column = _bounds(block.matrix(size))
        if column is None or not column:
            return None
        columns.append(column)
    if math.prod(len(column) for column in columns) > _MAX_MOVED:
        return None
    result = [1]
    for column in columns:
        result = [a * b for a in result for b in column]
    return result


def _largest_difference(query: Query, domain: Domain) -> Shifts | None:
    matrix = _small_matrix(query, domain)
    if matrix is None:
        return None
    matrix = np.unique(matrix, axis=1)
    rows, columns = matrix.shape
    if rows * columns**2 > _MAX_PAIR_ENTRIES or int(np.abs(matrix).max()) >= 2**61:
        return None
    bound = np.zeros(rows, np.int64)
    for j in range(columns):
        moved = np.sort(np.abs(matrix - matrix[:, j : j + 1]), axis=0)
        bound = np.maximum(bound, moved.max(axis=1))
    return _nonzero(bound)


def _bounds(matrix: np.ndarray) -> list[int] | None:
    """Return, for each rank, the largest of the absolute entries of that rank over all columns."""
    if int(np.abs(matrix).max()) >= 2**61:
        return None
    moves = _nonzero(np.sort(np.abs(matrix), axis=0).max(axis=1))
    return None if moves is None else list(moves)


def _nonzero(bound: np.ndarray) -> Shifts | None:
    moves = tuple(int(move) for move in bound[::-1] if move)
    return moves if 0 < len(moves) <= _MAX_MOVED // 2 else None


def _small_matrix(query: Query, domain: Domain) -> np.ndarray | None:
    if query.num_rows(domain) * domain.size(query.clique) > _MAX_ENTRIES:
        return None
    matrix = query.matrix(domain)
    return matrix if matrix.dtype == np.int64 else None
