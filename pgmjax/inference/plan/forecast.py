"""Forecasts of the cost of a plan, by the rates of the machine, and errors before memory is allocated.

A rate is a time per unit of work. There are those of compiled programs on the device, from the data sheet of
a named card (a T4's for other cards) or the defaults of a CPU, and those of NumPy on the host. Nothing is
measured or kept on the user's machine: those measured on one chose the same plans (docs/lab/ablations.md),
and equal calls are planned equally. `bench/machine_rates.py` measures them.

References:
    NVIDIA's data sheets of H100 (SXM), H200, A100 80GB, L4 and T4, and the white paper of the Ada GPU
    architecture for the GeForce RTX 4090: bandwidth and float32 operations (not those of tensor cores).
    CUDA C++ programming guide, arithmetic instructions: 16 exponentials a clock and multiprocessor, which
    has 64 (A100, T4) or 128 float32 units.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from pgmjax._internal import checks, device, memory
from pgmjax._internal.checks import Error
from pgmjax._internal.memory import readable_bytes, scientific

ORACLE_COPIES = 3  # of the potentials, in a call: as given, on the device, and marginals
SMALL = 1 << 20  # bytes, for which nobody looks at the free memory: that takes longer than so small a table

DEFAULTS = "defaults, of two cores of an AMD EPYC"
UNKNOWN = "data sheet of the T4, for want of this card's"
_LAUNCH = 2.5e-6  # seconds to start a kernel of a card: an assumption, no data sheet says
# name as JAX gives it -> name, bytes a second, float32 operations a second, float32 units of a multiprocessor
_CARDS = {
    "NVIDIA H100 80GB HBM3": ("H100 SXM", 3.35e12, 67e12, 128),
    "NVIDIA H200": ("H200", 4.8e12, 67e12, 128),
    "NVIDIA A100-SXM4-80GB": ("A100 80GB", 2.039e12, 19.5e12, 64),
    "NVIDIA L4": ("L4", 3.0e11, 30.3e12, 128),
    "Tesla T4": ("T4", 3.2e11, 8.1e12, 64),
    "NVIDIA GeForce RTX 4090": ("GeForce RTX 4090", 1.008e12, 82.6e12, 128),
}


@dataclasses.dataclass(frozen=True)
class Rates:
    """Times of compiled programs; the defaults are for two CPU cores, float32.

    Attributes:
        launch: seconds to start one compiled operation.
        cell: seconds to read, transform and write a cell of an operand of a large product.
        exponential: seconds of an exponential in a sum, with reading its term.
        flop: seconds per floating point operation of a matrix product.
        operation: seconds to compile one operation.
        source: where the rates come from, in words.
    """

    launch: float = 3.7e-7
    cell: float = 8e-10
    exponential: float = 1.3e-9
    flop: float = 5.5e-12
    operation: float = 2e-3
    source: str = DEFAULTS


@dataclasses.dataclass(frozen=True)
class HostRates:
    """Times of NumPy on the host, float64.

    Attributes:
        step: seconds of a step of inference, whatever its size: a few calls of NumPy.
        cell: seconds to transform a stored cell, forward and backward.
        flop: seconds of a multiplication and addition in a matrix product.
        source: where the rates come from, in words.
    """

    step: float = 1e-5
    cell: float = 4e-9
    flop: float = 5e-11
    source: str = DEFAULTS


CPU, HOST_RATES = Rates(), HostRates()


def seconds_of(units: Mapping[str, int], by: Rates | HostRates) -> float:
    """Return the time of some units of work, by the names of their rates (s)."""
    return float(sum(count * getattr(by, rate) for rate, count in units.items()))


def device_rates() -> Rates:
    """Return the rates of compiled programs on the device at hand."""
    return CPU if device.is_cpu() else of_card(device.kind()) or _by_sheet("Tesla T4", UNKNOWN)


def of_card(name: str) -> Rates | None:
    """Return the rates of a card by its data sheet; None if it is not one of those known.

    Args:
        name: as JAX gives it.

    Example:
        >>> of_card("NVIDIA L4").source
        'data sheet of the L4'
    """
    return _by_sheet(name, f"data sheet of the {_CARDS[name][0]}") if name in _CARDS else None


def _by_sheet(name: str, source: str) -> Rates:
    _, bandwidth, operations, units = _CARDS[name]
    exponentials = operations * 16 / (2 * units)
    return Rates(_LAUNCH, 8 / bandwidth, 1 / exponentials, 1 / operations, source=source)


class ModelTooLargeError(Error, ValueError):
    """The forecast of a model exceeds the available memory, or that of a question the time it may take.

    Attributes:
        fits_in: memory (bytes) with which the same would be done in one piece; None if it is not known.
    """

    def __init__(self, message: str, fits_in: int | None = None):
        super().__init__(message)
        self.fits_in = fits_in


@dataclasses.dataclass(frozen=True)
class Forecast:
    """Cost of one inference call.

    Attributes:
        method: description of the plan, as text.
        largest: cells of the largest table.
        inputs: cells of all potentials together.
        cells: cells of the oracle's own tables in memory at the same time.
        work: number of exponentials, a measure of the time.
        largest_tables: variables and number of cells of the largest tables.
        operations: approximate number of operations to compile.
        seconds: approximate time of a call once compiled.
        kernels: approximate number of kernels of a call on a GPU, one after the other; 0 if it is not known.
    """

    method: str
    largest: int
    inputs: int
    cells: int
    work: int
    largest_tables: tuple[tuple[tuple[int, ...], int], ...]
    operations: int = 0
    seconds: float = 0.0
    kernels: int = 0

    @property
    def compile_seconds(self) -> float:
        """Approximate compile time of the first call (s)."""
        return device_rates().operation * self.operations

    @property
    def gpu_seconds(self) -> float:
        """Approximate time of a call on a GPU once compiled, if its kernels are known (s)."""
        by = device_rates()
        return by.launch * self.kernels + by.exponential * self.work + 1.5 * by.cell * self.cells

    def peak_bytes(self, itemsize: int, copies: int = ORACLE_COPIES) -> int:
        """Peak memory, in bytes.

        Args:
            itemsize: bytes per cell, 4 or 8.
            copies: number of copies of the potentials in memory besides the oracle's own tables. Default:
                those of one call; a solver needs more.
        """
        return (self.cells + copies * self.inputs) * itemsize


def readable_cells(count: int) -> str:
    """A number of cells as text: in digits, or in scientific notation from 10**15 on.

    Example:
        >>> readable_cells(53_000_000), readable_cells(6**40)
        ('53,000,000', '1.3e+31')
    """
    return f"{count:,}" if count < 10**15 else scientific(count)


def require_memory(forecast: Forecast, names: tuple[str, ...], need: int, limit: int, also: str = "") -> None:
    """Raise an error if the forecast of a model exceeds a limit.

    Args:
        forecast: the plan's forecast.
        names: attribute name of each variable.
        need: its peak memory, in bytes.
        limit: bytes that may be used.
        also: last words of the message.

    Raises:
        ModelTooLargeError: the limit is exceeded; the message gives the figures, the cliques that cause
            them and possible remedies.
    """
    if need <= limit:
        return
    causes = "; ".join(
        f"({', '.join(names[v] for v in variables)}) with {readable_cells(cells)} cells"
        for variables, cells in forecast.largest_tables
    )
    raise ModelTooLargeError(
        f"The model needs about {readable_bytes(need)} ({forecast.method}) and {readable_bytes(limit)} is "
        f"available. The largest tables: {causes}. Measure fewer or smaller cliques that overlap less, "
        f"coarsen the bins of these attributes, or set max_bytes.{also}",
        need,
    )


def memory_limit(max_bytes: int | None) -> int:
    """Bytes that may be used: `max_bytes`, or by default the free memory of the device.

    Raises:
        TypeError: `max_bytes` is not a number.
        ValueError: `max_bytes` is negative.
    """
    return device_bytes() if max_bytes is None else int(checks.number("max_bytes", max_bytes, at_least=0))


def device_bytes() -> int:
    """Free memory of the default device in bytes, as reported by the device."""
    stats = device.memory_stats()
    if stats.get("bytes_limit"):
        return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    return memory.available_bytes()
