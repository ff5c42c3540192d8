"""What a run of a sweep ran on: machine, devices, versions."""

from __future__ import annotations

import contextlib
import os
import pathlib
import platform
from typing import Any

import jax

from pgmjax.release import folder


def facts() -> dict[str, Any]:
    """Return the machine and the versions, for the record of a run."""
    devices = [device.device_kind for device in jax.devices()]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "host": platform.node(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": cores,
        "memory_bytes": _memory(),
        "devices": [f"{devices.count(kind)} x {kind}" for kind in dict.fromkeys(devices)],
        "backend": jax.default_backend(),
        "versions": folder.versions(),
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> int | None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None
