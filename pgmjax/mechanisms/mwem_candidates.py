"""What MWEM chooses from: whole marginals, or single queries of the workload."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from pgmjax.cliques import Clique
from pgmjax.domain import Domain
from pgmjax.laws import DiscreteLaplace, Law
from pgmjax.mechanisms.query_rows import row
from pgmjax.privacy.scores import Distances, Errors, Score, Stack
from pgmjax.queries import Query, marginal
from pgmjax.workload import Workload

_MOST = 2.0**44  # counts: estimates and offsets stay within the scores' grid


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Queries with weights, to choose one of them or one of their rows.

    Attributes:
        domain: the attributes.
        queries: the queries, one a candidate where `whole`, otherwise a candidate a row.
        weights: what their errors are multiplied by.
        whole: whether all rows of a query are chosen and measured together.
    """

    domain: Domain
    queries: tuple[Query, ...]
    weights: tuple[Fraction, ...]
    whole: bool

    @classmethod
    def of(cls, domain: Domain, workload: Workload, select: str) -> Candidates:
        """Return the marginals of a workload's cliques ("marginals") or its own queries ("queries").

        A marginal has the sum of the weights of the workload's entries on its clique.
        """
        if select == "queries":
            entries = workload.entries
            return cls(domain, tuple(e.query for e in entries), tuple(e.weight for e in entries), False)
        weights = [
            sum((e.weight for e in workload.entries if set(e.clique) == set(clique)), Fraction(0))
            for clique in workload.cliques
        ]
        return cls(domain, tuple(marginal(clique) for clique in workload.cliques), tuple(weights), True)

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
            offsets: the error that measuring each whole query is expected to leave, its noise in L1.
        """
        estimates = [np.clip(answer, -_MOST, _MOST) for answer in answers]
        weights = [float(weight) for weight in self.weights]
        if not self.whole:
            return Stack([Errors(*each) for each in zip(self.queries, estimates, weights, strict=True)])
        bounded = [min(offset, _MOST) for offset in offsets]
        return Distances(zip(self.queries, estimates, weights, bounded, strict=True))

    def check(self) -> None:
        """Refuse what cannot be scored, before any budget is spent.

        Raises:
            ValueError: a query that is not integral, or a weight too small for the scores' grid.
        """
        answers = [np.zeros(query.num_rows(self.domain)) for query in self.queries]
        self.score(answers, [0.0] * len(answers)).check(self.domain)

    def chosen(self, score: Score, number: int) -> Query:
        """Return the query to measure, from the number that the selection gave."""
        if self.whole:
            return self.queries[number]
        assert isinstance(score, Stack)
        place, at = score.locate(self.domain, number)
        return row(self.queries[place], self.domain, at)


def expected_size(law: Law) -> float:
    """Return the expected size of noise, E abs(noise) (counts).

    Example:
        >>> from pgmjax.laws import DiscreteGaussian
        >>> round(expected_size(DiscreteLaplace(100.0)), 2), round(expected_size(DiscreteGaussian(100.0)), 2)
        (100.0, 79.79)
    """
    if isinstance(law, DiscreteLaplace):
        return 1 / math.sinh(1 / law.scale) if law.scale > 1e-2 else 0.0
    if law.scale > 100:
        return law.scale * math.sqrt(2 / math.pi)
    values = np.arange(math.ceil(40 * law.scale) + 1)
    return float(2 * values @ law.probabilities(values))
