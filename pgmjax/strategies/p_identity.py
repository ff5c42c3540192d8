"""OPT_0: the best strategy of one attribute among the p-identities, for Laplace noise.

A p-identity is ``[I; Theta] D``: each code by itself and p weighted sums over codes, with columns
scaled to L1 norm 1. It can answer any workload, and by the Woodbury identity its error and the
gradient cost O(size^2 p).

References:
    McKenna et al. 2018, "Optimizing error of high-dimensional statistical queries under differential
    privacy", section 5.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal import checks
from pgmjax.random import generator
from pgmjax.strategies.together import best_end


def p_identity(theta: np.ndarray) -> np.ndarray:
    """Return the strategy [size + p, size] of weights [p, size], columns of L1 norm 1.

    Example:
        >>> p_identity(np.ones((1, 2))).tolist()
        [[0.5, 0.0], [0.0, 0.5], [0.5, 0.5]]
    """
    theta = np.asarray(theta, np.float64)
    return np.concatenate([np.eye(theta.shape[1]), theta]) / (1 + theta.sum(axis=0))


def default_rows(gram: np.ndarray) -> int:
    """Return how many weighted sums are worth having: a 16th of the codes, one for simple workloads.

    Simple is a combination of the identity and the total, whose Gram matrix has one number on the diagonal
    and another off it.
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
    ``S (I - theta^T (I + theta theta^T)^-1 theta) S``. The error and its gradient share the one product of
    cost size^2 p, which automatic differentiation would do three times. `gram` counts as a constant.
    """
    return _error_and_gradient(gram, theta)[0]


def _error_and_gradient(gram: Any, theta: Any) -> tuple[Any, Any]:
    scales, diagonal, one = 1 + theta.sum(axis=0), jnp.diagonal(gram), jnp.eye(len(theta), dtype=theta.dtype)
    asked = (theta * scales) @ gram
    factor = jnp.linalg.cholesky(one + theta @ theta.T)
    half = jax.scipy.linalg.solve_triangular(factor, one, lower=True)  # of p rows: LAPACK starts no threads
    inverse = half.T @ half
    solved, moved = inverse @ theta, inverse @ (asked * scales)
    error = (diagonal * scales**2).sum() - (asked * scales * solved).sum()
    by_scales = 2 * (diagonal * scales - (asked * solved).sum(axis=0))
    return error, by_scales - 2 * (moved - (moved @ theta.T) @ solved)


p_identity_error.defvjp(_error_and_gradient, lambda gradient, factor: (None, factor * gradient))


def optimise(
    gram: np.ndarray,
    rows: int | None = None,
    *,
    restarts: int = 5,
    seed: int = 0,
    start: np.ndarray | None = None,
    max_steps: int = 2000,
) -> tuple[np.ndarray, float]:
    """Return the weights of the best p-identity found, and its error in units (its sensitivity is 1).

    The search is local, from random starts; it reads nothing but the workload.

    Args:
        gram: ``W^T W`` of the workload [size, size].
        rows: p; None is `default_rows`.
        restarts: random starts, 0 or more (at least one without `start`).
        seed: of the random starts.
        start: weights [rows, size] to start from besides.
        max_steps: evaluations of each start.

    Returns:
        weights [p, size] >= 0, and the total expected squared error in units of ``2 / epsilon**2``.

    Raises:
        ValueError: a Gram matrix that is not square and finite, or arguments out of range.

    Example:
        >>> from pgmjax.queries import prefix
        >>> from pgmjax.strategies.grams import block_gram
        >>> weights, error = optimise(block_gram(prefix(), 32), restarts=2)
        >>> weights.shape, error < 32 * 3.6**2
        ((2, 32), True)
    """
    gram = check_gram(gram)
    rows = default_rows(gram) if rows is None else checks.integer("rows", rows, low=1)
    checks.integer("restarts", restarts, low=1 if start is None else 0)
    starts = [] if start is None else [np.maximum(start, 0)]
    random = generator(seed)
    starts += [random.random((rows, len(gram))) for _ in range(restarts)]
    scale = float(np.trace(gram)) or 1.0
    weights, error = best_end(p_identity_error, [gram / scale], starts, max_steps=max_steps)
    return weights, error * scale


def check_gram(gram: Any) -> np.ndarray:
    """Return a Gram matrix in float64; refuse one that is not square and finite."""
    gram = np.asarray(gram, np.float64)
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or not gram.size:
        raise ValueError(f"a Gram matrix must be square, [size, size], got shape {gram.shape}.")
    if not np.isfinite(gram).all():
        raise ValueError("a Gram matrix must be finite.")
    return gram
