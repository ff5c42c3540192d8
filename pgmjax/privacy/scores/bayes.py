"""Scores of a Bayesian network's next edge set: how informative some parents are about a child.

Each candidate is a query that counts parents' values against a child's, the child last. Scores are functions
of the distribution p of n records, n public, and are multiplied by n, so that a grid of counts suits all of
them. Neighbours differ in the values of one record.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Clique, Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy.scores.base import Score, exact_answers, members, unique
from pgmjax.privacy.sensitivity import check_measurable
from pgmjax.queries import Product, integers
from pgmjax.queries.blocks import Identity, Merge

MOST_RECORDS_OF_F = 10_000_000
"""The score F takes time and memory in proportion to the records; beyond this it is refused."""

_BITS = 12
_LOG_ERROR = Fraction(1, 2**50)  # relative error of a logarithm times a count: four units of the last place
_CHANGED_TERMS = (
    12  # terms count * log(count) that one record changes: 2 cells, 2 + 2 margins, before and after
)


@dataclasses.dataclass(frozen=True, init=False)
class ParentScore(Score):
    """Shared base of the three scores: candidates, and the relations they support.

    Args:
        queries: products of `identity` and `compression` blocks: any parents first, the child last.
        records: the public number n of records.

    Raises:
        TypeError: an element is not a query, or the number of records is not an integer.
        ValueError: there is no candidate, another kind of block, or no record.
    """

    queries: tuple[Product, ...]
    records: int

    def __init__(self, queries: Iterable[Product], records: int) -> None:
        parts = members("queries", queries, Product, "a candidate is a product of blocks")
        for part in parts:
            if not all(isinstance(block, Identity | Merge) for block in part.blocks):
                raise ValueError(
                    f"the candidate on {part.clique} must count every record once: use identity and "
                    "compression blocks only."
                )
        checks.set_fields(self, queries=parts, records=checks.integer("records", records, low=1))

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques of the candidates, each once."""
        return unique(query.clique for query in self.queries)

    def candidates(self, domain: Domain) -> int:
        """Return the number of queries."""
        return len(self.queries)

    def to_dict(self) -> dict[str, Any]:
        """Return the queries and the number of records."""
        specs = [query.to_spec() for query in self.queries]
        return {"kind": self.kind, "records": self.records, "queries": specs}

    def _check(self, domain: Domain) -> None:
        for query in self.queries:
            check_measurable(query, domain)

    def _values(self, domain: Domain, tables: Mapping[Clique, np.ndarray]) -> np.ndarray:
        values = np.empty(len(self.queries), dtype=object)
        for place, query in enumerate(self.queries):
            counts = exact_answers(query, domain, tables[query.clique])
            values[place] = self._value(counts.astype(np.int64).reshape(-1, query.shape(domain)[-1]))
        return values

    def _sensitivity(self, domain: Domain, relation: Relation, max_weight: int | None) -> int:
        if relation is not Relation.REPLACE_ONE or max_weight is not None:
            raise ValueError(
                f"the {self.kind} score divides by the number of records, which must be public: it works "
                "under replace-one, without weights."
            )
        return max(self._move(*_sides(query, domain)) for query in self.queries)

    @abc.abstractmethod
    def _value(self, counts: np.ndarray) -> int:
        """The value of one candidate from its counts [parents' cells, child's]."""

    @abc.abstractmethod
    def _move(self, parents: int, child: int) -> int:
        """Return a bound on the change of a value, for the sizes of parents and child."""


@dataclasses.dataclass(frozen=True, init=False)
class MutualInformation(ParentScore):
    """The score I: n times the mutual information of parents and child, in bits.

    n I is a sum of terms +-c log2(c) of counts c. Each term is rounded to the grid separately, and replacing
    a record changes 12 of them; the rounding and floating-point errors of these are added to the sensitivity
    of n I, which is log2(n) + (n-1) log2(n/(n-1)) if the parents or the child have two values, otherwise
    2 log2((n+1)/2) + (n-1) log2((n+1)/(n-1)).

    References:
        Zhang et al. 2017, "PrivBayes", Lemma 4.1.

    Example:
        >>> from pgmjax.queries import marginal
        >>> score = MutualInformation([marginal(["a", "b"])], records=8)
        >>> score.values(Domain({"a": 2, "b": 2}), {("a", "b"): np.array([[4, 0], [0, 4]])}) / 2**score.bits
        array([8.])
    """

    kind: ClassVar[str] = "mutual-information"

    @property
    def bits(self) -> int:
        """12; fewer for large tables, beyond about 10^9 records."""
        return max(0, min(_BITS, 49 - math.ceil(math.log2(self._largest_term() + 1))))

    def _largest_term(self) -> float:
        return self.records * math.log2(self.records)

    def _value(self, counts: np.ndarray) -> int:
        margins = self._terms(counts.sum(axis=0)) + self._terms(counts.sum(axis=1))
        return self._terms(counts) - margins + self._terms(np.array([self.records]))

    def _terms(self, counts: np.ndarray) -> int:
        """Return the sum of c log2(c), every term rounded to the grid."""
        terms = counts * np.log2(np.maximum(counts, 1))
        # each term by itself, so that one record moves the rounding of 12 terms only
        return int(np.rint(np.ldexp(terms, self.bits)).astype(np.int64).sum())

    def _move(self, parents: int, child: int) -> int:
        n = self.records
        if n < 2:
            return 0
        if min(parents, child) <= 2:
            real = math.log2(n) + (n - 1) * math.log1p(1 / (n - 1)) / math.log(2)
        else:
            real = 2 * math.log2((n + 1) / 2) + (n - 1) * math.log1p(2 / (n - 1)) / math.log(2)
        floats = Fraction(self._largest_term()) * 2**self.bits * _LOG_ERROR
        # the formula itself is computed in floats: its digits are off by far less than 2^-40 of it
        whole = Fraction(real) * 2**self.bits * (1 + Fraction(1, 2**40))
        return math.ceil(whole + _CHANGED_TERMS * (Fraction(1, 2) + floats))


