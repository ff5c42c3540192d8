"""What an account counts in: whole numbers of a decimal unit, costs rounded up and caps rounded down.

A pure account adds epsilons and a zCDP account adds rhos, each against one cap. A Renyi account adds
the Renyi divergences at several orders, and a charge fits while one order is within its cap.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from pgmjax.privacy.accounting import zcdp
from pgmjax.privacy.accounting.events import Event
from pgmjax.privacy.exact import exact_epsilon, exact_rho, shortened
from pgmjax.privacy.ledger.renyi import caps_of, orders_of
from pgmjax.privacy.ledger.schema import LIMIT

MEASURES = ("pure", "zcdp", "renyi")
UNITS = {"pure": "epsilon", "zcdp": "rho", "renyi": "Renyi divergence"}
PLACES = 12
_FINEST = 40


@dataclasses.dataclass(frozen=True)
class Meter:
    """The unit of an account and its cap.

    Attributes:
        measure: "pure", "zcdp" or "renyi".
        places: the unit is 10^-places.
        orders: the orders of a Renyi account, otherwise none.
        caps: the cap in units, one number, or one for each order.
    """

    measure: str
    places: int
    orders: tuple[float, ...]
    caps: tuple[int, ...]

    @classmethod
    def for_promise(cls, measure: str, epsilon: Fraction, delta: Fraction) -> Meter:
        """Return the meter under which all charges together keep a promise of (epsilon, delta)-DP.

        Raises:
            ValueError: a measure and a delta that do not go together, or amounts out of range.
        """
        if measure not in MEASURES:
            raise ValueError(f"measure must be one of {', '.join(map(repr, MEASURES))}, got {measure!r}.")
        if (measure == "pure") != (delta == 0):
            told = "needs delta 0" if measure == "pure" else "needs delta > 0"
            raise ValueError(f"The measure {measure!r} {told}, got delta {shortened(delta)}.")
        if measure == "renyi":
            orders = orders_of(epsilon, delta)
            exact, places = caps_of(orders, epsilon, delta), PLACES
        else:
            orders = ()
            exact = (epsilon if measure == "pure" else zcdp.rho_for(epsilon, delta),)
            places = _places(exact[0])
        caps = tuple(math.floor(cap * 10**places) for cap in exact)
        if not 1 <= max(caps) < LIMIT:
            raise ValueError(
                f"A cap of {UNITS[measure]} {shortened(max(exact))} is out of range: an account holds at "
                f"least 1e-12 and at most {LIMIT // 10**PLACES}."
            )
        return cls(measure, places, orders, caps)

    @property
    def unit(self) -> str:
        """What is counted, in words."""
        return UNITS[self.measure]

    def costs(self, events: Sequence[Event]) -> tuple[int, ...]:
        """Return what events cost together, in units, rounded up; never less than one unit.

        Raises:
            ValueError: no events, one without a pure epsilon on a pure account, or one whose cost is
                not a positive number.
        """
        if not events:
            raise ValueError("A charge needs at least one event: say what is done to the table.")
        if self.measure == "renyi":
            return self._renyi(events)
        costs = []
        for place, event in enumerate(events, 1):
            if self.measure == "zcdp":
                costs.append(exact_rho(event.rho))
                continue
            if event.epsilon is None:
                raise ValueError(
                    f"Event {place} ({event.kind}) has no pure epsilon, which is what this account counts: "
                    "use Laplace noise (delta 0), or register the table with a delta."
                )
            costs.append(exact_epsilon(event.epsilon))
        return (self._units(sum(costs, Fraction(0))),)

    def _renyi(self, events: Sequence[Event]) -> tuple[int, ...]:
        sums = [Fraction(0)] * len(self.orders)
        endless = set()
        for place, event in enumerate(events, 1):
            values = np.asarray(event.renyi(np.array(self.orders)), float)
            if values.shape != (len(self.orders),) or not (values >= 0).all():  # NaN fails too
                raise ValueError(f"Event {place} ({event.kind}) has no Renyi divergence at some order.")
            for k, value in enumerate(values.tolist()):
                if math.isinf(value):
                    endless.add(k)
                else:
                    sums[k] += Fraction(value)
        return tuple(LIMIT if k in endless else self._units(cost) for k, cost in enumerate(sums))

    def _units(self, cost: Fraction) -> int:
        """Return a cost in units: at least one, and what is beyond counting is the limit."""
        return min(max(math.ceil(cost * 10**self.places), 1), LIMIT)

    def fits(self, totals: Sequence[int]) -> bool:
        """Tell whether totals keep within the cap, at one order at least; those beyond counting never do."""
        return any(total <= cap and total < LIMIT for total, cap in zip(totals, self.caps, strict=True))

    def telling(self, totals: Sequence[int]) -> int:
        """Return which of the numbers to tell: the order of which most is left."""
        return max(
            range(len(self.caps)), key=lambda k: Fraction(self.caps[k] - totals[k], max(self.caps[k], 1))
        )

    def amount(self, units: int) -> Fraction:
        """Return an exact amount from units."""
        return Fraction(units, 10**self.places)


def _places(cap: Fraction) -> int:
    """Return how fine the unit must be for a cap to be exact; 12 where none is."""
    for places in range(PLACES, _FINEST):
        if (cap * 10**places).denominator == 1:
            return places if cap * 10**places < LIMIT else PLACES
    return PLACES
