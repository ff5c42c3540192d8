"""The interface of a score for private selection: integers about exact counts, of known sensitivity.

A front-end that chooses a query, a clique or an attribute pair passes a score object and never sees its
values: the choke point computes them, adds the selection noise and returns an index.

A custom score is a frozen dataclass derived from `Score`, with only public content and

* `kind`, `cliques`, `bits`, `candidates` and `to_dict`: its public description;
* `_values`: integers from exact int64 tables, int64 or Python integers where those could overflow
  (`queries.integers` helps). A real-valued score is multiplied by `2**bits` and rounded. It must not
  raise depending on the counts, since an error would reveal something about them;
* `_sensitivity`: the largest distance of one candidate's value on neighbouring tables, as an integer,
  from a proof. Where `_values` rounds, it is the real score's sensitivity times `2**bits`, rounded up,
  plus one (half for each of the two values rounded), plus twice the error of floats before rounding;
* `_check`, if a domain might not fit: it runs before any budget is spent.

`Target` and `DyadicWeights` put a score's public numbers (estimates of answers, weights) on a dyadic grid.
`tests/privacy/test_scores.py` compares declared and real sensitivities on all small tables.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Clique, Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy.exact import as_text
from pgmjax.privacy.sensitivity import Sensitivity, check_measurable
from pgmjax.queries import Query, integers
from pgmjax.queries.blocks import FrozenArray

LIMIT = 2**53
"""Scores are saturated below this, so that floats hold them too."""

DEFAULT_BITS = 8
"""Estimates of counts are rounded to multiples of 1/256, far below any noise."""

WEIGHT_BITS = 12
"""Weights are rounded to multiples of 2**-12."""

_MAX_BITS = 24


class Score(abc.ABC):
    """One integer for each candidate, computed from exact counts; larger is better.

    Attributes:
        kind: a word for the records.
    """

    kind: ClassVar[str]

    @property
    @abc.abstractmethod
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques whose exact tables are needed, each once."""

    @property
    @abc.abstractmethod
    def bits(self) -> int:
        """Values are `2**bits` times the real score, rounded."""

    @abc.abstractmethod
    def candidates(self, domain: Domain) -> int:
        """Return the number of candidates, at least one."""

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return a public, JSON-able description for the records."""

    def _check(self, domain: Domain) -> None:  # noqa: B027
        """Refuse a domain that the score does not fit."""

    @abc.abstractmethod
    def _values(self, domain: Domain, tables: Mapping[Clique, np.ndarray]) -> np.ndarray:
        """Return the values, integers [candidates]."""

    @abc.abstractmethod
    def _sensitivity(self, domain: Domain, relation: Relation, max_weight: int | None) -> int:
        """Return the largest change of any one value between neighbouring tables."""

    def check(self, domain: Domain) -> None:
        """Refuse a domain that the score does not fit; called before any budget is spent.

        Raises:
            ValueError: the domain does not fit, or there is no candidate.
        """
        self._check(domain)
        if self.candidates(domain) < 1:
            raise ValueError("a selection needs at least one candidate, got none.")

    def sensitivity(self, domain: Domain, relation: Relation, max_weight: int | None = None) -> Sensitivity:
        """Return the largest change of any one value between neighbouring tables (norm "linf").

        Args:
            domain: the domain of the table.
            relation: the neighbouring relation; required.
            max_weight: for weighted data the largest weight of a record (public); None without weights.

        Guarantees:
            Never below the exact sensitivity; in the units of `values`, including the factor `2**bits`.
        """
        relation = Relation.parse(relation)
        self.check(domain)
        return Sensitivity(self._sensitivity(domain, relation, max_weight), "linf", relation)

    def _values_again(
        self, domain: Domain, tables: Mapping[Clique, np.ndarray], cache: dict[Any, Any]
    ) -> np.ndarray:
        """Return `_values`, given what the choke point has of the last score; keep what is needed next."""
        return self._values(domain, tables)

    def values(
        self, domain: Domain, tables: Mapping[Clique, np.ndarray], cache: dict[Any, Any] | None = None
    ) -> np.ndarray:
        """Return the values, private, int64 [candidates]; only the choke point calls this.

        Args:
            domain: the domain of the table.
            tables: the exact int64 table of each of `cliques`, [size of each attribute].
            cache: private numbers that the choke point keeps between two scores of the same table.

        Values beyond 2^53 are clipped, which moves no two of them farther apart.

        Raises:
            TypeError: the values are not an integer array [candidates].
        """
        values = self._values_again(domain, tables, {} if cache is None else cache)
        expected = (self.candidates(domain),)
        whole = isinstance(values, np.ndarray) and (values.dtype == np.int64 or values.dtype == object)
        if not whole or values.shape != expected:
            got = f"{getattr(values, 'dtype', type(values).__name__)} {getattr(values, 'shape', '')}"
            raise TypeError(f"the {self.kind} score must give integers of shape {expected}, got {got}.")
        return integers.saturated(values, LIMIT - 1)


def exact_answers(query: Query, domain: Domain, table: np.ndarray) -> np.ndarray:
    """Return the exact answers of an integral query, private, int64 or Python integers [rows].

    Raises:
        TypeError: the table is not int64.
    """
    if table.dtype != np.int64:
        raise TypeError(f"exact tables must be int64, got {table.dtype}.")
    return integers.answers(query, domain, table)


def members(name: str, values: Any, kind: Any, said: str) -> tuple[Any, ...]:
    """Return the candidates that a score is made of: at least one, all of a kind.

    Raises:
        TypeError: no sequence, or something in it that is of another kind.
        ValueError: none.
    """
    parts = checks.several(name, values, name)
    if not parts:
        raise ValueError("a selection needs at least one candidate, got none.")
    for part in parts:
        checks.kind(part, kind, said)
    return parts


def unique(cliques: Iterable[Clique]) -> tuple[Clique, ...]:
    """Return cliques in their order, each once."""
    return tuple(dict.fromkeys(cliques))


@dataclasses.dataclass(frozen=True)
class Target:
    """An integral query with public estimates of its answers.

    Attributes:
        query: the query.
        estimate: int64, the estimates times `2**bits`, rounded.
        bits: the bits of the grid.
    """

    query: Query
    estimate: FrozenArray
    bits: int

    @classmethod
    def of(cls, query: Any, estimate: Any, bits: int) -> Target:
        """Round real estimates to the grid, halves to even."""
        checks.kind(query, Query, "a score is about a queries.Query")
        name = f"the estimate for the query on {query.clique}"
        values = FrozenArray(np.atleast_1d(np.asarray(estimate)), name).array
        return cls(query, FrozenArray(_on_grid(name, values, bits), name), bits)

    def check(self, domain: Domain) -> None:
        """Refuse a domain that the query does not fit or for which the number of estimates differs."""
        # by identity: a domain does not change, and comparing two is slower than the check saves
        if self.__dict__.get("_fits") is domain:
            return
        check_measurable(self.query, domain)
        rows, shape, got = self.query.num_rows(domain), self.query.shape(domain), self.estimate.array.shape
        if got not in ((rows,), shape):
            raise ValueError(
                f"the estimate for the query on {self.query.clique} must have one number an answer, {rows:,} "
                f"flat or shape {shape}, got shape {got}."
            )
        self.__dict__["_fits"] = domain

    def sensitivity(self, domain: Domain, relation: Relation, norm: str, max_weight: int | None) -> int:
        """Return the answers' sensitivity times `2**bits`, which bounds that of their errors."""
        return Sensitivity.of(self.query, domain, relation, norm, max_weight).value * 2**self.bits

    def errors(self, domain: Domain, tables: Mapping[Clique, np.ndarray]) -> np.ndarray:
        """Return `2**bits * |exact answer - estimate|`, private integers [rows]."""
        answers = exact_answers(self.query, domain, tables[self.query.clique])
        # below 2^62 and 2^53 (the estimates' limit): the difference fits 64 bits
        return abs(integers.times(answers, 2**self.bits) - self.estimate.array.reshape(-1))


@dataclasses.dataclass(frozen=True)
class DyadicWeights:
    """Positive weights as integers over `2**bits`, with as few bits as hold them."""

    integers: tuple[int, ...]
    bits: int

    @classmethod
    def of(cls, weights: Iterable[Any]) -> DyadicWeights:
        """Round real weights to the grid; refuse those that are not positive or round to zero."""
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
