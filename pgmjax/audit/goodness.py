"""Goodness of fit: whether single draws follow the claimed discrete distribution.

All tests are chi-square tests of counts in bins with at least ten expected draws each; thin tails are
folded inward first, as a bin with a tiny expectation would raise a false alarm at a single draw. A
chi-square test also rejects noise that was drawn once and used many times, in any order, since copies
inflate every deviation. Two copies are found by `audit.repeated`, which uses the order of draws.

The accuracy of p-values was computed exactly for Poisson counts in 20 bins of equal expectation. A nominal
1e-6 is truly 9e-6 at expectations of 10, 3e-6 at 30 and 1.5e-6 at 100; a nominal 1e-9 is 7e-8, 1e-8 and
2.5e-9. With 100,000 draws or more, bins expect 100 if the distribution allows.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Protocol

import numpy as np

from pgmjax._internal import checks

LEAST = 10.0  # draws that each bin expects at least
_MOST_BINS = 1000  # more bins see finer detail and need more draws to see a wrong scale
_WIDEST = 20_000_000


@dataclasses.dataclass(frozen=True)
class Goodness:
    """The outcome of a chi-square test.

    Attributes:
        p_value: probability of a deviation at least as large if the draws follow the distribution.
        statistic: sum over bins of (seen - expected)^2 / expected.
        bins: number of bins, one more than the degrees of freedom.
        draws: number of draws tested.
    """

    p_value: float
    statistic: float
    bins: int
    draws: int


def goodness_of_fit(samples: np.ndarray, distribution: IntegerDistribution) -> Goodness:
    """Test integer draws against their exact distribution by a chi-square test.

    Args:
        samples: draws of noise, integers [n].
        distribution: the distribution they should follow, with mean zero.

    Returns:
        The outcome. Reject at p_value < alpha, with an alpha that avoids false alarms, such as 1e-6;
        100,000 draws then detect a scale that is wrong by a tenth.

    Raises:
        TypeError: the draws are not integers.
        ValueError: the draws are not one-dimensional or too few for two bins, or the distribution does
            not sum to one.

    References:
        Cochran 1954, "Some methods for strengthening the common chi-square tests" (expectations).

    Example:
        >>> from pgmjax.measurements.noise import DiscreteLaplace
        >>> from pgmjax.privacy.seeded import SeededBackend
        >>> noise = SeededBackend(0, insecure=True).draw(DiscreteLaplace(4.0), 100_000)
        >>> goodness_of_fit(noise, DiscreteLaplace(4.0)).p_value > 1e-6
        True
        >>> goodness_of_fit(noise, DiscreteLaplace(4.4)).p_value < 1e-6
        True
    """
    drawn = _integers("samples", samples)
    first, masses = window(distribution)
    edges = edges_of(masses * drawn.size, drawn.size)
    # values beyond the window belong to the outermost bins
    places = np.clip(drawn, first, first + masses.size - 1) - first
    seen = np.bincount(np.searchsorted(edges, places, side="right") - 1, minlength=edges.size - 1)
    return _chi_square(seen, np.add.reduceat(masses, edges[:-1]) * drawn.size)


def categorical_fit(counts: np.ndarray, probabilities: np.ndarray) -> Goodness:
    """Test category counts (selections, responses) against their exact probabilities.

    Args:
        counts: number of draws of each category, integers [categories].
        probabilities: their distribution [categories], summing to one.

    Returns:
        The outcome; p_value is 0 if a category of probability zero occurred. Rare categories are merged
        until each group expects ten.

    Raises:
        TypeError: the counts are not integers.
        ValueError: shapes differ, a count is negative, `probabilities` is not a distribution, or there
            are too few counts for two groups.

    Example:
        >>> categorical_fit([260, 240, 500], [0.25, 0.25, 0.5]).p_value > 0.1
        True
    """
    seen, distribution = _integers("counts", counts), np.asarray(probabilities, dtype=np.float64)
    checks.refuse(
        (
            distribution.shape != seen.shape,
            f"counts and probabilities have one shape, got {seen.shape} and {distribution.shape}.",
        ),
        (np.any(seen < 0), "counts must be at least 0."),
    )
    check_distribution(distribution)
    draws = int(seen.sum())
    if np.any(seen[distribution == 0] > 0):
        return Goodness(0.0, math.inf, int(np.count_nonzero(distribution)), draws)
    order = np.argsort(distribution, kind="stable")[np.count_nonzero(distribution == 0) :]
    starts = steps(distribution[order] * draws, LEAST)[:-1]  # what is left over joins the likeliest
    if starts.size < 2:
        raise ValueError(too_few(draws))
    groups = [np.add.reduceat(values[order], starts) for values in (seen, distribution)]
    return _chi_square(groups[0], groups[1] * draws)


class IntegerDistribution(Protocol):
    """A distribution on the integers to test against, such as those of `measurements.noise`."""

    @property
    def stddev(self) -> float:
        """The standard deviation; the window of bins is 40 of them on both sides of zero."""

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """Return the probability of each integer in `values` [n]."""


def window(distribution: IntegerDistribution) -> tuple[int, np.ndarray]:
    """Return the first integer of a window with all but about 1e-17 of the mass, and its probabilities."""
    half = math.ceil(40 * distribution.stddev) + 10
    if half > _WIDEST:
        raise ValueError(
            f"The distribution has a standard deviation of {distribution.stddev:g}, at most {_WIDEST // 40} "
            "is tested."
        )
    masses = np.asarray(distribution.probabilities(np.arange(-half, half + 1)), dtype=np.float64)
    check_distribution(masses)
    return -half, masses


def edges_of(expected: np.ndarray, draws: int) -> np.ndarray:
    """Return bin edges from 0 to the number of values, tails folded inward until bins expect enough."""
    # a thousandth of the draws where that leaves bins: far p-values are then close to their word
    for least in (max(LEAST, expected.sum() / _MOST_BINS), LEAST):
        middle = int(np.argmax(expected))
        left = steps(expected[:middle], least)
        right = expected.size - steps(expected[:middle:-1], least)[::-1]
        if expected[left[-1] : right[0]].sum() < least:  # the bin in the middle takes in a neighbour
            left, right = (left[:-1], right) if left.size > 1 else (left, right[1:])
        if left.size and right.size and left.size + right.size >= 3:
            return np.concatenate([left, right])
    raise ValueError(too_few(draws))


def steps(expected: np.ndarray, least: float) -> np.ndarray:
    """Return edges from the left, each bin expecting at least `least`; the rest is left over."""
    reached = np.concatenate([[0.0], np.cumsum(expected)])
    edges = [0]
    while reached[-1] - reached[edges[-1]] >= least:
        edges.append(min(int(np.searchsorted(reached, reached[edges[-1]] + least)), expected.size))
    return np.array(edges)


def check_distribution(masses: np.ndarray) -> None:
    """Raise ValueError if entries are negative or NaN, or do not sum to one."""
    if not (np.all(masses >= 0) and abs(masses.sum() - 1) <= 1e-9):
        raise ValueError("The distribution's probabilities must be at least 0 and sum to one.")


def too_few(draws: int) -> str:
    """Return the message for draws that fill fewer than two bins."""
    return f"With {draws} draws fewer than two bins expect {LEAST:g} of them: take more draws."


def _integers(name: str, values: np.ndarray) -> np.ndarray:
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"{name} must be integers, got an array of {array.dtype}.")
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be one row of integers [n], got shape {array.shape}.")
    return array


def _chi_square(seen: np.ndarray, expected: np.ndarray) -> Goodness:
    from scipy.special import chdtrc

    statistic = float(((seen - expected) ** 2 / expected).sum())
    return Goodness(float(chdtrc(seen.size - 1, statistic)), statistic, seen.size, int(seen.sum()))
