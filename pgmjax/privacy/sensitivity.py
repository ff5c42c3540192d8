"""Sensitivity: the largest change of an answer between neighbouring tables, computed from the query.

A sensitivity is never entered by hand: `Sensitivity.of` computes it from a query, `Score.sensitivity` from a
score. It records its norm and relation.

A sensitivity is one number for the whole change. `shifts_of` gives the changes of single answers, for tighter
accounting: if every neighbouring change moves the answers by at most the same few integers, in some order,
the privacy loss of the noise is known exactly.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.queries import Product, Query, integers

NORMS = ("l1", "l2_squared", "linf")
RECORDS = "records"
"""The norm of randomised responses: the number of records whose answers change."""

Shifts = tuple[int, ...]

_MAX_ENTRIES = 1_000_000
_MAX_PAIR_ENTRIES = 20_000_000
_MAX_MOVED = 4096


@dataclasses.dataclass(frozen=True)
class Sensitivity:
    """The largest distance of integer answers on neighbouring tables, an exact integer.

    The constructor is for code that has just computed `value`, such as `Score.sensitivity`; other code
    should call `of`.

    Attributes:
        value: the distance; for "l2_squared" the square of the L2 distance.
        norm: "l1", "l2_squared", "linf" (the largest change of a single answer), or "records" (the number
            of records whose responses change).
        relation: the neighbouring relation.

    Raises:
        TypeError: the value is not an integer.
        ValueError: the value is negative, or the norm or relation is unknown.

    Example:
        >>> from pgmjax.queries import marginal
        >>> Sensitivity.of(marginal(["sex"]), Domain({"sex": 2}), Relation.REPLACE_ONE, "l1")
        Sensitivity(value=2, norm='l1', relation=<Relation.REPLACE_ONE: 'replace-one'>)
    """

    value: int
    norm: str
    relation: Relation

    def __post_init__(self) -> None:
        norm = checks.choice("the norm of a sensitivity", self.norm, (*NORMS, RECORDS))
        value = checks.integer("a sensitivity", self.value, low=0)
        checks.set_fields(self, value=value, norm=norm, relation=Relation.parse(self.relation))

    @classmethod
    def of(
        cls, query: Query, domain: Domain, relation: Relation, norm: str, max_weight: int | None = None
    ) -> Sensitivity:
        """Return the sensitivity of a query's answers, never below the exact one.

        Args:
            query: the query; its matrix must be integral.
            domain: the domain of the table.
            relation: the neighbouring relation; required.
            norm: "l1", "l2_squared" or "linf".
            max_weight: for weighted data the largest weight of a record (public); None without weights.

        Raises:
            TypeError: no query.
            ValueError: a query that is not integral or does not fit the domain, an unknown norm.
        """
        checks.kind(query, Query, "a sensitivity is that of a queries.Query")
        norm = checks.choice("the norm of a sensitivity", norm, NORMS)
        asked = (norm, Relation.parse(relation), max_weight)
        return query.remembered(asked, domain, lambda: cls._computed(query, domain, *asked))

    @classmethod
    def _computed(
        cls, query: Query, domain: Domain, norm: str, relation: Relation, max_weight: int | None
    ) -> Sensitivity:
        check_integral(query, domain)
        computed = {
            "l1": query.l1_sensitivity,
            "l2_squared": query.l2_sensitivity_squared,
            "linf": query.linf_sensitivity,
        }[norm](relation, domain, max_weight)
        return cls(math.ceil(Fraction(computed)), norm, relation)

    def of_unit(self, records: int) -> Sensitivity:
        """Return the sensitivity if neighbours differ in as many records instead of one (group privacy).

        Example:
            >>> Sensitivity(2, "l2_squared", Relation.ADD_REMOVE).of_unit(3).value
            18
        """
        factor = records**2 if self.norm == "l2_squared" else records
        return dataclasses.replace(self, value=self.value * factor)


def check_measurable(query: Any, domain: Domain) -> None:
    """Refuse a query that cannot be measured or scored exactly.

    Raises:
        TypeError: the argument is not a query.
        ValueError: as for `check_integral`, or an entry exceeds `queries.integers.LARGEST_ENTRY`.
    """
    checks.kind(
        query,
        Query,
        "A query must be a pgmjax.queries.Query",
        'a marginal is queries.marginal(("age", "sex"))',
    )
    query.remembered("measurable", domain, lambda: _check_measurable(query, domain))


def _check_measurable(query: Query, domain: Domain) -> None:
    check_integral(query, domain)
    integers.check_entries(query, domain)


def check_integral(query: Query, domain: Domain) -> None:
    """Refuse a query that does not fit the domain or whose matrix is not integral.

    Raises:
        ValueError: the query does not fit or is not integral; the message says how to make it integral.
    """
    query.check(domain)
    if not query.is_integral(domain):
        raise ValueError(
            f"the query on {query.clique} is not integral, and everything that touches exact counts is: "
            "round it with queries.quantise(query, domain) and use the result's query; its answers are "
            "2**bits times those asked for."
        )


def shifts_of(
    query: Query, domain: Domain, relation: Relation, max_weight: int | None = None
) -> Shifts | None:
    """Return the changes of single answers that bound every neighbouring change, largest first.

    Args:
        query: an integral query.
        domain: the domain of the table.
        relation: the neighbouring relation.
        max_weight: for weighted data the largest weight of a record (public); None without weights.

    Returns:
        Integers >= 1, at most 4096 of them, whose sum is the query's L1 sensitivity and whose squares sum
        to its squared L2 sensitivity. None if unknown: no single change dominates all others entry by
        entry, or the matrix is too large to examine.

    Guarantees:
        For any neighbours, the sorted absolute changes of the answers are at most these, entry by entry.

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
            shifts = sorted((weight * move for move in column * (1 + twice)), reverse=True)
            # bounds of several columns together may exceed what any record moves, and would be charged for it
            if _norms(shifts) == norms:
                return tuple(shifts)
    if relation is Relation.REPLACE_ONE and max_weight is None:
        differences = _largest_difference(query, domain)
        if differences is not None and _norms(differences) == norms:
            return differences
    return None


