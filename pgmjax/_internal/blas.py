"""The number of threads that NumPy's matrix products use."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import threadpoolctl

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
