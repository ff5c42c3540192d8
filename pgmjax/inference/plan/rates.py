"""Rates of the machine, which forecasts of time and the choice between oracles follow.

A rate is a time per unit of work. There are those of compiled programs on the device, `of_device`, from the
data sheet of a named card (a T4's for other cards) or the defaults of a CPU, and those of NumPy on the host,
`of_host`. Nothing is measured or kept on the user's machine: those measured on one chose the same plans
(docs/lab/ablations.md), and equal calls are planned equally. `bench/machine_rates.py` measures them.

References:
    NVIDIA's data sheets of H100 (SXM), H200, A100 80GB, L4 and T4, and the white paper of the Ada GPU
    architecture for the GeForce RTX 4090: bandwidth and float32 operations (not those of tensor cores).
    CUDA C++ programming guide, arithmetic instructions: 16 exponentials a clock and multiprocessor, which
    has 64 (A100, T4) or 128 float32 units.
"""

from __future__ import annotations

import dataclasses
import functools

from pgmjax._internal import device

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


_HOST = HostRates()


def of_device() -> Rates:
    """Return the rates of compiled programs on the device at hand."""
    return _of_device(device.is_cpu(), device.kind())


@functools.cache
def _of_device(is_cpu: bool, name: str) -> Rates:
    return of_card(name) or (Rates() if is_cpu else _by_sheet("Tesla T4", UNKNOWN))


def of_host() -> HostRates:
    """Return the rates of NumPy on the host."""
    return _HOST


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
