"""MWEM's settings on Adult: penalty, repeats, rounds and split, by the workload error of the engine.

    PGMJAX_DATA=... python bench/paper004/mwem_settings.py [SETTING ...] [--epsilon 1] [--trials 1] [--table]

Candidates are the paper's fifteen triples, neighbours replace a record, noise is seeded. Lines are kept
in bench/results/paper004-mwem.jsonl; what is there is not run again. A table of medians follows.
"""

from __future__ import annotations

import time
from typing import Any

from kept import Kept, median, parser, shown
from showing import markdown
from workload import error, exact_answers, load, workload

import pgmjax as pj

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


def main() -> None:
    """Run what is not there yet, and print a table."""
    options = parser(__doc__)
    options.add_argument("settings", nargs="*", default=list(SETTINGS), metavar="SETTING")
    options.add_argument("--epsilon", default="1")
    options.add_argument("--delta", default="1e-9")
    options.set_defaults(trials=1)
    arguments = options.parse_args()
    if unknown := set(arguments.settings) - set(SETTINGS):
        raise SystemExit(f"unknown settings {sorted(unknown)}: choose of {list(SETTINGS)}")
    kept = Kept("mwem", ("setting", "epsilon", "delta", "seed"), again=arguments.again)
    for name in [] if arguments.table else arguments.settings:
        asked = {"setting": name, "epsilon": arguments.epsilon, "delta": arguments.delta}
        for seed in kept.missing("seed", range(arguments.trials), **asked):
            kept.add(trial(name, arguments.epsilon, arguments.delta, seed))
    head = ("setting", "epsilon", "delta", "trials", "marginals", "error", "of cells", "seconds")
    groups = dict.fromkeys((line["setting"], line["epsilon"], line["delta"]) for line in kept.lines.values())
    rows = []
    for group in groups:
        lines = kept.where(**dict(zip(head, group, strict=False)))
        figures = [
            median(line[key] for line in lines) for key in ("marginals", "error", "cells_error", "seconds")
        ]
        rows.append((*group, str(len(lines)), *(shown(figure) for figure in figures)))
    print(markdown(head, rows))


if __name__ == "__main__":
    main()
