"""The neighbouring relation: the pairs of tables that a privacy guarantee makes hard to distinguish.

It is defined in this package, which queries and privacy import, because sensitivities depend on it.
"""

from __future__ import annotations

import enum
from typing import Any, Literal


class Relation(enum.Enum):
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
