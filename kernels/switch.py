"""The switch for GPU kernels: off, unless it is set or a measurement of this very device says on."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import jax

from pgmjax._internal import device
from pgmjax._internal.kept import KeptFile

KEPT = KeptFile("kernels", lambda value: isinstance(value, bool), "kernels stay off")
# part of the key of JAX's caches: a function compiled with the switch off is compiled again when it is on
_SWITCH: Any = jax.make_user_context(None)


def using_kernels(on: bool = True) -> AbstractContextManager[None]:
    """A context in which operations use GPU kernels where one exists, or do not use them.

    Outside any such context kernels are off, unless `pgmjax bench kernels` found on this very device, with
    this version of JAX, that they are right and faster than XLA. On other devices than GPUs the switch has no
    effect.

    Args:
        on: whether to use kernels in the context.

    Example:
        >>> with using_kernels():
        ...     kernels_in_use("gpu"), kernels_in_use("cpu")
        (True, False)
        >>> with using_kernels(False):
        ...     kernels_in_use("gpu")
        False
    """
    context: AbstractContextManager[None] = _SWITCH(on)
    return context


def kernels_in_use(platform: str | None = None, kernel: str | None = None) -> bool:
    """Return whether operations traced now use kernels: the device is a GPU, and they are on.

    Args:
        platform: platform of the device. Default: JAX's default backend.
        kernel: name of a kernel, such as `log_matmul_exp`. Default: any of them.
    """
    if not device.is_gpu(platform):
        return False
    if _SWITCH.value is not None:
        return bool(_SWITCH.value)
    kept = _kept_for(this_device())
    return any(kept.values()) if kernel is None else kept.get(kernel, False)


def this_device() -> str:
    """Return the key of measurements: the name of the device and the version of JAX."""
    return device.with_version()


def keep(won: Mapping[str, bool]) -> pathlib.Path:
    """Keep which kernels are faster on this device; what is kept of other devices stays.

    Args:
        won: whether each kernel is right and faster, by its name.

    Returns:
        The file.

    Raises:
        OSError: the file cannot be written.
    """
    file = KEPT.keep(this_device(), won)
    _kept_for.cache_clear()
    return file


@functools.cache  # read once, so that what a process compiles does not change while it runs
def _kept_for(name: str) -> dict[str, bool]:
    return KEPT.read().get(name, {})
