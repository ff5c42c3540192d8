"""The device that programs run on: the one place that asks JAX which it is."""

from __future__ import annotations

import jax

GPUS = ("gpu", "cuda", "rocm")  # names under which JAX knows a GPU


def platform() -> str:
    """Return the platform that programs run on unless a mesh says otherwise: `cpu`, `gpu` or `tpu`."""
    return str(jax.default_backend())


def is_cpu() -> bool:
    """Return whether programs run on the CPU, whose memory is the host's."""
    return platform() == "cpu"


def is_gpu(name: str | None = None) -> bool:
    """Return whether a platform is a GPU; by default the one that programs run on."""
    return (platform() if name is None else name) in GPUS


def kind() -> str:
    """Return the name of the device as its maker gives it, such as `NVIDIA H100 80GB HBM3` or `cpu`."""
    return str(jax.local_devices()[0].device_kind)


def kinds() -> list[str]:
    """Return the names of all devices, those of other processes too."""
    return [str(device.device_kind) for device in jax.devices()]


def memory_stats() -> dict[str, int]:
    """Return what the device says of its memory (bytes); nothing where it says nothing, as a CPU does."""
    return dict(jax.local_devices()[0].memory_stats() or {})
