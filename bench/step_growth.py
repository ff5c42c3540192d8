"""How fast the default solver's step may grow, and what mirror descent does beside it.

    PGMJAX_DATA=... python bench/step_growth.py

One JSON line for each setting: 1000 float32 steps (3000 of mirror descent) on the 58 two-way
marginals of Adult under a million cells, with seeded noise at epsilon 1; loss and certified gap.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys

import pgmjax as pj
from pgmjax.privacy import SeededBackend


def main() -> None:
    """Measure once with noise, then fit under each setting."""
    if "PGMJAX_DATA" not in os.environ:
        sys.exit("PGMJAX_DATA is not set: it names the folder of real tables")
    folder = pathlib.Path(os.environ["PGMJAX_DATA"]) / "adult"
    domain = pj.Domain.read(folder / "adult-domain.json")
    data = pj.Dataset.read(folder / "adult.csv.gz", domain)
    workload = pj.Workload.all_kway(domain, 2, max_cells=1_000_000)
    measured = (
        pj.mechanisms.Marginals(
            epsilon=1,
            relation=pj.Relation.ADD_REMOVE,
            backend=SeededBackend(0, insecure=True),
            estimator=pj.Estimator(max_steps=1),
        )
        .run(data, workload)
        .measurements
    )
    accelerated = pj.solvers.Accelerated
    settings = [(f"accelerated, grow {g}", accelerated(grow=g), 1000) for g in (1.0, 1.0001, 1.001, 1.01)]
    settings += [(f"accelerated, damping {d}", accelerated(damping=d), 1000) for d in (2.0, 3.0)]
    settings += [(f"accelerated, shrink {s}", accelerated(shrink=s), 1000) for s in (0.6, 0.9)]
    former = accelerated(grow=1.001, shrink=0.6, damping=2.0)
    settings += [
        ("accelerated, as it was", former, 1000),
        ("mirror descent", pj.solvers.MirrorDescent(), 3000),
    ]
    for name, solver, steps in settings:
        fit = pj.Estimator(solver=solver, max_steps=steps, tol=0.0).fit(domain, measured)
        line = {"solver": name, "steps": fit.steps, "loss": round(fit.loss, 1), "gap": round(fit.gap, 1)}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
