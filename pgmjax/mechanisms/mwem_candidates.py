"""What MWEM chooses from: whole marginals, or single queries of the workload."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.counting import check_memory
from pgmjax.data.domain import Domain
from pgmjax.mechanisms.noise_sizes import whole_weights
from pgmjax.privacy.scores import Distances, Errors, Score, Stack
from pgmjax.queries import Query, marginal
from pgmjax.queries.rows import row
from pgmjax.queries.workload import Workload

_TABLES = 4  # of each candidate at once: exact counts, estimates, both on the grid
_MOST = 2.0**44  # counts: estimates and offsets stay within the scores' grid


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Queries with weights, to choose one of them or one of their rows.

    Attributes:
        domain: the attributes.
        queries: the queries, one a candidate where `whole`, otherwise a candidate a row.
        weights: what their errors are multiplied by, whole numbers.
        whole: whether all rows of a query are chosen and measured together.
    """

    domain: Domain
    queries: tuple[Query, ...]
    weights: tuple[int, ...]
    whole: bool

    @classmethod
    def of(cls, domain: Domain, workload: Workload, select: str) -> Candidates:
        """Return the marginals of a workload's cliques ("marginals") or its own queries ("queries").

        A marginal has the sum of the weights of the workload's entries on its clique.
        """
        if select == "queries":
            whole = whole_weights([entry.weight for entry in workload.entries])
            return cls(domain, tuple(entry.query for entry in workload.entries), tuple(whole), False)
        weights = [
            sum((e.weight for e in workload.entries if set(e.clique) == set(clique)), Fraction(0))
            for clique in workload.cliques
        ]
        marginals = tuple(marginal(clique) for clique in workload.cliques)
        return cls(domain, marginals, tuple(whole_weights(weights)), True)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The clique of each query."""
        return tuple(query.clique for query in self.queries)

    def keep(self, kept: Sequence[int]) -> Candidates:
        """Return some of the candidates, by their place."""
        return dataclasses.replace(
            self,
            queries=tuple(self.queries[i] for i in kept),
            weights=tuple(self.weights[i] for i in kept),
        )

    def score(self, answers: Sequence[np.ndarray], offsets: Sequence[float]) -> Score:
        """Return the score: by how much each candidate is wrong.

        Args:
            answers: the estimate's answers to each query [rows], public (counts).
            offsets: what the error of each whole query is lessened by (counts).
        """
        estimates = [np.clip(answer, -_MOST, _MOST) for answer in answers]
        if not self.whole:
            parts = zip(self.queries, estimates, self.weights, strict=True)
            return Stack([Errors(*part) for part in parts])
        bounded = [min(offset, _MOST) for offset in offsets]
        return Distances(zip(self.queries, estimates, self.weights, bounded, strict=True))

    def check(self) -> None:
        """Refuse what cannot be scored, before any budget is spent.

        Raises:
            ValueError: a query that is not integral, or has entries that are too large; tables that, with
                the estimates beside them, do not fit in memory.
        """
        check_memory(self.domain, [query.clique for query in self.queries] * _TABLES)
        self.blank().check(self.domain)

    def blank(self) -> Score:
        """Return a score of the sensitivity that theirs has, which looks at no estimate."""
        return self.score(
            [np.zeros(q.num_rows(self.domain)) for q in self.queries], [0.0] * len(self.queries)
        )

    def chosen(self, score: Score, number: int) -> Query:
        """Return the query to measure, from the number that the selection gave."""
        if self.whole:
            return self.queries[number]
        assert isinstance(score, Stack)
        place, at = score.locate(self.domain, number)
        return row(self.queries[place], self.domain, at)
