"""Measure the rates of the machine: small models, each of which spends its time on one kind of work.

    python bench/machine_rates.py            # a JSON line for each rate

The library measures nothing itself: these are for comparison with the built-in rates of
`pgmjax/inference/plan/forecast.py`.

A rate is the median time of a call, less what the rates measured before it make up of it, over the units of
work that the forecast counts. So the forecasts of these models are what they take.
"""

from __future__ import annotations

import functools
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from pgmjax._internal.jit import jit
from pgmjax.inference.oracles.choose import SOLVER_OPERATIONS
from pgmjax.inference.oracles.contraction import Contraction, HostContraction, host_units
from pgmjax.inference.plan.contraction import of_path
from pgmjax.inference.plan.forecast import HostRates, Rates
from pgmjax.inference.plan.structure import Structure


def _triangle(side: int, between: int) -> Structure:
    """Two tables whose product has `side` rows and columns and sums over `between` values, and a third."""
    return Structure((side, between, side), ((0, 1), (1, 2), (0, 2)))


def _triples(size: int, count: int) -> Structure:
    """A chain of triples of variables of equal size."""
    return Structure((size,) * (count + 2), tuple((i, i + 1, i + 2) for i in range(count)))


_CHAIN = Structure((2,) * 32, tuple((i, i + 1) for i in range(31)))
DEVICE_MODELS: Mapping[str, Structure] = {
    "launch": _CHAIN,
    "exponential": _triples(20, 30),
    "cell": _triangle(1500, 4),
    "flop": _triangle(1024, 1024),
}
"""By rate of compiled programs: the model that is timed."""
HOST_MODELS: Mapping[str, Structure] = {"step": _CHAIN, "cell": _triples(30, 8), "flop": _triangle(768, 768)}
"""By rate of NumPy: the model that is timed."""
LEAST = 0.05  # share of a time that its rate makes up at least, should the other rates explain all of it
_BUSY = 0.02  # seconds of work for one reading of the clock


def measure(
    *,
    repeats: int = 5,
    device_models: Mapping[str, Structure] = DEVICE_MODELS,
    host_models: Mapping[str, Structure] = HOST_MODELS,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[dict[str, Any]]:
    """Measure the rates of the device and then those of the host.

    Args:
        repeats: readings of the clock for each rate; the median counts.
        device_models: the models of the device, by rate.
        host_models: those of the host.
        clock: seconds since any time.

    Returns:
        A line for each rate: `of` (`device` or `host`), `rate`, `seconds` of a call (of compiling, for
        `operation`), `units` of work in it, and `value`, the seconds of one unit.
    """
    known: dict[str, float] = {}
    for rate, structure in device_models.items():
        oracle = Contraction.build(structure, fast=rate in ("cell", "flop"))
        call = jit(oracle.infer)
        tables = [jax.device_put(table) for table in _tables(structure, np.float32)]
        run = functools.partial(_ready, call, tables)
        compiling = _seconds(run, 1, clock)
        if rate == "launch":
            operations = {"operation": SOLVER_OPERATIONS + oracle.forecast.operations}
            yield _line("device", "operation", compiling, operations, {})
        taken = _median(run, repeats, clock)
        line = _line("device", rate, taken, of_path(oracle.path).units(), known)
        known[rate] = line["value"]
        yield line
    known = {}
    for rate, structure in host_models.items():
        on_host = HostContraction.build(structure)
        vectors = _tables(structure, np.float64)
        taken = _median(functools.partial(on_host.run, vectors, np.float64), repeats, clock)
        line = _line("host", rate, taken, host_units(on_host.path), known)
        known[rate] = line["value"]
        yield line


def rates(lines: list[dict[str, Any]]) -> tuple[Rates, HostRates]:
    """Return the rates that `measure` found."""
    found: dict[str, dict[str, Any]] = {"device": {}, "host": {}}
    for line in lines:
        found[line["of"]][line["rate"]] = line["value"]
    return Rates(**found["device"]), HostRates(**found["host"])


def _line(of: str, rate: str, taken: float, units: Mapping[str, int], known: Mapping[str, float]) -> Any:
    others = sum(units[name] * value for name, value in known.items())
    left = max(taken - others, LEAST * taken)
    return {"of": of, "rate": rate, "seconds": taken, "units": units[rate], "value": left / units[rate]}


def _tables(structure: Structure, dtype: Any) -> list[np.ndarray]:
    """Fixed log-potentials between -1 and 1."""
    return [np.sin(np.arange(math.prod(shape))).reshape(shape).astype(dtype) for shape in structure.shapes]


def _ready(call: Callable[..., Any], tables: Any) -> None:
    jax.block_until_ready(call(tables))


def _median(call: Callable[[], Any], repeats: int, clock: Callable[[], float]) -> float:
    calls = max(1, min(200, int(_BUSY / max(_seconds(call, 1, clock), 1e-9))))
    return statistics.median(_seconds(call, calls, clock) for _ in range(repeats))


def _seconds(call: Callable[[], Any], calls: int, clock: Callable[[], float]) -> float:
    """Return the seconds of one of several calls."""
    start = clock()
    for _ in range(calls):
        call()
    return (clock() - start) / calls


if __name__ == "__main__":
    for each in measure():
        print(json.dumps(each), flush=True)
