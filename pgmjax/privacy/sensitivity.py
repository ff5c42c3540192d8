"""How far an answer can move between neighbouring tables, computed from the object that is asked.

A sensitivity is never typed in: `Sensitivity.of` computes it from a query, `Score.sensitivity` from a
score. It carries its norm and its relation, and what does not belong together does not combine.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.queries import integers
from pgmjax.queries.query import Query

NORMS = ("l1", "l2_squared", "linf")
RECORDS = "records"
"""The norm of what each record answers for itself: how many of the answers change."""


@dataclasses.dataclass(frozen=True)
class Sensitivity:
    """The largest distance of integer answers on neighbouring tables, an exact integer.

    The constructor is for code that has just computed `value` from the object to be asked, such as
    `Score.sensitivity`; everybody else calls `of`.

    Attributes:
        value: the distance; for "l2_squared" the square of the L2 distance.
        norm: "l1", "l2_squared" or "linf", the latter how far any single answer can move; or "records",
            how many of the records' own answers change.
        relation: which tables are neighbours.

    Raises:
        TypeError: a value that is no integer.
        ValueError: a negative value, an unknown norm or relation.

    Example:
        >>> from pgmjax.queries import marginal
        >>> Sensitivity.of(marginal(["sex"]), Domain({"sex": 2}), Relation.REPLACE_ONE, "l1")
        Sensitivity(value=2, norm='l1', relation=<Relation.REPLACE_ONE: 'replace-one'>)
    """

    value: int
    norm: str
    relation: Relation

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", checks.integer("a sensitivity", self.value, low=0))
        checks.choice("the norm of a sensitivity", self.norm, (*NORMS, RECORDS))
        object.__setattr__(self, "relation", Relation.parse(self.relation))

    @classmethod
    def of(
        cls, query: Query, domain: Domain, relation: Relation, norm: str, max_weight: int | None = None
    ) -> Sensitivity:
        """Return the sensitivity of a query's answers, never below the exact one.

        Args:
            query: what is asked; its matrix must be one of integers.
            domain: the domain of the table.
            relation: which tables are neighbours; no default.
            norm: "l1", "l2_squared" or "linf".
            max_weight: for weighted data the largest weight of a record (public); None without weights.

        Raises:
            TypeError: no query.
            ValueError: a query that is not integral or does not fit the domain, an unknown norm.
        """
        if not isinstance(query, Query):
            raise TypeError(f"a sensitivity is that of a queries.Query, got {type(query).__name__}.")
        checks.choice("the norm of a sensitivity", norm, NORMS)
        check_integral(query, domain)
        computed = {
            "l1": query.l1_sensitivity,
            "l2_squared": query.l2_sensitivity_squared,
            "linf": query.linf_sensitivity,
        }[norm](relation, domain, max_weight)
        return cls(math.ceil(Fraction(computed)), norm, relation)

    @classmethod
    def stacked(cls, parts: Iterable[Sensitivity]) -> Sensitivity:
        """Return the sensitivity of several answers taken together: the sum, for "linf" the largest.

        One record may move all of them, so nothing less would do in general.

        Raises:
            TypeError: a part that is no `Sensitivity`.
            ValueError: no part, or parts of different norms or relations.
        """
        known: list[Any] = list(parts)
        if not known:
            raise ValueError("there is no sensitivity to stack: give at least one.")
        for part in known:
            if not isinstance(part, Sensitivity):
                raise TypeError(f"only Sensitivity objects can be stacked, got {type(part).__name__}.")
        first = known[0]
        for part in known:
            if part.relation is not first.relation:
                raise ValueError(
                    f"sensitivities under different relations cannot be combined: {first.relation.value} and "
                    f"{part.relation.value}. Compute all under one."
                )
            if part.norm != first.norm:
                raise ValueError(
                    f"sensitivities of different norms cannot be combined: {first.norm} and {part.norm}."
                )
        values = [part.value for part in known]
        return cls(max(values) if first.norm == "linf" else sum(values), first.norm, first.relation)


def check_measurable(query: Any, domain: Domain) -> None:
    """Refuse what cannot be measured or scored: no query, entries that are no integers, or too large ones.

    Raises:
        TypeError: not a query.
        ValueError: as `check_integral`, and entries beyond `queries.wide.LARGEST_ENTRY`.
    """
    if not isinstance(query, Query):
        raise TypeError(f"A query must be a pgmjax.queries.Query, got {type(query).__name__}.")
    check_integral(query, domain)
    integers.check_entries(query, domain)


def check_integral(query: Query, domain: Domain) -> None:
    """Refuse a query that does not fit the domain or whose matrix has entries that are no integers.

    Raises:
        ValueError: what was expected, and the way to make the query integral.
    """
    query.check(domain)
    if not query.is_integral(domain):
        raise ValueError(
            f"the query on {query.clique} is not integral, and everything that touches exact counts is: "
            "round it with queries.quantise(query, domain) and use the result's query; its answers are "
            "2**bits times those asked for."
        )
