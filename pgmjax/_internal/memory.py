"""Memory available to this process, and byte counts as text."""

from __future__ import annotations

import decimal
import os
import pathlib

LARGEST_FLOAT = 10**300


def available_bytes() -> int:
    """Host memory still available to this process, in bytes.

    The minimum of the system's available memory and what the control group's and the process's limits leave.
    Files in the page cache that the kernel can drop count as free.
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
    return total_bytes()


def total_bytes() -> int | None:
    """Memory of the machine in bytes, None if the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        return None


def _cgroup(root: str = "/sys/fs/cgroup") -> int | None:
    for limit, used, reclaimable in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
    ):
        paths = [pathlib.Path(root, name) for name in (limit, used)]
        try:
            left = int(paths[0].read_text()) - int(paths[1].read_text())
        except (OSError, ValueError):
            continue
        return max(left + _statistic(paths[1].with_name("memory.stat"), reclaimable), 0)
    return None


def _statistic(path: pathlib.Path, name: str) -> int:
    """A number of a control group's memory.stat; 0 if it is not there."""
    try:
        numbers = dict(map(str.split, path.read_text().splitlines()))
        return int(numbers.get(name, 0))
    except (OSError, ValueError):
        return 0


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


def scientific(count: int, digits: int = 1) -> str:
    """A whole number in scientific notation, which floats have only below 2**1024.

    Example:
        >>> scientific(9**400), scientific(5 * 10**15, 2)
        ('5.0e+381', '5.00e+15')
    """
    return f"{decimal.Decimal(count):.{digits}e}"


def readable_bytes(count: float) -> str:
    """A number of bytes as text, such as `1.5 GiB`."""
    if count > LARGEST_FLOAT:
        return f"{scientific(int(count) >> 40)} TiB"
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"
