"""Exact audits without sampling: privacy loss computed from a mechanism's probabilities.

A finite mechanism is a channel: a matrix [inputs, outputs] of P(output | input), each row a distribution.
Integer noise has infinitely many outputs, whose likelihood ratio is known in closed form; a selection is a
finite channel for each score vector, and all small score vectors are tried. There are no false alarms: the
results are exact to float64.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from pgmjax._internal import checks
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace, DiscreteNoise

_ROUNDING = 1e-9  # how far a row may be from summing to one

_MOST_VECTORS = 500_000
_WIDEST = 50_000_000


def channel_epsilon(channel: np.ndarray, neighbours: np.ndarray | None = None) -> float:
    """Return the epsilon of a finite mechanism: its largest log ratio over all outputs.

    Args:
        channel: P(output | input) [inputs, outputs].
        neighbours: pairs of neighbouring rows, int [pairs, 2], in either order; all pairs by default,
            which is local differential privacy.

    Returns:
        The smallest epsilon that holds, in nats; inf if supports differ.

    Raises:
        ValueError: the channel is not a matrix of distributions, or a pair is out of range.

    References:
        Dwork and Roth 2014, "The algorithmic foundations of differential privacy", Definition 2.4.

    Example:
        >>> round(channel_epsilon([[0.75, 0.25], [0.25, 0.75]]), 6)  # ln 3
        1.098612
    """
    matrix = _channel(channel)
    pairs = _ordered_pairs(len(matrix), neighbours)
    return max((_log_ratio(matrix[i], matrix[j]) for i, j in pairs), default=0.0)


def channel_delta(channel: np.ndarray, epsilon: float, neighbours: np.ndarray | None = None) -> float:
    """Return the delta of a finite mechanism at an epsilon: its hockey-stick divergence.

    Args:
        channel: P(output | input) [inputs, outputs].
        epsilon: >= 0, in nats.
        neighbours: pairs of neighbouring rows, int [pairs, 2]; all pairs by default.

    Returns:
        The smallest delta that holds: the largest sum of max(P - exp(epsilon) Q, 0).

    Raises:
        ValueError: the channel is not a matrix of distributions, a pair is out of range, or epsilon < 0.

    Example:
        >>> channel_delta([[0.75, 0.25], [0.25, 0.75]], 0.0)
        0.5
    """
    matrix = _channel(channel)
    factor = math.exp(checks.number("epsilon", epsilon, at_least=0))
    excess = (
        np.maximum(matrix[i] - factor * matrix[j], 0) for i, j in _ordered_pairs(len(matrix), neighbours)
    )
    return max((math.fsum(e) for e in excess), default=0.0)


def noise_epsilon(distribution: DiscreteNoise, shift: int) -> float:
    """Return the pure epsilon of integer noise for answers that differ by `shift`.

    Args:
        distribution: the discrete noise.
        shift: distance of one answer between neighbours; for a vector under Laplace noise its L1
            distance, as the ratios multiply.

    Returns:
        abs(shift) / scale for the discrete Laplace, attained on both sides; inf for the discrete
        Gaussian, whose ratio is unbounded; 0 if the answers do not differ.

    Raises:
        TypeError: the distribution is not a DiscreteLaplace or DiscreteGaussian, or the shift is not an
            integer.

    Example:
        >>> from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
        >>> noise_epsilon(DiscreteLaplace(4.0), 2), noise_epsilon(DiscreteGaussian(4.0), 2)
        (0.5, inf)
    """
    moved = abs(checks.integer("shift", shift))
    _known(distribution)
    if moved == 0:
        return 0.0
    return moved / distribution.scale if isinstance(distribution, DiscreteLaplace) else math.inf


def noise_delta(distribution: DiscreteNoise, shift: int, epsilon: float) -> float:
    """Return the delta of integer noise at an epsilon for one answer that differs by `shift`.

    Args:
        distribution: the discrete noise, with a scale up to about a million.
        shift: distance of the answer between neighbours.
        epsilon: >= 0, in nats.

    Returns:
        The sum over all integers k of max(P(k) - exp(epsilon) P(k - shift), 0), without cancellation.

    Raises:
        TypeError: the distribution is not a DiscreteLaplace or DiscreteGaussian, or the shift is not an
            integer.
        ValueError: epsilon is negative, or the sum has too many terms.

    References:
        Canonne, Kamath and Steinke 2020, Theorem 7 (the discrete Gaussian's delta).

    Example:
        >>> from pgmjax.measurements.noise import DiscreteGaussian
        >>> f"{noise_delta(DiscreteGaussian(10.0), 1, 0.5):.3e}"
        '6.934e-09'
    """
    moved = abs(checks.integer("shift", shift))
    epsilon = checks.number("epsilon", epsilon, at_least=0)
    _known(distribution)
    lowest = 0 if isinstance(distribution, DiscreteLaplace) else -math.ceil(40 * distribution.scale)
    if moved // 2 - lowest > _WIDEST:
        raise ValueError(
            f"The sum has {moved // 2 - lowest} terms, at most {_WIDEST}: take a smaller scale or shift."
        )
    # beyond half the shift the neighbour is the likelier one
    values = np.arange(lowest, moved // 2 + 1, dtype=np.float64)
    masses = distribution.probabilities(values)
    if isinstance(distribution, DiscreteLaplace):
        loss = (moved - 2 * values) / distribution.scale
        masses[0] = 1 / (1 + math.exp(-1 / distribution.scale))  # all values up to 0 have one ratio
    else:
        loss = moved * (moved - 2 * values) / (2 * distribution.scale**2)
    return math.fsum(masses * np.maximum(-np.expm1(epsilon - loss), 0))


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
        probabilities: the distribution of selection: int64 scores [candidates] to probabilities [candidates].
        candidates: number of candidates, >= 2; the cost grows exponentially with it.
        sensitivity: largest change of each score between neighbours, a positive integer.
        largest: each candidate's score ranges over 0..largest.
        monotone: whether all scores change in one direction, as counts do when a record is added.

    Returns:
        The largest log ratio found, in nats: a lower bound on the distribution's epsilon, and close to it
        if `largest` exceeds a few times sensitivity / epsilon. inf if supports differ.

    Raises:
        TypeError: a count is not an integer.
        ValueError: there are too many score vectors, or `probabilities` does not return a distribution.

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
    logs = _log_probabilities(probabilities, count, lowest, width)
    centre = logs[(slice(-lowest, levels - lowest),) * count]
    worst = 0.0
    for move in itertools.product(range(lowest, moved + 1), repeat=count):
        shifted = logs[tuple(slice(m - lowest, m - lowest + levels) for m in move)]
        with np.errstate(invalid="ignore"):  # impossible under both: -inf less -inf says nothing
            worst = max(worst, float(np.nanmax(np.abs(centre - shifted))))
    return worst


def _channel(channel: np.ndarray) -> np.ndarray:
    matrix = np.asarray(channel, dtype=np.float64)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"A channel is a matrix [inputs, outputs], got an array of shape {matrix.shape}.")
    if not (np.all(matrix >= 0) and np.all(np.abs(matrix.sum(axis=1) - 1) <= _ROUNDING)):
        raise ValueError("Each row of a channel holds probabilities: at least 0, with a sum of 1.")
    return matrix


def _ordered_pairs(inputs: int, neighbours: np.ndarray | None) -> np.ndarray:
    """Return both orders of each pair of neighbouring inputs, int [pairs, 2]."""
    if neighbours is None:
        return np.array(list(itertools.permutations(range(inputs), 2)), dtype=np.int64).reshape(-1, 2)
    pairs = np.asarray(neighbours)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise ValueError(f"neighbours is an integer array [pairs, 2] of rows, got shape {pairs.shape}.")
    if np.any((pairs < 0) | (pairs >= inputs)):
        raise ValueError(f"neighbours names a row that is not in 0..{inputs - 1}.")
    return np.concatenate([pairs, pairs[:, ::-1]])


def _log_ratio(first: np.ndarray, second: np.ndarray) -> float:
    """Return the largest log(first / second); inf if only the first is positive somewhere."""
    produced = first > 0
    if np.any(produced & (second <= 0)):
        return math.inf
    ratio = np.log(first, where=produced, out=np.zeros_like(first))
    return float(np.max(ratio - np.log(second, where=produced, out=np.zeros_like(second)), initial=0.0))


def _known(distribution: DiscreteNoise) -> None:
    checks.kind(
        distribution,
        DiscreteLaplace | DiscreteGaussian,
        "Exact figures are known for DiscreteLaplace and DiscreteGaussian",
        "give the probabilities of another distribution to channel_epsilon as rows of a channel",
    )


def _log_probabilities(
    probabilities: Callable[[np.ndarray], np.ndarray], count: int, lowest: int, width: int
) -> np.ndarray:
    """Return log-probabilities [width, ..., width, count] of all score vectors with entries >= `lowest`."""
    distributions = np.empty((width,) * count + (count,))
    for place in np.ndindex(*(width,) * count):
        distribution = np.asarray(probabilities(np.array(place, dtype=np.int64) + lowest), dtype=np.float64)
        if distribution.shape != (count,) or not (
            np.all(distribution >= 0) and abs(distribution.sum() - 1) <= 1e-9
        ):
            raise ValueError(
                f"The distribution of selection must return {count} probabilities with a sum of 1."
            )
        distributions[place] = distribution
    with np.errstate(divide="ignore"):
        return np.log(distributions)
