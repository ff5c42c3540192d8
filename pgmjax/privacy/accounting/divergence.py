"""Renyi divergences in closed form: of discrete Laplace noise moved by an integer, and of pure DP.

For noise P(k) proportional to exp(-h abs(k)) and a move by m, the sum of P(k)^a P(k - m)^(1 - a) over
all integers is, cut at 0 and m and summed as three geometric series,

    S(m) = A exp((a - 1) h m) + B exp(-a h m),    A + B = 1,
    A = (1 - q r) / ((1 + q) (1 - r)),    q = exp(-h),    r = exp(-(2 a - 1) h),

and the divergence of order a is log S(m) / (a - 1). A and B are positive, so that log S is convex in m
with S(0) = 1: a move split over several answers costs at most what one answer carrying all of it costs.
With h = epsilon and m = 1 this is binary randomised response, the worst case of pure DP.
"""

from __future__ import annotations

import math

import numpy as np

_ROUNDING = 1e-12  # relative, a thousand times what the forms below lose
_UNIT = 2.0**-52


def laplace(step: float, shift: int, orders: np.ndarray) -> np.ndarray:
    """Return upper bounds of the divergence of discrete Laplace noise from itself moved.

    Args:
        step: 1 / scale of the noise, > 0.
        shift: by how much one integer answer moves, >= 1; more for more.
        orders: [orders], each > 1.

    Returns:
        [orders], rounded up by a relative 1e-12, never above those of pure DP with
        epsilon = step * shift.

    Example:
        >>> exact = math.log((math.e + math.e**-2) / (1 + 1 / math.e))
        >>> bool(0 <= laplace(1.0, 1, np.array([2.0]))[0] - exact < 1e-11)
        True
    """
    orders = np.asarray(orders, np.float64)
    above = orders - 1
    move = step * shift
    bottom = (1 + math.exp(-step)) * -np.expm1(-(above + orders) * step)
    first = -np.expm1(-2 * orders * step) / bottom
    second = -math.exp(-step) * np.expm1(-2 * above * step) / bottom
    with np.errstate(over="ignore"):
        near = np.minimum(above * move, 1.0)  # S - 1 loses digits only where epsilon is tiny
        up, down = first * np.expm1(near), second * np.expm1(-orders * move)
        small = np.log1p(up + down + 8 * _UNIT * (up - down))
        large = above * move + np.log(first + second * np.exp(-(above + orders) * move))
    exact = np.where(above * move <= 1, small, large) / above
    return np.minimum(exact * (1 + _ROUNDING), pure(move, orders))


def pure(epsilon: float, orders: np.ndarray) -> np.ndarray:
    """Return the largest divergences that epsilon-DP allows, rounded up by a relative 1e-12.

    Args:
        epsilon: > 0.
        orders: [orders], each > 1.

    Guarantees:
        Binary randomised response has these divergences and every epsilon-DP release at most them;
        they are below epsilon and below order * epsilon^2 / 2.

    References:
        Bun and Steinke 2016, "Concentrated differential privacy", Proposition 3.3 and its proof.

    Example:
        >>> bool(pure(1.0, np.array([2.0]))[0] < 1.0)
        True
    """
    orders = np.asarray(orders, np.float64)
    above = orders - 1
    bottom = 1 + math.exp(-epsilon)
    with np.errstate(over="ignore"):
        near = np.minimum(above * epsilon, 1.0)
        # 2 sinh(a e / 2) sinh((a - 1) e / 2) / cosh(e / 2), written without overflow
        small = np.log1p(np.expm1(near) * -np.expm1(-orders * epsilon) / bottom)
        large = above * epsilon + np.log1p(np.exp(-(above + orders) * epsilon)) - math.log(bottom)
        exact = np.where(above * epsilon <= 1, small, large) / above
        simple = np.minimum(orders * (epsilon * epsilon / 2), epsilon)
    return np.minimum(exact, simple) * (1 + _ROUNDING)
