"""How many draws a test of goodness of fit needs to see a fault of a given size."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from scipy import stats

from pgmjax._internal import checks
from pgmjax.audit import goodness


def draws_needed(distribution: Any, off_by: float, *, alpha: float = 1e-6, power: float = 0.99) -> int:
    """Return the number of draws `goodness.goodness_of_fit` needs to detect a wrong scale.

    Args:
        distribution: the claimed distribution, a frozen dataclass with a `scale`, such as those of
            `measurements.noise`.
        off_by: the real scale divided by the claimed one; > 0 and not 1.
        alpha: false-alarm level of the test.
        power: required probability of detection.

    Returns:
        The number of draws, to about 1 %, from the moments of the statistic under the wrong scale.

    Raises:
        ValueError: a parameter is out of range, or more than 1e12 draws would be needed.

    Example:
        >>> from pgmjax.measurements.noise import DiscreteLaplace
        >>> 10_000 < draws_needed(DiscreteLaplace(4.0), 1.1) < 16_000
        True
    """
    factor = checks.number("off_by", off_by, above=0)
    if factor == 1:
        raise ValueError("off_by must differ from 1: a scale that is right cannot be rejected.")
    alpha = checks.number("alpha", alpha, above=0, below=1)
    power = checks.number("power", power, above=0, below=1)
    real = dataclasses.replace(distribution, scale=distribution.scale * factor)
    low, high = 10, 20
    while _power(distribution, real, high, alpha) < power:
        low, high = high, 2 * high
        if high > 10**12:
            raise ValueError(f"More than {high // 2} draws would be needed: take a larger difference.")
    while high > 1.01 * low + 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _power(distribution, real, middle, alpha) >= power else (middle, high)
    return high


def _power(
    distribution: goodness.IntegerDistribution, real: goodness.IntegerDistribution, draws: int, alpha: float
) -> float:
    """Probability of a rejection, by the mean and variance of the statistic under the real distribution."""
    first, masses = goodness.window(distribution)
    try:
        edges = goodness.edges_of(masses * draws, draws)
    except ValueError:  # too few draws for a test
        return 0.0
    claimed = np.add.reduceat(masses, edges[:-1])
    values = np.arange(first, first + masses.size)
    true = np.add.reduceat(real.probabilities(values), edges[:-1])
    true[[0, -1]] += (1 - true.sum()) / 2  # beyond the goodness.window of the claimed distribution
    # the statistic is |offset + noise|^2, the noise with covariance diag(spread) - outer(common, common)
    spread, common, offset = true / claimed, true / np.sqrt(claimed), (true - claimed) / np.sqrt(claimed)
    mean = draws * (offset**2).sum() + spread.sum() - (common**2).sum()
    across = draws * ((offset**2 * spread).sum() - (common @ offset) ** 2)
    within = (spread**2).sum() - 2 * (common**2 * spread).sum() + (common**2).sum() ** 2
    threshold = stats.chi2.isf(alpha, edges.size - 2)
    return float(stats.norm.sf((threshold - mean) / math.sqrt(4 * across + 2 * within)))
