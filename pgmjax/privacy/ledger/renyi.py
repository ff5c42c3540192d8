"""The orders and caps of a Renyi account.

At one order, Renyi divergences add up, also where later releases are chosen by earlier answers, and a
fixed cap on the sum is a valid filter. Several orders are several filters: which of them ends up below
its cap depends on the answers. So delta is divided among the orders, and the chance that the promise
fails is at most the sum of the parts. The order that suits many small releases gets half of delta;
those above it, for fewer and larger ones, share the rest.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from pgmjax.privacy.accounting import renyi

_DOUBLINGS = 6
_FIRST = Fraction(1, 2)


def orders_of(epsilon: Fraction, delta: Fraction) -> tuple[float, ...]:
    """Return the orders of an account, rising; they depend on the promise and on nothing else.

    Raises:
        ValueError: no order allows anything.

    Example:
        >>> orders_of(Fraction(1), Fraction(1, 10**9))
        (35.0, 70.8, 134.0, 275.0, 563.0, 1001.0, 2001.0)
    """
    first = float(renyi.ORDERS[renyi.filter_order(epsilon, delta * _FIRST)])
    wanted = 1.0 + (first - 1.0) * 2.0 ** np.arange(_DOUBLINGS + 1)
    nearest = [int(np.argmin(np.abs(np.log((renyi.ORDERS - 1) / (order - 1))))) for order in wanted]
    return tuple(float(renyi.ORDERS[k]) for k in sorted(set(nearest)))


def caps_of(orders: tuple[float, ...], epsilon: Fraction, delta: Fraction) -> tuple[Fraction, ...]:
    """Return the largest sum at each order that keeps the promise with the order's part of delta.

    Guarantees:
        Releases made only while the sum at one order at least, whichever that is, stays within its
        cap are together (epsilon, delta)-DP, however they were chosen: the parts of delta sum to it.

    References:
        Feldman and Zrnic 2021, "Individual privacy accounting via a Renyi filter", and Lecuyer 2021,
        "Practical privacy filters and odometers with Renyi differential privacy" (one order);
        Canonne, Kamath and Steinke 2020, Proposition 12 (conversion).
    """
    others = len(orders) - 1
    parts = [_FIRST, *[(1 - _FIRST) / others] * others] if others else [Fraction(1)]
    return tuple(
        Fraction(float(renyi.caps(epsilon, delta * part, np.array([order]))[0]))
        for order, part in zip(orders, parts, strict=True)
    )
