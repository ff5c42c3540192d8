"""AIM, batch AIM, MWEM and MST beside AIM of dpmm 0.1.9: Adult, epsilon 1, delta 1e-9, fifteen triples.

    python bench/paper004/aim.py [RUN ...] [--trials N] [--peer-python .../dpmm/bin/python]

Runs are those of `RUNS` below and, with --peer-python, those of `PEERS`. Every trial is a fresh process and
one line of bench/results/paper004-aim.jsonl; a trial that is there is not run again. Neighbours differ by
one record more or less (add-remove) in both libraries: dpmm fixes the L2 sensitivity of a marginal and the
sensitivity of its L1 distance at 1, which is that relation. Noise is seeded here: nothing of it is a release.
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

OUT = harness.RESULTS / "paper004-aim.jsonl"
EPSILON, DELTA, RELATION = "1", "1e-9", "add-remove"
RUNS = {"batch-aim": "BatchAIM", "aim": "AIM", "mst": "MST", "mst-merged": "MST", "mwem": "MWEM"}
OPTIONS = {"mst": {"compress": False}}  # as `mst` was before rare values were merged
PEERS: dict[str, dict[str, Any]] = {  # its own defaults but for the merging of rare values, tried both ways
    "dpmm": {"compress": False, "megabytes": 80, "iterations": 1000},
    "dpmm-merged": {"compress": True, "megabytes": 80, "iterations": 1000},
}


def trial(name: str, seed: int) -> Line:
    """Run one of ours and return its errors, from the model's marginals and from synthetic rows."""
    import pgmjax as pj
    from pgmjax.privacy.seeded import SeededBackend

    domain, data = tables.load("adult")
    workload = tables.workload("adult", domain)
    mechanism = getattr(pj.mechanisms, RUNS[name])(
        EPSILON,
        RELATION,
        DELTA,
        backend=SeededBackend(seed, insecure=True),
        estimator=pj.Estimator(progress=False),
        **OPTIONS.get(name, {}),
    )
    start = time.perf_counter()
    release = mechanism.run(data, workload, show_progress=False)
    seconds = time.perf_counter() - start
    cliques, wide = tables.ADULT, tables.NUMERIC["adult"]
    truth = [table.astype(float) for table in data.marginals(cliques)]
    model = [release.model.marginal(clique) for clique in cliques]
    start = time.perf_counter()
    sampled = release.model.sample(data.count(), seed, method="round")
    line = {"seconds": seconds, "rows_seconds": time.perf_counter() - start}
    rows = aim_peer.exact_marginals(sampled, domain.sizes, cliques)
    line |= aim_peer.errors(cliques, wide, truth, model)
    same = tables.error(workload, tables.exact_answers(workload, data), release.model)
    assert abs(same - line["error"]) < 1e-9, "both ways of computing the error must agree"
    line |= {f"rows_{key}": x for key, x in aim_peer.errors(cliques, wide, truth, rows).items()}
    measured = release.measurements
    return line | {
        "rho": float(release.spent.rho),
        "cliques": [list(c) for c in dict.fromkeys(m.clique for m in measured) if len(c) > 1],
        "sigmas": [float(m.stddev) for m in measured],
        "status": release.fit.status.name,
        "steps": release.fit.steps,
        "loss": release.fit.loss,
    }


def command(name: str, seed: int, python: str | None) -> list[str]:
    """The command of a trial; AIM of dpmm runs under its own interpreter."""
    if name in RUNS:
        return [sys.executable, __file__, "--one", name, "--seed", str(seed)]
    domain, _ = tables.load("adult")
    asked = {
        "table": str(pathlib.Path(os.environ["PGMJAX_DATA"]) / "adult" / "adult.csv.gz"),
        "domain": domain.sizes,
        "cliques": tables.ADULT,
        "wide": tables.NUMERIC["adult"],
        "epsilon": float(EPSILON),
        "delta": float(DELTA),
        "seed": seed,
        **PEERS[name],
    }
    return [str(python), str(pathlib.Path(__file__).with_name("aim_peer.py")), json.dumps(asked)]


def run(names: Sequence[str], options: argparse.Namespace) -> None:
    """Run the trials that are not in the file."""
    kept = harness.Results(options.out, ("run", "seed"))
    for seed, name in itertools.product(range(options.trials), names):
        if (name, seed) in kept:
            continue
        call = command(name, seed, options.peer_python)
        line = harness.run(call, memory_gb=None, timeout=options.timeout, label=f"{name} {seed}")
        if name in PEERS:
            line |= {"peer": harness.versions(options.peer_python, ("dpmm", "numpy", "scipy", "opendp"))}
            line |= {"settings": PEERS[name]}
        if "failed" not in line:
            kept.add({"run": name, "seed": seed, **line})
        shown = line.get("failed") or f"error {line['error']:.4f}, {line['seconds']:.0f} s"
        harness.say(f"{name} {seed}: {shown}")


def main() -> None:
    """Run what is asked for."""
    parser = harness.parser(__doc__)
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"{', '.join((*RUNS, *PEERS))}")
    parser.add_argument("--trials", type=int, default=5, metavar="N", help="of each run (5)")
    parser.add_argument("--peer-python", metavar="PATH", help="the interpreter that has dpmm 0.1.9")
    parser.add_argument("--timeout", type=float, default=3600, metavar="S", help="of one trial (3600)")
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    parser.add_argument("--one", choices=tuple(RUNS), help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(trial(options.one, options.seed)))
        return
    unknown = [name for name in options.runs if name not in {**RUNS, **PEERS}]
    if unknown:
        parser.error(f"runs are {', '.join((*RUNS, *PEERS))}, got {', '.join(unknown)}")
    names = options.runs or [*RUNS, *(PEERS if options.peer_python else ())]
    if options.peer_python is None and set(names) & set(PEERS):
        parser.error("--peer-python is needed: the interpreter of a virtual environment with dpmm 0.1.9")
    try:
        run(names, options)
    except KeyboardInterrupt:
        harness.say(f"stopped; what is finished is in {options.out}")
        sys.exit(130)


if __name__ == "__main__":
    main()
