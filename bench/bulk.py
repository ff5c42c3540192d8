"""All pairs of a fitted chain: 98 cliques of 10 x 10 x 10 over 100 attributes, 4,950 marginals.

The model is fitted to noisy answers on the case's cliques. `first_s` is the first call that streams every
pair (calibration included, nothing was asked of the model before), `first_cpu_s` its processor time,
`second_s` a call that starts anew, `kept_s` one of the same calibrated model. `one_s` is `model.marginal`
for a pair asked alone. The largest difference between both ways stands beside them.

    PGMJAX_DATA=... python bench/bulk.py            # keeps a line in bench/results/bulk.jsonl
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import time

import harness
import numpy as np
from checkout import ROOT

import pgmjax as pj

OUT = ROOT / "bench" / "results" / "bulk.jsonl"


def chain(attributes: int, size: int) -> tuple[pj.Domain, list[tuple[str, ...]]]:
    """The domain and the cliques of the case: three attributes in a row each."""
    names = [f"a{i}" for i in range(attributes)]
    return pj.Domain(dict.fromkeys(names, size)), [tuple(names[i : i + 3]) for i in range(attributes - 2)]


def fitted(domain: pj.Domain, cliques: list[tuple[str, ...]], steps: int) -> pj.GraphicalModel:
    """A fit to counts of 50,000 rows of a random walk, with noise of standard deviation 20."""
    rng = np.random.default_rng(0)
    size = domain.shape[0]
    rows = np.cumsum(rng.integers(-1, 2, (50_000, len(domain))), axis=1) + rng.integers(0, size, (50_000, 1))
    columns = dict(zip(domain.attributes, (rows % size).T, strict=True))
    measured = []
    for clique in cliques:
        cells = np.ravel_multi_index([columns[name] for name in clique], domain.shape_of(clique))
        counts = np.bincount(cells, minlength=size**3)
        noisy = np.rint(counts + rng.normal(0, 20, counts.size))
        measured.append(pj.LinearMeasurement(clique, noisy, stddev=20.0))
    return (
        pj.Estimator(regularisation="none", tol=1e-4, max_steps=steps)
        .fit(domain, measured, total=50_000.0)
        .model
    )


def seconds(model: pj.GraphicalModel | pj.model.CalibratedModel) -> float:
    """Seconds to stream every pair."""
    start = time.perf_counter()
    ready = model.calibrate() if isinstance(model, pj.GraphicalModel) else model
    count = sum(1 for _ in ready.all_marginals(2))
    assert count == len(ready.domain) * (len(ready.domain) - 1) // 2
    return time.perf_counter() - start


def main() -> None:
    """Run it and keep a line."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--attributes", type=int, default=100)
    parser.add_argument("--size", type=int, default=10)
    parser.add_argument("--steps", type=int, default=200, help="steps of the fit")
    parser.add_argument("--check", type=int, default=50, help="pairs compared with model.marginal")
    parser.add_argument("--print", action="store_true", help="keep nothing")
    args = parser.parse_args()
    before = harness.load_average()
    domain, cliques = chain(args.attributes, args.size)
    start = time.perf_counter()
    model = fitted(domain, cliques, args.steps)
    line = {"case": f"chain-{args.attributes}x{args.size}", "fit_s": time.perf_counter() - start}
    cpu = time.process_time()
    line["first_s"] = seconds(model)
    line["first_cpu_s"] = time.process_time() - cpu
    line["second_s"] = seconds(model)
    ready = model.calibrate()
    seconds(ready)
    line["kept_s"] = seconds(ready)
    pairs = list(itertools.combinations(domain.attributes, 2))
    chosen = [pairs[i] for i in np.random.default_rng(1).permutation(len(pairs))[: args.check]]
    plain = pj.GraphicalModel.from_potentials(domain, dict(model.potentials), model.total)
    start = time.perf_counter()
    one_by_one = [plain.marginal(pair) for pair in chosen]
    line["one_s"] = (time.perf_counter() - start) / len(chosen)
    found = [ready.marginal(pair) for pair in chosen]
    worst = max(np.abs(a - b).max() for a, b in zip(found, one_by_one, strict=True))
    line["largest_difference"] = float(worst / model.total)
    line["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = {**line, **harness.provenance(), "load_before": before, "date": harness.now()}
    print(json.dumps(line))
    if not args.print:
        harness.append(OUT, line)


if __name__ == "__main__":
    main()
