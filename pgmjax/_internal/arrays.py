"""Operations written once for arrays of NumPy and of JAX, their types, and threads of NumPy's products."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import threadpoolctl


def module_of(table: Any) -> Any:
    """NumPy for its arrays and scalars, `jax.numpy` for others."""
    return np if isinstance(table, np.ndarray | np.generic) else jnp


def precision(dtype: str) -> Any:
    """Context in which arrays of a dtype can be created, without changing global flags."""
    return jax.enable_x64(True) if dtype == "float64" else contextlib.nullcontext()


def dot(left: Any, right: Any) -> Any:
    """Dot product of two arrays of one shape, as vectors; in NumPy without BLAS.

    BLAS divides ten thousand products among threads. Where other programs keep the cores busy, waiting for
    them takes a thousand times as long as the products.
    """
    if isinstance(left, np.ndarray):
        return np.einsum("i,i->", left.ravel(), right.ravel())
    return jnp.vdot(left, right)


_LOCK = threading.Lock()
_limits: list[Any] = []  # the one in force, once for each thread that works here


@functools.cache
def _blas() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Run NumPy with one thread of BLAS, until the last thread that works here leaves.

    Products of a few milliseconds gain little from more. Where other programs keep the cores busy, threads
    wait for one another up to twenty times as long as they work. The number is one of the whole process.
    """
    with _LOCK:
        limit = _limits[0] if _limits else _blas().limit(limits=1, user_api="blas")
        _limits.append(limit)
    try:
        yield
    finally:
        with _LOCK:
            _limits.pop()
            if not _limits:
                limit.restore_original_limits()
