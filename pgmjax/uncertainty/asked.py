"""What is asked: queries as one list of rows, each a table over its clique."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pgmjax import _checks
from pgmjax.cliques import Clique
from pgmjax.domain import Domain
from pgmjax.measurements import LinearMeasurement
from pgmjax.queries import Query, marginal
from pgmjax.strategies.least_squares import _transposed as transposed

__all__ = ["measurements_of", "queries_of", "row_tables", "transposed"]


def queries_of(domain: Domain, queries: Any) -> tuple[Query, ...]:
    """Return queries, checked; attribute names stand for all cells of their marginal.

    Raises:
        TypeError: a single query instead of a list, or something that is no query.
        ValueError: no query, or one that does not fit the domain.
    """
    if isinstance(queries, Query):
        raise TypeError("queries must be a list, got a single query: write [it].")
    found = []
    for asked in _checks.several("queries", queries, "queries or cliques"):
        if not isinstance(asked, Query):
            if not isinstance(asked, tuple | list):
                raise TypeError(
                    f"queries must hold queries or tuples of attribute names, got {type(asked).__name__}."
                )
            asked = marginal(asked)
        asked.check(domain)
        found.append(asked)
    if not found:
        raise ValueError("error bars need at least one query, got none.")
    return tuple(found)


def measurements_of(domain: Domain, measurements: Any) -> tuple[LinearMeasurement, ...]:
    """Return measurements, checked.

    Raises:
        TypeError: a single measurement instead of a list, or something else.
        ValueError: no measurement, or one that does not fit the domain.
    """
    if isinstance(measurements, LinearMeasurement):
        raise TypeError("measurements must be a list, got a single one: write [it].")
    found = _checks.several("measurements", measurements, "LinearMeasurement")
    for one in found:
        if not isinstance(one, LinearMeasurement):
            raise TypeError(f"measurements must be LinearMeasurement, got {type(one).__name__}.")
        one.validate(domain)
    if not found:
        raise ValueError("error bars need the measurements that the model was fitted to, got none.")
    return found


def row_tables(domain: Domain, queries: Sequence[Query]) -> Iterator[tuple[Clique, np.ndarray]]:
    """Yield every row of all queries as its clique and a table over it, one at a time."""
    for query in queries:
        rows = query.num_rows(domain)
        for row in range(rows):
            unit = np.zeros(rows)
            unit[row] = 1.0
            yield query.clique, transposed(query, domain, unit)
