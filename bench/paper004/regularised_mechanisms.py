"""Workload error of mechanisms whose fits are regularised, beside the optimum of the same noise.

A mechanism runs with each arm from the same seed: "none" fits to the optimum (`regularisation="none"`,
`tol=1e-4`), "default" is the library's, and "factored" is MWEM by factored multiplicative weights. Fifteen
three-way workloads, replace-one neighbours. A run that has not ended after 15 minutes is kept as "not ended".

    PGMJAX_DATA=... python bench/paper004/regularised_mechanisms.py [--mechanisms ...] [--tables ...]

Lines are kept in bench/results/paper004-regularised-mechanisms.jsonl; the same command goes on with those
that lack, and --table prints what there is. Adaptive mechanisms choose by the arm's own fits, so the arms may
measure different marginals.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import Any

from kept import Kept

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import harness
from harness import Line

KEYS = ("mechanism", "table", "epsilon", "seed", "arm")
ARMS: dict[str, dict[str, Any]] = {"none": {"regularisation": "none", "tol": 1e-4}, "default": {}}
NAMES = {"mwem": "MWEM", "privbayes": "PrivBayes", "mst": "MST", "dual-query": "DualQuery", "aim": "AIM"}
OPTIONS: dict[str, dict[str, Any]] = {"dual-query": {"delta": "0.001", "accounting": "simple", "step": 2}}
TABLES = ("titanic", "stroke", "loans", "adult")  # the cheapest first
LIMIT = 900.0


def trial(name: str, table_name: str, epsilon: float, seed: int, arm: str) -> Line:
    """Run one mechanism once."""
    from mechanisms import REPLACE, Table, noise

    import pgmjax as pj

    table = Table(table_name)
    options = dict(OPTIONS.get(name, {}))
    settings = dict(ARMS.get(arm, {}))
    if arm == "factored":
        options["estimate"] = "factored-multiplicative-weights"
    if name == "dual-query":
        options["seed"] = seed
        settings |= {"solver": "mirror_descent", "max_steps": 3000}
    estimator = pj.Estimator(progress=False, **settings)
    kind = getattr(pj.mechanisms, NAMES[name])
    mechanism = kind(epsilon, REPLACE, backend=noise(seed), estimator=estimator, **options)
    start = time.perf_counter()
    release = mechanism.run(table.data, table.workload, show_progress=False)
    return {
        "error": table.error(release.model),
        "seconds": round(time.perf_counter() - start, 1),
        "steps": release.fit.steps,
        "status": release.fit.status.name,
    }


def apart(key: tuple[object, ...]) -> Line:
    """Run a trial in a process of its own, for at most 15 minutes."""
    command = [sys.executable, __file__, "--one", json.dumps(key)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"failed": f"not ended after {LIMIT:g} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no message"])[-1][:300]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def show(lines: Iterable[Line]) -> None:
    """Print the mean errors of each cell, and geometric means of the ratios to the default's."""
    lines = sorted(lines, key=lambda line: [str(line[key]) for key in KEYS])
    cells: dict[tuple[object, ...], dict[tuple[int, str], Line]] = {}
    for line in lines:
        cell = cells.setdefault(tuple(line[key] for key in KEYS[:3]), {})
        cell[line["seed"], line["arm"]] = line
    every: dict[tuple[str, str], list[float]] = {}
    for (name, table, epsilon), cell in cells.items():
        said = [f"{name:10} {table:8} {epsilon:4}"]
        for arm in ("none", "factored"):
            pairs = [(cell[s, "default"], line) for (s, a), line in cell.items()
                     if a == arm and (s, "default") in cell]  # fmt: skip
            logs = [math.log(a["error"] / b["error"]) for a, b in pairs if "error" in a and "error" in b]
            if logs:
                spread = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
                every.setdefault((str(name), arm), []).extend(logs)
                said.append(
                    f"over {arm}: {math.exp(statistics.mean(logs)):.3f} +- {spread:.3f} ({len(logs)} seeds)"
                )
        errors = [
            f"{a} {s}: {line['error']:.4f} in {line['seconds']:.0f} s" if "error" in line
            else f"{a} {s}: {line['failed']}"
            for (s, a), line in cell.items()
        ]  # fmt: skip
        harness.say("; ".join(said + errors))
    for (name, arm), logs in every.items():
        mean = math.exp(statistics.mean(logs))
        harness.say(f"{name}: default over {arm}, geometric mean {mean:.3f} of {len(logs)} runs")


def main() -> None:
    """Run what lacks, keep the lines and print the table."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--mechanisms", nargs="+", default=list(NAMES), choices=list(NAMES))
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.3, 1.0, 10.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--table", action="store_true", help="run nothing: print what there is")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(trial(*json.loads(args.one))))
        return
    kept = Kept("regularised-mechanisms", KEYS)
    cells = itertools.product(args.tables, args.mechanisms, range(args.seeds), args.epsilons)
    for table, name, seed, epsilon in [] if args.table else cells:
        for arm in (*ARMS, "factored") if name == "mwem" else ARMS:
            key = (name, table, epsilon, seed, arm)
            if key not in kept.lines:
                kept.add({**dict(zip(KEYS, key, strict=True)), **apart(key)})
    show(kept.lines.values())


if __name__ == "__main__":
    main()
