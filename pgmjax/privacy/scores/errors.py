"""Scores for private selection that compare exact answers with estimates, one by one or all together.

Estimates, weights and offsets are public reals and put on a dyadic grid first; a score is then a
function of integers, and its sensitivity an exact integer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.scores.base import Score, unique
from pgmjax.privacy.scores.grid import DEFAULT_BITS, Target, Weights, grid_bits, on_grid
from pgmjax.queries import integers
from pgmjax.queries.query import Query


@dataclasses.dataclass(frozen=True, init=False)
class Errors(Score):
    """How far each answer is from its estimate: a candidate a row of the query.

    The score of row i is `weight * |exact answer i - estimate i|`, as in MWEM.

    Args:
        query: an integral query.
        estimate: public estimates of its answers, [rows] or in the shape of the query's answers.
        weight: what the errors are multiplied by, > 0; it matters beside other scores in a `Stack`.
        bits: estimates are rounded to multiples of `2**-bits`.

    Raises:
        TypeError: no query, or numbers that are none.
        ValueError: numbers not finite, a weight that is not positive or rounds to zero, or numbers
            too large for the grid.

    Guarantees:
        The sensitivity is exact: the weight times how far one answer can move, 1 for counts under
        either relation, 2 under REPLACE_ONE for a query with entries from -1 to 1.

    References:
        Hardt, Ligett and McSherry 2012.

    Example:
        >>> from pgmjax.queries import marginal
        >>> score = Errors(marginal(["sex"]), [10.5, 4.0])
        >>> score.sensitivity(Domain({"sex": 2}), Relation.REPLACE_ONE).value == 2**score.bits
        True
    """

    kind: ClassVar[str] = "errors"
    target: Target
    weights: Weights

    def __init__(self, query: Query, estimate: Any, weight: Any = 1, bits: int = DEFAULT_BITS) -> None:
        object.__setattr__(self, "target", Target.of(query, estimate, grid_bits(bits)))
        object.__setattr__(self, "weights", Weights.of([weight]))

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The one clique."""
        return (self.target.query.clique,)

    @property
    def bits(self) -> int:
        """Values are `2**bits` times the weighted errors."""
        return self.target.bits + self.weights.bits

    def candidates(self, domain: Domain) -> int:
        """Return the number of rows."""
        return self.target.query.num_rows(domain)

    def to_dict(self) -> dict[str, Any]:
        """Return the query and the grid."""
        return {
            "kind": self.kind,
            "query": self.target.query.to_spec(),
            "weight": self.weights.texts()[0],
            "bits": self.target.bits,
        }

    def _check(self, domain: Domain) -> None:
        self.target.check(domain)

    def _values(self, domain: Domain, tables: Mapping[Clique, np.ndarray]) -> np.ndarray:
        return integers.times(self.target.errors(domain, tables), self.weights.integers[0])

    def _sensitivity(self, domain: Domain, relation: Relation, max_weight: int | None) -> int:
        return self.target.moves(domain, relation, "linf", max_weight) * self.weights.integers[0]


@dataclasses.dataclass(frozen=True, init=False)
class Distances(Score):
    """How far all answers of each query together are from their estimates: a candidate a query.

    The score of candidate i is `weight_i * (||exact answers - estimate_i||_1 - offset_i)`. With a
    marginal's cells and its expected noise as offset it is the score of AIM and of MWEM over marginals.

    Args:
        candidates: tuples (query, estimate), (query, estimate, weight) or (query, estimate, weight,
            offset); weights are 1 and offsets 0 where left out. See `Errors` for the estimates.
        bits: estimates and offsets are rounded to multiples of `2**-bits`, weights to those of 2**-12.

    Raises:
        TypeError: candidates that are no such tuples, or numbers that are none.
        ValueError: as `Errors`, or no candidate.

    Guarantees:
        The sensitivity is the largest weight times L1 sensitivity: for unweighted marginals 1 under
        ADD_REMOVE and 2, not 1, under REPLACE_ONE.

    References:
        McKenna, Mullins, Sheldon and Miklau 2022, Algorithm 2.
    """

    kind: ClassVar[str] = "distances"
    targets: tuple[Target, ...]
    weights: Weights
    offsets: tuple[int, ...]

    def __init__(self, candidates: Iterable[Any], bits: int = DEFAULT_BITS) -> None:
        parts = [_four(candidate) for candidate in candidates]
        if not parts:
            raise ValueError("a selection needs at least one candidate, got none.")
        bits = grid_bits(bits)
        targets = tuple(Target.of(query, estimate, bits) for query, estimate, _, _ in parts)
        object.__setattr__(self, "targets", targets)
        object.__setattr__(self, "weights", Weights.of([part[2] for part in parts]))
        object.__setattr__(self, "offsets", tuple(on_grid("an offset", part[3], bits) for part in parts))

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques of the candidates, each once."""
        return unique(target.query.clique for target in self.targets)

    @property
    def bits(self) -> int:
        """Values are `2**bits` times the weighted distances."""
        return self.targets[0].bits + self.weights.bits

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

    def _check(self, domain: Domain) -> None:
        for target in self.targets:
            target.check(domain)

    def _values(self, domain: Domain, tables: Mapping[Clique, np.ndarray]) -> np.ndarray:
        parts = zip(self.targets, self.weights.integers, self.offsets, strict=True)
        values = [
            weight * (integers.total(target.errors(domain, tables)) - offset)
            for target, weight, offset in parts
        ]
        return np.array(values, dtype=object)

    def _sensitivity(self, domain: Domain, relation: Relation, max_weight: int | None) -> int:
        return max(
            weight * target.moves(domain, relation, "l1", max_weight)
            for target, weight in zip(self.targets, self.weights.integers, strict=True)
        )


def _four(candidate: Any) -> tuple[Any, Any, Any, Any]:
    if not isinstance(candidate, tuple | list) or not 2 <= len(candidate) <= 4:
        raise TypeError(
            "a candidate is a tuple (query, estimate), (query, estimate, weight) or (query, estimate, "
            f"weight, offset), got {type(candidate).__name__}."
        )
    query, estimate = candidate[:2]
    weight = candidate[2] if len(candidate) > 2 else 1
    offset = candidate[3] if len(candidate) > 3 else 0
    return query, estimate, weight, offset
