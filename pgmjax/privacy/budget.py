"""What may be spent on a table, and what has been."""

from __future__ import annotations

import threading
from fractions import Fraction
from typing import Any

from pgmjax.privacy.amounts import as_text, exact_epsilon, exact_rho


class BudgetExceeded(ValueError):
    """A spend would pass the cap. It is raised before any data is read and changes nothing."""


class Budget:
    """What may be spent on one table, and what has been.

    Pure epsilons and zCDP rhos add up, also where later parameters are chosen by earlier answers,
    so that one running sum against a fixed cap is a valid account. The two units never mix.

    Args:
        cap: all that may be spent, an epsilon or a rho.
        unit: "epsilon" (pure differential privacy) or "rho" (zero-concentrated).

    Guarantees:
        Everything that was charged under one budget is together `cap`-DP (unit epsilon) or
        `cap`-zCDP (unit rho), under the neighbouring relation of the table it was charged for.

    References:
        Rogers et al. 2016, "Privacy odometers and filters" (pure epsilon); Feldman and Zrnic 2021,
        "Individual privacy accounting via a Renyi filter" (rho).

    Example:
        >>> budget = Budget("0.3")
        >>> for _ in range(3):
        ...     budget.charge(exact_epsilon(0.1))
        >>> budget.remaining
        Fraction(0, 1)
    """

    def __init__(self, cap: Any, unit: str = "epsilon"):
        if unit not in ("epsilon", "rho"):
            raise ValueError(f"unit must be 'epsilon' or 'rho', got {unit!r}.")
        self._unit = unit
        self._cap = exact_epsilon(cap) if unit == "epsilon" else exact_rho(cap)
        self._spent = Fraction(0)
        self._lock = threading.Lock()

    @property
    def unit(self) -> str:
        """What is counted: "epsilon" or "rho"."""
        return self._unit

    @property
    def cap(self) -> Fraction:
        """All that may be spent."""
        return self._cap

    @property
    def spent(self) -> Fraction:
        """All that has been spent."""
        return self._spent

    @property
    def remaining(self) -> Fraction:
        """What may still be spent."""
        return self._cap - self._spent

    def require(self, cost: Fraction) -> None:
        """Check that a spend would fit, and spend nothing.

        Raises:
            BudgetExceeded: it would not.
        """
        if not cost > 0:
            raise ValueError(f"A spend must be > 0, got {as_text(cost)}.")
        if self._spent + cost > self._cap:
            raise BudgetExceeded(
                f"This needs {self._unit} {as_text(cost)}, but of {as_text(self._cap)} only "
                f"{as_text(self.remaining)} is left. Nothing was spent and no data was read."
            )

    def charge(self, cost: Fraction) -> None:
        """Spend, for good: a charge stays even if what it was made for fails afterwards.

        Raises:
            BudgetExceeded: the spend would pass the cap; nothing was charged.
        """
        with self._lock:
            self.require(cost)
            self._spent += cost

    def __repr__(self) -> str:
        return f"Budget({self._unit}: {as_text(self._spent)} of {as_text(self._cap)} spent)"
