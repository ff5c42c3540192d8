"""The README's recipe on tables where not all pairs fit, beside MST.

    python bench/recipe.py [--epsilons 1] [--seeds 4] [--tables made diamonds titanic adult]

Sixteen attributes of eighteen values, 50,000 records, made here from the seed: each attribute copies an
earlier one, in random order, for a share of the records that falls from pair to pair, and is skewed
otherwise. The recipe is the mechanism that the command takes for `--all-kway 2 --max-cells 1000000`: batch
AIM, which chooses privately among all pairs. "kept" measures the pairs that fit in that many cells, which
follow the domain's order where sizes tie; "spread" those whose attributes are in the fewest kept pairs; MST
chooses a tree of pairs privately. delta is 1e-9, with "pure" 0, where the command takes MST on the made
table. The real tables (PGMJAX_DATA; diamonds is that of the demo) have fewer pairs. The error is the mean
over all pairs of the L1 distance of the model's shares from the table's. Noise is seeded: nothing here is a
release.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "paper004"))

import harness
import numpy as np
import workload as real_tables

import pgmjax as pj
from pgmjax.data import demo
from pgmjax.inference.plan.junction_tree import total_cells

OUT = harness.RESULTS / "recipe.jsonl"
KEYS = ("table", "method", "epsilon", "seed")
DOMAIN = pj.Domain({f"a{k:02d}": 18 for k in range(16)})
ROWS = 50_000
CELLS = {"made": 1_000_000, "adult": 1_000_000, "titanic": 100_000, "diamonds": demo.MAX_CELLS}
METHODS = ("recipe", "mst", "kept", "spread", "pure recipe", "pure mst", "pure kept")


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


def table(name: str, seed: int) -> pj.Dataset:
    """A table by its name; only the made one depends on the seed."""
    if name == "made":
        return made(seed)
    return demo.load() if name == "diamonds" else real_tables.load(name)[1]


def spread(domain: pj.Domain, cells: int) -> pj.Workload:
    """Pairs within the limit, the next always one whose attributes are in the fewest kept pairs."""
    kept: list[tuple[int, ...]] = []
    times = [0] * len(domain)
    waiting = list(itertools.combinations(range(len(domain)), 2))
    while waiting:
        pair = min(waiting, key=lambda pair: (max(times[v] for v in pair), sum(times[v] for v in pair), pair))
        waiting.remove(pair)
        if total_cells(domain.shape, [*kept, pair]) <= cells:
            kept.append(pair)
            for v in pair:
                times[v] += 1
    return pj.Workload([[domain.attributes[v] for v in pair] for pair in kept])


def trial(data: pj.Dataset, cells: int, method: str, epsilon: float, seed: int) -> harness.Line:
    """Run a mechanism and compare all pairs."""
    name, pure = method.removeprefix("pure "), method.startswith("pure ")
    domain, rows = data.domain, data.count()
    pairs = list(itertools.combinations(domain.attributes, 2))
    if name == "spread":
        workload = spread(domain, cells)
    elif name == "kept":
        workload = pj.Workload.all_kway(domain, 2, cells)
    else:
        workload = pj.Workload([pair for pair in pairs if domain.size(pair) <= cells])
    kind = {"mst": pj.mechanisms.MST, "recipe": pj.mechanisms.BatchAIM}.get(name, pj.mechanisms.Marginals)
    backend = pj.privacy.SeededBackend(seed, insecure=True)
    own = {"max_cells": cells} if name == "recipe" else {}
    mechanism = kind(epsilon, pj.Relation.ADD_REMOVE, 0 if pure else "1e-9", backend=backend, **own)
    release = mechanism.run(data, workload, show_progress=False)
    errors = [
        np.abs(release.model.marginal(pair) / release.model.total - counts / rows).sum()
        for pair, counts in zip(pairs, data.marginals(pairs), strict=True)
    ]
    measured = {m.clique for m in release.measurements if len(m.clique) == 2}
    return {"error": float(np.mean(errors)), "pairs": len(measured)}


def main() -> None:
    """Make the lines that lack and print the means."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    options.add_argument("--seeds", type=int, default=4)
    options.add_argument("--tables", nargs="+", choices=tuple(CELLS), default=["made"])
    chosen = options.parse_args()
    lines = [{"table": "made", **line} for line in (harness.read(OUT) if OUT.exists() else [])]
    done = {tuple(line[key] for key in KEYS) for line in lines}
    for which in itertools.product(chosen.tables, METHODS, chosen.epsilons, range(chosen.seeds)):
        name, method, epsilon, seed = which
        if which not in done:
            data = table(name, seed)
            line = dict(zip(KEYS, which, strict=True)) | trial(data, CELLS[name], method, epsilon, seed)
            line |= harness.provenance() | {"date": harness.now()}
            harness.append(OUT, line)
            lines.append(line)
    for key in sorted({tuple(line[k] for k in KEYS[:3]) for line in lines}):
        found = [line for line in lines if tuple(line[k] for k in KEYS[:3]) == key]
        error = statistics.mean(line["error"] for line in found)
        name, method, epsilon = key
        seeds = f"{found[0]['pairs']} pairs, {len(found)} seeds"
        harness.say(f"{name:8} {method:11} epsilon {epsilon:g}: {error:.4f} ({seeds})")


if __name__ == "__main__":
    main()
