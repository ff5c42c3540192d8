"""The device that programs run on: the one place that asks JAX which it is, and says how it fails.

With it stands what is written once for arrays of NumPy and of JAX, and how many threads NumPy takes.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import threading
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import threadpoolctl

from pgmjax._internal.checks import Error

_LOG = logging.getLogger("pgmjax")
_FAST_MATH = re.compile(r"--xla_cpu_enable_fast_math(?:=(\S+))?")
_FULL = (None, "default", "float32", "highest")  # settings of products that ask for nothing coarser


def platform() -> str:
    """Return the platform that programs run on unless a mesh says otherwise: `cpu`, `gpu` or `tpu`."""
    return str(jax.default_backend())


def is_cpu() -> bool:
    """Return whether programs run on the CPU, whose memory is the host's."""
    return platform() == "cpu"


def kind() -> str:
    """Return the name of the device as its maker gives it, such as `NVIDIA H100 80GB HBM3` or `cpu`."""
    return str(jax.local_devices()[0].device_kind)


def kinds() -> list[str]:
    """Return the names of all devices, those of other processes too."""
    return [str(device.device_kind) for device in jax.devices()]


def memory_stats() -> dict[str, int]:
    """Return what the device says of its memory (bytes); nothing where it says nothing, as a CPU does."""
    return dict(jax.local_devices()[0].memory_stats() or {})


class DeviceError(Error, RuntimeError):
    """The device ran out of memory, failed, or went away in the middle of a computation."""


@contextlib.contextmanager
def failures_told() -> Iterator[None]:
    """Say what happened and what to do if the device fails in the block.

    Raises:
        DeviceError: the device ran out of memory, failed internally or cannot be reached.
    """
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        code, _, rest = str(error).partition(":")  # XLA's message stays in the cause
        if (told := _FAILURES.get(code.strip())) is None or "callback" in rest.lower():
            raise  # not of the device: a Python function that XLA called also fails as INTERNAL
        raise DeviceError(told.format(device=kind())) from error


_LOST = (
    "in the middle of the computation; what it had computed there is lost. Run it again, on another device "
    "if this one does not come back (JAX_PLATFORMS=cpu uses the CPU)."
)
_FAILURES = {
    "RESOURCE_EXHAUSTED": (
        "The device {device} ran out of memory in the middle of the computation. Use smaller cliques, set "
        "`max_bytes` of the estimator to what the device has free, fit fewer rows at once, or run on the "
        'host with oracle="host".'
    ),
    "INTERNAL": f"The device {{device}} failed (INTERNAL) {_LOST}",
    "UNAVAILABLE": f"The device {{device}} is no longer available (UNAVAILABLE) {_LOST}",
}


@functools.cache  # once a process
def tell_coarse_flags() -> None:
    """Log which settings of the user make arithmetic coarser than this library assumes."""
    fast_math = _FAST_MATH.findall(os.environ.get("XLA_FLAGS", ""))
    if fast_math and fast_math[-1].lower() not in ("false", "0"):  # XLA takes the last
        _LOG.warning(
            "XLA_FLAGS has --xla_cpu_enable_fast_math: log values of minus infinity (cells that are "
            "impossible) and certified gaps cannot be relied upon. Remove the flag for fits that matter."
        )
    precision: str | None = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
    if precision not in _FULL:
        _LOG.warning(
            "jax_default_matmul_precision is %r: this has no effect on fits, whose products all ask for "
            "precision 'highest'.",
            precision,
        )


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
