"""The switch for GPU kernels; off by default."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import jax

from pgmjax._internal import device

# part of the key of JAX's caches: a function compiled with the switch off is compiled again when it is on
_SWITCH: Any = jax.make_user_context(False)


def using_kernels(on: bool = True) -> AbstractContextManager[None]:
    """A context in which operations use GPU kernels where one exists, or do not use them.

    Outside any such context kernels are off: none has been measured on a GPU against XLA yet, and only
    kernels that are measured to be faster become a default. On other devices the switch has no effect.

    Args:
        on: whether to use kernels in the context.

    Example:
        >>> with using_kernels():
        ...     kernels_in_use("gpu"), kernels_in_use("cpu")
        (True, False)
        >>> kernels_in_use("gpu")
        False
    """
    context: AbstractContextManager[None] = _SWITCH(on)
    return context


def kernels_in_use(platform: str | None = None) -> bool:
    """Return whether operations traced now use kernels: switched on, and the device is a GPU.

    Args:
        platform: platform of the device. Default: JAX's default backend.
    """
    return bool(_SWITCH.value) and device.is_gpu(platform)
