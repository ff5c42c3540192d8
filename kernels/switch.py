"""The switch that lets operations use GPU kernels: off unless somebody turns it on."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import jax

# part of the key of JAX's caches: a function compiled with the switch off is compiled anew when it is on
_SWITCH: Any = jax.make_user_context(False)


def using_kernels(on: bool = True) -> AbstractContextManager[None]:
    """A context in which operations run on GPU kernels where there is one, or do not.

    Outside any such context kernels are off: none has been measured on a GPU against XLA yet, and
    only what is measured faster becomes a default. On other devices the switch has no effect.

    Args:
        on: whether to use kernels inside.

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
        platform: the device's platform; JAX's default one if None.
    """
    return bool(_SWITCH.value) and (platform or jax.default_backend()) in ("gpu", "cuda")
