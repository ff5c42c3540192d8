"""Operations that are written once for arrays of NumPy and of JAX."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np


def module_of(table: Any) -> Any:
    """NumPy for its arrays and scalars, `jax.numpy` for others."""
    return np if isinstance(table, np.ndarray | np.generic) else jnp


def dot(left: Any, right: Any) -> Any:
    """Dot product of two arrays of one shape, as vectors; in NumPy without BLAS.

    BLAS divides ten thousand products among threads. Where other programs keep the cores busy, waiting for
    them takes a thousand times as long as the products.
    """
    if isinstance(left, np.ndarray):
        return np.einsum("i,i->", left.reshape(-1), right.reshape(-1))
    return jnp.vdot(left, right)
