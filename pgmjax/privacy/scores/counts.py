"""Counts as scores for private selection, and a stack of several scores to choose one candidate among all."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Clique, Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy.scores.base import Score, exact_answers, members, unique
from pgmjax.privacy.sensitivity import Sensitivity, check_measurable
from pgmjax.queries import Query, integers


@dataclasses.dataclass(frozen=True)
class Counts(Score):
    """The exact answers themselves: one candidate per row of the query; larger is better.

    Args:
        query: an integral query.

    Guarantees:
        The sensitivity is exact: the largest change of one answer.
    """

    kind: ClassVar[str] = "counts"
    query: Query

    def __post_init__(self) -> None:
        checks.kind(self.query, Query, "a score is about a queries.Query")

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

    def to_dict(self) -> dict[str, Any]:
        """Return the query."""
        return {"kind": self.kind, "query": self.query.to_spec()}

    def _check(self, domain: Domain) -> None:
        check_measurable(self.query, domain)

    def _values(self, domain: Domain, tables: Mapping[Clique, np.ndarray]) -> np.ndarray:
        return exact_answers(self.query, domain, tables[self.query.clique])

    def _sensitivity(self, domain: Domain, relation: Relation, max_weight: int | None) -> int:
        return Sensitivity.of(self.query, domain, relation, "linf", max_weight).value


@dataclasses.dataclass(frozen=True, init=False)
class Stack(Score):
    """The candidates of several scores one after the other, on the finest of their grids.

    Args:
        scores: at least one, such as the `Deviations` of every query of a workload.

    Raises:
        TypeError: no sequence, or something in it that is no score.
        ValueError: none.

    Example:
        >>> from pgmjax.privacy.scores.counts import Counts
        >>> from pgmjax.queries import marginal
        >>> domain = Domain({"sex": 2, "age": 9})
        >>> stack = Stack([Counts(marginal(["sex"])), Counts(marginal(["age"]))])
        >>> stack.candidates(domain), stack.locate(domain, 4)
        (11, (1, 2))
    """

    kind: ClassVar[str] = "stack"
    scores: tuple[Score, ...]

    def __init__(self, scores: Iterable[Score]) -> None:
        checks.set_fields(self, scores=members("scores", scores, Score, "only scores can be stacked"))

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques of all scores, each once."""
        return unique(clique for score in self.scores for clique in score.cliques)

    @property
    def bits(self) -> int:
        """The largest number of bits of the scores."""
        return max(score.bits for score in self.scores)

    def candidates(self, domain: Domain) -> int:
        """Return the number of candidates of all scores."""
        return sum(score.candidates(domain) for score in self.scores)

    def locate(self, domain: Domain, candidate: int) -> tuple[int, int]:
        """Return the index of a candidate's score, and its index among that score's candidates."""
        ends = np.cumsum([score.candidates(domain) for score in self.scores])
        if not 0 <= candidate < ends[-1]:
            raise ValueError(f"candidates are numbered 0..{ends[-1] - 1}, got {candidate}.")
        place = int(np.searchsorted(ends, candidate, side="right"))
        return place, int(candidate) - (int(ends[place - 1]) if place else 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the descriptions of the scores."""
        return {"kind": self.kind, "scores": [score.to_dict() for score in self.scores]}

    def _check(self, domain: Domain) -> None:
        for score in self.scores:
            score.check(domain)

    def _values(self, domain: Domain, tables: Mapping[Clique, np.ndarray]) -> np.ndarray:
        bits = self.bits
        parts = [
            integers.times(score.values(domain, tables), 2 ** (bits - score.bits)) for score in self.scores
        ]
        return np.concatenate(parts)

    def _sensitivity(self, domain: Domain, relation: Relation, max_weight: int | None) -> int:
        return max(
            score.sensitivity(domain, relation, max_weight).value * 2 ** (self.bits - score.bits)
            for score in self.scores
        )
