"""Scores for private selection that are the counts themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy.scores.base import Score, exact_answers
from pgmjax.privacy.sensitivity import Sensitivity, check_measurable
from pgmjax.queries.query import Query


@dataclasses.dataclass(frozen=True)
class Counts(Score):
    """The exact answers themselves: a candidate a row of the query, the largest answer is the best.

    Args:
        query: an integral query.

    Guarantees:
        The sensitivity is exact, how far one answer can move. Scores of a query without negative
        entries are monotone under ADD_REMOVE.
    """

    kind: ClassVar[str] = "counts"
    query: Query

    def __post_init__(self) -> None:
        if not isinstance(self.query, Query):
            raise TypeError(f"a score is about a queries.Query, got {type(self.query).__name__}.")

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The one clique."""
        return (self.query.clique,)

    @property
    def bits(self) -> int:
        """0: the values are the answers."""
        return 0

    def candidates(self, domain: Domain) -> int:
        """Return the number of rows."""
        return self.query.num_rows(domain)

    def is_monotone(self, domain: Domain, relation: Relation) -> bool:
        """Return whether records come and go, and each raises answers only."""
        return Relation.parse(relation) is Relation.ADD_REMOVE and self.query.is_nonnegative(domain)

    def to_dict(self) -> dict[str, Any]:
        """Return the query."""
        return {"kind": self.kind, "query": self.query.to_spec()}

    def _check(self, domain: Domain) -> None:
        check_measurable(self.query, domain)

    def _values(self, domain: Domain, tables: Mapping[Clique, np.ndarray]) -> np.ndarray:
        return exact_answers(self.query, domain, tables[self.query.clique])

    def _sensitivity(self, domain: Domain, relation: Relation, max_weight: int | None) -> int:
        return Sensitivity.of(self.query, domain, relation, "linf", max_weight).value
