"""Rows of a model straight to Parquet: time, memory and the distance from the model's own marginals.

    python bench/rows.py                                   # 10 million rows of a random chain of 15
    python bench/rows.py fit-adult9 --method round
    python bench/rows.py --rows 1000000 --on host device --in-memory --repeat 5

The model of a case has standard normal log-potentials from the case's seed. Each place to
draw on is one line of `bench/results/rows.jsonl`: the first run, which compiles, and the quickest of its
repeats.
"""

from __future__ import annotations

import argparse
import pathlib
import resource
import tempfile
import time
from typing import Any

import cases
import harness
import numpy as np
from pyarrow import parquet

import pgmjax as pj


def model_of(name: str) -> pj.GraphicalModel:
    """The model of a case."""
    case = cases.load(name)
    generator = np.random.default_rng(case.seed)
    tables = {clique: generator.normal(size=case.shape(clique)) for clique in case.cliques}
    return pj.GraphicalModel.from_potentials(pj.Domain(case.sizes), tables)


def distances(model: pj.GraphicalModel, codes: dict[str, np.ndarray]) -> dict[str, float]:
    """The worst of the cliques' distances, in standard errors and beside what is expected."""
    checks = model.check_rows(codes)
    worst = max(checks, key=lambda check: check.standard_errors)
    return {
        "total_variation": worst.total_variation,
        "expected_total_variation": worst.expected,
        "standard_errors": worst.standard_errors,
        "mean_total_variation": float(np.mean([check.total_variation for check in checks])),
        "mean_expected": float(np.mean([check.expected for check in checks])),
    }


def draw(
    model: pj.GraphicalModel, options: argparse.Namespace, place: str, folder: str
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Draw the rows once, in memory or to a file: their codes, and what it cost."""
    how = {"method": options.method, "device": place == "device"}
    path = pathlib.Path(folder) / "rows.parquet"
    start, work = time.perf_counter(), time.process_time()
    if options.in_memory:
        codes = model.sample(options.rows, options.seed, **how)
    else:
        model.sample_to(path, options.rows, options.seed, overwrite=True, **how)
    cost = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - work}
    cost["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if not options.in_memory:
        cost["file_mb"] = path.stat().st_size / 1e6
        stored = parquet.read_table(path)
        codes = {name: stored[name].to_numpy() for name in stored.column_names}
    return codes, cost


def measure(model: pj.GraphicalModel, options: argparse.Namespace, place: str) -> dict[str, Any]:
    """One line: the first run and the least of its repeats."""
    small = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with tempfile.TemporaryDirectory() as folder:
        codes, cost = draw(model, options, place, folder)
        again = [draw(model, options, place, folder)[1] for _ in range(options.repeat)]
    if again:
        least = min(again, key=lambda run: run["seconds"])
        cost |= {"later_seconds": least["seconds"], "later_cpu_seconds": least["cpu_seconds"]}
    return {**cost, "peak_before_mb": small, **distances(model, codes)}


def main() -> None:
    """Draw, write, and keep a line for each place."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", nargs="?", default="oracle-chain-15")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--method", choices=("multinomial", "round"), default="multinomial")
    parser.add_argument("--on", nargs="+", choices=("host", "device"), default=["host"])
    parser.add_argument("--in-memory", action="store_true", help="keep the rows instead of writing them")
    parser.add_argument("--repeat", type=int, default=0, help="draw so many times more")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    before = harness.load_average()
    model = model_of(options.case)
    for place in options.on:
        found = measure(model, options, place)
        line = {
            "case": options.case,
            "attributes": len(model.domain),
            "cliques": len(model.potentials.cliques),
            "rows": options.rows,
            "method": options.method,
            "on": place,
            "in_memory": options.in_memory,
            **found,
            "load_before": before,
            **harness.provenance(),
        }
        harness.append(harness.RESULTS / "rows.jsonl", line)
        later = f", again {found['later_seconds']:.2f} s" if options.repeat else ""
        harness.say(
            f"{options.case} on the {place}: {options.rows:,} rows in {found['seconds']:.2f} s "
            f"({found['cpu_seconds']:.1f} s of CPU){later}, peak {found['peak_mb']:.0f} MB"
        )


if __name__ == "__main__":
    main()
