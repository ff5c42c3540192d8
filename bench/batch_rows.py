"""Where the seconds of a batch of fits go: compiled programs (device), and everything else (host).

    python bench/batch_rows.py                              # 64, 256 and 1,024 rows of fit-adult9
    python bench/batch_rows.py --rows 1024 --steps 1 50 --cores 1

`device_s` is the time by the clock in which a compiled block, a start of fits or an evaluation of final
points ran in any thread; `host_s` is the rest of the call: checks, binding, certificates in NumPy, results.
`cpu_s` counts all threads. The first call compiles and is not counted; of the later ones the one of the least
`host_s` is printed. With --keep each line goes to `bench/results/batch-rows.jsonl`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import cases
import harness
import jax
import numpy as np

import pgmjax as pj
from pgmjax.estimation.solvers import batch, certificate

Interval = tuple[float, float]


class Device:
    """Notes when compiled programs of a batch run."""

    def __init__(self) -> None:
        self.intervals: list[Interval] = []
        programs = batch._programs
        setattr(batch, "_programs", lambda mesh: tuple(map(self.timed, programs(mesh))))  # noqa: B010
        setattr(certificate, "_rows_on_device", self.timed(certificate._rows_on_device))  # noqa: B010

    def timed(self, program: Callable[..., Any]) -> Callable[..., Any]:
        """The program, which notes each of its runs."""

        def run(*arguments: Any) -> Any:
            start = time.perf_counter()
            found = jax.block_until_ready(program(*arguments))
            self.intervals.append((start, time.perf_counter()))
            return found

        return run

    def seconds(self) -> float:
        """Seconds in which at least one program ran."""
        total, last = 0.0, 0.0
        for start, end in sorted(self.intervals):
            total += max(0.0, end - max(start, last))
            last = max(last, end)
        return total


def measure(case: cases.Case, rows: int, steps: int, repeat: int, device: Device) -> dict[str, Any]:
    """One line: a batch of so many rows that ends after so many steps."""
    total, noisy = cases.answers(case, rows)
    domain, totals = pj.Domain(case.sizes), [float(total)] * rows
    estimator = pj.Estimator(regularisation="none", max_steps=steps, tol=1e-4, progress=False)
    measured = [
        [pj.LinearMeasurement(c, v, stddev=case.sigma) for c, v in zip(case.cliques, row, strict=True)]
        for row in noisy
    ]
    estimator.fit_batch(domain, measured, totals)
    runs = []
    for _ in range(repeat):
        device.intervals.clear()
        start, work = time.perf_counter(), time.process_time()
        fits = estimator.fit_batch(domain, measured, totals)
        seconds, cpu = time.perf_counter() - start, time.process_time() - work
        inside = device.seconds()
        runs.append({"host_s": seconds - inside, "device_s": inside, "seconds": seconds, "cpu_s": cpu})
    least = min(runs, key=lambda run: run["host_s"])
    found = {"steps_mean": float(np.mean(fits.steps)), "loss_mean": float(np.mean(fits.loss))}
    return {"case": case.name, "rows": rows, "max_steps": steps, **least, **found}


def main() -> None:
    """Time batches, print a line for each, and perhaps keep it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", nargs="?", default="fit-adult9")
    parser.add_argument("--rows", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--steps", type=int, nargs="+", default=[1], help="steps at most of each fit (1)")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--cores", type=int, help="use so many of the cores")
    parser.add_argument("--keep", action="store_true", help="append the lines to the results")
    options = parser.parse_args()
    if options.cores is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    case, device = cases.load(options.case), Device()
    for rows in options.rows:
        for steps in options.steps:
            before = harness.load_average()
            found = measure(case, rows, steps, options.repeat, device)
            line = {**found, "cores": len(os.sched_getaffinity(0)), "load_before": before}
            if options.keep:
                harness.append(harness.RESULTS / "batch-rows.jsonl", {**line, **harness.provenance()})
            harness.say(
                f"{case.name}, {rows:,} rows, {steps:,} steps at most: host {found['host_s']:.2f} s, device "
                f"{found['device_s']:.2f} s of {found['seconds']:.2f} s ({found['cpu_s']:.2f} s of CPU)"
            )


if __name__ == "__main__":
    main()
