"""The README's recipe on a table where not all pairs fit, beside MST.

    python bench/recipe.py [--epsilons 1] [--seeds 4]

Sixteen attributes of eighteen values, 50,000 records, made here from the seed: each attribute copies an
earlier one, in random order, for a share of the records that falls from pair to pair, and is skewed
otherwise. The recipe is the mechanism that the command takes for `--all-kway 2 --max-cells 1000000`: batch
AIM, which chooses privately among all pairs. "kept" measures the pairs that fit in that many cells, which
follow the domain's order where sizes tie; "spread" those whose attributes are in the fewest kept pairs; MST
chooses a tree of pairs privately. delta is 1e-9, with "pure" 0, where the command takes MST. The error is
the mean over all 120 pairs of the L1 distance of the model's shares from the table's. Noise is seeded:
nothing here is a release.
"""

from __future__ import annotations

import argparse
import itertools
import statistics

import harness
import numpy as np

import pgmjax as pj
from pgmjax.inference.plan.junction_tree import total_cells

OUT = harness.RESULTS / "recipe.jsonl"
KEYS = ("method", "epsilon", "seed")
DOMAIN = pj.Domain({f"a{k:02d}": 18 for k in range(16)})
PAIRS = list(itertools.combinations(DOMAIN.attributes, 2))
ROWS, CELLS = 50_000, 1_000_000
METHODS = ("recipe", "mst", "kept", "spread", "pure recipe", "pure mst")


def made(seed: int) -> pj.Dataset:
    """The table: a tree of dependences of differing strength, on attributes in random order."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, 19)
    weights /= weights.sum()
    names = rng.permutation(DOMAIN.attributes)
    columns = {names[0]: rng.choice(18, ROWS, p=weights)}
    for k in range(1, 16):
        copied = columns[names[rng.integers(k)]]
        own = rng.permutation(18)[rng.choice(18, ROWS, p=weights)]
        columns[names[k]] = np.where(rng.random(ROWS) < 0.9 - 0.05 * k, copied, own)
    return pj.Dataset.from_columns(DOMAIN, columns)


def spread() -> pj.Workload:
    """Pairs within the limit, the next always one whose attributes are in the fewest kept pairs."""
    kept: list[tuple[int, ...]] = []
    times = [0] * len(DOMAIN)
    waiting = list(itertools.combinations(range(len(DOMAIN)), 2))
    while waiting:
        pair = min(waiting, key=lambda pair: (max(times[v] for v in pair), sum(times[v] for v in pair), pair))
        waiting.remove(pair)
        if total_cells(DOMAIN.shape, [*kept, pair]) <= CELLS:
            kept.append(pair)
            for v in pair:
                times[v] += 1
    return pj.Workload([[DOMAIN.attributes[v] for v in pair] for pair in kept])


def trial(data: pj.Dataset, method: str, epsilon: float, seed: int) -> harness.Line:
    """Run a mechanism and compare all pairs."""
    name, pure = method.removeprefix("pure "), method.startswith("pure ")
    limit = CELLS if name == "kept" else None
    workload = spread() if name == "spread" else pj.Workload.all_kway(DOMAIN, 2, limit)
    kind = {"mst": pj.mechanisms.MST, "recipe": pj.mechanisms.BatchAIM}.get(name, pj.mechanisms.Marginals)
    backend = pj.privacy.SeededBackend(seed, insecure=True)
    own = {"max_cells": CELLS} if name == "recipe" else {}
    mechanism = kind(epsilon, pj.Relation.ADD_REMOVE, 0 if pure else "1e-9", backend=backend, **own)
    release = mechanism.run(data, workload, show_progress=False)
    truth = data.marginals(PAIRS)
    errors = [
        np.abs(release.model.marginal(pair) / release.model.total - counts / ROWS).sum()
        for pair, counts in zip(PAIRS, truth, strict=True)
    ]
    measured = {m.clique for m in release.measurements if len(m.clique) == 2}
    return {"error": float(np.mean(errors)), "pairs": len(measured)}


def main() -> None:
    """Make the lines that lack and print the means."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    options.add_argument("--seeds", type=int, default=4)
    chosen = options.parse_args()
    lines = harness.read(OUT) if OUT.exists() else []
    done = {tuple(line[key] for key in KEYS) for line in lines}
    for epsilon, method, seed in itertools.product(chosen.epsilons, METHODS, range(chosen.seeds)):
        if (method, epsilon, seed) not in done:
            line = dict(zip(KEYS, (method, epsilon, seed), strict=True)) | trial(
                made(seed), method, epsilon, seed
            )
            line |= harness.provenance() | {"date": harness.now()}
            harness.append(OUT, line)
            lines.append(line)
    for method, epsilon in sorted({(line["method"], line["epsilon"]) for line in lines}):
        found = [line for line in lines if (line["method"], line["epsilon"]) == (method, epsilon)]
        error = statistics.mean(line["error"] for line in found)
        harness.say(
            f"{method:11} epsilon {epsilon:g}: {error:.4f} ({found[0]['pairs']} pairs, {len(found)} seeds)"
        )


if __name__ == "__main__":
    main()
