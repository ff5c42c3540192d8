"""The workload error of a fit that ends at the noise's own level, beside that of the certified optimum.

    PGMJAX_DATA=... python bench/paper004/noise_stop.py [--epsilons 0.1 1 10] [--trials 3] [TABLE ...]

Fifteen triples of each table are measured once with Laplace noise (replace-one, uniform split, seeded) and
fitted twice. Each line of output is JSON; a table of medians follows.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time

import jax
from workload import TABLES, error, exact_answers, load, workload

import pgmjax as pj

STEPS = 1500


def trial(name: str, epsilon: float, seed: int) -> list[dict]:
    """Measure a table once and fit it in both ways."""
    domain, data = load(name)
    asked = workload(name, domain, data.count())
    exact = exact_answers(asked, data)
    backend = pj.privacy.SeededBackend(seed, insecure=True)
    budget = pj.privacy.Budget(epsilon)
    table = pj.privacy.PrivateTable(data, pj.Relation.REPLACE_ONE, budget, backend)
    queries = [pj.queries.marginal(entry.clique) for entry in asked.entries]
    measured = table.measure(queries, epsilons=budget.split([1] * len(queries)), show_progress=False)
    lines = []
    for stop in ("noise", "optimum"):
        start = time.perf_counter()
        estimator = pj.Estimator(regularisation="none", tol=1e-4, max_steps=STEPS, stop=stop, progress=False)
        fit = estimator.fit(domain, measured, total=table.public_total())
        lines.append(
            {
                "table": name,
                "epsilon": epsilon,
                "seed": seed,
                "stop": stop,
                "status": fit.status.name,
                "steps": fit.steps,
                "loss": fit.loss,
                "half_cells": sum(m.values.size for m in measured) / 2,
                "error": error(asked, exact, fit.model),
                "seconds": time.perf_counter() - start,
            }
        )
    return lines


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", default=list(TABLES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1.0, 10.0])
    parser.add_argument("--trials", type=int, default=3)
    arguments = parser.parse_args()
    machine = {"machine": platform.processor() or platform.machine(), "jax": jax.__version__}
    found: dict[tuple[str, float, str], list[float]] = {}
    for name in arguments.tables:
        for epsilon in arguments.epsilons:
            for seed in range(arguments.trials):
                for line in trial(name, epsilon, seed):
                    print(json.dumps({**line, **machine}), flush=True)
                    found.setdefault((name, epsilon, line["stop"]), []).append(line["error"])
    print("\n| table | epsilon | noise level | optimum |\n|---|---|---|---|")
    for name in arguments.tables:
        for epsilon in arguments.epsilons:
            medians = [statistics.median(found[name, epsilon, stop]) for stop in ("noise", "optimum")]
            print(f"| {name} | {epsilon:g} | {medians[0]:.4f} | {medians[1]:.4f} |")


if __name__ == "__main__":
    main()
