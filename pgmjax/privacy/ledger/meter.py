"""The unit of an account: whole numbers of a decimal unit, costs rounded up and caps rounded down.

A pure account adds epsilons and a zCDP account adds rhos, each against one cap. A Renyi account adds
the Renyi divergences at several orders, and a charge fits while at least one order is within its cap.

At one order, Renyi divergences add up even if later releases depend on earlier answers, and a fixed cap
on the sum is a valid filter. Several orders are several filters, and which of them ends up below its cap
depends on the answers. Delta is therefore divided among the orders, and the probability that the promise
fails is at most the sum of the parts. The order that suits many small releases gets half of delta; the
higher orders, for fewer and larger releases, share the rest.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from pgmjax._internal import checks
from pgmjax.privacy.accounting import renyi, zcdp
from pgmjax.privacy.accounting.events import Concentrated, Event, KeysEvent
from pgmjax.privacy.exact import exact_epsilon, exact_rho, shortened
from pgmjax.privacy.ledger.database import LIMIT

MEASURES = ("pure", "zcdp", "renyi")
UNITS = {"pure": "epsilon", "zcdp": "rho", "renyi": "Renyi divergence"}
PLACES = 12
_MOST_PLACES = 40

_DOUBLINGS = 6
_SHARE_OF_FIRST_ORDER = Fraction(1, 2)


@dataclasses.dataclass(frozen=True)
class Meter:
    """The unit of an account and its cap.

    Attributes:
        measure: "pure", "zcdp" or "renyi".
        places: the unit is 10^-places.
        orders: the orders of a Renyi account, otherwise empty.
        caps: the cap in units: one number, or one per order.
    """

    measure: str
    places: int
    orders: tuple[float, ...]
    caps: tuple[int, ...]

    @classmethod
    def for_promise(cls, measure: str, epsilon: Fraction, delta: Fraction) -> Meter:
        """Return the meter under which all charges together keep a promise of (epsilon, delta)-DP.

        Raises:
            ValueError: the measure and delta are inconsistent, or the cap is out of range.
        """
        measure = checks.choice("measure", measure, MEASURES)
        if (measure == "pure") != (delta == 0):
            needed = "delta 0" if measure == "pure" else "delta > 0"
            raise ValueError(f"The measure {measure!r} needs {needed}, got delta {shortened(delta)}.")
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
        """The unit of the cost, spelled out."""
        return UNITS[self.measure]

    def costs(self, events: Sequence[Event]) -> tuple[int, ...]:
        """Return the total cost of events in units, rounded up and at least one unit.

        Raises:
            ValueError: there are no events, an event has no pure epsilon on a pure account, or its cost
                is not a positive number.
        """
        if not events:
            raise ValueError("A charge needs at least one event: say what is done to the table.")
        sums = [Fraction(0)] * len(self.caps)
        for place, event in enumerate(events, 1):
            # what holds only up to a delta counts by its rho; the deltas are added up apart, see `charge`
            known = Concentrated(event.rho) if isinstance(event, KeysEvent) else event
            for k, amount in enumerate(self._amounts(place, known)):
                sums[k] += amount
        # summed exactly and rounded up once, so that many small events do not cost a unit each
        return tuple(self._units(total) for total in sums)

    def _amounts(self, place: int, event: Event) -> list[Fraction]:
        """Return the cost of event number `place`, one amount for each cap."""
        if self.measure == "renyi":
            values = np.asarray(event.renyi(np.array(self.orders)), float)
            if values.shape != (len(self.orders),) or not (values >= 0).all():  # NaN fails too
                raise ValueError(f"Event {place} ({event.kind}) has no Renyi divergence at some order.")
            # an infinite divergence is as good as LIMIT, which no cap holds
            return [Fraction(value) if math.isfinite(value) else Fraction(LIMIT) for value in values.tolist()]
        if self.measure == "zcdp":
            return [exact_rho(event.rho)]
        if event.epsilon is None:
            raise ValueError(
                "This account was made without a delta: leave the delta out, for Laplace noise. Nothing "
                f"was charged. (It counts pure epsilon, and event {place}, {event.kind}, has none.)"
            )
        return [exact_epsilon(event.epsilon)]

    def _units(self, cost: Fraction) -> int:
        """Return a cost in units, rounded up and clipped to 1..LIMIT."""
        return min(max(math.ceil(cost * 10**self.places), 1), LIMIT)

    def fits(self, totals: Sequence[int]) -> bool:
        """Return whether totals are within the cap at one order at least; a total of LIMIT never is."""
        return any(total <= cap and total < LIMIT for total, cap in zip(totals, self.caps, strict=True))

    def telling(self, totals: Sequence[int]) -> int:
        """Return the index of the number to report: the order with the largest remaining share."""
        return max(
            range(len(self.caps)), key=lambda k: Fraction(self.caps[k] - totals[k], max(self.caps[k], 1))
        )

    def amount(self, units: int) -> Fraction:
        """Return an exact amount from units."""
        return Fraction(units, 10**self.places)


def _places(cap: Fraction) -> int:
    """Return the least number of places, from 12, that represents a cap exactly; 12 if none does."""
    exact = (places for places in range(PLACES, _MOST_PLACES) if (cap * 10**places).denominator == 1)
    found = next(exact, PLACES)
    return found if cap * 10**found < LIMIT else PLACES


def orders_of(epsilon: Fraction, delta: Fraction) -> tuple[float, ...]:
    """Return the orders of an account, increasing; they depend only on the promise.

    Raises:
        ValueError: no order allows any release.

    Example:
        >>> orders_of(Fraction(1), Fraction(1, 10**9))
        (35.0, 70.8, 134.0, 275.0, 563.0, 1001.0, 2001.0)
    """
    first = float(renyi.ORDERS[renyi.filter_order(epsilon, delta * _SHARE_OF_FIRST_ORDER)])
    wanted = 1.0 + (first - 1.0) * 2.0 ** np.arange(_DOUBLINGS + 1)
    # nearest in log(order - 1), the scale on which the grid is even
    nearest = [int(np.argmin(np.abs(np.log((renyi.ORDERS - 1) / (order - 1))))) for order in wanted]
    return tuple(float(renyi.ORDERS[k]) for k in sorted(set(nearest)))


def caps_of(orders: tuple[float, ...], epsilon: Fraction, delta: Fraction) -> tuple[Fraction, ...]:
    """Return the largest sum at each order that keeps the promise with the order's part of delta.

    Guarantees:
        Releases made only while the sum at one or more of the orders stays within its cap are together
        (epsilon, delta)-DP, even if chosen adaptively: the parts of delta sum to it.

    References:
        Feldman and Zrnic 2021, "Individual privacy accounting via a Renyi filter", and Lecuyer 2021,
        "Practical privacy filters and odometers with Renyi differential privacy" (one order);
        Canonne, Kamath and Steinke 2020, Proposition 12 (conversion).
    """
    others = len(orders) - 1
    parts = (
        [_SHARE_OF_FIRST_ORDER, *[(1 - _SHARE_OF_FIRST_ORDER) / others] * others] if others else [Fraction(1)]
    )
    return tuple(
        Fraction(float(renyi.caps(epsilon, delta * part, np.array([order]))[0]))
        for order, part in zip(orders, parts, strict=True)
    )