def _norms(shifts: Sequence[int]) -> list[Fraction]:
    return [Fraction(sum(shifts)), Fraction(sum(move**2 for move in shifts))]


def _largest_column(query: Query, domain: Domain) -> Shifts | None:
    """Return sorted bounds on the absolute entries of every column; not always attained by one column."""
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
        if not column:
            return None
        columns.append(column)
    if math.prod(len(column) for column in columns) > _MAX_MOVED:
        return None
    result: Shifts = (1,)
    for column in columns:
        result = tuple(a * b for a in result for b in column)
    return result


def _largest_difference(query: Query, domain: Domain) -> Shifts | None:
    matrix = _small_matrix(query, domain)
    if matrix is None:
        return None
    # equal columns differ by nothing, and counting queries have many
    matrix = np.unique(matrix, axis=1)
    rows, columns = matrix.shape
    # below 2^61, so that the difference of two entries fits 64 bits
    if rows * columns**2 > _MAX_PAIR_ENTRIES or int(np.abs(matrix).max()) >= 2**61:
        return None
    bound = np.zeros(rows, np.int64)
    for j in range(columns):
        moved = np.sort(np.abs(matrix - matrix[:, j : j + 1]), axis=0)
        bound = np.maximum(bound, moved.max(axis=1))
    return _nonzero(bound)


def _bounds(matrix: np.ndarray) -> Shifts | None:
    """Return, for each rank, the largest absolute entry of that rank over all columns."""
    if int(np.abs(matrix).max()) >= 2**61:
        return None
    return _nonzero(np.sort(np.abs(matrix), axis=0).max(axis=1))


def _nonzero(bound: np.ndarray) -> Shifts | None:
    shifts = tuple(int(move) for move in bound[::-1] if move)
    return shifts if 0 < len(shifts) <= _MAX_MOVED // 2 else None


def _small_matrix(query: Query, domain: Domain) -> np.ndarray | None:
    if query.num_rows(domain) * domain.size(query.clique) > _MAX_ENTRIES:
        return None
    matrix = query.matrix(domain)
    return matrix if matrix.dtype == np.int64 else None
