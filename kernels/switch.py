"""The switch for GPU kernels: off, unless it is set or a measurement of this very device says on."""

from __future__ import annotations

import functools
import json
import logging
import os
import pathlib
import uuid
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import jax

from pgmjax._internal import device

_LOG = logging.getLogger("pgmjax")
_FORMAT = {"format": "pgmjax-kernels", "version": 1}
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
    return f"{device.kind()}, jax {jax.__version__}"


def measurements_file() -> pathlib.Path:
    """Return where measurements are kept: `pgmjax/kernels.json` in the user's cache folder."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(folder, "pgmjax", "kernels.json")


def keep(won: Mapping[str, bool]) -> pathlib.Path:
    """Keep which kernels are faster on this device; what is kept of other devices stays.

    Args:
        won: whether each kernel is right and faster, by its name.

    Returns:
        The file.

    Raises:
        OSError: the file cannot be written.
    """
    file = measurements_file()
    record = {**_FORMAT, "devices": {**_read(file), this_device(): dict(won)}}
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.{uuid.uuid4().hex[:12]}")
    try:
        part.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    _kept_for.cache_clear()
    return file


@functools.cache  # read once, so that what a process compiles does not change while it runs
def _kept_for(name: str) -> dict[str, bool]:
    return _read(measurements_file()).get(name, {})


def _read(file: pathlib.Path) -> dict[str, dict[str, bool]]:
    """Return what is kept by device; nothing, and a line in the log, if the file is damaged."""
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        return _ignored(file, str(error))
    if not isinstance(record, dict) or {name: record.get(name) for name in _FORMAT} != _FORMAT:
        return _ignored(file, f"it is not of the format {_FORMAT}")
    devices = record.get("devices")
    if isinstance(devices, dict) and all(
        isinstance(kept, dict) and all(isinstance(value, bool) for value in kept.values())
        for kept in devices.values()
    ):
        return devices
    return _ignored(file, "its devices are not objects of true and false")


def _ignored(file: pathlib.Path, why: str) -> dict[str, dict[str, bool]]:
    _LOG.warning(
        "Kept measurements of kernels are ignored, and kernels stay off: %s: %s. `pgmjax bench kernels` "
        "writes the file again.",
        file,
        why,
    )
    return {}
