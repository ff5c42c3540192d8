"""Exact audits without sampling: what a finite mechanism reveals, read off its probabilities.

A finite mechanism is a channel: a matrix [inputs, outputs] of P(output | input), each row a law.
Nothing here has a false alarm: what comes back is the mechanism's own figure, to float64.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from pgmjax._internal import checks

_ROUNDING = 1e-9  # how far a row may be from summing to one


def _channel(channel: np.ndarray) -> np.ndarray:
    matrix = np.asarray(channel, dtype=np.float64)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"A channel is a matrix [inputs, outputs], got an array of shape {matrix.shape}.")
    if not (np.all(matrix >= 0) and np.all(np.abs(matrix.sum(axis=1) - 1) <= _ROUNDING)):
        raise ValueError("Each row of a channel holds probabilities: at least 0, with a sum of 1.")
    return matrix


def _ordered_pairs(inputs: int, neighbours: np.ndarray | None) -> np.ndarray:
    """Both orders of each pair of neighbouring inputs, int [pairs, 2]."""
    if neighbours is None:
        return np.array(list(itertools.permutations(range(inputs), 2)), dtype=np.int64).reshape(-1, 2)
    pairs = np.asarray(neighbours)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise ValueError(f"neighbours is an integer array [pairs, 2] of rows, got shape {pairs.shape}.")
    if np.any((pairs < 0) | (pairs >= inputs)):
        raise ValueError(f"neighbours names a row that is not in 0..{inputs - 1}.")
    return np.concatenate([pairs, pairs[:, ::-1]])


def _log_ratio(first: np.ndarray, second: np.ndarray) -> float:
    """The largest log(first / second) over the last axis, inf where only the first is positive."""
    produced = first > 0
    if np.any(produced & (second <= 0)):
        return math.inf
    ratio = np.log(first, where=produced, out=np.zeros_like(first))
    return float(np.max(ratio - np.log(second, where=produced, out=np.zeros_like(second)), initial=0.0))


def same_support(first: np.ndarray, second: np.ndarray) -> bool:
    """Say whether two laws over the same outputs can produce the same outputs.

    Args:
        first: probabilities [outputs] under one input.
        second: probabilities [outputs] under its neighbour.

    Returns:
        True where both are zero at the same places. If not, one output proves the input, and no
        finite epsilon holds.

    Raises:
        ValueError: the shapes differ.

    Example:
        >>> same_support([0.5, 0.5, 0.0], [0.0, 0.5, 0.5])
        False
    """
    one, other = np.asarray(first), np.asarray(second)
    if one.shape != other.shape:
        raise ValueError(f"Two laws over the same outputs have one shape, got {one.shape} and {other.shape}.")
    return bool(np.array_equal(one > 0, other > 0))


def channel_epsilon(channel: np.ndarray, neighbours: np.ndarray | None = None) -> float:
    """Return the epsilon of a finite mechanism: its largest log ratio over all outputs.

    Args:
        channel: P(output | input) [inputs, outputs].
        neighbours: pairs of neighbouring rows, int [pairs, 2], in either order; all pairs by default,
            which is local differential privacy.

    Returns:
        The smallest epsilon that holds, in nats; inf where supports differ.

    Raises:
        ValueError: not a matrix of laws, or a pair names no row.

    References:
        Dwork and Roth 2014, "The algorithmic foundations of differential privacy", Definition 2.4.

    Example:
        >>> round(channel_epsilon([[0.75, 0.25], [0.25, 0.75]]), 6)  # ln 3
        1.098612
    """
    matrix = _channel(channel)
    pairs = _ordered_pairs(len(matrix), neighbours)
    return max((_log_ratio(matrix[i], matrix[j]) for i, j in pairs), default=0.0)


def metric_epsilon(channel: np.ndarray, distances: np.ndarray) -> float:
    """Return the epsilon per unit of distance of a finite mechanism (metric differential privacy).

    Args:
        channel: P(output | input) [inputs, outputs].
        distances: [inputs, inputs], in the metric's unit; pairs at distance 0 must have one law.

    Returns:
        The largest log ratio over distance, in nats per unit; inf where supports differ.

    Raises:
        ValueError: not a matrix of laws, or the distances are negative or not symmetric.

    References:
        Chatzikokolakis et al. 2013, "Broadening the scope of differential privacy using metrics".

    Example:
        >>> round(metric_epsilon([[0.75, 0.25], [0.25, 0.75]], [[0, 2], [2, 0]]), 6)
        0.549306
    """
    matrix, between = _channel(channel), np.asarray(distances, dtype=np.float64)
    if between.shape != (len(matrix),) * 2 or not (
        np.all(between >= 0) and np.array_equal(between, between.T)
    ):
        raise ValueError(f"distances is a symmetric matrix of shape {(len(matrix),) * 2} of numbers >= 0.")
    worst = 0.0
    for i, j in itertools.permutations(range(len(matrix)), 2):
        ratio = _log_ratio(matrix[i], matrix[j])
        if ratio > 0:
            worst = max(worst, ratio / between[i, j] if between[i, j] > 0 else math.inf)
    return float(worst)


def channel_delta(channel: np.ndarray, epsilon: float, neighbours: np.ndarray | None = None) -> float:
    """Return the delta of a finite mechanism at an epsilon: its hockey-stick divergence.

    Args:
        channel: P(output | input) [inputs, outputs].
        epsilon: >= 0, in nats.
        neighbours: pairs of neighbouring rows, int [pairs, 2]; all pairs by default.

    Returns:
        The smallest delta that holds: the largest sum of max(P - exp(epsilon) Q, 0).

    Raises:
        ValueError: not a matrix of laws, a pair that names no row, a negative epsilon.

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


def channel_renyi(channel: np.ndarray, order: float, neighbours: np.ndarray | None = None) -> float:
    """Return the Renyi divergence of a finite mechanism: the largest over neighbouring inputs.

    Args:
        channel: P(output | input) [inputs, outputs].
        order: > 1.
        neighbours: pairs of neighbouring rows, int [pairs, 2]; all pairs by default.

    Returns:
        The divergence of that order, in nats; inf where supports differ.

    Raises:
        ValueError: not a matrix of laws, a pair that names no row, an order that is not above 1.

    References:
        Mironov 2017, "Renyi differential privacy".

    Example:
        >>> round(channel_renyi([[0.75, 0.25], [0.25, 0.75]], 2.0), 6)  # ln(7/3)
        0.847298
    """
    matrix, order = _channel(channel), checks.number("order", order, above=1)
    worst = 0.0
    for i, j in _ordered_pairs(len(matrix), neighbours):
        if _log_ratio(matrix[i], matrix[j]) == math.inf:
            return math.inf
        seen = matrix[i] > 0
        ratio = np.log(matrix[i, seen]) - np.log(matrix[j, seen])
        top = ratio.max()  # taken out so that high orders do not overflow
        total = math.fsum(matrix[i, seen] * np.exp((order - 1) * (ratio - top)))
        worst = max(worst, top + math.log(total) / (order - 1))
    return float(worst)
