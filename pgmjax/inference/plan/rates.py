"""Rates of the machine, which forecasts of time and the choice between oracles follow.

A rate is a time per unit of work. There are those of compiled programs on the device, `of_device`, and those
of NumPy on the host, `of_host`. Both come from the first of these that has them: what `pgmjax bench rates`
measured on this very device, with this number of cores and these versions, and kept in the user's cache
folder; for named cards, their data sheets (a T4's for other cards); the defaults. What is kept is read once
in a process, so that equal calls are planned equally while it runs.

References:
    NVIDIA's data sheets of H100 (SXM), H200, A100 80GB, L4 and T4, and the white paper of the Ada GPU
    architecture for the GeForce RTX 4090: bandwidth and float32 operations (not those of tensor cores).
    CUDA C++ programming guide, arithmetic instructions: 16 exponentials a clock and multiprocessor, which
    has 64 (A100, T4) or 128 float32 units.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import pathlib
from typing import Any, TypeVar

import numpy as np

from pgmjax._internal import device
from pgmjax._internal.kept import KeptFile

DEFAULTS = "defaults, of two cores of an AMD EPYC"
MEASURED = "measured on this machine"
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


def _is_rate(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < math.inf


KEPT = KeptFile("rates", _is_rate, "rates are those of data sheets or defaults")
Kind = TypeVar("Kind", Rates, HostRates)


def of_device() -> Rates:
    """Return the rates of compiled programs on the device at hand."""
    return _of_device(device.is_cpu(), device_key(), device.kind())


@functools.cache
def _of_device(is_cpu: bool, key: str, name: str) -> Rates:
    default = Rates() if is_cpu else _by_sheet("Tesla T4", UNKNOWN)
    return _kept(Rates, key) or of_card(name) or default


@functools.cache
def of_host() -> HostRates:
    """Return the rates of NumPy on the host."""
    return _kept(HostRates, host_key()) or HostRates()


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


def device_key() -> str:
    """Return the key of measurements of the device, with the number of cores if that is the CPU."""
    return device.with_version() + (f", {_cores()} cores" if device.is_cpu() else "")


def host_key() -> str:
    """Return the key of measurements of NumPy."""
    return f"host, numpy {np.__version__}, {_cores()} cores"


def keep(device_rates: Rates, host_rates: HostRates) -> pathlib.Path:
    """Keep measured rates of this machine; what is kept of other devices stays.

    Returns:
        The file.

    Raises:
        OSError: the file cannot be written.
    """
    for key, found in ((device_key(), device_rates), (host_key(), host_rates)):
        file = KEPT.keep(key, _values(found))
    forget()
    return file


def forget() -> None:
    """Read what is kept again when it is next asked for."""
    _of_device.cache_clear()
    of_host.cache_clear()


def _kept(kind: type[Kind], key: str) -> Kind | None:
    """Return the rates that are kept under a key, if all are there."""
    found = KEPT.read().get(key, {})
    return kind(**found, source=MEASURED) if found.keys() == _values(kind()).keys() else None


def _values(rates: Rates | HostRates) -> dict[str, float]:
    return {name: value for name, value in dataclasses.asdict(rates).items() if name != "source"}


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
