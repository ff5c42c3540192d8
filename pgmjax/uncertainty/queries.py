"""Validated queries and measurements, and query rows as tables over their cliques."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Clique, Domain
from pgmjax.estimation.constraints import Constraint, StructuralZeros
from pgmjax.estimation.problem import support
from pgmjax.measurements.linear import LinearMeasurement, over_domain
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries import Query
from pgmjax.queries import text as query_text
from pgmjax.queries.sums import transposed


def queries_of(domain: Domain, queries: Any) -> tuple[Query, ...]:
    """Return queries, checked; see `queries.text.asked`.

    Raises:
        TypeError: a single query instead of a list, or something that is no query.
        ValueError: no query, or one that does not fit the domain.
    """
    found = []
    then = "give a list: a lone one is [('age', 'sex')], and of one attribute [('age',)]"
    names = isinstance(queries, tuple | list) and len(queries) > 0
    if names and all(checks.same_word(each, domain) for each in queries):
        raise TypeError(f"queries must be a list of queries or cliques: write [{tuple(queries)!r}].")
    for each in checks.several("queries", queries, "queries, conditions or cliques", then):
        found.append(query_text.asked(domain, each, "Each query"))
    if not found:
        raise ValueError("at least one query is needed, got none.")
    return tuple(found)


def measurements_of(domain: Domain, measurements: Any) -> tuple[LinearMeasurement, ...]:
    """Return measurements, checked.

    Raises:
        TypeError: a single measurement instead of a list, or something else.
        ValueError: no measurement, or one that does not fit the domain.
    """
    try:
        found = over_domain(domain, measurements)
    except ValueError as error:
        raise ValueError(f"The measurements must be those that the model was fitted to: {error}") from None
    if not found:
        raise ValueError("the measurements that the model is fitted to are needed, got none.")
    return found


def row_tables(domain: Domain, queries: Sequence[Query]) -> Iterator[tuple[Clique, np.ndarray]]:
    """Yield every row of all queries as its clique and a table over it, one at a time."""
    for query in queries:
        rows = query.num_rows(domain)
        for row in range(rows):
            unit = np.zeros(rows)
            unit[row] = 1.0
            yield query.clique, transposed(query, domain, unit)


def zeros_of(model: GraphicalModel, constraints: Sequence[Constraint] = ()) -> list[StructuralZeros]:
    """Return the impossible cells of a model's potentials and of constraints, one mask per set of attributes.

    Raises:
        ValueError: a constraint that does not fit the domain.
    """
    found: dict[frozenset[str], StructuralZeros] = {}
    of_constraints = [one.zeros(model.domain) for one in constraints]
    for one in (*support(model), *(zeros for zeros in of_constraints if zeros is not None)):
        before = found.setdefault(frozenset(one.clique), one)
        turned = one.allowed.transpose([one.clique.index(name) for name in before.clique])
        found[frozenset(one.clique)] = StructuralZeros(before.clique, before.allowed & turned)
    return list(found.values())
