"""Exact audits of the laws that mechanisms draw from: integer noise, and selection by scores.

Integer noise has infinitely many outputs, whose likelihood ratio is known in closed form; a selection
is a finite channel for each score vector, and every small one is tried.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from pgmjax._internal import checks
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace, Law

_MOST_VECTORS = 500_000
_WIDEST = 50_000_000


def noise_epsilon(law: Law, shift: int) -> float:
    """Return the pure epsilon of integer noise for answers that differ by `shift`.

    Args:
        law: the discrete noise.
        shift: distance of one answer between neighbours; for a vector under Laplace noise the L1
            distance of all of it, as the ratios multiply.

    Returns:
        abs(shift) / scale for the discrete Laplace, attained on both sides; inf for the discrete
        Gaussian, whose ratio is unbounded; 0 where the answers do not differ.

    Raises:
        TypeError: not a law of `pgmjax.laws`, or the shift is no integer.

    Example:
        >>> from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
        >>> noise_epsilon(DiscreteLaplace(4.0), 2), noise_epsilon(DiscreteGaussian(4.0), 2)
        (0.5, inf)
    """
    moved = abs(checks.integer("shift", shift))
    _known(law)
    if moved == 0:
        return 0.0
    return moved / law.scale if isinstance(law, DiscreteLaplace) else math.inf


def noise_delta(law: Law, shift: int, epsilon: float) -> float:
    """Return the delta of integer noise at an epsilon for one answer that differs by `shift`.

    Args:
        law: the discrete noise, of a scale up to about a million.
        shift: distance of the answer between neighbours.
        epsilon: >= 0, in nats.

    Returns:
        The sum over all integers k of max(P(k) - exp(epsilon) P(k - shift), 0), without cancellation.

    Raises:
        TypeError: not a law of `pgmjax.laws`, or the shift is no integer.
        ValueError: a negative epsilon, or a sum of too many terms.

    References:
        Canonne, Kamath and Steinke 2020, Theorem 7 (the discrete Gaussian's delta).

    Example:
        >>> from pgmjax.measurements.noise import DiscreteGaussian
        >>> f"{noise_delta(DiscreteGaussian(10.0), 1, 0.5):.3e}"
        '6.934e-09'
    """
    moved = abs(checks.integer("shift", shift))
    epsilon = checks.number("epsilon", epsilon, at_least=0)
    _known(law)
    lowest = 0 if isinstance(law, DiscreteLaplace) else -math.ceil(40 * law.scale)
    if moved // 2 - lowest > _WIDEST:
        raise ValueError(
            f"The sum has {moved // 2 - lowest} terms, at most {_WIDEST}: take a smaller scale or shift."
        )
    # beyond half the shift the neighbour is the likelier one
    values = np.arange(lowest, moved // 2 + 1, dtype=np.float64)
    masses = law.probabilities(values)
    if isinstance(law, DiscreteLaplace):
        loss = (moved - 2 * values) / law.scale
        masses[0] = 1 / (1 + math.exp(-1 / law.scale))  # all values up to 0 have one ratio
    else:
        loss = moved * (moved - 2 * values) / (2 * law.scale**2)
    return math.fsum(masses * np.maximum(-np.expm1(epsilon - loss), 0))


def _known(law: Law) -> None:
    if not isinstance(law, DiscreteLaplace | DiscreteGaussian):
        raise TypeError(
            f"Exact figures are known for DiscreteLaplace and DiscreteGaussian, got {type(law).__name__}; "
            "for another law give its probabilities to channel_epsilon as rows of a channel."
        )


def selection_epsilon(
    probabilities: Callable[[np.ndarray], np.ndarray],
    candidates: int = 3,
    sensitivity: int = 1,
    *,
    largest: int = 5,
    monotone: bool = False,
) -> float:
    """Return the largest log ratio of a selection over all small score vectors and their neighbours.

    Args:
        probabilities: the law of selection: int64 scores [candidates] to probabilities [candidates].
        candidates: how many there are, >= 2; cost grows as a power of it.
        sensitivity: how far each score may move between neighbours, a positive integer.
        largest: scores are 0..largest, each candidate by itself.
        monotone: all scores move in one direction, as counts do when a record is added.

    Returns:
        The largest log ratio found, in nats: a lower bound of the law's epsilon, and close to it where
        `largest` exceeds a few times sensitivity / epsilon. inf where supports differ.

    Raises:
        TypeError: a count that is no integer.
        ValueError: too many score vectors, or the law returns something that is no law.

    References:
        McSherry and Talwar 2007, "Mechanism design via differential privacy" (the 1/2 in the exponent).

    Example:
        >>> def exponential(scores):  # epsilon 1 at sensitivity 1
        ...     weights = np.exp(0.5 * (scores - scores.max()))
        ...     return weights / weights.sum()
        >>> round(selection_epsilon(exponential), 4)
        0.9748
    """
    count = checks.integer("candidates", candidates, low=2)
    moved = checks.integer("sensitivity", sensitivity, low=1)
    levels = checks.integer("largest", largest, low=0) + 1
    lowest = 0 if monotone else -moved
    width = levels + moved - lowest
    if width**count > _MOST_VECTORS:
        raise ValueError(
            f"{count} candidates with scores in {lowest}..{levels - 1 + moved} make {width**count} score "
            f"vectors, at most {_MOST_VECTORS}: take fewer candidates or a smaller `largest`."
        )
    logs = _log_laws(probabilities, count, lowest, width)
    centre = logs[(slice(-lowest, levels - lowest),) * count]
    worst = 0.0
    for move in itertools.product(range(lowest, moved + 1), repeat=count):
        shifted = logs[tuple(slice(m - lowest, m - lowest + levels) for m in move)]
        with np.errstate(invalid="ignore"):  # impossible under both: -inf less -inf says nothing
            worst = max(worst, float(np.nanmax(np.abs(centre - shifted))))
    return worst


def _log_laws(
    probabilities: Callable[[np.ndarray], np.ndarray], count: int, lowest: int, width: int
) -> np.ndarray:
    """Log-probabilities [width, ..., width, count] of every score vector with entries from `lowest` on."""
    laws = np.empty((width,) * count + (count,))
    for place in np.ndindex(*(width,) * count):
        law = np.asarray(probabilities(np.array(place, dtype=np.int64) + lowest), dtype=np.float64)
        if law.shape != (count,) or not (np.all(law >= 0) and abs(law.sum() - 1) <= 1e-9):
            raise ValueError(f"The law of selection must return {count} probabilities with a sum of 1.")
        laws[place] = law
    with np.errstate(divide="ignore"):
        return np.log(laws)
