"""The best strategy found for one attribute: optimised, or a fixed one if that is better.

For Laplace noise the search (OPT_0) is over p-identities. A p-identity is ``[I; Theta] D``: every single code
and p weighted sums over codes, with columns scaled to L1 norm 1. It can answer any workload, and by the
Woodbury identity its error and the gradient cost O(size^2 p).

For Gaussian noise strategies may have any form. With columns of L2 norm 1 the error is ``tr(gram X^-1)``
where X = A^T A has ones on its diagonal: a convex problem. X is written as V V^T with rows of V of length 1,
which adds no local minima if V is square. The search starts at the strategy that is best when column norms
are ignored.

References:
    McKenna et al. 2018, "Optimizing error of high-dimensional statistical queries under differential
    privacy", section 5. Yuan et al. 2016, "Convex optimization for linear query processing under
    approximate differential privacy".
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax.random import generator
from pgmjax.strategies import fixed
from pgmjax.strategies.optimise import best_end, minimise
from pgmjax.strategies.strategy import column_norm, inverse_gram

MAX_SIZE = 2048
"""Largest attribute size for which strategies are optimised: an evaluation costs size^2 p or size^3."""

_MAX_FULL_RANK = 512
_SMALLEST_WEIGHT = 1e-4
_FLOOR = 1e-6  # relative floor of eigenvalues at the start of a full-rank search


@dataclasses.dataclass(frozen=True, eq=False)
class AttributeStrategy:
    """A strategy of one attribute.

    Attributes:
        matrix: [rows, size]; integers for fixed strategies.
        inverse: ``(A^T A)^+`` [size, size] of the matrix divided by its norm.
        end: where its search ended and may continue: the weights of a p-identity [p, size], or a full-rank
            matrix [size, size]; None for a fixed strategy.
    """

    matrix: np.ndarray
    inverse: np.ndarray
    end: np.ndarray | None = None

    @classmethod
    def of(cls, matrix: np.ndarray, norm: str, end: np.ndarray | None = None) -> AttributeStrategy:
        """Return a strategy with its inverse at sensitivity 1."""
        return cls(matrix, inverse_gram(matrix) * column_norm(matrix, norm) ** 2, end)


def best_factor(
    gram: np.ndarray,
    norm: str,
    *,
    restarts: int = 5,
    seed: int = 0,
    earlier: AttributeStrategy | None = None,
) -> AttributeStrategy:
    """Return the best strategy found for a workload of one attribute.

    Args:
        gram: ``W^T W`` of the workload [size, size].
        norm: "l1" for Laplace, "l2" for Gaussian noise.
        restarts: number of random starts of the search.
        seed: seed of the random starts.
        earlier: a strategy to continue from, instead of random starts.

    Example:
        >>> best_factor(np.eye(3), "l1").matrix.tolist()
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    """
    if is_total(gram) or is_identity(gram):
        return fixed_factor("identity", gram, norm)
    gram = gram / np.trace(gram)
    if earlier is None:
        return _from_random_starts(gram.tobytes(), len(gram), norm, restarts, seed)
    return _searched(gram, norm, restarts, seed, earlier)


@functools.lru_cache(maxsize=64)
def _from_random_starts(entries: bytes, size: int, norm: str, restarts: int, seed: int) -> AttributeStrategy:
    """Search once per Gram matrix, since the same attribute occurs in many entries of a workload."""
    gram = np.frombuffer(entries, np.float64).reshape(size, size)
    return _searched(gram, norm, restarts, seed, None)


@functools.lru_cache(maxsize=256)
def _fixed(kind: str, size: int, norm: str) -> AttributeStrategy:
    make = fixed.total if kind == "total" else fixed.FIXED[kind]
    return AttributeStrategy.of(make(size), norm)


def _searched(
    gram: np.ndarray, norm: str, restarts: int, seed: int, earlier: AttributeStrategy | None
) -> AttributeStrategy:
    size = len(gram)
    found = [_fixed(kind, size, norm) for kind in fixed.FIXED]
    start = None if earlier is None else earlier.end
    if size <= MAX_SIZE and norm == "l1":
        again = restarts if start is None else 0
        weights, _ = optimise_p_identity(gram, restarts=again, seed=seed, start=start)
        kept = weights[weights.max(axis=1) > _SMALLEST_WEIGHT]
        found.append(AttributeStrategy.of(p_identity(kept), norm, weights))
    elif size <= _MAX_FULL_RANK and norm == "l2":
        square, _ = optimise_full_rank(gram, start=start, max_steps=300 if start is None else 60)
        found.append(AttributeStrategy.of(square, norm, square))
    return min(found, key=lambda factor: float(np.vdot(gram, factor.inverse)))


def fixed_factor(kind: str, gram: np.ndarray, norm: str) -> AttributeStrategy:
    """Return a fixed strategy by name, or the total or identity if the workload asks only for that."""
    kind = "total" if is_total(gram) else "identity" if is_identity(gram) else kind
    return _fixed(kind, len(gram), norm)


def is_total(gram: np.ndarray) -> bool:
    """Return whether the workload asks only for the total: all entries are equal."""
    return bool(np.ptp(gram) <= 1e-9 * max(1e-300, float(np.abs(gram).max())))


def is_identity(gram: np.ndarray) -> bool:
    """Return whether the workload asks only for single codes, equally often: a multiple of the identity."""
    scale = float(gram[0, 0])
    return bool(np.abs(gram - scale * np.eye(len(gram))).max() <= 1e-9 * max(1e-300, abs(scale)))


def p_identity(theta: np.ndarray) -> np.ndarray:
    """Return the strategy [size + p, size] for weights [p, size], with columns of L1 norm 1.

    Example:
        >>> p_identity(np.ones((1, 2))).tolist()
        [[0.5, 0.0], [0.0, 0.5], [0.5, 0.5]]
    """
    theta = np.asarray(theta, np.float64)
    return np.concatenate([np.eye(theta.shape[1]), theta]) / (1 + theta.sum(axis=0))


def default_rows(gram: np.ndarray) -> int:
    """Return the default number p of weighted sums: a 16th of the codes, or one for simple workloads.

    A workload is simple if it combines the identity and the total: its Gram matrix is constant on the
    diagonal and constant off it.
    """
    size = len(gram)
    off = gram[~np.eye(size, dtype=bool)]
    scale = 1e-9 * max(1.0, float(np.abs(gram).max()))
    flat = off.size == 0 or (np.ptp(off) <= scale and np.ptp(np.diag(gram)) <= scale)
    return 1 if flat else max(1, size // 16)


@jax.custom_vjp
def p_identity_error(gram: Any, theta: Any) -> Any:
    """Return ``tr(gram (A^T A)^-1)`` of the p-identity of `theta` [p, size], a JAX scalar.

    With ``S = diag(1 + column sums of theta)`` the inverse is
    ``S (I - theta^T (I + theta theta^T)^-1 theta) S``. The error and its gradient share one product of cost
    size^2 p, which automatic differentiation would compute three times. `gram` is treated as a constant.
    """
    return _error_and_gradient(gram, theta)[0]


def _error_and_gradient(gram: Any, theta: Any) -> tuple[Any, Any]:
    scales, diagonal, one = 1 + theta.sum(axis=0), jnp.diagonal(gram), jnp.eye(len(theta), dtype=theta.dtype)
    asked = (theta * scales) @ gram
    factor = jnp.linalg.cholesky(one + theta @ theta.T)
    half = jax.scipy.linalg.solve_triangular(factor, one, lower=True)  # only p rows: LAPACK uses no threads
    inverse = half.T @ half
    solved, moved = inverse @ theta, inverse @ (asked * scales)
    error = (diagonal * scales**2).sum() - (asked * scales * solved).sum()
    by_scales = 2 * (diagonal * scales - (asked * solved).sum(axis=0))
    return error, by_scales - 2 * (moved - (moved @ theta.T) @ solved)


p_identity_error.defvjp(_error_and_gradient, lambda gradient, factor: (None, factor * gradient))


def optimise_p_identity(
    gram: np.ndarray, *, restarts: int = 5, seed: int = 0, start: np.ndarray | None = None
) -> tuple[np.ndarray, float]:
    """Return the weights of the best p-identity found, and its error in units (its sensitivity is 1).

    The search is local, from random starts; it uses only the workload.

    Args:
        gram: ``W^T W`` of the workload [size, size].
        restarts: number of random starts (at least one without `start`).
        seed: seed of the random starts.
        start: weights [p, size] as an additional start.

    Returns:
        weights [p, size] >= 0, and the total expected squared error in units of ``2 / epsilon**2``.

    Raises:
        ValueError: a Gram matrix that is not finite.

    Example:
        >>> from pgmjax.queries import prefix
        >>> from pgmjax.strategies.grams import block_gram
        >>> weights, error = optimise_p_identity(block_gram(prefix(), 32), restarts=2)
        >>> weights.shape, error < 32 * 3.6**2
        ((2, 32), True)
    """
    gram = check_gram(gram)
    starts = [] if start is None else [np.maximum(start, 0)]
    random, rows = generator(seed), default_rows(gram)
    starts += [random.random((rows, len(gram))) for _ in range(restarts)]
    scale = float(np.trace(gram)) or 1.0
    weights, error = best_end(p_identity_error, [gram / scale], starts)
    return weights, error * scale


def check_gram(gram: Any) -> np.ndarray:
    """Return a Gram matrix in float64; refuse one that is not finite, as those of huge weights."""
    gram = np.asarray(gram, np.float64)
    if not np.isfinite(gram).all():
        raise ValueError("a Gram matrix must be finite.")
    return gram


def full_rank_error(gram: Any, vectors: Any) -> Any:
    """Return ``tr(gram (A^T A)^-1)`` where column i of A is row i of `vectors`, scaled to length 1."""
    columns = vectors / jnp.linalg.norm(vectors, axis=1, keepdims=True)
    factor = jnp.linalg.cholesky(columns @ columns.T)
    half = jax.scipy.linalg.solve_triangular(factor, jnp.eye(len(gram), dtype=gram.dtype), lower=True)
    return ((half @ gram) * half).sum()


def optimise_full_rank(
    gram: np.ndarray, *, start: np.ndarray | None = None, max_steps: int = 300
) -> tuple[np.ndarray, float]:
    """Return the best strategy found, and its error in units of ``1 / (2 rho)``.

    Args:
        gram: ``W^T W`` of the workload [size, size].
        start: initial strategy [size, size].
        max_steps: maximum number of iterations.

    Returns:
        A [size, size] with columns of L2 norm 1 and entries of either sign; the total expected squared error.

    Example:
        >>> matrix, error = optimise_full_rank(np.eye(3))
        >>> round(error, 6)
        3.0
    """
    gram = check_gram(gram)
    scale = float(np.trace(gram)) or 1.0
    values, vectors = np.linalg.eigh(gram / scale)
    if start is None:
        start = (vectors * np.maximum(values, _FLOOR * values[-1]) ** 0.25) @ vectors.T
    else:
        start = np.asarray(start, np.float64).T
    end, error = minimise(full_rank_error, [gram / scale], start, max_steps=max_steps)
    return (end / np.linalg.norm(end, axis=1, keepdims=True)).T, error * scale
