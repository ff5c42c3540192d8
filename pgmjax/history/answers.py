"""Answers to queries from a history, each with the standard deviation of its noise."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.history.rows import Rows
from pgmjax.queries import Query


@dataclasses.dataclass(frozen=True, eq=False)
class Answers:
    """Answers to some queries, one per row.

    Attributes:
        values: the answers (counts) [rows].
        stddevs: standard deviation (counts) of the noise left in every answer [rows]; a bias comes on top
            if alpha is finite or a query is not estimable. None if not requested.
        estimable: whether an unbiased answer exists [rows]; None if that would require a factorisation.
        distances: the norm |q - q'| between the requested query and the query q' whose answer `values`
            estimates without bias [rows]: alpha times it is the bias that alpha assumes. None as above.
    """

    values: np.ndarray
    stddevs: np.ndarray | None
    estimable: np.ndarray | None = None
    distances: np.ndarray | None = None


def rows_of(queries: Any, domain: Domain) -> Rows:
    """Return the requested queries as rows over a domain.

    Args:
        queries: a query, several, or `Rows`.
        domain: domain of the history.

    Raises:
        TypeError: `queries` is none of these.
        ValueError: the queries do not fit the domain.
    """
    if not isinstance(queries, Rows):
        checks.kind(queries, Query | Iterable, "queries must be queries or Rows")
        return Rows.of(queries, domain)
    if queries.domain.sizes != domain.sizes:
        raise ValueError(f"the rows must be over {domain!r}, got rows over {queries.domain!r}.")
    return queries
