"""How far some known records together answer 0/1 queries above the table, and below it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy.scores.base import LIMIT, Score, exact_answers, unique
from pgmjax.privacy.sensitivity import check_measurable
from pgmjax.queries import integers
from pgmjax.queries.block import FrozenArray
from pgmjax.queries.query import Query


@dataclasses.dataclass(frozen=True, init=False)
class Overshoots(Score):
    """For every row q of 0/1 queries and public records x: the sum over x of (count * q(x) - q(table)).

    A candidate for every row of all queries, one query after the other, and then one for the negation
    1 - q of each of them in the same order, whose value is the opposite: a table of `count` records
    counts `count - q(table)` of them.

    Args:
        queries: at least one, all entries 0 or 1.
        records: codes of the public records, [records, attributes of the domain] in its order.
        count: how many records a table is taken to have, public, >= 1.

    Raises:
        TypeError: something that is no query, or codes or a count that are no integers.
        ValueError: none, or no record.

    Guarantees:
        The sensitivity is the number of records, times the largest weight where records have weights:
        `count` is a constant, and each of the terms moves by an entry of q at most.

    References:
        Gaboardi, Gallego Arias, Hsu, Roth and Wu 2014, "Dual Query".

    Example:
        >>> from pgmjax.queries import marginal
        >>> score = Overshoots([marginal(["sex"])], [[0], [0], [1]], count=10)
        >>> score.values(Domain({"sex": 2}), {("sex",): np.array([4, 6])}).tolist()
        [8, -8, -8, 8]
    """

    kind: ClassVar[str] = "overshoots"
    queries: tuple[Query, ...]
    records: FrozenArray
    count: int

    def __init__(self, queries: Iterable[Query], records: Any, count: int) -> None:
        parts = checks.several("queries", queries, "queries")
        if not parts:
            raise ValueError("a selection needs at least one query, got none.")
        for part in parts:
            if not isinstance(part, Query):
                raise TypeError(f"a score is about a queries.Query, got {type(part).__name__}.")
        codes = FrozenArray(records, "the records of a score", dimensions=2)
        if codes.array.dtype != np.int64:
            raise TypeError(f"the records of a score must be integer codes, got {codes.array.dtype}.")
        object.__setattr__(self, "queries", parts)
        object.__setattr__(self, "records", codes)
        object.__setattr__(self, "count", checks.integer("count", count, low=1, high=LIMIT - 1))

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques of the queries, each once."""
        return unique(query.clique for query in self.queries)

    @property
    def bits(self) -> int:
        """0: the values are integers."""
        return 0

    def candidates(self, domain: Domain) -> int:
        """Return twice the number of rows."""
        return 2 * sum(query.num_rows(domain) for query in self.queries)

    def to_dict(self) -> dict[str, Any]:
        """Return the queries, the records and the count."""
        return {
            "kind": self.kind,
            "queries": [query.to_spec() for query in self.queries],
            "records": self.records.array.tolist(),
            "count": self.count,
        }

    def _check(self, domain: Domain) -> None:
        for query in self.queries:
            check_measurable(query, domain)
            integers.check(query, domain)
        integers.check_codes(domain, self.records.array)

    def _values(self, domain: Domain, tables: Mapping[Clique, np.ndarray]) -> np.ndarray:
        rounds, parts = len(self.records.array), []
        for query in self.queries:
            exact = exact_answers(query, domain, tables[query.clique])
            ours = integers.answers_of(domain, query, self.records.array)
            parts.append(integers.times(ours, self.count) - integers.times(exact, rounds))
        values = np.concatenate(parts)
        return np.concatenate([values, -values])

    def _sensitivity(self, domain: Domain, relation: Relation, max_weight: int | None) -> int:
        return len(self.records.array) * (1 if max_weight is None else max_weight)
