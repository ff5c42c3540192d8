"""Threads of BLAS, which NumPy's linear algebra calls."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import threadpoolctl

_LOCK = threading.Lock()
_inside: list[Any] = []  # the limit in force, once for each thread that asked for it


@functools.cache
def _controller() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Have BLAS use one thread, until the last of the threads that asked for it leaves.

    Products and factors of a few hundred rows gain nothing from more. Where other programs keep the cores busy,
    threads wait for one another many times as long as they work. The number is one of the whole process.
    """
    with _LOCK:
        limit = _inside[0] if _inside else _controller().limit(limits=1, user_api="blas")
        _inside.append(limit)
    try:
        yield
    finally:
        with _LOCK:
            _inside.pop()
            if not _inside:
                limit.restore_original_limits()
