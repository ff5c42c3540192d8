"""Intervals of the ratio of two noisy numbers, such as a share of a total or a mean.

Count and total are both estimates, whose errors depend on each other. Let x and t be unbiased estimates of
them, with the variances v and w and the covariance c. The ratio r of x to t is any with

    (x - r t)^2 <= z^2 (v - 2 r c + r^2 w),

which holds for the true ratio as often as |error| <= z standard errors does: x - r t is linear in the noise
and has mean 0. Nothing is linearised, as it would be by the delta method.

References:
    Fieller 1954, "Some problems in interval estimation".
"""

from __future__ import annotations

import numpy as np


def fieller(
    count: np.ndarray, total: float, spread: np.ndarray, shared: np.ndarray, error: float, width: float
) -> np.ndarray:
    """Return the ends [rows, 2] of Fieller's intervals of count / total, infinite where there are none.

    Args:
        count: unbiased estimates [rows].
        total: an unbiased estimate.
        spread: the variances of the counts [rows].
        shared: their covariances with the total [rows].
        error: the variance of the total.
        width: half-width, in standard errors.

    Example:
        >>> fieller(np.array([300.0]), 400.0, np.array([100.0]), np.array([100.0]), 200.0, 1.96).round(3)
        array([[0.712, 0.79 ]])
    """
    square = width**2
    lead = total**2 - square * error
    if total <= 0 or lead <= 0:  # the noise of the total allows for 0
        return np.tile([-np.inf, np.inf], (len(count), 1))
    middle = count * total - square * shared
    # rounding alone makes it negative
    root = np.sqrt(np.maximum(middle**2 - lead * (count**2 - square * spread), 0.0))
    return np.stack([middle - root, middle + root], axis=-1) / lead


def divided(ends: np.ndarray, total: float, half: float) -> np.ndarray:
    """Return the ends [rows, 2] of shares from those of counts, however their errors depend on each other.

    The standard error of count - share * total is at most that of the count plus share times that of the
    total, so the ratios of opposite ends bound what the two do not contradict.

    Args:
        ends: of the counts' intervals [rows, 2].
        total: the total.
        half: half-width of its interval.
    """
    if total <= half:
        return np.tile([-np.inf, np.inf], (len(ends), 1))
    both = np.stack([ends / (total - half), ends / (total + half)])
    return np.stack([both[..., 0].min(axis=0), both[..., 1].max(axis=0)], axis=-1)
