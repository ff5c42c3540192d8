"""Forecast against measured: seconds and bytes of calls, steps of fits and questions, on this machine.

    PGMJAX_DATA=... python bench/forecasts.py [PROGRAM ...] [--networks FOLDER] [--cpu]
    python bench/forecasts.py --plot                      # draws what the file of results has

Forecasts follow the built-in rates. Programs:

oracle-CASE: one call of the oracle that a plan of 500 calls has, compiled already if it compiles, from arrays
    to a result; a name of bench/cases.py. Forecast: `forecast` of that oracle.
fit-CASE: a step of a fit of that case (its time over its steps). Forecast: `step_seconds` of its plan.
calibrate-NETWORK, pair-NETWORK: a junction tree of a network of bench/networks_made.py, or of a wheel of
    pgmpy, on one core; and a marginal of its first and last variable, planned for itself. Forecast: that by
    which a question is allowed or refused; for a pair, with leaving out the tables that do not matter.

Each runs in a fresh process. It runs once (compiling and planning are no part of the forecast), then memory
is given back and the peak is reset, and it runs again: the measured bytes are the peak above what was held,
and the inputs. Seconds are medians of three such runs or more, of fewer if they take long. Below a megabyte
bytes are not compared.

On a machine that does other work, --cpu runs everything on one core and compares CPU seconds, of which other
work changes less than of the time on the clock.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import harness
from blocks.performance import BANDS, compared, ended, within

OUT = harness.RESULTS / "forecasts.jsonl"
ORACLES = [
    "adult15-s0",
    "adult15-s1",
    "adult15-s2",
    "loans15",
    "stroke15",
    "chain-100",
    "chain-1000",
    "tree-300",
    "loops-100",
    "loops-160",
    "chain-30x30",
]
FITS = ["adult9", "loans15", "chain-300", "chain-1000", "tree-300", "loops-100"]
MADE = [
    "grid-8x8",
    "grid-14x14",
    "grid-18x18",
    "lattice-6x6-of-4",
    "lattice-8x8-of-4",
    "lattice-4x4x4-of-2",
    "loops-60x90-0",
    "loops-128x200-0",
    "pedigree-60x10-0",
    "pedigree-200x12-0",
    "pedigree-1000x10-0",
    "diagnosis-40x60-0",
    "code-60x25-0",
    "sat-40x120-0",
    "sat-100x110-0",
]
NETWORKS = ["link", "munin1", "munin2", "mildew", "barley", "diabetes", "pigs", "water", "andes"]
PRUNED = 3  # steps of NumPy, whose time it takes to look whether a table matters to a question
LONG = 5.0  # seconds of runs after which no more are made
CPU = "PGMJAX_CPU_SECONDS" in os.environ  # of the processes that --cpu starts


def oracle(name: str) -> tuple[harness.Line, Callable[[], Any]]:
    """The forecast of one call, and the call."""
    import cases
    import jax
    import numpy as np

    import pgmjax as pj
    from pgmjax.inference.plan.structure import Structure

    case = cases.load(f"oracle-{name}")
    structure, names = Structure.named(case.sizes, case.cliques)
    chosen = pj.oracles.plan(structure, names, calls=500).oracle
    tables = cases.potentials(case)
    told = chosen.forecast
    line = {"oracle": chosen.name, "forecast_s": told.seconds, "forecast_bytes": told.peak_bytes(4)}
    held = sum(table.nbytes for table in tables)
    return line | {"held": held}, lambda: jax.block_until_ready(chosen.run(tables, np.float32)[1])


def fit(name: str) -> tuple[harness.Line, Callable[[], Any]]:
    """The forecast of a step of a fit, and the fit."""
    import cases
    import versus

    import pgmjax as pj

    case = cases.load(f"fit-{name}")
    total, (noisy,) = cases.answers(case)
    options = versus.parse([case.name, "--steps", str(min(case.steps, 200)), "--tol", "1e-9"])
    domain, settings = pj.Domain(case.sizes), versus.estimator(case, options)
    measured = versus.measured(case, noisy)
    found = settings.fit(domain, measured, total=float(total))
    line = {"oracle": found.plan.oracle.name, "forecast_s": found.plan.step_seconds, "calls": found.steps}
    held = sum(values.nbytes for values in noisy)
    line |= {"forecast_bytes": found.plan.peak_bytes, "held": held}
    return line, lambda: settings.fit(domain, measured, total=float(total))


def question(kind: str, name: str, wheel: str | None) -> tuple[harness.Line, Callable[[], Any]]:
    """The forecast of a calibration or of a pair's marginal on the host, and the question."""
    from pgmjax.inference.oracles import host, host_tree
    from pgmjax.inference.plan import elimination, forecast

    model = network(name, wheel)._host
    held = sum(table.nbytes for table in model.tables)
    if kind == "calibrate":
        order = elimination.best(model.structure)
        told = host.seconds(model.structure, order), host.needed_bytes(model.structure, order)
        call: Callable[[], Any] = lambda: host_tree.HostTree(model).log_partition  # noqa: E731
    else:
        ends = (0, len(model.structure.sizes) - 1)
        _, need, seconds = host._planned(model._asked(ends)[0], ends)
        pruning = PRUNED * forecast.HOST_RATES.step * len(model.structure.cliques)
        told = pruning + seconds, held + need
        call = lambda: model.marginal(ends)  # noqa: E731
    return {"oracle": kind, "forecast_s": told[0], "forecast_bytes": told[1], "held": held}, call


