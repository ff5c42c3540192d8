"""MWEM's settings on Adult: penalty, repeats, rounds and split, by the workload error of the engine.

    PGMJAX_DATA=... python bench/paper004/mwem_settings.py [SETTING ...] [--epsilon 1] [--trials 1]

Candidates are the paper's fifteen triples, neighbours replace a record, noise is seeded. Each line of output
is JSON and is kept in bench/results/paper004-mwem.jsonl; what is there is not run again. A table of medians
follows.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
import time
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import harness
from workload import error, exact_answers, load, workload

import pgmjax as pj

OUT = harness.RESULTS / "paper004-mwem.jsonl"
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "penalty noise": {"penalty": "noise"},
    "7 rounds": {"rounds": 7},
    "7 rounds, penalty noise": {"rounds": 7, "penalty": "noise"},
    "7 rounds, penalty none": {"rounds": 7, "penalty": "none"},
    "repeat": {"repeat": True},
    "repeat, penalty noise": {"repeat": True, "penalty": "noise"},
    "split 1/2": {"split": "1/2"},
    "split 1/2, repeat, penalty noise": {"split": "1/2", "repeat": True, "penalty": "noise"},
}


def trial(name: str, epsilon: str, delta: str, seed: int) -> dict[str, Any]:
    """Run MWEM once."""
    domain, data = load("adult")
    asked = workload("adult", domain)
    mechanism = pj.mechanisms.MWEM(
        epsilon,
        pj.Relation.REPLACE_ONE,
        delta,
        backend=pj.privacy.SeededBackend(seed, insecure=True),
        estimator=pj.Estimator(progress=False),
        **SETTINGS[name],
    )
    start = time.perf_counter()
    release = mechanism.run(data, asked, show_progress=False)
    seconds = time.perf_counter() - start
    cells = pj.Workload.of_marginals(asked.cliques)
    return {
        "setting": name,
        "epsilon": epsilon,
        "delta": delta,
        "seed": seed,
        "error": error(asked, exact_answers(asked, data), release.model),
        "cells_error": error(cells, exact_answers(cells, data), release.model),
        "marginals": len({measurement.clique for measurement in release.measurements}),
        "seconds": seconds,
    }


def kept() -> list[dict[str, Any]]:
    """Return the lines of earlier calls."""
    return [json.loads(line) for line in OUT.read_text().splitlines()] if OUT.exists() else []


def main() -> None:
    """Run what is not there yet, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("settings", nargs="*", default=list(SETTINGS), metavar="SETTING")
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--delta", default="1e-9")
    parser.add_argument("--trials", type=int, default=1)
    arguments = parser.parse_args()
    for seed in range(arguments.trials):
        for name in arguments.settings:
            asked = {"setting": name, "epsilon": arguments.epsilon, "delta": arguments.delta, "seed": seed}
            if any(asked.items() <= line.items() for line in kept()):
                continue
            line = trial(name, arguments.epsilon, arguments.delta, seed)
            print(json.dumps(line), flush=True)
            with OUT.open("a") as file:
                file.write(json.dumps(line) + "\n")
    print("\n| setting | epsilon | delta | trials | marginals | error | of cells |\n" + 7 * "|---" + "|")
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for line in kept():
        groups.setdefault((line["setting"], line["epsilon"], line["delta"]), []).append(line)
    for group, lines in groups.items():
        medians = [
            statistics.median(line[key] for line in lines) for key in ("marginals", "error", "cells_error")
        ]
        counted = f"{len(lines)} | {medians[0]:g} | {medians[1]:.4f} | {medians[2]:.4f}"
        print(f"| {' | '.join(group)} | {counted} |")


if __name__ == "__main__":
    main()
