"""The best strategy found of one attribute: optimised, or one of the fixed ones where that is better."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from pgmjax.strategies import fixed, full_rank, p_identity
from pgmjax.strategies.errors import column_norm, inverse_gram

MAX_SIZE = 2048
"""Codes of an attribute up to which strategies are optimised: an evaluation costs size^2 p or size^3."""

_MAX_FULL_RANK = 512
_SMALLEST_WEIGHT = 1e-4


@dataclasses.dataclass(frozen=True, eq=False)
class Factor:
    """A strategy of one attribute.

    Attributes:
        matrix: [rows, size]; integers for fixed strategies.
        inverse: ``(A^T A)^+`` [size, size] of the matrix over its norm.
        weights: of a p-identity [p, size], to go on from; None otherwise.
        full: of a square strategy [size, size], to go on from; None otherwise.
    """

    matrix: np.ndarray
    inverse: np.ndarray
    weights: np.ndarray | None = None
    full: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        matrix: np.ndarray,
        norm: str,
        weights: np.ndarray | None = None,
        full: np.ndarray | None = None,
    ) -> Factor:
        """Return a strategy with its inverse at sensitivity 1."""
        return cls(matrix, inverse_gram(matrix) * column_norm(matrix, norm) ** 2, weights, full)


def is_total(gram: np.ndarray) -> bool:
    """Return whether only the total is asked: all entries are equal."""
    return bool(np.ptp(gram) <= 1e-9 * max(1e-300, float(np.abs(gram).max())))


def is_identity(gram: np.ndarray) -> bool:
    """Return whether only single codes are asked, equally often: a multiple of the identity."""
    scale = float(gram[0, 0])
    return bool(np.abs(gram - scale * np.eye(len(gram))).max() <= 1e-9 * max(1e-300, abs(scale)))


def best_factor(
    gram: np.ndarray,
    norm: str,
    *,
    restarts: int = 5,
    seed: int = 0,
    earlier: Factor | None = None,
) -> Factor:
    """Return the best strategy found for a workload of one attribute.

    Args:
        gram: ``W^T W`` of the workload [size, size].
        norm: "l1" for Laplace, "l2" for Gaussian noise.
        restarts: random starts of the search.
        seed: of the random starts.
        earlier: a strategy to go on from in place of random starts.

    Example:
        >>> best_factor(np.eye(3), "l1").matrix.tolist()
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    """
    if is_total(gram):
        return Factor.of(fixed.total(len(gram)), norm)
    if is_identity(gram):
        return Factor.of(fixed.identity(len(gram)), norm)
    gram = gram / np.trace(gram)
    if earlier is None:
        return _from_random_starts(gram.tobytes(), len(gram), norm, restarts, seed)
    return _searched(gram, norm, restarts, seed, earlier)


@functools.lru_cache(maxsize=64)
def _from_random_starts(entries: bytes, size: int, norm: str, restarts: int, seed: int) -> Factor:
    """The search for a Gram matrix, once: the same attribute stands in many entries of a workload."""
    gram = np.frombuffer(entries, np.float64).reshape(size, size)
    return _searched(gram, norm, restarts, seed, None)


@functools.lru_cache(maxsize=256)
def _fixed(kind: str, size: int, norm: str) -> Factor:
    return Factor.of(fixed.FIXED[kind](size), norm)


def _searched(gram: np.ndarray, norm: str, restarts: int, seed: int, earlier: Factor | None) -> Factor:
    size = len(gram)
    found = [_fixed(kind, size, norm) for kind in fixed.FIXED]
    if size <= MAX_SIZE and norm == "l1":
        start = None if earlier is None else earlier.weights
        again = 0 if start is not None else restarts
        weights, _ = p_identity.optimise(gram, restarts=again, seed=seed, start=start)
        kept = weights[weights.max(axis=1) > _SMALLEST_WEIGHT]
        found.append(Factor.of(p_identity.p_identity(kept), norm, weights))
    elif size <= _MAX_FULL_RANK and norm == "l2":
        begun = None if earlier is None else earlier.full
        square = full_rank.optimise(gram, start=begun, max_steps=300 if begun is None else 60)[0]
        found.append(Factor.of(square, norm, full=square))
    return min(found, key=lambda factor: float(np.vdot(gram, factor.inverse)))


def fixed_factor(kind: str, gram: np.ndarray, norm: str) -> Factor:
    """Return a fixed strategy by name, but the total or identity where no more than that is asked."""
    if is_total(gram):
        return Factor.of(fixed.total(len(gram)), norm)
    make = fixed.identity if is_identity(gram) else fixed.FIXED[kind]
    return Factor.of(make(len(gram)), norm)
