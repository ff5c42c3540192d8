"""What accounts ask of an event, and the events of which nothing but one parameter is known."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np

from pgmjax.data.relation import Relation
from pgmjax.privacy.accounting import divergence
from pgmjax.privacy.exact import MOST, as_text, ceil_float, exact_epsilon, exact_rho

_ROUNDING = 1e-12  # relative, outward, as in `accounting`


class Event(Protocol):
    """What every account asks of an event.

    Attributes:
        kind: a word for the records.
        only: the one relation under which the event says anything, None for either.
    """

    kind: ClassVar[str]
    only: ClassVar[Relation | None]

    @property
    def epsilon(self) -> Fraction | None:
        """The pure epsilon, None where there is no pure guarantee."""
        ...

    @property
    def rho(self) -> Fraction:
        """The zCDP parameter."""
        ...

    def renyi(self, orders: np.ndarray) -> np.ndarray:
        """Return upper bounds [orders] of the Renyi divergence at orders > 1."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return the event for the records: `kind` and its numbers as exact strings."""
        ...


class Record:
    """How events are written down: their fields, fractions and floats as exact strings."""

    kind: ClassVar[str]
    only: ClassVar[Relation | None] = None

    def to_dict(self) -> dict[str, Any]:
        """Return the event for the records: `kind` and its numbers as exact strings."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {
            "kind": self.kind,
            **{name: _text(value) for name, value in fields.items() if value is not None},
        }


def _text(value: Any) -> Any:
    if isinstance(value, Fraction):
        return as_text(value)
    if isinstance(value, float):
        return repr(value)
    return list(value) if isinstance(value, tuple) else value


def times_rho(rho: Fraction, orders: np.ndarray) -> np.ndarray:
    """Return order * rho, rounded up."""
    bound = math.inf if rho > MOST else ceil_float(rho)
    with np.errstate(over="ignore"):
        return bound * np.asarray(orders, np.float64) * (1 + _ROUNDING)


@dataclasses.dataclass(frozen=True)
class Pure(Record):
    """Anything that is epsilon-DP, with nothing else known about it.

    Args:
        epsilon: > 0.

    Guarantees:
        epsilon-DP is epsilon^2/2-zCDP (Bun and Steinke 2016, Proposition 3.3), and has at most the
        divergences of binary randomised response.

    Example:
        >>> Pure(1).rho
        Fraction(1, 2)
    """

    epsilon: Fraction
    kind: ClassVar[str] = "pure"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))

    @property
    def rho(self) -> Fraction:
        """epsilon^2 / 2."""
        return self.epsilon**2 / 2

    def renyi(self, orders: np.ndarray) -> np.ndarray:
        """Return the divergences of binary randomised response, the largest there are."""
        return divergence.pure(ceil_float(self.epsilon), orders)


@dataclasses.dataclass(frozen=True)
class Concentrated(Record):
    """Anything that is rho-zCDP, with nothing else known about it.

    Args:
        rho: > 0.

    Example:
        >>> Concentrated("0.5").epsilon is None
        True
    """

    rho: Fraction
    kind: ClassVar[str] = "concentrated"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", exact_rho(self.rho))

    @property
    def epsilon(self) -> None:
        """None: no pure guarantee."""
        return None

    def renyi(self, orders: np.ndarray) -> np.ndarray:
        """Return order * rho."""
        return times_rho(self.rho, orders)


def check_relation(event: Event, relation: Relation) -> None:
    """Refuse what is no event, and an event that says nothing under a neighbouring relation.

    Raises:
        TypeError: not an event.
        ValueError: the event holds under the other relation only.
    """
    if not isinstance(event, Record):
        raise TypeError(
            f"An event must be one of pgmjax.privacy's, such as Pure(1), got {type(event).__name__}."
        )
    if event.only not in (None, relation):
        raise ValueError(
            f"A {event.kind} event holds under {event.only.value} only, and neighbours here are "
            f"{relation.value}: an answer a record shows how many records there are."
        )
