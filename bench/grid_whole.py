"""A binary grid from end to end: all pairs of neighbours measured, fitted, asked, sampled, saved, loaded.

python bench/grid_whole.py                          # 20 x 22, on one core, in 8 GB
python bench/grid_whole.py --shape 10 10 --no-keep  # a small one, printed only
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import checkout  # noqa: F401  (first: it makes the checkout importable)
import harness
import networks_made
import numpy as np
from checkout import ROOT

import pgmjax as pj

OUT = ROOT / "bench" / "results" / "grid-whole.jsonl"


def whole(shape: tuple[int, int], steps: int, max_bytes: int) -> harness.Line:
    """Seconds of each stage, and the peak of memory."""
    domain = pj.Domain({f"x{v}": 2 for v in range(shape[0] * shape[1])})
    rng = np.random.default_rng(0)
    pairs = [(f"x{a}", f"x{b}") for a, b in networks_made.neighbours(shape)]
    noisy = [pj.LinearMeasurement(pair, rng.uniform(200, 300, (2, 2)), stddev=10.0) for pair in pairs]
    seconds: dict[str, float] = {}

    def timed(stage: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        found = work()
        seconds[stage] = time.perf_counter() - start
        harness.say(f"{stage}: {seconds[stage]:.1f} s")
        return found

    estimator = pj.Estimator(max_steps=steps, max_bytes=max_bytes)
    plan = timed("plan", lambda: estimator.plan(domain, pairs))
    fit = timed("fit", lambda: estimator.fit(domain, noisy, total=1000.0))
    model = fit.model.within(max_bytes=max_bytes, max_seconds=3600)
    corners = ("x0", f"x{shape[0] * shape[1] - 1}")
    corner = timed("marginal", lambda: model.marginal(corners))
    timed("log_partition", lambda: model.log_partition({"x0": 1}))
    singles = timed("calibrate", lambda: dict(model.calibrate().all_marginals(1)))
    rows = timed("sample", lambda: model.sample(1000, seed=0))
    with tempfile.TemporaryDirectory() as folder:
        timed("save", lambda: model.save(folder))
        loaded = timed("load", lambda: pj.load(folder))
    again = timed("marginal, loaded", lambda: loaded.within(max_bytes, 3600).marginal(corners))
    worst = max(abs(rows[name].mean() - table[1] / 1000) for (name,), table in singles.items())
    return {
        "shape": shape,
        "plan": plan.summary(),
        "steps": fit.steps,
        "seconds": seconds,
        "sum": float(corner.sum()),
        "loaded_difference": float(np.abs(again - corner).max()),
        "corner_difference": float(np.abs(corner.sum(axis=1) - singles[("x0",)]).max()),
        "rows_difference": worst,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def main() -> None:
    """Run here, or under limits in a process of its own, and keep a line."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--shape", type=int, nargs=2, default=(20, 22))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--memory", type=float, default=4.0, help="memory of fit and questions, GB")
    parser.add_argument("--no-keep", action="store_true")
    parser.add_argument("--one", action="store_true", help="run here and print the line")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(whole(tuple(args.shape), args.steps, int(args.memory * 2**30))))
        return
    command = ["taskset", "-c", "0", sys.executable, __file__, "--one", "--shape", *map(str, args.shape)]
    command += ["--steps", str(args.steps), "--memory", str(args.memory)]
    line = {**harness.run(command, memory_gb=None, timeout=3600, label="grid"), **harness.provenance()}
    print(json.dumps(line, indent=2))
    if not args.no_keep:
        harness.append(OUT, line)


if __name__ == "__main__":
    main()
