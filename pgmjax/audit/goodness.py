"""Goodness of fit: whether draws follow the discrete law they claim, each draw by itself.

All tests are chi-square tests of counts in bins that each expect ten draws or more; thin tails are
folded inward first, as a bin with a tiny expectation would cry wolf at a single draw. A chi-square
test also rejects noise that was drawn once and used many times, in any order: copies inflate every
deviation. Two copies are found by `audit.repetition`, which looks at the order of draws.

How far a p-value can be trusted was computed exactly for Poisson counts in 20 bins that all expect the
same: where it says 1e-6 the truth is 9e-6 at expectations of 10, 3e-6 at 30 and 1.5e-6 at 100; where
it says 1e-9, 7e-8, 1e-8 and 2.5e-9. With 100,000 draws or more bins expect 100 where the law allows.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from pgmjax._internal import checks
from pgmjax.audit.bins import LEAST, IntegerLaw, check_law, edges_of, steps, too_few, window


@dataclasses.dataclass(frozen=True)
class Goodness:
    """The outcome of a chi-square test.

    Attributes:
        p_value: probability of a deviation at least as large if the draws follow the law.
        statistic: sum over bins of (seen - expected)^2 / expected.
        bins: how many; one more than the degrees of freedom.
        draws: how many were tested.
    """

    p_value: float
    statistic: float
    bins: int
    draws: int


def goodness_of_fit(samples: np.ndarray, law: IntegerLaw) -> Goodness:
    """Test integer draws against their exact law by a chi-square test.

    Args:
        samples: draws of noise, integers [n].
        law: the law they should follow, with mean zero.

    Returns:
        The outcome. Reject at p_value < alpha with an alpha fit for tests that must not cry wolf, such
        as 1e-6; 100,000 draws then show a scale that is wrong by a tenth (`draws_needed`).

    Raises:
        TypeError: the draws are not integers.
        ValueError: not one row of draws, too few of them for two bins, or the law does not sum to one.

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
    first, masses = window(law)
    edges = edges_of(masses * drawn.size, drawn.size)
    # values beyond the window belong to the outermost bins
    places = np.clip(drawn, first, first + masses.size - 1) - first
    seen = np.bincount(np.searchsorted(edges, places, side="right") - 1, minlength=edges.size - 1)
    return _chi_square(seen, np.add.reduceat(masses, edges[:-1]) * drawn.size)


def categorical_fit(counts: np.ndarray, probabilities: np.ndarray) -> Goodness:
    """Test how often each category came against its exact probability: selections, responses.

    Args:
        counts: how often each category came, integers [categories].
        probabilities: its law [categories], summing to one.

    Returns:
        The outcome; p_value is 0 where a category of probability zero came at all. Rare categories are
        put together until each group expects ten.

    Raises:
        TypeError: the counts are not integers.
        ValueError: shapes differ, a negative count, no law, or too few counts for two groups.

    Example:
        >>> categorical_fit([260, 240, 500], [0.25, 0.25, 0.5]).p_value > 0.1
        True
    """
    seen, law = _integers("counts", counts), np.asarray(probabilities, dtype=np.float64)
    if law.shape != seen.shape:
        raise ValueError(f"counts and probabilities have one shape, got {seen.shape} and {law.shape}.")
    if np.any(seen < 0):
        raise ValueError("counts must be at least 0.")
    check_law(law)
    draws = int(seen.sum())
    if np.any(seen[law == 0] > 0):
        return Goodness(0.0, math.inf, int(np.count_nonzero(law)), draws)
    order = np.argsort(law, kind="stable")[np.count_nonzero(law == 0) :]
    starts = steps(law[order] * draws, LEAST)[:-1]  # what is left over joins the likeliest
    if starts.size < 2:
        raise ValueError(too_few(draws))
    groups = [np.add.reduceat(values[order], starts) for values in (seen, law)]
    return _chi_square(groups[0], groups[1] * draws)


def two_sample(first: np.ndarray, second: np.ndarray) -> Goodness:
    """Test whether two samples of integers follow one law, whatever it is (homogeneity).

    Args:
        first: integers [n].
        second: integers [m].

    Returns:
        The outcome; `draws` counts both samples.

    Raises:
        TypeError: the draws are not integers.
        ValueError: not one row of draws each, or too few of them for two bins.

    Example:
        >>> steps = np.arange(1000) % 7
        >>> two_sample(steps, steps[::-1]).statistic, two_sample(steps, steps // 2).p_value < 1e-6
        (0.0, True)
    """
    one, other = _integers("first", first), _integers("second", second)
    _, where = np.unique(np.concatenate([one, other]), return_inverse=True)
    seen = np.stack([np.bincount(part, minlength=where.max() + 1) for part in np.split(where, [one.size])])
    share = np.array([[one.size], [other.size]]) / where.size
    edges = edges_of(seen.sum(axis=0) * share.min(), where.size)
    seen = np.add.reduceat(seen, edges[:-1], axis=1)
    result = _chi_square(seen, seen.sum(axis=0) * share, freedom=edges.size - 2)
    return dataclasses.replace(result, bins=edges.size - 1)


def _integers(name: str, values: np.ndarray) -> np.ndarray:
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"{name} must be integers, got an array of {array.dtype}.")
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be one row of integers [n], got shape {array.shape}.")
    return array


def _chi_square(seen: np.ndarray, expected: np.ndarray, freedom: int | None = None) -> Goodness:
    statistic = float(((seen - expected) ** 2 / expected).sum())
    chi2 = checks.optional("scipy.stats", extra="privacy").chi2
    p_value = float(chi2.sf(statistic, seen.size - 1 if freedom is None else freedom))
    return Goodness(p_value, statistic, seen.size, int(seen.sum()))
