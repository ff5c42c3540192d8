"""Cost against attributes, cliques, their size, and the batch: first call, later calls, peak of memory.

    python bench/scaling.py [attributes] [cliques] [loops] [size] [batch] [rows] [--timeout S] [--plot]

attributes: chains of three-way cliques, ten values an attribute, 30 to 100,000 attributes.
cliques: random trees of pairs, 2 to 20 values an attribute, 30 to 30,000 attributes.
loops: 40 to 1,600 random pairs over 128 attributes of 2 to 5 values.
size: a chain of 30 attributes of 5 to 170 values: cliques of 125 to 4,913,000 cells.
batch: fits of a chain of 30 attributes under 1 to 256 draws of the noise, 100 steps each.
rows: all 45 pairs of 10 columns counted from a Parquet file of 100,000 to 50 million rows.
choosing: the pairs of 60 to 2,000 binary attributes that fit in a model of a million cells.

Every point is a fresh process of bench/versus.py (rows: bench/marginals_scan.py, choosing: this file) and a
line of bench/results/scaling.jsonl, with a plot for each sweep beside it where matplotlib is installed.
Floors of this machine are drawn dashed: for a call the time to read every potential and to write every
marginal once, for a scan the time to read the columns, at the rate that memory is copied here; for memory
the potentials and marginals. What is in the file for the same code and machine is not run again. A point
that fails is recorded with its reason, and ends its sweep.
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import harness
from blocks.text import last_code
from harness import Line, seconds

SWEEPS = {
    "attributes": (
        "attributes",
        [(n, [f"oracle-chain-{n}"]) for n in (30, 300, 3000, 10_000, 30_000, 100_000)],
    ),
    "cliques": ("attributes", [(n, [f"oracle-tree-{n}"]) for n in (30, 300, 3000, 10_000, 30_000)]),
    "loops": ("pairs", [(n, [f"oracle-loops-{n}"]) for n in (40, 80, 120, 160, 200, 240, 320, 1600)]),
    "size": ("cells of a clique", [(n**3, [f"oracle-chain-30x{n}"]) for n in (5, 10, 20, 40, 80, 170)]),
    "batch": (
        "fits at once",
        [
            (n, ["fit-chain-30", "--steps", "100", "--tol", "0", "--batch", str(n), "--singles", "0"])
            for n in (1, 4, 16, 64, 256)
        ],
    ),
    "rows": ("rows", [(n, [str(n)]) for n in (100_000, 1_000_000, 10_000_000, 50_000_000)]),
    "choosing": ("binary attributes", [(n, ["--choose", str(n)]) for n in (60, 120, 500, 2000)]),
}
SCRIPTS = {"rows": "marginals_scan.py", "choosing": "scaling.py"}
MEASURES = {
    "cold_s": "first call (s)",
    "warm_s": "later calls (s)",
    "seconds": "seconds",
    "peak_mb": "peak (MB)",
}


def sweep(name: str, options: argparse.Namespace) -> list[Line]:
    """Run the points of a sweep that are not in the file yet; all its lines."""
    kept = harness.Results(options.out, ("sweep", "point"), again=options.again, here=True)
    lines = []
    for point, words in SWEEPS[name][1]:
        line = kept.lines.get((name, point))
        if line is None:
            script = pathlib.Path(__file__).with_name(SCRIPTS.get(name, "versus.py"))
            command = [sys.executable, str(script), *words]
            line = harness.run(
                command, memory_gb=options.memory, timeout=options.timeout, label=f"{name} {point:,}:"
            )
            versions = {**harness.provenance()["versions"], **line.pop("versions", {})}
            keys = {"bench": "scaling", "sweep": name, "point": point, "versions": versions}
            line = kept.add({**line, **keys, "command": harness.shown(command), **floors(name, line)})
        lines.append(line)
        harness.say(f"{name} {point:,}: {told(line)}")
        if "failed" in line:
            break
    return lines


def choose(attributes: int, limit: int = 1_000_000) -> Line:
    """Choose pairs of binary attributes; seconds of processor and of clock, and the peak of memory."""
    import pgmjax as pj

    domain = pj.Domain({f"x{i}": 2 for i in range(attributes)})
    kept, spent = harness.timed(lambda: pj.Workload.all_kway(domain, 2, limit))
    times = {"seconds": spent["wall"], "cpu_s": spent["processor"], "peak_mb": harness.peak_mb()}
    return {**times, "pairs": len(kept), "cells": limit}


@functools.cache
def copied() -> float:
    """Bytes that this machine reads and writes in a second, where no cache helps."""
    import numpy as np

    wide = np.zeros(2**26, np.float32)
    best = min(harness.timed(lambda: np.add(wide, 1, out=wide))[1]["wall"] for _ in range(5))
    return 2 * wide.nbytes / best


def floors(name: str, line: Line) -> Line:
    """What a point needs at least here; nothing for fits, whose steps are not counted."""
    if "failed" in line or name in ("batch", "choosing"):
        return {}
    if name == "rows":
        return {"floor_s": 4 * line["rows"] * line["columns"] / copied()}
    moved = 8 * line["forecast"]["inputs"]
    return {"floor_s": moved / copied(), "floor_mb": moved / 1e6}


def told(line: Line) -> str:
    """One point in a few words."""
    if "failed" in line:
        return f"FAILED: {line['failed']}"
    if "seconds" in line:
        pairs = f", {line['pairs']:,} pairs" if "pairs" in line else ""
        return f"{seconds(line['seconds'])}, peak {line['peak_mb']:,.0f} MB{pairs}"
    return (
        f"first {seconds(line['cold_s'])} ({line['programs']} programs), later {seconds(line['warm_s'])}, "
        f"peak {line['peak_mb']:,.0f} MB"
    )


def plot(name: str, lines: Sequence[Line]) -> None:
    """Draw a sweep, each measure in a panel of its own."""
    good = [line for line in lines if "failed" not in line]
    measures = {key: label for key, label in MEASURES.items() if all(key in line for line in good)}

    def draw(canvas: Any) -> None:
        for panel, (key, label) in zip(canvas.subplots(1, len(measures)), measures.items(), strict=True):
            panel.loglog([line["point"] for line in good], [line[key] for line in good], marker="o")
            floor = "floor_mb" if key == "peak_mb" else "floor_s"
            if all(floor in line for line in good):
                panel.loglog([line["point"] for line in good], [line[floor] for line in good], "k--", lw=1)
            panel.set(xlabel=SWEEPS[name][0], title=label)
            panel.grid(True, which="major", alpha=0.3)

    harness.figure(f"scaling-{name}", draw, (4 * len(measures), 3.2))


def main() -> None:
    """Run the sweeps that are asked for and draw them."""
    parser = harness.parser(__doc__)
    parser.add_argument("sweeps", nargs="*", metavar="SWEEP", help=f"{', '.join(SWEEPS)}; all by default")
    parser.add_argument("--memory", type=float, metavar="GB", help="ulimit -v (24, less what is not there)")
    parser.add_argument("--timeout", type=float, default=600, metavar="S", help="of one point (600)")
    parser.add_argument("--out", type=pathlib.Path, default=harness.RESULTS / "scaling.jsonl")
    parser.add_argument("--again", action="store_true", help="repeat what the file of results has")
    parser.add_argument("--plot", action="store_true", help="run nothing: draw what the file has")
    parser.add_argument("--choose", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.choose is not None:
        print(json.dumps(choose(options.choose)))
        return
    unknown = [name for name in options.sweeps if name not in SWEEPS]
    if unknown:
        parser.error(f"sweeps are {', '.join(SWEEPS)}, got {', '.join(unknown)}")
    if options.memory is None:
        options.memory = harness.free_memory_gb()
    for name in options.sweeps or SWEEPS:
        if options.plot:
            lines = last_code([line for line in harness.read(options.out) if line["sweep"] == name])
        else:
            try:
                lines = sweep(name, options)
            except KeyboardInterrupt:
                harness.say(f"stopped; what is finished is in {options.out}")
                sys.exit(130)
        if lines:
            plot(name, lines)


if __name__ == "__main__":
    main()
