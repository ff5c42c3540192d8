"""Public numbers of a score on a dyadic grid: estimates of answers, weights, offsets."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.scores.base import LIMIT, exact_answers
from pgmjax.privacy.sensitivity import Sensitivity, check_measurable
from pgmjax.queries import integers as wide
from pgmjax.queries.block import FrozenArray
from pgmjax.queries.query import Query

DEFAULT_BITS = 8
"""Estimates of counts are rounded to multiples of 1/256, far below any noise."""

WEIGHT_BITS = 12
"""Weights are rounded to multiples of 2**-12."""

_MAX_BITS = 24


@dataclasses.dataclass(frozen=True)
class Target:
    """An integral query with public estimates of its answers.

    Attributes:
        query: what is asked.
        estimate: int64, the estimates times `2**bits`, rounded.
        bits: see there.
    """

    query: Query
    estimate: FrozenArray
    bits: int

    @classmethod
    def of(cls, query: Any, estimate: Any, bits: int) -> Target:
        """Round real estimates to the grid, halves to even."""
        if not isinstance(query, Query):
            raise TypeError(f"a score is about a queries.Query, got {type(query).__name__}.")
        name = f"the estimate for the query on {query.clique}"
        values = FrozenArray(np.atleast_1d(np.asarray(estimate)), name).array
        return cls(query, FrozenArray(_on_grid(name, values, bits), name), bits)

    def check(self, domain: Domain) -> None:
        """Refuse a domain that the query does not fit or for which there are more or fewer estimates."""
        check_measurable(self.query, domain)
        rows, shape, got = self.query.num_rows(domain), self.query.shape(domain), self.estimate.array.shape
        if got not in ((rows,), shape):
            raise ValueError(
                f"the estimate for the query on {self.query.clique} must have one number an answer, {rows:,} "
                f"flat or shape {shape}, got shape {got}."
            )

    def moves(self, domain: Domain, relation: Relation, norm: str, max_weight: int | None) -> int:
        """Return the answers' sensitivity times `2**bits`: that of their distance from the estimates."""
        return Sensitivity.of(self.query, domain, relation, norm, max_weight).value * 2**self.bits

    def errors(self, domain: Domain, tables: Mapping[Clique, np.ndarray]) -> np.ndarray:
        """Return `2**bits * |exact answer - estimate|`, private integers [rows]."""
        answers = exact_answers(self.query, domain, tables[self.query.clique])
        # below 2^62 and 2^53 (the estimates' limit): the difference fits 64 bits
        return abs(wide.times(answers, 2**self.bits) - self.estimate.array.reshape(-1))


@dataclasses.dataclass(frozen=True)
class Weights:
    """Positive weights as integers over `2**bits`, with as few bits as hold them."""

    integers: tuple[int, ...]
    bits: int

    @classmethod
    def of(cls, weights: Iterable[Any]) -> Weights:
        """Round real weights to the grid; refuse those that are not positive or vanish on it."""
        given = [checks.number("a weight of a score", weight, above=0) for weight in weights]
        rounded = [on_grid("a weight of a score", weight, WEIGHT_BITS) for weight in given]
        if not all(rounded):
            raise ValueError(
                f"a weight of a score must be above 2**-{WEIGHT_BITS + 1}, or it rounds to zero: multiply "
                "all weights by a constant, which changes no choice."
            )
        bits = WEIGHT_BITS
        while bits and not any(integer % 2 for integer in rounded):
            rounded, bits = [integer // 2 for integer in rounded], bits - 1
        return cls(tuple(rounded), bits)

    def texts(self) -> list[str]:
        """Return the rounded weights as exact decimals."""
        return [as_text(Fraction(integer, 2**self.bits)) for integer in self.integers]


def grid_bits(bits: Any) -> int:
    """Return the bits of a score's grid, checked."""
    return checks.integer("the bits of a score", bits, low=0, high=_MAX_BITS)


def on_grid(name: str, value: Any, bits: int) -> int:
    """Return a finite number times `2**bits`, rounded to an integer below `LIMIT`."""
    return int(_on_grid(name, np.array([checks.number(name, value)]), bits)[0])


def _on_grid(name: str, values: np.ndarray, bits: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        scaled = np.rint(np.ldexp(values.astype(np.float64), bits))
    if not np.abs(scaled).max() < LIMIT:
        raise ValueError(f"{name} must be below 2^53 on a grid of {bits} bits: use fewer bits.")
    return scaled.astype(np.int64)
