"""Our mechanisms beside those of google/dpsynth and AIM of dpmm 0.1.9: one workload, equal privacy.

    python bench/paper004/peers.py [RUN ...] [--tables adult titanic stroke] [--epsilons 0.3 1 10]
        [--trials 3] [--dpsynth-python .../bin/python] [--dpmm-python .../bin/python]

Fifteen triples a table (`workload.py`), delta 1e-9, neighbours differ by one record more or less
(add-remove). The error is the mean over the triples of the L1 distance of the cells' shares from the
table's, from the model's marginals and from synthetic rows. Every trial is a fresh process and one line of
bench/results/paper004-peers.jsonl; a trial that is there is not run again. Noise is seeded where a library
allows it: nothing here is a release.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import aim_peer
import harness
import workload as tables
from harness import Line

DELTA = "1e-9"
OURS = {"batch-aim": "BatchAIM", "aim": "AIM", "mwem": "MWEM", "mst": "MST"}
DPSYNTH = ("dpsynth-aim", "dpsynth-aim-gdp", "dpsynth-swift", "dpsynth-mst")
RUNS = (*OURS, *DPSYNTH, "dpmm-aim")
SHOWN = ("titanic", "adult", "stroke", "loans")


def ours(name: str, table: str, epsilon: str, seed: int) -> Line:
    """Run one of ours."""
    import pgmjax as pj
    from pgmjax.privacy.seeded import SeededBackend

    domain, data = tables.load(table)
    cliques = cliques_of(table)
    start = time.perf_counter()
    mechanism = getattr(pj.mechanisms, OURS[name])(
        epsilon, "add-remove", DELTA, backend=SeededBackend(seed, insecure=True)
    )
    release = mechanism.run(data, pj.Workload(cliques), show_progress=False)
    seconds = time.perf_counter() - start
    peak = harness.peak_mb()
    truth = [counts.astype(float) for counts in data.marginals(cliques)]
    rows = aim_peer.exact_marginals(
        release.model.sample(data.count(), seed, method="round"), domain.sizes, cliques
    )
    return {
        "seconds": seconds,
        "peak_mb": peak,
        "error": aim_peer.distance(truth, [release.model.marginal(clique) for clique in cliques]),
        "rows_error": aim_peer.distance(truth, rows),
        "measured": len(release.measurements),
    }


def cliques_of(table: str) -> list[tuple[str, ...]]:
    """Return the triples of a table's workload."""
    domain, data = tables.load(table)
    return list(tables.workload(table, domain, data.count()).cliques)


def command(run: str, table: str, epsilon: str, seed: int, options: argparse.Namespace) -> list[str]:
    """Return the command of a trial."""
    if run in OURS:
        return [sys.executable, __file__, "--one", run, table, epsilon, str(seed)]
    from pgmjax.privacy.accounting.zcdp import rho_for

    domain, _ = tables.load(table)
    asked: dict[str, Any] = {
        "table": str(pathlib.Path(os.environ["PGMJAX_DATA"]) / table / f"{table}.csv.gz"),
        "domain": domain.sizes,
        "cliques": cliques_of(table),
        "seed": seed,
    }
    here = pathlib.Path(__file__)
    if run in DPSYNTH:
        asked |= {"mechanism": run.removeprefix("dpsynth-"), "rho": float(rho_for(epsilon, DELTA))}
        return [options.dpsynth_python, str(here.with_name("dpsynth_peer.py")), json.dumps(asked)]
    asked |= {"epsilon": float(epsilon), "delta": float(DELTA), "wide": []}
    asked |= {"compress": True, "megabytes": 80, "iterations": 1000}
    return [options.dpmm_python, str(here.with_name("aim_peer.py")), json.dumps(asked)]


def trials(names: Sequence[str], options: argparse.Namespace) -> None:
    """Run the trials that are not in the file."""
    kept = harness.Results("paper004-peers", ("run", "table", "epsilon", "seed"))
    packages = {"dpsynth": ("dpsynth", "mbi", "jax"), "dpmm": ("dpmm", "numpy", "opendp")}
    pythons = {"dpsynth": options.dpsynth_python, "dpmm": options.dpmm_python}
    peers = {k: {"peer": harness.versions(p, packages[k])} for k, p in pythons.items() if p}
    runs = itertools.product(range(options.trials), options.tables, options.epsilons, names)
    for seed, table, epsilon, name in runs:
        if (name, table, epsilon, seed) in kept:
            continue
        call = command(name, table, epsilon, seed, options)
        line = harness.run(call, memory_gb=None, timeout=options.timeout, label=f"{name} {table}")
        keys = {"run": name, "table": table, "epsilon": epsilon, "seed": seed}
        kept.add({**peers.get(name.split("-")[0], {}), **keys, **line})
        harness.say(f"{keys}: {line.get('failed') or round(line['error'], 4)}")


def main() -> None:
    """Run what is asked for."""
    parser = harness.parser(__doc__)
    parser.add_argument("runs", nargs="*", metavar="RUN", help=", ".join(RUNS))
    parser.add_argument("--tables", nargs="+", default=["adult", "titanic", "stroke"], choices=SHOWN)
    parser.add_argument("--epsilons", nargs="+", default=["0.3", "1", "10"])
    parser.add_argument("--trials", type=int, default=3, metavar="N", help="of each run (3)")
    parser.add_argument("--dpsynth-python", metavar="PATH", help="the interpreter that has dpsynth")
    parser.add_argument("--dpmm-python", metavar="PATH", help="the interpreter that has dpmm 0.1.9")
    parser.add_argument("--timeout", type=float, default=900, metavar="S", help="of one trial (900)")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, table, epsilon, seed = options.one
        print(json.dumps(ours(name, table, epsilon, int(seed))))
        return
    if unknown := set(options.runs) - set(RUNS):
        parser.error(f"runs are {', '.join(RUNS)}, got {', '.join(sorted(unknown))}")
    has = {"dpsynth": options.dpsynth_python, "dpmm": options.dpmm_python}
    able = [name for name in RUNS if name in OURS or has[name.split("-")[0]]]
    if lacking := set(options.runs) - set(able):
        parser.error(f"{', '.join(sorted(lacking))}: give the interpreter that has it")
    try:
        trials(options.runs or able, options)
    except KeyboardInterrupt:
        harness.say("stopped; what is finished is kept")
        sys.exit(130)


if __name__ == "__main__":
    main()
