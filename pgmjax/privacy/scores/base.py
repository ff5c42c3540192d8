"""The interface of a score for private selection: integers about exact counts, of known sensitivity.

A front-end that has to choose (a query, a clique, an attribute pair) says so by a score object and
never sees its values: the choke point computes them, adds the selection's noise and hands out an index.

A score of one's own is a frozen dataclass derived from `Score`, everything in it public, with

* `kind`, `cliques`, `bits`, `candidates` and `to_dict`: what it is, in public terms;
* `_values`: integers from exact int64 tables, int64 or Python's own where those could overflow
  (`queries.wide` helps). A score that is real by nature is multiplied by `2**bits` and rounded. It must
  not raise because of what the counts are: whether it does would tell about them;
* `_sensitivity`: the largest distance of one candidate's value on neighbouring tables, as an integer,
  from a proof. Where `_values` rounds, it is the real score's sensitivity times `2**bits`, rounded up,
  plus one (half for each of the two values rounded), plus twice the error of floats before rounding;
* `_check`, where a domain might not fit: it runs before any budget is spent.

`tests/privacy/test_scores.py` compares declared and real sensitivities on all small tables.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy.sensitivity import Sensitivity
from pgmjax.queries import integers as wide
from pgmjax.queries.query import Query

LIMIT = 2**53
"""Scores are saturated below this, so that floats hold them too."""


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
        """Values are `2**bits` times the score as it is meant, rounded."""

    @abc.abstractmethod
    def candidates(self, domain: Domain) -> int:
        """Return how many there are to choose from, at least one."""

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return a public description for the records, of what JSON can hold."""

    def is_monotone(self, domain: Domain, relation: Relation) -> bool:
        """Return whether one of two neighbours has no score below the other's: records only raise them.

        Then a selection needs half the noise. False is always safe.
        """
        return False

    def _check(self, domain: Domain) -> None:  # noqa: B027
        pass

    @abc.abstractmethod
    def _values(self, domain: Domain, tables: Mapping[Clique, np.ndarray]) -> np.ndarray: ...

    @abc.abstractmethod
    def _sensitivity(self, domain: Domain, relation: Relation, max_weight: int | None) -> int: ...

    def check(self, domain: Domain) -> None:
        """Refuse a domain that the score does not fit; to be called before any budget is spent.

        Raises:
            ValueError: what was expected and what came.
        """
        self._check(domain)
        if self.candidates(domain) < 1:
            raise ValueError("a selection needs at least one candidate, got none.")

    def sensitivity(self, domain: Domain, relation: Relation, max_weight: int | None = None) -> Sensitivity:
        """Return how far any one value can move between neighbouring tables (norm "linf").

        Args:
            domain: the domain of the table.
            relation: which tables are neighbours; no default.
            max_weight: for weighted data the largest weight of a record (public); None without weights.

        Guarantees:
            Never below the exact value; counted in the units of `values`, with their `2**bits`.
        """
        relation = Relation.parse(relation)
        self.check(domain)
        return Sensitivity(self._sensitivity(domain, relation, max_weight), "linf", relation)

    def values(self, domain: Domain, tables: Mapping[Clique, np.ndarray]) -> np.ndarray:
        """Return the values, private, int64 [candidates]; only the choke point calls this.

        Args:
            domain: the domain of the table.
            tables: the exact int64 table of each of `cliques`, [size of each attribute].

        Values beyond 2^53 are moved there, which takes none of them farther apart.

        Raises:
            TypeError: values that are no array [candidates] of integers.
        """
        values = self._values(domain, tables)
        expected = (self.candidates(domain),)
        integers = isinstance(values, np.ndarray) and (values.dtype == np.int64 or values.dtype == object)
        if not integers or values.shape != expected:
            got = f"{getattr(values, 'dtype', type(values).__name__)} {getattr(values, 'shape', '')}"
            raise TypeError(f"the {self.kind} score must give integers of shape {expected}, got {got}.")
        return wide.saturated(values, LIMIT - 1)


def exact_answers(query: Query, domain: Domain, table: np.ndarray) -> np.ndarray:
    """Return the exact answers of an integral query, private, int64 or Python integers [rows].

    Raises:
        TypeError: a table that is not int64.
    """
    if table.dtype != np.int64:
        raise TypeError(f"exact tables must be int64, got {table.dtype}.")
    return wide.answers(query, domain, table)


def unique(cliques: Iterable[Clique]) -> tuple[Clique, ...]:
    """Return cliques in their order, each once."""
    return tuple(dict.fromkeys(cliques))
