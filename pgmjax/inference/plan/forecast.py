"""What a plan will cost, and a refusal with figures before memory is touched."""

from __future__ import annotations

import dataclasses
import os
import pathlib

ORACLE_COPIES = 6
COMPILE = 0.006  # seconds for an operation


class ModelTooLargeError(ValueError):
    """The forecast of a model exceeds the memory at hand."""


@dataclasses.dataclass(frozen=True)
class Forecast:
    """Cost of one inference call.

    Attributes:
        method: what the plan is, in words.
        largest: cells of the largest table.
        inputs: cells of all potentials together.
        cells: cells of the oracle's own tables that live at the same time.
        work: exponentials to take, an estimate of the time.
        culprits: for the largest tables, the variables and the number of cells.
        operations: operations to compile, roughly.
        seconds: of a call once compiled, on two CPU cores, roughly.
        details: more lines about it, for people.
    """

    method: str
    largest: int
    inputs: int
    cells: int
    work: int
    culprits: tuple[tuple[tuple[int, ...], int], ...]
    operations: int = 0
    seconds: float = 0.0
    details: tuple[str, ...] = ()

    @property
    def compile_seconds(self) -> float:
        """What the first call adds, on two CPU cores, roughly."""
        return COMPILE * self.operations

    def peak_bytes(self, itemsize: int, copies: int = ORACLE_COPIES) -> int:
        """Memory at the peak, in bytes.

        Args:
            itemsize: bytes of a cell, 4 or 8.
            copies: how many tables the size of the potentials live beside the oracle's own: those of
                one call by default, more inside a solver.
        """
        return (self.cells + copies * self.inputs) * itemsize


def available_bytes() -> int:
    """Memory that this process may still take on the host, in bytes.

    The least of what the system has free, the control group's limit and the process's own.
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
    """A number of bytes in words, such as `1.5 GiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"


def readable_cells(count: int) -> str:
    """A number of cells in digits, or in powers of ten where nobody would count them.

    Example:
        >>> readable_cells(53_000_000), readable_cells(6**40)
        ('53,000,000', '1.3e+31')
    """
    return f"{count:,}" if count < 10**15 else f"{count:.1e}"


def require_memory(forecast: Forecast, names: tuple[str, ...], need: int, limit: int) -> None:
    """Refuse a model whose forecast exceeds a limit.

    Args:
        forecast: the plan's forecast.
        names: attribute name of each variable.
        need: its peak, in bytes.
        limit: bytes that may be used.

    Raises:
        ModelTooLargeError: with the figures, the cliques that cause them and what can be done.
    """
    if need <= limit:
        return
    causes = "; ".join(
        f"({', '.join(names[v] for v in variables)}) with {readable_cells(cells)} cells"
        for variables, cells in forecast.culprits
    )
    raise ModelTooLargeError(
        f"The model needs about {readable_bytes(need)} ({forecast.method}) and {readable_bytes(limit)} is "
        f"available. The largest tables: {causes}. Measure fewer or smaller cliques that overlap less, "
        "coarsen the bins of these attributes, or set max_bytes."
    )


def require_cells(cells: int, what: str) -> None:
    """Refuse a float64 table, to be worked on in the host's memory, that does not fit there.

    Args:
        cells: its cells; three copies are counted: the table, its exponential and one more.
        what: what it is, for the message.

    Raises:
        ModelTooLargeError: with the figures.
    """
    need, limit = 24 * cells, available_bytes()
    if need > limit:
        raise ModelTooLargeError(
            f"{what} has {readable_cells(cells)} cells and needs about {readable_bytes(need)}; "
            f"{readable_bytes(limit)} is available. Ask for fewer attributes or a coarser query."
        )
