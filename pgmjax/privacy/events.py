"""What one access to a table costs, in every currency that an account may count in.

An event is what was done, in public terms; it knows its pure epsilon, its rho and its Renyi
divergence at any order, each an upper bound. Accounts add these up; none is ever typed by hand.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np

from pgmjax.privacy.amounts import as_text, exact_epsilon, exact_rho


class Event(Protocol):
    """What every account asks of an event.

    Attributes:
        kind: a word for the records.
    """

    kind: ClassVar[str]

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


@dataclasses.dataclass(frozen=True)
class Pure:
    """Anything that is epsilon-DP, with nothing else known about it.

    Args:
        epsilon: > 0.

    Guarantees:
        epsilon-DP is epsilon^2/2-zCDP (Bun and Steinke 2016, Proposition 3.3).

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
        """Return order * epsilon^2 / 2, or epsilon where that is less."""
        return np.minimum(float(self.rho) * orders, float(self.epsilon))

    def to_dict(self) -> dict[str, Any]:
        """Return the event for the records."""
        return {"kind": self.kind, "epsilon": as_text(self.epsilon)}


@dataclasses.dataclass(frozen=True)
class Concentrated:
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
        return float(self.rho) * orders

    def to_dict(self) -> dict[str, Any]:
        """Return the event for the records."""
        return {"kind": self.kind, "rho": as_text(self.rho)}
