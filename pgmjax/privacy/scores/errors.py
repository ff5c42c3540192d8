"""Scores for private selection that compare exact answers with estimates, one by one or all together.

Estimates, weights and offsets are public reals and are first rounded to a dyadic grid; a score is then a
function of integers, and its sensitivity an exact integer. `Overshoots` compares 0/1 queries on some public
records with the table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Clique, Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.scores.base import (
    DEFAULT_BITS,
    LIMIT,
    DyadicWeights,
    Score,
    Target,
    exact_answers,
    grid_bits,
    members,
    on_grid,
    unique,
)
from pgmjax.privacy.sensitivity import check_measurable
from pgmjax.queries import Query, integers
from pgmjax.queries.blocks import FrozenArray


@dataclasses.dataclass(frozen=True, init=False)
class TargetScore(Score):
    """Shared base of the scores that compare exact answers with estimates: the targets and their weights."""

    targets: tuple[Target, ...]
    weights: DyadicWeights

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques of the queries, each once."""
        return unique(target.query.clique for target in self.targets)

    @property
    def bits(self) -> int:
        """Values are `2**bits` times the weighted differences."""
        return self.targets[0].bits + self.weights.bits

    def _check(self, domain: Domain) -> None:
        for target in self.targets:
            target.check(domain)


@dataclasses.dataclass(frozen=True, init=False)
class Deviations(TargetScore):
    """The distance of each answer from its estimate: one candidate per row of the query.

    The score of row i is `weight * |exact answer i - estimate i|`, as in MWEM.

    Args:
        query: an integral query.
        estimate: public estimates of its answers, [rows] or in the shape of the query's answers.
        weight: factor of the errors, > 0; matters next to other scores in a `Stack`.
        bits: estimates are rounded to multiples of `2**-bits`.

    Raises:
        TypeError: `query` is not a query, or a number has the wrong type.
        ValueError: a number is not finite or too large for the grid, or the weight is not positive or
            rounds to zero.

    Guarantees:
        The sensitivity is exact: the weight times the largest change of one answer, which is 1 for counts
        under either relation and 2 under REPLACE_ONE for a query with entries from -1 to 1.

    References:
        Hardt, Ligett and McSherry 2012.

    Example:
        >>> from pgmjax.queries import marginal
        >>> score = Deviations(marginal(["sex"]), [10.5, 4.0])
        >>> score.sensitivity(Domain({"sex": 2}), Relation.REPLACE_ONE).value == 2**score.bits
        True
    """

    kind: ClassVar[str] = "errors"

    def __init__(self, query: Query, estimate: Any, weight: Any = 1, bits: int = DEFAULT_BITS) -> None:
        target = Target.of(query, estimate, grid_bits(bits))
        checks.set_fields(self, targets=(target,), weights=DyadicWeights.of([weight]))

    def candidates(self, domain: Domain) -> int:
        """Return the number of rows."""
        return self.targets[0].query.num_rows(domain)

    def to_dict(self) -> dict[str, Any]:
        """Return the query and the grid."""
        return {
            "kind": self.kind,
            "query": self.targets[0].query.to_spec(),
            "weight": self.weights.texts()[0],
            "bits": self.targets[0].bits,
        }

    def _values(self, domain: Domain, tables: Mapping[Clique, np.ndarray]) -> np.ndarray:
        return integers.times(self.targets[0].errors(domain, tables), self.weights.integers[0])

    def _sensitivity(self, domain: Domain, relation: Relation, max_weight: int | None) -> int:
        return self.targets[0].sensitivity(domain, relation, "linf", max_weight) * self.weights.integers[0]


