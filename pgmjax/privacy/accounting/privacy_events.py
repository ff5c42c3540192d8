"""What one access to a table costs, in every currency that an account may count in.

An event is what was done, in public terms; it knows its pure epsilon, its rho and its Renyi
divergence at any order, each an upper bound. Accounts add these up; none is ever typed by hand.
All events are to be had here; those of noise on integer answers are written in `noise_events`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.relation import Relation
from pgmjax.privacy.accounting import divergence
from pgmjax.privacy.accounting.events import Concentrated, Event, Pure, Record, check_relation, times_rho
from pgmjax.privacy.accounting.noise_events import Gaussian, Laplace
from pgmjax.privacy.exact import ceil_float, exact_epsilon

__all__ = [
    "Concentrated",
    "Event",
    "Gaussian",
    "Laplace",
    "Pure",
    "Response",
    "Selection",
    "check_relation",
    "read_event",
]


@dataclasses.dataclass(frozen=True)
class Response(Pure):
    """Randomised response of each record, epsilon-DP for one record's values.

    Args:
        epsilon: > 0, the logarithm of the largest ratio of two probabilities of one answer.

    Guarantees:
        As `Pure`, for neighbours under REPLACE_ONE only: adding a record adds an answer.

    Example:
        >>> check_relation(Response(1), Relation.REPLACE_ONE)
    """

    kind: ClassVar[str] = "response"
    only: ClassVar[Relation | None] = Relation.REPLACE_ONE


@dataclasses.dataclass(frozen=True)
class Selection(Record):
    """The choice of one of several candidates by noisy scores.

    Args:
        epsilon: > 0.
        method: "exponential" (the exponential mechanism) or "permute-and-flip".

    Guarantees:
        The exponential mechanism with epsilon has bounded range epsilon, hence is epsilon^2/8-zCDP.
        Of permute-and-flip only epsilon-DP is used.

    References:
        Cesar and Rogers 2021, "Bounding, concentrating, and truncating";
        McKenna and Sheldon 2020, "Permute-and-flip".

    Example:
        >>> Selection(1, "exponential").rho, Selection(1, "permute-and-flip").rho
        (Fraction(1, 8), Fraction(1, 2))
    """

    epsilon: Fraction
    method: str
    kind: ClassVar[str] = "selection"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        checks.choice("method", self.method, ("exponential", "permute-and-flip"))

    @property
    def rho(self) -> Fraction:
        """epsilon^2 / 8 for the exponential mechanism, otherwise epsilon^2 / 2."""
        return self.epsilon**2 / (8 if self.method == "exponential" else 2)

    def renyi(self, orders: np.ndarray) -> np.ndarray:
        """Return the smaller of order * rho and the divergences of binary randomised response."""
        return np.minimum(times_rho(self.rho, orders), divergence.pure(ceil_float(self.epsilon), orders))


_KINDS: dict[str, type] = {
    event.kind: event for event in (Pure, Concentrated, Laplace, Gaussian, Selection, Response)
}


def read_event(record: Mapping[str, Any]) -> Event:
    """Return the event that `to_dict` wrote down.

    Raises:
        TypeError: not a mapping, or a field of a wrong type.
        ValueError: an unknown kind, a field too many or too few, a number outside its range.

    Example:
        >>> read_event({"kind": "pure", "epsilon": "1/3"})
        Pure(epsilon=Fraction(1, 3))
    """
    if not isinstance(record, Mapping):
        raise TypeError(f"The record of an event must be a mapping, got {type(record).__name__}.")
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"The kind of an event must be one of {', '.join(_KINDS)}, got {kind!r}.")
    fields = dataclasses.fields(_KINDS[kind])
    needed = {field.name for field in fields if field.default is dataclasses.MISSING}
    given = {str(name): value for name, value in record.items() if name != "kind"}
    if not needed <= set(given) <= {field.name for field in fields}:
        raise ValueError(
            f"The record of a {kind} event must have {', '.join(field.name for field in fields)}, got "
            f"{', '.join(given) or 'nothing'}."
        )
    if isinstance(given.get("scale"), str):
        try:
            given["scale"] = float(given["scale"])
        except ValueError:
            raise ValueError(
                f"The scale of a {kind} event must be a number such as '10.0', got text that is none."
            ) from None
    return _KINDS[kind](**given)
