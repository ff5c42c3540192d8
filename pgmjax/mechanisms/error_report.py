"""What error a strategy's answers will have, under the noise that a run would really draw."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.queries import Query
from pgmjax.queries.workload import Workload
from pgmjax.strategies import Strategy


@dataclasses.dataclass(frozen=True)
class EntryError:
    """The expected error of one entry of a workload.

    Attributes:
        clique: its attributes.
        queries: the number of its answers.
        squared_error: expected, of all its answers together (counts squared).
    """

    clique: Clique
    queries: int
    squared_error: float

    @property
    def root_mean_square(self) -> float:
        """The expected root mean squared error of one answer (counts)."""
        return float(np.sqrt(self.squared_error / self.queries))


@dataclasses.dataclass(frozen=True)
class ErrorReport:
    """Expected errors of all entries, for answers by least squares.

    Attributes:
        strategy: what would be measured.
        measured: the number of noisy answers.
        entries: one an entry of the workload.
    """

    strategy: str
    measured: int
    entries: tuple[EntryError, ...]

    @classmethod
    def of(
        cls,
        strategy: Strategy,
        workload: Workload,
        domain: Domain,
        relation: Relation,
        unit: str,
        shares: Sequence[Fraction],
        max_weight: int | None = None,
    ) -> ErrorReport:
        """Return the report of a strategy whose queries cost these parts of a budget, in its unit."""
        variances = [
            _variance(query, domain, relation, unit, share, max_weight)
            for query, share in zip(strategy.queries, shares, strict=True)
        ]
        errors = strategy.errors(variances)
        entries = [
            EntryError(entry.clique, entry.query.num_rows(domain), float(error))
            for entry, error in zip(workload.entries, errors, strict=True)
        ]
        measured = sum(query.num_rows(domain) for query in strategy.queries)
        return cls(strategy.name, measured, tuple(entries))

    @property
    def squared_error(self) -> float:
        """Expected squared error of all answers together (counts squared)."""
        return float(sum(entry.squared_error for entry in self.entries))

    @property
    def root_mean_square(self) -> float:
        """Expected root mean squared error of one answer (counts)."""
        return float(np.sqrt(self.squared_error / sum(entry.queries for entry in self.entries)))

    def __str__(self) -> str:
        lines = [f"strategy {self.strategy}: {self.measured:,} noisy answers", "rms error  queries  on"]
        for entry in self.entries:
            lines.append(f"{entry.root_mean_square:9.4g}  {entry.queries:7,}  {', '.join(entry.clique)}")
        queries = sum(entry.queries for entry in self.entries)
        return "\n".join([*lines, f"{self.root_mean_square:9.4g}  {queries:7,}  all"])


def _variance(
    query: Query, domain: Domain, relation: Relation, unit: str, share: Fraction, max_weight: int | None
) -> float:
    if unit == "epsilon":
        distance = query.l1_sensitivity(relation, domain, max_weight) or 1  # as the noise takes it
        return DiscreteLaplace(float(Fraction(distance) / share)).variance
    squared = query.l2_sensitivity_squared(relation, domain, max_weight) or 1
    return DiscreteGaussian(float(np.sqrt(float(Fraction(squared) / (2 * share))))).variance