@dataclasses.dataclass(frozen=True, init=False)
class Distances(TargetScore):
    """The distance of all answers of each query from their estimates: one candidate per query.

    The score of candidate i is `weight_i * (||exact answers - estimate_i||_1 - offset_i)`. With a
    marginal's cells and its expected noise as offset it is the score of AIM and of MWEM over marginals.

    Args:
        candidates: tuples (query, estimate), (query, estimate, weight) or (query, estimate, weight,
            offset); weights default to 1 and offsets to 0. See `Deviations` for the estimates.
        bits: estimates and offsets are rounded to multiples of `2**-bits`, weights to multiples of 2**-12.

    Raises:
        TypeError: a candidate is not such a tuple, or a number has the wrong type.
        ValueError: as for `Deviations`, or there is no candidate.

    Guarantees:
        The sensitivity is the largest weight times L1 sensitivity: for unweighted marginals 1 under
        ADD_REMOVE and 2, not 1, under REPLACE_ONE.

    References:
        McKenna, Mullins, Sheldon and Miklau 2022, Algorithm 2.
    """

    kind: ClassVar[str] = "distances"
    offsets: tuple[int, ...]

    def __init__(self, candidates: Iterable[Any], bits: int = DEFAULT_BITS) -> None:
        parts = [_four(candidate) for candidate in candidates]
        if not parts:
            raise ValueError("a selection needs at least one candidate, got none.")
        bits = grid_bits(bits)
        targets = tuple(Target.of(query, estimate, bits) for query, estimate, _, _ in parts)
        weights = DyadicWeights.of([weight for _, _, weight, _ in parts])
        offsets = tuple(on_grid("an offset", offset, bits) for _, _, _, offset in parts)
        checks.set_fields(self, targets=targets, weights=weights, offsets=offsets)

    def only(self, places: Iterable[int]) -> Distances:
        """Return the score of some of the candidates, in the order given.

        Raises:
            ValueError: there is no candidate.
        """
        chosen = list(places)
        if not chosen:
            raise ValueError("a selection needs at least one candidate, got none.")
        made = object.__new__(Distances)
        weights = DyadicWeights(tuple(self.weights.integers[i] for i in chosen), self.weights.bits)
        offsets = tuple(self.offsets[i] for i in chosen)
        checks.set_fields(
            made, targets=tuple(self.targets[i] for i in chosen), weights=weights, offsets=offsets
        )
        return made

    def candidates(self, domain: Domain) -> int:
        """Return the number of queries."""
        return len(self.targets)

    def to_dict(self) -> dict[str, Any]:
        """Return each candidate's query, weight and offset, and the grid."""
        bits = self.targets[0].bits
        offsets = [as_text(Fraction(offset, 2**bits)) for offset in self.offsets]
        parts = zip(self.targets, self.weights.texts(), offsets, strict=True)
        candidates = [
            {"query": target.query.to_spec(), "weight": weight, "offset": offset}
            for target, weight, offset in parts
        ]
        return {"kind": self.kind, "candidates": candidates, "bits": bits}

    def _values(self, domain: Domain, tables: Mapping[Clique, np.ndarray]) -> np.ndarray:
        return self._values_again(domain, tables, {})

    def _values_again(
        self, domain: Domain, tables: Mapping[Clique, np.ndarray], cache: dict[Any, Any]
    ) -> np.ndarray:
        """Compute each target's distance once: those of the last score are kept for `only` some of them."""
        found = {}
        for target in self.targets:
            # by identity, as to compare is slower; the target is kept with it, so that no other gets its id
            known = cache.get(id(target))
            if known is None or known[0] is not target:
                known = target, integers.total(target.errors(domain, tables))
            found[id(target)] = known
        cache.clear()
        cache.update(found)
        parts = zip(self.targets, self.weights.integers, self.offsets, strict=True)
        values = [weight * (found[id(target)][1] - offset) for target, weight, offset in parts]
        return np.array(values, dtype=object)

    def _sensitivity(self, domain: Domain, relation: Relation, max_weight: int | None) -> int:
        return max(
            weight * target.sensitivity(domain, relation, "l1", max_weight)
            for target, weight in zip(self.targets, self.weights.integers, strict=True)
        )


def _four(candidate: Any) -> tuple[Any, Any, Any, Any]:
    if not isinstance(candidate, tuple | list) or not 2 <= len(candidate) <= 4:
        raise TypeError(
            "a candidate is a tuple (query, estimate), (query, estimate, weight) or (query, estimate, "
            f"weight, offset), got {type(candidate).__name__}."
        )
    return (*candidate, *(1, 0)[len(candidate) - 2 :])  # the default weight and offset


@dataclasses.dataclass(frozen=True, init=False)
class Overshoots(Score):
    """For every row q of 0/1 queries and public records x: the sum over x of (count * q(x) - q(table)).

    There is one candidate for every row of all queries, in order, and then one for the negation 1 - q of
    each in the same order, with the negated value: on a table of `count` records, 1 - q counts
    `count - q(table)`.

    Args:
        queries: at least one, all entries 0 or 1.
        records: codes of the public records, [records, attributes of the domain] in its order.
        count: assumed number of records of the table, public, >= 1.

    Raises:
        TypeError: an element is not a query, or codes or the count are not integers.
        ValueError: there is no query, or no record.

    Guarantees:
        The sensitivity is the number of public records, times the largest weight for a weighted table:
        `count` is a constant, and each term changes by at most one entry of q.

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
        parts = members("queries", queries, Query, "a score is about a queries.Query")
        codes = FrozenArray(records, "the records of a score", dimensions=2)
        if codes.array.dtype != np.int64:
            raise TypeError(f"the records of a score must be integer codes, got {codes.array.dtype}.")
        count = checks.integer("count", count, low=1, high=LIMIT - 1)
        checks.set_fields(self, queries=parts, records=codes, count=count)

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
            integers.check_indicators(query, domain)
        integers.check_codes(domain, self.records.array)

    def _values(self, domain: Domain, tables: Mapping[Clique, np.ndarray]) -> np.ndarray:
        rounds, parts = len(self.records.array), []
        for query in self.queries:
            exact = exact_answers(query, domain, tables[query.clique])
            ours = integers.count_records(query, domain, self.records.array)
            parts.append(integers.times(ours, self.count) - integers.times(exact, rounds))
        values = np.concatenate(parts)
        return np.concatenate([values, -values])

    def _sensitivity(self, domain: Domain, relation: Relation, max_weight: int | None) -> int:
        return len(self.records.array) * (1 if max_weight is None else max_weight)
