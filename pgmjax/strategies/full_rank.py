"""The best strategy of one attribute for Gaussian noise, of any form.

With columns of L2 norm 1 the error is ``tr(gram X^-1)`` where X = A^T A has ones on its diagonal: a
convex problem. X is written as V V^T with rows of V of length 1, which has no other local minima for
a square V, and starts at the strategy that is best where the norms of columns do not matter.

References:
    Yuan et al. 2016, "Convex optimization for linear query processing under approximate differential
    privacy".
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax.strategies.optimise import minimise
from pgmjax.strategies.p_identity import check_gram

_FLOOR = 1e-6


def full_rank_error(gram: Any, vectors: Any) -> Any:
    """Return ``tr(gram (A^T A)^-1)`` where column i of A is row i of `vectors`, scaled to length 1."""
    columns = vectors / jnp.linalg.norm(vectors, axis=1, keepdims=True)
    factor = jnp.linalg.cholesky(columns @ columns.T)
    half = jax.scipy.linalg.solve_triangular(factor, jnp.eye(len(gram), dtype=gram.dtype), lower=True)
    return ((half @ gram) * half).sum()


def optimise(
    gram: np.ndarray, *, start: np.ndarray | None = None, max_steps: int = 300
) -> tuple[np.ndarray, float]:
    """Return the best strategy found, and its error in units of ``1 / (2 rho)``.

    Args:
        gram: ``W^T W`` of the workload [size, size].
        start: a strategy [size, size] to begin from.
        max_steps: of the search.

    Returns:
        A [size, size] with columns of L2 norm 1, entries of either sign; the total expected squared error.

    Example:
        >>> matrix, error = optimise(np.eye(3))
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