def network(name: str, wheel: str | None) -> Any:
    """A model of a generated network, or of one in a wheel."""
    if name in NETWORKS:
        import bif

        return bif.model(*bif.read(bif.text_of(pathlib.Path(str(wheel), f"{name}.bif.gz"))))
    import networks_made

    return networks_made.graphical(networks_made.made()[name]())


def measured(line: harness.Line, call: Callable[[], Any]) -> harness.Line:
    """Add the seconds of a call (divided by the calls in it) and the bytes at its peak."""
    clock = time.process_time if CPU else time.perf_counter
    times: list[float] = []
    call()
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak is from here on
        before, start = status("VmRSS"), clock()
        call()
        times = [taken for taken in [clock() - start] if taken > LONG]
        line["measured_bytes"] = status("VmHWM") - before + line.pop("held")
    while sum(times) < LONG and (len(times) < 3 or (sum(times) < 0.5 and len(times) < 200)):
        start = clock()
        call()
        times.append(clock() - start)
    return line | {"measured_s": statistics.median(times) / line.get("calls", 1), "runs": len(times)}


def status(key: str) -> int:
    """Bytes of this process, as Linux tells them."""
    for text in pathlib.Path("/proc/self/status").read_text().splitlines():
        if text.startswith(key + ":"):
            return 1024 * int(text.split()[1])
    raise KeyError(key)


def one(program: str, wheel: str | None) -> harness.Line:
    """One program, in this process."""
    kind, _, name = program.partition("-")
    if kind == "oracle":
        return measured(*oracle(name))
    return measured(*(fit(name) if kind == "fit" else question(kind, name, wheel)))


def programs(with_networks: bool) -> list[str]:
    """All programs."""
    named = [*MADE, *(NETWORKS if with_networks else ())]
    asked = [f"{kind}-{name}" for name in named for kind in ("calibrate", "pair")]
    return [*(f"oracle-{name}" for name in ORACLES), *(f"fit-{name}" for name in FITS), *asked]


def run(names: Sequence[str], options: argparse.Namespace) -> None:
    """Run every program in a process of its own; write and say each line."""
    kept = harness.Results(options.out, ("program",))
    if options.cpu:
        os.environ |= {"PGMJAX_CPU_SECONDS": "1", "OPENBLAS_NUM_THREADS": "1"}
    for name in names:
        command = [sys.executable, __file__, name, "--one"]
        command += ["--networks", options.networks] if options.networks else []
        if options.cpu or not name.startswith(("oracle", "fit")):
            command = ["taskset", "-c", options.core, *command]
        line = harness.run(command, memory_gb=options.memory, timeout=options.timeout, label=name)
        line = {"bench": "forecasts", "program": name, **line, "rates": "defaults"}
        line["clock"] = "CPU seconds of one core" if options.cpu else "wall"
        harness.say(json.dumps(line))
        kept.add(line)
    plot(options.out)


def plot(path: pathlib.Path) -> None:
    """Draw forecast against measured."""
    lines = ended(harness.read(path))

    def draw(canvas: Any) -> None:
        for place, (what, (_, band, _)) in enumerate(BANDS.items(), 1):
            axes = canvas.add_subplot(1, len(BANDS), place)
            pairs = [(line["program"].partition("-")[0], compared(line, what)) for line in lines]
            for kind in dict.fromkeys(kind for kind, _ in pairs):
                points = [both for other, both in pairs if other == kind and both]
                axes.plot([b for _, b in points], [a for a, _ in points], "o", ms=4, label=kind)
            ends = [end for _, both in pairs if both for end in both]
            if not ends:
                continue
            span = [min(ends) / 2, max(ends) * 2]
            axes.plot(span, span, "k-", lw=0.8)
            axes.fill_between(span, [s / band for s in span], [s * band for s in span], alpha=0.15, color="k")
            axes.set(xscale="log", yscale="log", xlabel=f"measured, {what}", ylabel=f"forecast, {what}")
            axes.set_title("within a factor of {:g}: {} of {}".format(band, *within(lines, what)))
            axes.legend()

    harness.figure("forecasts", draw, (11, 5))


def main() -> None:
    """Run what is asked for."""
    parser = harness.parser(__doc__)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="all by default")
    parser.add_argument("--networks", metavar="FOLDER", help="folder of pgmpy's .bif.gz files, unpacked")
    parser.add_argument("--cpu", action="store_true", help="CPU seconds of one core")
    parser.add_argument("--core", default="0", help="the core of --cpu, and of questions (0)")
    parser.add_argument("--memory", type=float, default=12.0, metavar="GB", help="limit of a process (12)")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="S", help="of a program (300)")
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    parser.add_argument("--plot", action="store_true", help="run nothing: draw what there is")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plot:
        plot(options.out)
    elif options.one:
        line = one(options.programs[0], options.networks)
        if not all(math.isfinite(line[key]) for key in ("forecast_s", "measured_s")):
            raise ArithmeticError(f"{options.programs[0]}: a time is not finite: {line}")
        print(json.dumps(line))
    else:
        run(options.programs or programs(options.networks is not None), options)


if __name__ == "__main__":
    main()