@dataclasses.dataclass(frozen=True, init=False)
class BinaryF(ParentScore):
    """The score F for a binary child: minus the distance from the nearest deterministic dependence.

    n F = -min over assignments of each parents' cell to one of the child's values of
    (n/2 - K0)+ + (n/2 - K1)+, where K0 and K1 are the counts of the child's value in the cells assigned
    to it. Values are 2 n F, exact integers; n F has sensitivity 1.

    References:
        Zhang et al. 2017, "PrivBayes", section 4.3 and Theorem 4.5.

    Example:
        >>> from pgmjax.queries import marginal
        >>> score = BinaryF([marginal(["a", "b"])], records=8)
        >>> score.values(Domain({"a": 2, "b": 2}), {("a", "b"): np.array([[2, 2], [2, 2]])}) / 2**score.bits
        array([-4.])
    """

    kind: ClassVar[str] = "binary-f"

    @property
    def bits(self) -> int:
        """1: values are twice n F."""
        return 1

    def _check(self, domain: Domain) -> None:
        super()._check(domain)
        for query in self.queries:
            if _sides(query, domain)[1] != 2:
                raise ValueError(
                    f"the score binary-f is for children of two values, and {query.clique[-1]!r} has "
                    f"{_sides(query, domain)[1]}: use total-variation or mutual-information."
                )
        if self.records > MOST_RECORDS_OF_F:
            raise ValueError(
                f"the score binary-f takes up to {MOST_RECORDS_OF_F:,} records, got {self.records:,}: use "
                "total-variation."
            )

    def _value(self, counts: np.ndarray) -> int:
        half = (self.records + 1) // 2  # more than half of the records in K0 or K1 is as good as half
        # not reached: far below any count, and far from overflow when counts are added
        best = np.full(half + 1, -(2**60), dtype=np.int64)  # the largest K1 for each K0
        best[0] = 0
        for zero, one in counts.tolist():
            shift = min(zero, half)
            moved = np.full_like(best, -(2**60))
            moved[shift:] = best[: half + 1 - shift]
            # all that go beyond half land on it
            moved[half] = best[half - shift :].max()
            best = np.maximum(best + one, moved)
        lacking = np.maximum(self.records - 2 * np.arange(half + 1), 0)
        return -int((lacking + np.maximum(self.records - 2 * best, 0)).min())

    def _move(self, parents: int, child: int) -> int:
        return 2


@dataclasses.dataclass(frozen=True, init=False)
class TotalVariation(ParentScore):
    """The score R: n times the total variation distance of p(parents, child) from p(parents) p(child).

    n R = sum |n c - (parents' margin) (child's margin)| / (2 n), an exact fraction that is rounded down to
    the grid; n R has sensitivity at most 3 + 2/n, and rounding adds one unit.

    References:
        Zhang et al. 2017, "PrivBayes", section 5.3.

    Example:
        >>> from pgmjax.queries import marginal
        >>> score = TotalVariation([marginal(["a", "b"])], records=8)
        >>> score.values(Domain({"a": 2, "b": 2}), {("a", "b"): np.array([[4, 0], [0, 4]])}) / 2**score.bits
        array([4.])
    """

    kind: ClassVar[str] = "total-variation"

    @property
    def bits(self) -> int:
        """12."""
        return _BITS

    def _value(self, counts: np.ndarray) -> int:
        exact = counts if self.records < 2**31 else counts.astype(object)  # squares must fit 64 bits
        product = np.multiply.outer(exact.sum(axis=1), exact.sum(axis=0))
        return (integers.total(abs(self.records * exact - product)) << _BITS) // (2 * self.records)

    def _move(self, parents: int, child: int) -> int:
        return math.ceil((3 + Fraction(2, self.records)) * 2**_BITS) + 1


def _sides(query: Product, domain: Domain) -> tuple[int, int]:
    """The number of values of the parents together and of the child."""
    *parents, child = query.shape(domain)
    return math.prod(parents), child
