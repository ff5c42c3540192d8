"""Memory available to this process, and byte counts as text."""

from __future__ import annotations

import os
import pathlib


def available_bytes() -> int:
    """Host memory still available to this process, in bytes.

    The minimum of the system's available memory and what the control group's and the process's limits leave.
    """
    limits = [_meminfo(), _cgroup(), _rlimit()]
    return min((limit for limit in limits if limit is not None), default=2**63 - 1)


def _meminfo() -> int | None:
    try:
        for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        return None


def _cgroup() -> int | None:
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            return max(int(pathlib.Path(limit).read_text()) - int(pathlib.Path(used).read_text()), 0)
        except (OSError, ValueError):
            continue
    return None


def _rlimit() -> int | None:
    try:
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft == resource.RLIM_INFINITY:
            return None
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
        return max(soft - pages * resource.getpagesize(), 0)
    except (ImportError, OSError, ValueError):
        return None


def readable_bytes(count: float) -> str:
    """A number of bytes as text, such as `1.5 GiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"
