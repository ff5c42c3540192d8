"""Renyi divergences of many accesses added up order by order, and their conversion to (epsilon, delta).

Upper bounds on the divergence at one order add up for any accesses, including adaptively chosen ones. All
accounts share one public grid of orders, so that stored sums stay comparable.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pgmjax.privacy.exact import exact_epsilon, floor_float, positive_delta

_ROUNDING = 1e-12  # of the sum of the terms' sizes: a hundred times what float64 can lose in them


def _grid() -> np.ndarray:
    """Return orders 1 + m * 10^e with m of three digits: 10 per decade, 32 between 2 and 1001."""
    decades = [(-1, 10), (0, 32), (1, 32), (2, 32), (3, 10), (4, 10), (5, 10)]
    steps = [float(f"{10 ** (i / parts):.2f}e{e}") for e, parts in decades for i in range(parts)]
    orders = np.round(1.0 + np.array([*steps, 1e6]), 3)
    orders.setflags(write=False)
    return orders


ORDERS = _grid()
"""The orders of every account, float64 [137], 1.1 to 1000001, increasing and read-only.

For a sum of Gaussians whose best order is between 2 and 1001, the converted epsilon is at most 0.1 % above
the minimum over all orders; outside that range it was at most 2 % above.
"""


def _terms(orders: np.ndarray, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the term a conversion adds to the divergence, and a bound on its rounding error."""
    # log(1 - 1/a) - (log delta + log a) / (a - 1), of Canonne, Kamath and Steinke 2020, Proposition 12
    first = np.log1p(-1.0 / orders)
    second = -(math.log(delta) + np.log(orders)) / (orders - 1.0)
    sizes = np.abs(first) + (abs(math.log(delta)) + np.log(orders)) / (orders - 1.0)
    return first + second, _ROUNDING * sizes


def _checked_orders(orders: Any) -> np.ndarray:
    result = np.asarray(orders, np.float64)
    if result.ndim != 1 or not result.size or not (np.isfinite(result) & (result > 1)).all():
        raise ValueError("orders must be a vector of finite numbers > 1.")
    return result


def epsilon_at(renyi_values: Any, orders: Any, delta: Any) -> float:
    """Return the least epsilon that divergences at several orders allow at a delta, rounded up.

    Args:
        renyi_values: [orders], upper bounds on the Renyi divergence, >= 0; infinite if unknown.
        orders: [orders], each > 1.
        delta: in (0, 1).

    Raises:
        ValueError: shapes differ, a divergence is NaN or negative, an order is not above 1, or delta is
            invalid.

    Guarantees:
        A release with these divergences between all neighbours, in both directions, is
        (epsilon, delta)-DP. The accesses and their costs must not depend on earlier answers; for that
        see `filter_order`.

    References:
        Canonne, Kamath and Steinke 2020, Proposition 12.

    Example:
        >>> round(epsilon_at(ORDERS * 0.04, ORDERS, "1e-9"), 3)
        1.674
    """
    orders = _checked_orders(orders)
    values = np.asarray(renyi_values, np.float64)
    if values.shape != orders.shape:
        raise ValueError(f"expected one divergence an order, {orders.size}, got shape {values.shape}.")
    if not (values >= 0).all():
        raise ValueError("Renyi divergences must be numbers >= 0.")
    added, slack = _terms(orders, positive_delta(delta))
    return max(0.0, float(np.min(values * (1 + _ROUNDING) + added + slack)))


def caps(epsilon: Any, delta: Any, orders: Any = ORDERS) -> np.ndarray:
    """Return the largest divergence at each order that still converts to at most epsilon, rounded down.

    Args:
        epsilon: > 0.
        delta: in (0, 1).
        orders: [orders], each > 1.

    Returns:
        float64 [orders], >= 0; 0 where the order allows nothing.

    Guarantees:
        A total below the cap at one order is (epsilon, delta)-DP if that order was fixed before the
        first answer or no cost depends on an earlier answer. For adaptively chosen costs, picking the
        order afterwards is not covered by the proof; use `filter_order`.

    Example:
        >>> bool(caps(1, "1e-9", [20.0])[0] < caps(2, "1e-9", [20.0])[0])
        True
    """
    orders = _checked_orders(orders)
    added, slack = _terms(orders, positive_delta(delta))
    target = floor_float(exact_epsilon(epsilon))
    # the slack twice: `epsilon_at` adds it once more, and a sum at its cap must still convert to epsilon
    return np.maximum(0.0, (target * (1 - _ROUNDING) - added - 2 * slack) * (1 - 4 * _ROUNDING))


def filter_order(epsilon: Any, delta: Any) -> int:
    """Return the index of the one order to use as a filter for adaptively chosen costs.

    It is the order that allows the largest rho of Gaussian noise, a public function of the cap.

    Raises:
        ValueError: no order allows any access under so small an epsilon and delta.

    Guarantees:
        Accesses made only while their summed divergence at this order stays below its cap are together
        (epsilon, delta)-DP, even if they and their costs were chosen adaptively. With several orders of
        which any may hold, the order could depend on the answers, and the deltas would add up.

    References:
        Feldman and Zrnic 2021, "Individual privacy accounting via a Renyi filter".

    Example:
        >>> float(ORDERS[filter_order(1, "1e-9")])
        35.0
    """
    allowed = caps(epsilon, delta)
    if not allowed.max() > 0:
        raise ValueError(
            "No order allows anything under this epsilon and delta: ask for a larger epsilon or delta."
        )
    return int(np.argmax(allowed / ORDERS))
