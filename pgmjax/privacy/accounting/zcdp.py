"""From zero-concentrated DP to (epsilon, delta) and back, through dp-accounting.

Sums of pure epsilons and of rhos need no accountant: `budget` adds them exactly.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.privacy.exact import ceil_float, exact_delta, exact_epsilon, exact_rho, positive_delta

# dp-accounting's own orders end at 1024 and lose a factor two at rho = 1e-6
FINE_ORDERS = 1.0 + np.geomspace(1e-3, 1e14, 3401)
FINE_ORDERS.setflags(write=False)
_ROUNDING = 1e-12  # dp-accounting computes in plain float64, rounding to nearest
_DIGITS = 12


@functools.cache
def _library() -> tuple[Any, Any]:
    return checks.optional("dp_accounting", extra="privacy"), checks.optional("dp_accounting.rdp", "privacy")


def _epsilon(rho: float, delta: float) -> float:
    events, rdp = _library()
    accountant = rdp.RdpAccountant(orders=FINE_ORDERS).compose(events.ZCDpEvent(rho))
    return float(accountant.get_epsilon(delta)) * (1 + _ROUNDING)


def epsilon_of(rho: Any, delta: Any) -> float:
    """Return an epsilon for which every rho-zCDP release is (epsilon, delta)-DP.

    Args:
        rho: zCDP parameter, > 0.
        delta: in (0, 1).

    Raises:
        TypeError: a bool or no number.
        ValueError: a value outside its range.

    Guarantees:
        (epsilon, delta)-DP by the conversion of Renyi DP, minimised over a grid of orders (within 1e-4 of
        the minimum over all of them), rounded up.

    References:
        Canonne, Kamath and Steinke 2020, Proposition 12; Bun and Steinke 2016, "Concentrated
        differential privacy", Definition 1.1.
    """
    return _epsilon(ceil_float(exact_rho(rho)), positive_delta(delta))


@functools.lru_cache(maxsize=256)
def _rho_for(epsilon: Fraction, delta: Fraction) -> Fraction:
    bound = positive_delta(delta)
    low, high = 0.0, ceil_float(epsilon)
    while Fraction(_epsilon(high, bound)) <= epsilon:
        low, high = high, 2 * high
    while high - low > 1e-14 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if Fraction(_epsilon(middle, bound)) <= epsilon:
            low = middle
        else:
            high = middle
    rho = Fraction(_truncate(low))
    # again after the truncation, by the conversion that a release is told with
    if not (rho > 0 and Fraction(_epsilon(ceil_float(rho), bound)) <= epsilon):
        raise ValueError(
            "No rho is small enough for this epsilon and delta: ask for a larger epsilon or delta."
        )
    return rho


def _truncate(value: float) -> str:
    """Return a float as a decimal truncated to 12 significant digits, so that records stay readable."""
    digits, exponent = f"{value:.{_DIGITS + 5}e}".split("e")
    return f"{digits[: _DIGITS + 1]}e{exponent}"


def rho_for(epsilon: Any, delta: Any) -> Fraction:
    """Return the largest rho, to 12 digits, for which a rho-zCDP release is (epsilon, delta)-DP.

    Args:
        epsilon: > 0.
        delta: in (0, 1).

    Raises:
        TypeError: a bool or no number.
        ValueError: a value outside its range.

    Guarantees:
        `epsilon_of(rho_for(epsilon, delta), delta) <= epsilon`, checked before it returns.

    Example:
        >>> round(float(rho_for(1, "1e-9")), 5)
        0.01497
    """
    return _rho_for(exact_epsilon(epsilon), exact_delta(delta))
