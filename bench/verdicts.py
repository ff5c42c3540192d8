"""Verdicts and errors of whole releases beside the true table: named mechanisms and `auto`.

    PGMJAX_DATA=... python bench/verdicts.py [--tables ...] [--mechanisms ...] [--deltas 0 1e-9] [--seeds 1]

Each run is `pgmjax release TABLE --all-kway 2 --epsilon 1` with a named mechanism and its own recipe, or with
`auto`. The noise is seeded: nothing here is a release. The error is the mean over all pairs of the share of
records that the model has in a wrong cell (half the L1 distance of the shares). For every verdict a line has
the number of the asked pairs that got it, and the median and the largest true error of them; for noisy
distances that a mechanism published, how many of their 95 % upper ends were exceeded.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import statistics
import sys
import tempfile
import time
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "paper004"))

import harness
import numpy as np
import shapes

TABLES = ("titanic", "salary", "diamonds", "adult", "loans", "stroke", "census")
MECHANISMS = ("auto", "batch-aim", "aim", "mst", "mwem")
MOST = 4_000_000  # cells of a pair that is compared
KEYS = ("table", "mechanism", "delta", "seed")


def trial(name: str, mechanism: str, delta: str, seed: int) -> dict[str, Any]:
    """Release a table once with seeded noise, and compare all its pairs with the truth."""
    from pgmjax.data.dataset import Dataset
    from pgmjax.data.domain import Domain
    from pgmjax.job import Job

    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        made = shapes.made if name in shapes.MADE else shapes.real
        file, spec = made(name, folder)
        (folder / "d.json").write_text(json.dumps(spec))
        domain = Domain.read(folder / "d.json")
        job = Job(
            records=str(file),
            domain=domain,
            epsilon=1,
            delta=delta,
            relation="add-remove",
            mechanism=mechanism,
            insecure_seed=seed,
        )
        began = time.process_time()
        release = job.run(show_progress=False)
        taken = time.process_time() - began
        pairs = [pair for pair in itertools.combinations(domain.attributes, 2) if domain.size(pair) <= MOST]
        truth = Dataset.read(file, domain).marginals(pairs)
    wrong = {}
    for true, (pair, fitted) in zip(truth, release.asked.marginals(pairs), strict=True):
        wrong[frozenset(pair)] = float(np.abs(true / true.sum() - fitted / fitted.sum()).sum() / 2)
    by: dict[str, list[float]] = {}
    exceeded, bounded = 0, 0
    for table in release.count_accuracy.tables:
        error = wrong.get(frozenset(table.clique))
        if error is None:
            continue
        by.setdefault(table.verdict, []).append(error)
        if table.misplaced is not None:
            bounded, exceeded = bounded + 1, exceeded + (error > table.misplaced[1])
    told = {
        verdict: {"pairs": len(e), "median": statistics.median(e), "largest": max(e)}
        for verdict, e in by.items()
    }
    return {
        "error": statistics.mean(wrong.values()),
        "pairs": len(wrong),
        "cpu_seconds": taken,
        "measured": len(release.measurements),
        "status": release.fit.status.name,
        "verdicts": told,
        "bounded": bounded,
        "exceeded": exceeded,
    }


def main() -> None:
    """Make the lines."""
    options = harness.parser(__doc__)
    options.add_argument("--tables", nargs="+", default=list(TABLES))
    options.add_argument("--mechanisms", nargs="+", default=list(MECHANISMS))
    options.add_argument("--deltas", nargs="+", default=["0", "1e-9"])
    options.add_argument("--seeds", type=int, default=1)
    chosen = options.parse_args()
    runs = itertools.product(chosen.tables, chosen.mechanisms, chosen.deltas, range(chosen.seeds))
    kept = harness.Results("verdicts", KEYS)
    for name, mechanism, delta, seed in runs:
        line = dict(zip(KEYS, (name, mechanism, delta, seed), strict=True))
        line = kept.add(line | trial(name, mechanism, delta, seed))
        harness.say(f"{name} {mechanism} delta {delta}: error {line['error']:.4f}, {line['status']}")


if __name__ == "__main__":
    main()
