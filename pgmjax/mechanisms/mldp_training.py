"""Measuring and learning in MLDP: the data-independent choice of queries, and the comparison of learners."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.learning import Learner
from pgmjax.learning.encodings import Encoding
from pgmjax.learning.predictor import Part, Predictor
from pgmjax.learning.selection import Validation, best_of
from pgmjax.learning.training_set import (
    RANDOM,
    TrainingSet,
    error_terms,
    group_cliques,
    training_query,
    validation_query,
)
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.queries import Query
from pgmjax.queries.workload import Workload


@dataclasses.dataclass(frozen=True)
class Choice:
    """The choice of training queries: options of `MLDP`.

    Attributes:
        training: a name, or the query itself.
        count: the number of random queries; None balances the two error terms.
        records: public guess of the number of records, for balancing.
        universe: the grouping of attributes for learning.
        seed: the seed of all random choices.
        share: the share of the budget for validation answers; 0 without.
    """

    training: str | Query
    count: int | None
    records: int | None
    universe: str
    seed: int
    share: Fraction

    def describe(self, cliques: Mapping[Clique, Sequence[Clique]]) -> dict[str, Any]:
        """Return the settings that the measurements depend on, for a ledger.

        Args:
            cliques: the cliques that each learner is trained on, by its attributes.
        """
        drawn = isinstance(self.training, str) and self.training in RANDOM
        return {
            "training": self.training if isinstance(self.training, str) else self.training.to_spec(),
            "training_seed": self.seed if isinstance(self.training, str) else None,
            "training_count": self.count if drawn else None,
            "expected_records": self.records if drawn and self.count is None else None,
            "cliques": [[list(each) for each in trained] for trained in cliques.values()],
            "validation_share": as_text(self.share),
        }

    def cliques(
        self, asked: Sequence[Clique], domain: Domain, encoding: Encoding
    ) -> dict[Clique, tuple[Clique, ...]]:
        """Return the cliques that each learner is trained on, by its attributes."""
        if isinstance(self.training, Query):
            self.training.check(domain)
            (clique,) = group_cliques([*asked, self.training.clique], domain, encoding, "joint")
            return {clique: (self.training.clique,)}
        return group_cliques(asked, domain, encoding, self.universe)

    def training_sets(
        self,
        cliques: dict[Clique, tuple[Clique, ...]],
        table: PrivateTable,
        workload: Workload,
        encoding: Encoding,
    ) -> list[TrainingSet]:
        """Return the training set of each learner.

        Raises:
            ValueError: training queries cannot be chosen or encoded, or the number of records is unknown.
        """
        part = (1 - self.share) / sum(map(len, cliques.values()))

        def choose(clique: Clique) -> Query:
            if isinstance(self.training, Query):
                return self.training
            return training_query(
                self.training,
                clique,
                table.domain,
                workload=workload,
                count=self._count(clique, table, part),
                norm="l1" if table.budget.unit == "epsilon" else "l2",
                relation=table.relation,
                seed=self.seed,
            )

        return [
            TrainingSet.of(clique, [choose(each) for each in trained], encoding, table.domain)
            for clique, trained in cliques.items()
        ]

    def _count(self, clique: Clique, table: PrivateTable, part: Fraction) -> int | None:
        """Return the number of random queries, balanced if it is not given."""
        if self.count is not None or self.training not in RANDOM:
            return self.count
        records = table.public_total() if self.records is None else self.records
        if records is None:
            raise ValueError(
                "the number of records is private, and the number of random training queries is balanced by "
                "it: give training_count, or expected_records as a public guess."
            )
        terms = error_terms(
            str(self.training),
            clique,
            table.domain,
            records=max(1, records),
            noise_variance=_variance(table, part),
            seed=self.seed,
        )
        return terms.best


def _variance(table: PrivateTable, part: Fraction) -> Callable[[int], float]:
    """Return an upper bound on the noise variance, given the number of queries that count a record."""
    cost = float(table.budget.cap * part)
    sensitivity = 2 if table.relation is Relation.REPLACE_ONE else 1
    if table.budget.unit == "epsilon":
        return lambda cover: 2 * (sensitivity * table.max_weight * table.max_records * cover / cost) ** 2
    return lambda cover: sensitivity * (table.max_weight * table.max_records) ** 2 * cover / (2 * cost)


def validation_queries(training_sets: Sequence[TrainingSet], domain: Domain) -> list[Query]:
    """Return queries of low sensitivity on each learner's training attributes, for private validation."""
    cliques = dict.fromkeys(query.clique for training_set in training_sets for query in training_set.queries)
    return [validation_query(clique, domain) for clique in cliques]


def train(
    domain: Domain,
    encoding: Encoding,
    training_sets: Sequence[TrainingSet],
    measurements: Sequence[LinearMeasurement],
    learners: Sequence[Learner],
    validations: Sequence[Validation],
    seed: int,
) -> tuple[Predictor, tuple[tuple[str, float], ...]]:
    """Return the trained model of the learner with the least error, and the error of each learner.

    Args:
        domain: the attributes.
        encoding: the encoding of queries.
        training_sets: the training sets.
        measurements: the noisy answers to their queries, in the same order.
        learners: the candidate learners; a single one is used without comparison.
        validations: the answers on which several learners are compared.
        seed: seed of the learners' starts and orders, which does not affect the noise.
    """
    parts, start = [], 0
    for training_set in training_sets:
        parts.append(measurements[start : start + len(training_set.queries)])
        start += len(training_set.queries)
    predictors = []
    for learner in learners:
        fitted = (
            Part.fit(training_set, part, learner, seed)
            for training_set, part in zip(training_sets, parts, strict=True)
        )
        predictors.append(Predictor(domain, encoding, tuple(fitted)))
    if len(predictors) == 1:
        return predictors[0], ()
    best, errors = best_of(predictors, validations)
    return predictors[best], tuple(zip([learner.name for learner in learners], errors, strict=True))
