"""Rows of a model straight to Parquet: time, memory and the distance from the model's own marginals.

    python bench/rows.py                                   # 10 million rows of a random chain of 15
    python bench/rows.py fit-adult9 --method round

The model of a case has standard normal log-potentials from the case's seed. Each run is one line of
`bench/results/rows.jsonl`.
"""

from __future__ import annotations

import argparse
import pathlib
import resource
import tempfile
import time

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


def distances(model: pj.GraphicalModel, path: pathlib.Path) -> dict[str, float]:
    """The worst of the cliques' distances, in standard errors and beside what is expected."""
    stored = parquet.read_table(path)
    codes = {name: stored[name].to_numpy() for name in stored.column_names}
    checks = model.check_rows(codes)
    worst = max(checks, key=lambda check: check.standard_errors)
    return {
        "total_variation": worst.total_variation,
        "expected_total_variation": worst.expected,
        "standard_errors": worst.standard_errors,
        "mean_total_variation": float(np.mean([check.total_variation for check in checks])),
        "mean_expected": float(np.mean([check.expected for check in checks])),
    }


def main() -> None:
    """Draw, write, and keep a line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", nargs="?", default="oracle-chain-15")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--method", choices=("multinomial", "round"), default="multinomial")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    before = harness.load_average()
    model = model_of(options.case)
    small = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rows.parquet"
        start, work = time.perf_counter(), time.process_time()
        model.sample_to(path, options.rows, options.seed, method=options.method)
        seconds, work = time.perf_counter() - start, time.process_time() - work
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        line = {
            "case": options.case,
            "attributes": len(model.domain),
            "cliques": len(model.potentials.cliques),
            "rows": options.rows,
            "method": options.method,
            "seconds": seconds,
            "cpu_seconds": work,
            "peak_mb": peak,
            "peak_before_mb": small,
            "file_mb": path.stat().st_size / 1e6,
            **distances(model, path),
            "load_before": before,
            **harness.provenance(),
        }
    harness.append(harness.RESULTS / "rows.jsonl", line)
    harness.say(
        f"{options.case}: {options.rows:,} rows in {seconds:.1f} s ({work:.1f} s of CPU), peak {peak:.0f} MB"
    )


if __name__ == "__main__":
    main()
