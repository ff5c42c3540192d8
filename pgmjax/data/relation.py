"""The neighbouring relation of tables and the unit of privacy: what a guarantee protects.

The relation says which pairs of tables are hard to distinguish. It is defined in this package, which queries
and privacy import, because sensitivities depend on it. The unit is one row, or all records of one value of a
column, of which a bounded number count.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pgmjax._internal import checks
from pgmjax._internal.migration import Named


class _Relations(enum.EnumMeta):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(f"Relation has no {name!r}: it has ADD_REMOVE and REPLACE_ONE.", name=name)


class Relation(enum.Enum, metaclass=_Relations):
    """The neighbouring relation of tables. There is no default: the user must choose.

    Attributes:
        ADD_REMOVE: neighbours differ by adding or removing one record; the number of records
            is secret.
        REPLACE_ONE: neighbours differ in the values of one record; the number of records is
            public.

    Example:
        >>> Relation.parse("add-remove") is Relation.ADD_REMOVE
        True
    """

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"

    @classmethod
    def _missing_(cls, value: object) -> Relation:
        return cls.parse(value)

    @property
    def change(self) -> str:
        """The difference between two neighbours, as a clause after "if"."""
        if self is Relation.ADD_REMOVE:
            return "one record is added to the table or removed from it"
        return "the values of one record in the table are changed"

    @classmethod
    def parse(cls, value: Any) -> Relation:
        """Return a relation from itself or from its name (`add-remove`, `replace-one`).

        Raises:
            ValueError: `value` is neither a relation nor the name of one.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            for member in cls:
                if value.replace("_", "-").lower() == member.value:
                    return member
        raise ValueError(
            'relation must be "add-remove" (the number of records is secret) or "replace-one" (it is '
            f"public), got {value!r}; there is no default."
        )


AnyRelation = Relation | Literal["add-remove", "replace-one"]
"""A relation or its name, as arguments take it."""


MOST_RECORDS = 1 << 20


@dataclass(frozen=True)
class Unit(Named):
    """The unit of privacy: everything with one value in a column, such as a person.

    Args:
        column: the column that names the unit. It is compared as text, and never released. A record without a
            value in it is a unit of its own: nothing tells which others belong to it.
        max_records: the largest number of records of one unit that count; public, chosen without looking at
            the table. The others are left out at random.

    Raises:
        TypeError: the column is no text, or the number no integer.
        ValueError: the column has no name, or the number is below 1.

    Guarantees:
        Neighbouring tables differ in one unit: under ADD_REMOVE all its records are added or removed; under
        REPLACE_ONE their values change, and how many there are does not. Either way what counts changes in at
        most `max_records` records, and sensitivities and costs are those of that many (group privacy).

    Example:
        >>> Unit("person_id", 4).change(Relation.ADD_REMOVE)
        'all records of one person_id (at most 4 count) are added to the table or removed from it'
    """

    column: str
    max_records: int

    def __post_init__(self) -> None:
        checks.kind(self.column, str, "The column of a unit must be a string")
        if not self.column:
            raise ValueError("The column of a unit must have a name.")
        checks.plain_text("The column of a unit", self.column)
        if self.max_records in (None, 0, -1, math.inf):
            raise ValueError(
                "max_records must be a number from 1, which the noise grows with: there is no unlimited "
                f"one. Take a small one, such as 4; got {self.max_records}."
            )
        checks.set_integers(self, "max_records", low=1, high=MOST_RECORDS)

    def change(self, relation: Relation) -> str:
        """Return the difference between two neighbours, as a clause after "if"."""
        whose = f"all records of one {self.column} (at most {self.max_records} count)"
        if relation is Relation.ADD_REMOVE:
            return f"{whose} are added to the table or removed from it"
        return f"the values in {whose} are changed"

    def to_dict(self) -> dict[str, Any]:
        """Return the unit for JSON."""
        return {"column": self.column, "max_records": self.max_records}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any] | None) -> Unit | None:
        """Return the unit that `to_dict` wrote; None, one row, for None."""
        return None if record is None else cls(record["column"], record["max_records"])


def change(unit: Unit | None, relation: Relation) -> str:
    """Return the difference between two neighbours under a unit, None for one row, as a clause after "if"."""
    return relation.change if unit is None else unit.change(relation)


def check_unit(unit: Any, columns: Any, weights: str | None = None) -> Unit | None:
    """Return a unit, checked against the attributes of a domain and the column of weights.

    Raises:
        TypeError: neither a unit nor None.
        ValueError: its column is an attribute or the weights.
    """
    if unit is None:
        return None
    checks.kind(unit, Unit, 'unit must be a pgmjax.Unit such as Unit("person", 4), or None for one row')
    if unit.column in columns or unit.column == weights:
        what = "an attribute of the domain" if unit.column in columns else "the column of weights"
        raise ValueError(
            f"The column of the unit, {unit.column!r}, is {what}: it names whom to protect and is "
            f"never released, "
            "so leave it out there."
        )
    return unit
