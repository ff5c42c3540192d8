"""Queries whose entries are 0 and 1: each row says of a record whether it is counted."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.queries.dense import DenseMatrix
from pgmjax.queries.query import Query


def check(query: Query, domain: Domain) -> None:
    """Refuse a query with other entries than 0 and 1.

    Raises:
        ValueError: which query; marginals, prefixes, ranges and subsets are examples of those that fit.
    """
    query.check(domain)
    fits = query.is_integral(domain) and query.is_nonnegative(domain)
    if not fits or query.linf_sensitivity(Relation.ADD_REMOVE, domain) > 1:
        raise ValueError(
            f"the query on {query.clique} must count records, with entries 0 and 1 only, such as cells of a "
            "marginal, prefixes or ranges: leave it out."
        )


def check_codes(domain: Domain, records: np.ndarray) -> None:
    """Refuse codes [records, attributes] that are none of a domain's.

    Raises:
        ValueError: another number of columns, or a code out of range.
    """
    if records.shape[1:] != (len(domain),):
        raise ValueError(f"records must have shape [records, {len(domain)}], got {records.shape}.")
    if records.size and (records.min() < 0 or (records.max(axis=0) >= np.array(domain.shape)).any()):
        raise ValueError("records must have codes from 0 to the attributes' sizes - 1.")


def answers_of(domain: Domain, query: Query, records: np.ndarray) -> np.ndarray:
    """Return how many of some records each row counts, int64 [rows].

    Args:
        domain: the attributes.
        query: all entries 0 or 1.
        records: codes [records, attributes] in the domain's order.
    """
    places = {name: number for number, name in enumerate(domain.attributes)}
    table = np.zeros(domain.shape_of(query.clique), dtype=np.int64)
    np.add.at(table, tuple(records[:, places[name]] for name in query.clique), 1)
    return np.asarray(query.apply(table), dtype=np.int64).reshape(-1)


def sum_of_rows(query: Query, domain: Domain, rows: Iterable[int]) -> np.ndarray:
    """Return for every cell how many of some rows count it, float64 [size of each attribute].

    Args:
        query: all entries 0 or 1.
        domain: the attributes' sizes.
        rows: numbers of rows, of which some may be the same.
    """
    result = np.zeros(domain.shape_of(query.clique))
    shape = query.shape(domain)
    numbers, times = np.unique(np.fromiter(rows, dtype=np.int64), return_counts=True)
    if isinstance(query, DenseMatrix):
        chosen = query.matrix(domain)[numbers]
        return np.asarray((times @ chosen).reshape(result.shape), dtype=np.float64)
    for coefficient, blocks in query.factors(domain):
        matrices = [blocks[name].matrix(domain[name]) for name in query.clique]
        for number, repeats in zip(numbers, times, strict=True):
            places = np.unravel_index(number, shape)
            table: np.ndarray = np.array(float(coefficient) * repeats)
            for matrix, place in zip(matrices, places, strict=True):
                table = np.multiply.outer(table, matrix[place])
            result += table
    return result
