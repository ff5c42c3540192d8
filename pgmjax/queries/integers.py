"""Exact integer answers of queries, without ever failing because of the counts.

An error raised for large counts would reveal that they are large. So nothing here fails on a table:
answers that could exceed 64 bits are computed as Python integers.

`check_indicators` and `count_records` are for queries whose entries are 0 and 1: each row either counts a
record or does not.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.queries.columns import largest_of
from pgmjax.queries.query import Query
from pgmjax.queries.sums import WeightedSum

LARGEST_ENTRY = 2**30
"""The largest entry of a query that is measured or scored; see `answers`."""

_SAFE = 2**62


def largest_entry(query: Query, domain: Domain) -> int:
    """Return a bound on the magnitude of all entries; for a sum, the bounds of its terms are added."""

    def compute() -> int:
        terms: list[tuple[int | float, Query]] = [(1, query)]
        if isinstance(query, WeightedSum):
            terms = list(zip(query.coefficients, query.products, strict=True))
        entries = [Fraction(one.linf_sensitivity(Relation.ADD_REMOVE, domain)) for _, one in terms]
        return math.ceil(sum(abs(Fraction(c)) * e for (c, _), e in zip(terms, entries, strict=True)))

    return query.remembered("entry", domain, compute)


def check_entries(query: Query, domain: Domain) -> None:
    """Refuse entries beyond `LARGEST_ENTRY`; call it before any budget is spent.

    Raises:
        ValueError: an entry is too large.
    """
    largest = largest_entry(query, domain)
    if largest > LARGEST_ENTRY:
        raise ValueError(
            f"The query on {query.clique} has entries up to {largest:,}, above the limit of "
            f"{LARGEST_ENTRY:,} for queries that are measured: divide its matrix, or quantise it with "
            "fewer bits."
        )


def answers(query: Query, domain: Domain, table: np.ndarray) -> np.ndarray:
    """Return the exact answers of an integral query [rows]: int64 if sure to fit, else Python integers.

    If they may not fit, 64-bit arithmetic gives the answers modulo 2^64, and floats determine the missing
    multiple: with entries up to `LARGEST_ENTRY`, totals below 2^53 and up to 2^27 cells, the floats are off
    by less than 2^57.

    Args:
        query: an integral query that passes `check_entries`.
        domain: the domain of the table.
        table: exact counts, int64 [size of each attribute].
    """
    wrapped = np.asarray(query.apply(table)).reshape(-1)
    if wrapped.dtype != np.int64:
        raise TypeError(f"The query on {query.clique} must answer with integers, got {wrapped.dtype}.")
    # sizes are added up in floats, as their sum in integers may overflow itself
    if float(np.abs(table).sum(dtype=np.float64)) * largest_entry(query, domain) < _SAFE:
        return wrapped
    near = np.asarray(query.apply(table.astype(np.float64)), dtype=np.float64).reshape(-1)
    turns = np.rint((near - wrapped) / 2.0**64)
    whole = [int(part) + (int(turn) << 64) for part, turn in zip(wrapped, turns, strict=True)]
    return np.array(whole, dtype=object)


def times(values: np.ndarray, factor: int) -> np.ndarray:
    """Return integers times a factor, exactly: int64 if sure to fit, else Python integers."""
    if values.dtype == object or largest_of(values) * abs(factor) < _SAFE:
        return values * factor
    return values.astype(object) * factor


def total(values: np.ndarray) -> int:
    """Return the exact sum of integers."""
    if values.dtype == object or float(np.abs(values).sum(dtype=np.float64)) < _SAFE:
        return int(values.sum())
    return int(values.astype(object).sum())


def saturated(values: np.ndarray, limit: int) -> np.ndarray:
    """Return integers as int64, clipped to ``-limit..limit``.

    Clipping never moves two values apart, so sensitivities do not increase.
    """
    return np.clip(values, -limit, limit).astype(np.int64)


def check_indicators(query: Query, domain: Domain) -> None:
    """Refuse a query with entries other than 0 and 1.

    Raises:
        ValueError: the query has other entries. Marginals, prefixes, ranges and subsets are accepted.
    """
    query.check(domain)
    fits = query.is_integral(domain) and query.is_nonnegative(domain)
    if not fits or query.linf_sensitivity(Relation.ADD_REMOVE, domain) > 1:
        raise ValueError(
            f"the query on {query.clique} must count records, with entries 0 and 1 only, such as cells of a "
            "marginal, prefixes or ranges: leave it out."
        )


def check_codes(domain: Domain, records: np.ndarray) -> None:
    """Refuse codes [records, attributes] outside a domain.

    Raises:
        ValueError: wrong number of columns, or a code out of range.
    """
    if records.shape[1:] != (len(domain),):
        raise ValueError(f"records must have shape [records, {len(domain)}], got {records.shape}.")
    if records.size and (records.min() < 0 or (records.max(axis=0) >= np.array(domain.shape)).any()):
        raise ValueError("records must have codes from 0 to the attributes' sizes - 1.")


def count_records(query: Query, domain: Domain, records: np.ndarray) -> np.ndarray:
    """Return how many of the given records each row counts, int64 [rows].

    Args:
        query: all entries 0 or 1.
        domain: the domain.
        records: codes [records, attributes] in the domain's order.
    """
    places = {name: number for number, name in enumerate(domain.attributes)}
    table = np.zeros(domain.shape_of(query.clique), dtype=np.int64)
    np.add.at(table, tuple(records[:, places[name]] for name in query.clique), 1)
    return np.asarray(query.apply(table), dtype=np.int64).reshape(-1)
