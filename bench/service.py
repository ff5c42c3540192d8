"""Memory of a service: thousands of fits of different structures in one process.

Every fit has another domain: 4 attributes of 2 to 10 values and 3 cliques, drawn anew, so that nothing that
was compiled before can be used. `maps` is the number of memory maps of the process (Linux gives 65,530),
`rss_mb` its resident memory; both are noted at ten points.

    python bench/service.py --fits 5000            # keeps a line in bench/results/service.jsonl
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time

import harness
import numpy as np
from checkout import ROOT

import pgmjax as pj

OUT = ROOT / "bench" / "results" / "service.jsonl"
NAMES = ("a", "b", "c", "d")


def fit(rng: np.random.Generator) -> float:
    """Fit noisy counts of a new structure; return the count of a cell of a marginal that was not measured."""
    domain = pj.Domain(dict(zip(NAMES, map(int, rng.integers(2, 11, 4)), strict=True)))
    cliques = [NAMES[i : i + 2] for i in range(3)]
    noisy = [pj.LinearMeasurement(c, rng.normal(100, 1, domain.shape_of(c)), stddev=1.0) for c in cliques]
    model = pj.Estimator(max_steps=100).fit(domain, noisy, total=1000.0).model
    return float(model.marginal(("a", "d"))[0, 0])


def memory() -> dict[str, int]:
    """Memory maps and resident memory of this process."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return {
        "maps": pathlib.Path("/proc/self/maps").read_bytes().count(b"\n"),
        "rss_mb": pages * 4096 // 1_000_000,
    }


def main() -> None:
    """Run it and keep a line."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--fits", type=int, default=5000)
    parser.add_argument("--print", action="store_true", help="keep nothing")
    args = parser.parse_args()
    before, rng = harness.load_average(), np.random.default_rng(0)
    start, points = time.perf_counter(), []
    for done in range(1, args.fits + 1):
        assert np.isfinite(fit(rng))
        if done % max(1, args.fits // 10) == 0:
            points.append({"fits": done, **memory(), "s": round(time.perf_counter() - start, 1)})
            print(json.dumps(points[-1]), flush=True)
    line = {"case": "service", "fits": args.fits, "points": points}
    line = {**line, **harness.provenance(), "load_before": before, "date": harness.now()}
    if not args.print:
        harness.append(OUT, line)


if __name__ == "__main__":
    main()
