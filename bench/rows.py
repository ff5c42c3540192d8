"""Rows of a model straight to Parquet: time, memory and the distance from the model's own marginals.

    python bench/rows.py                                   # 10 million rows of a random chain of 15
    python bench/rows.py fit-adult9 --method round
    python bench/rows.py --rows 1000000 --on host device --in-memory --repeat 5
    PGMJAX_DATA=... python bench/rows.py --errors [diamonds adult titanic loans stroke]

The model of a case has standard normal log-potentials from the case's seed. Each place to
draw on is one line of `bench/results/rows.jsonl`: the first run, which compiles, and the quickest of its
repeats.

With --errors, what drawing adds to the error of a release (epsilon 1, delta 1e-9, add-remove): a model from
batch AIM over all pairs, from MST where there are more than a hundred, then as many rows as records, dealt
and independent, five seeds each. Errors are means over all pairs (at most 400 of them, drawn once) of the
total variation to the true table and to the model. Noise is seeded: nothing here is a release. Lines stand
in `bench/results/rows-errors.jsonl`.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import sys
import tempfile
import time
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "paper004"))

import cases
import harness
import numpy as np
import workload as real_tables
from pyarrow import parquet

import pgmjax as pj
from pgmjax.data import demo

TABLES = ("diamonds", "adult", "titanic", "loans", "stroke")
CELLS = {"diamonds": 100_000}  # of the model; a million otherwise
MANY_PAIRS, COMPARED, SEEDS = 100, 400, 5


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
    cost["peak_mb"] = harness.peak_mb()
    if not options.in_memory:
        cost["file_mb"] = path.stat().st_size / 1e6
        stored = parquet.read_table(path)
        codes = {name: stored[name].to_numpy() for name in stored.column_names}
    return codes, cost


def measure(model: pj.GraphicalModel, options: argparse.Namespace, place: str) -> dict[str, Any]:
    """One line: the first run and the least of its repeats."""
    small = harness.peak_mb()
    with tempfile.TemporaryDirectory() as folder:
        codes, cost = draw(model, options, place, folder)
        again = [draw(model, options, place, folder)[1] for _ in range(options.repeat)]
    if again:
        least = min(again, key=lambda run: run["seconds"])
        cost |= {"later_seconds": least["seconds"], "later_cpu_seconds": least["cpu_seconds"]}
    return {**cost, "peak_before_mb": small, **distances(model, codes)}


def fitted(name: str) -> tuple[pj.Dataset, pj.GraphicalModel]:
    """A table and the model of a release of it."""
    data = demo.load() if name == "diamonds" else real_tables.load(name)[1]
    pairs = list(itertools.combinations(data.domain.attributes, 2))
    backend = pj.privacy.SeededBackend(0, insecure=True)
    cells = CELLS.get(name, 1_000_000)
    kind, own = (pj.mechanisms.BatchAIM, {"max_cells": cells})
    if len(pairs) > MANY_PAIRS:
        kind, own = pj.mechanisms.MST, {}
    mechanism = kind(1, pj.Relation.ADD_REMOVE, "1e-9", backend=backend, **own)
    workload = pj.Workload([pair for pair in pairs if data.domain.size(pair) <= cells])
    return data, mechanism.run(data, workload, show_progress=False).model


def errors(name: str) -> harness.Line:
    """Mean total variation of pairs: of the model, and of rows drawn from it in both ways."""
    data, model = fitted(name)
    domain, rows = data.domain, data.count()
    pairs = list(itertools.combinations(domain.attributes, 2))
    if len(pairs) > COMPARED:
        chosen = np.random.default_rng(0).choice(len(pairs), COMPARED, replace=False)
        pairs = [pairs[place] for place in sorted(chosen)]
    truth = [counts / rows for counts in data.marginals(pairs)]
    own = [model.marginal(pair) / model.total for pair in pairs]

    def mean(one: list[np.ndarray], other: list[np.ndarray]) -> float:
        return float(np.mean([0.5 * np.abs(a - b).sum() for a, b in zip(one, other, strict=True)]))

    line: harness.Line = {"table": name, "rows": rows, "attributes": len(domain), "model": mean(own, truth)}
    for method, said in (("multinomial", "independent"), ("round", "rounded")):
        found = []
        start = time.process_time()
        drawn = [model.sample(rows, seed, method=method) for seed in range(SEEDS)]
        line[f"{said}_cpu_seconds"] = (time.process_time() - start) / SEEDS
        for columns in drawn:
            codes = pj.Dataset.from_columns(domain, columns)
            shares = [counts / rows for counts in codes.marginals(pairs)]
            found.append((mean(shares, truth), mean(shares, own)))
        line[said], line[f"{said}_to_model"] = np.mean(found, axis=0).tolist()
    return line


def all_errors(names: list[str]) -> None:
    """Keep a line for each table."""
    for name in names:
        line = errors(name)
        harness.keep("rows-errors", line)
        harness.say(f"{name}: model {line['model']:.4f}, independent rows {line['independent']:.4f}")


def main() -> None:
    """Draw, write, and keep a line for each place."""
    parser = harness.parser(__doc__)
    parser.add_argument("case", nargs="?", default="oracle-chain-15")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--method", choices=("round", "multinomial"))
    parser.add_argument("--on", nargs="+", choices=("host", "device"), default=["host"])
    parser.add_argument("--in-memory", action="store_true", help="keep the rows instead of writing them")
    parser.add_argument("--repeat", type=int, default=0, help="draw so many times more")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--errors", nargs="*", choices=TABLES, help="what drawing adds to a release's error")
    options = parser.parse_args()
    if options.errors is not None:
        all_errors(options.errors or list(TABLES))
        return
    kept = harness.Results("rows", ())
    model = model_of(options.case)
    for place in options.on:
        found = measure(model, options, place)
        line = {
            "case": options.case,
            "attributes": len(model.domain),
            "cliques": len(model.potentials.cliques),
            "rows": options.rows,
            "method": options.method or ("round" if place == "host" else "multinomial"),
            "on": place,
            "in_memory": options.in_memory,
            **found,
        }
        kept.add(line)
        later = f", again {found['later_seconds']:.2f} s" if options.repeat else ""
        harness.say(
            f"{options.case} on the {place}: {options.rows:,} rows in {found['seconds']:.2f} s "
            f"({found['cpu_seconds']:.1f} s of CPU){later}, peak {found['peak_mb']:.0f} MB"
        )


if __name__ == "__main__":
    main()
