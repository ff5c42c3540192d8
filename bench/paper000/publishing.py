"""Data publishing: a synthetic table from all two-way marginals against the answers it is made from.

    OPENBLAS_NUM_THREADS=1 PGMJAX_DATA=... python bench/paper000/publishing.py [--epsilons 0.1 1 10]

All 29,570 cells of all pairs are measured with Laplace noise of scale 36 / epsilon: epsilon-DP where a record
is added or removed (a replaced one costs twice that: the paper says 1-DP and calls n public). Maximum entropy
fits them with its default settings and a table of as many rows is drawn. Errors are sums of absolute
differences of joint probabilities (equation 42) of all pairs and of some triples, and the RMSE of random
k-dimensional ranges (counts). Beside it: the noisy input, the same with negative counts cut off (and scaled
to the number of records), the product of its one-way marginals, and two kinds of randomised response.

Lines are kept in bench/results/paper000-publishing.jsonl; the same command makes those that lack, and draws
Figures 6 and 7 (--plot: draws alone).
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import response
import table

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import harness

from pgmjax import queries
from pgmjax.history import History, MaxEntropy
from pgmjax.measurements.noise import DiscreteLaplace

KEYS = ("method", "epsilon", "seed", "rows")
TRIPLES = [
    ("gender", "race", "marital"),
    ("age", "gender", "marital"),
    ("education", "work-class", "marital"),
    ("birthplace", "race", "work-class"),
    ("gender", "occupation", "salary"),
]
PAIRS = list(itertools.combinations(table.SIZES, 2))
RANGES = 200

Columns = dict[str, np.ndarray]
Joint = Callable[[Sequence[str]], np.ndarray]


def shares(columns: Columns, clique: Sequence[str]) -> np.ndarray:
    """Joint probabilities of some attributes of a table."""
    shape = [table.SIZES[name] for name in clique]
    cells = np.ravel_multi_index([columns[name] for name in clique], shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape) / len(cells)


def counted(columns: Columns, asked: list[dict]) -> np.ndarray:
    """Shares of a table's rows within each range conjunction."""
    found = []
    for query in asked:
        inside = np.ones(len(columns["age"]), bool)
        for name, (low, high) in query.items():
            inside &= (columns[name] >= low) & (columns[name] <= high)
        found.append(inside.mean())
    return np.array(found)


def random_ranges(dimensions: int) -> list[dict]:
    """Random ranges over some random attributes each."""
    rng = np.random.default_rng(dimensions)
    names = list(table.SIZES)
    asked = []
    for _ in range(RANGES):
        chosen = [names[k] for k in rng.choice(len(names), dimensions, replace=False)]
        asked.append(
            {name: tuple(sorted(rng.integers(table.SIZES[name], size=2).tolist())) for name in chosen}
        )
    return asked


def of_tables(truth: Columns, joint: Joint, cliques: Sequence[Sequence[str]]) -> list[float]:
    """Error of each joint distribution."""
    return [float(np.abs(joint(clique) - shares(truth, clique)).sum()) for clique in cliques]


def of_rows(truth: Columns, made: Columns) -> harness.Line:
    """All errors of a synthetic table."""
    line = of_joint(truth, lambda clique: shares(made, clique))
    for dimensions in range(1, 6):
        asked = random_ranges(dimensions)
        missed = counted(made, asked) - counted(truth, asked)
        line[f"ranges_{dimensions}"] = len(truth["age"]) * float(np.sqrt(np.mean(missed**2)))
    return line


def of_joint(truth: Columns, joint: Joint) -> harness.Line:
    """Errors of pairs and triples."""
    pairs, triples = of_tables(truth, joint, PAIRS), of_tables(truth, joint, TRIPLES)
    each = {"each_pair": pairs, "each_triple": triples}
    means = {"pairs": float(np.mean(pairs)), "worst_pair": max(pairs), "triples": float(np.mean(triples))}
    return means | each


def measured(truth: Columns, epsilon: float, seed: int) -> dict[tuple[str, str], np.ndarray]:
    """Noisy counts of all pairs, whole numbers."""
    rng = np.random.default_rng(5 + seed)
    scale = 36.0 / epsilon
    return {
        pair: np.round(counts + rng.laplace(0, scale, counts.shape)).astype(np.int64)
        for pair, counts in table.pair_counts(truth).items()
    }


def published(truth: Columns, epsilon: float, seed: int) -> dict[str, harness.Line]:
    """Maximum entropy with its default settings: its model's answers, and rows."""
    rows = len(truth["age"])
    noisy = measured(truth, epsilon, seed)
    asked = [queries.marginal(pair) for pair in noisy]
    values = np.concatenate([counts.reshape(-1) for counts in noisy.values()])
    history = History.from_answers(
        table.domain(), asked, values, distribution=DiscreteLaplace(36.0 / epsilon)
    )
    start = time.perf_counter()
    fit = MaxEntropy().fit(history, rows)
    fitted = time.perf_counter()
    drawn = fit.sample(rows, seed=6)
    about = {
        "alpha": fit.alpha,
        "steps": fit.steps,
        "status": fit.status.name,
        "fit_seconds": fitted - start,
        "sample_seconds": time.perf_counter() - fitted,
    }
    model = of_joint(truth, lambda clique: fit.model.marginal(tuple(clique)) / rows)
    return {"model": model | about, "published rows": of_rows(truth, drawn) | about}


def inputs(truth: Columns, epsilon: float, seed: int) -> dict[str, harness.Line]:
    """The noisy answers as they are, cut off at 0, and the product of their one-way marginals."""
    rows = len(truth["age"])
    noisy = measured(truth, epsilon, seed)
    cut = {pair: np.maximum(counts, 0) for pair, counts in noisy.items()}
    sums: dict[str, np.ndarray] = dict.fromkeys(table.SIZES, np.zeros(1))
    for (one, other), counts in noisy.items():
        sums[one], sums[other] = sums[one] + counts.sum(1), sums[other] + counts.sum(0)
    alone = {name: np.maximum(total, 0) / np.maximum(total, 0).sum() for name, total in sums.items()}

    def product(clique: Sequence[str]) -> np.ndarray:
        joint = np.ones(())
        for name in clique:
            joint = np.multiply.outer(joint, alone[name])
        return joint

    kinds: dict[str, Joint] = {
        "noisy input": lambda pair: noisy[tuple(pair)] / rows,
        "cut at 0": lambda pair: cut[tuple(pair)] / rows,
        "cut at 0 and scaled": lambda pair: cut[tuple(pair)] / cut[tuple(pair)].sum(),
    }
    found: dict[str, harness.Line] = {}
    for name, joint in kinds.items():
        pairs = of_tables(truth, joint, PAIRS)
        found[name] = {"pairs": float(np.mean(pairs)), "worst_pair": max(pairs)}
    return found | {"product of one-way marginals": of_joint(truth, product)}


def perturbed(truth: Columns, epsilon: float, seed: int) -> dict[str, harness.Line]:
    """Two kinds of randomised response."""
    rows, found = len(truth["age"]), {}
    kinds = {
        "retention replacement": response.Retention.of(truth, table.SIZES, epsilon, 7 + seed),
        "flipping": response.Flipping.of(truth, table.SIZES, epsilon, 8 + seed),
    }
    for name, made in kinds.items():
        line = of_joint(truth, lambda clique, made=made: response.joint(made, clique, rows))
        for dimensions in range(1, 6):
            asked = random_ranges(dimensions)
            missed = response.ranges(made, asked, rows) - counted(truth, asked)
            line[f"ranges_{dimensions}"] = rows * float(np.sqrt(np.mean(missed**2)))
        found[name] = line
    return found


PANELS = {
    "Figure 6a: pairs, mean error": ("pairs",),
    "Figure 6b: five triples, mean error": ("triples",),
    "Figure 7: ranges at epsilon 1, RMSE": tuple(f"ranges_{k}" for k in range(1, 6)),
}
DRAWN = ("published rows", "noisy input", "product of one-way marginals", "retention replacement", "flipping")


def draw(lines: Sequence[harness.Line], canvas: Any) -> None:
    """Figures 6a and 6b against epsilon, and 7 against the dimensions of the ranges."""
    for panel, (title, keys) in zip(canvas.subplots(1, 3), PANELS.items(), strict=True):
        for number, method in enumerate(DRAWN):
            some = sorted((x for x in lines if x["method"] == method), key=lambda x: x["epsilon"])
            if len(keys) == 1:
                points = [(x["epsilon"], x[keys[0]]) for x in some if keys[0] in x]
            else:
                (line,) = (x for x in some if x["epsilon"] == 1)
                points = [(k, line[key]) for k, key in enumerate(keys, start=1) if key in line]
            if points:
                panel.plot(*zip(*points, strict=True), marker="o", color=f"C{number}", label=method)
        panel.set(title=title, yscale="log", xlabel="epsilon" if len(keys) == 1 else "dimensions")
        if len(keys) == 1:
            panel.set_xscale("log")
        else:
            panel.set_xticks(range(1, 6))
        panel.grid(True, alpha=0.3)
    canvas.axes[0].legend(fontsize="small")


def main() -> None:
    """Make the lines that lack, and draw."""
    options = harness.parser(__doc__)
    options.add_argument("--plot", action="store_true", help="run nothing: draw what there is")
    options.add_argument("--rows", type=int, default=table.ROWS)
    options.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1.0, 10.0])
    options.add_argument("--seeds", type=int, default=1)
    chosen = options.parse_args()
    kept = harness.Results("paper000-publishing", KEYS)
    if not chosen.plot:
        make(kept, chosen)
    lines = kept.where(seed=0, rows=chosen.rows)
    harness.figure("paper000-publishing", lambda canvas: draw(lines, canvas), (14, 4))


def make(kept: harness.Results, chosen: argparse.Namespace) -> None:
    """Make the lines that lack."""
    truth = table.table(chosen.rows)
    names = {published: "published rows", inputs: "noisy input", perturbed: "flipping"}
    runs = itertools.product(range(chosen.seeds), chosen.epsilons, names)
    for seed, epsilon, run in runs:
        if (names[run], epsilon, seed, chosen.rows) in kept:
            continue
        for method, errors in run(truth, epsilon, seed).items():
            key = dict(zip(KEYS, (method, epsilon, seed, chosen.rows), strict=True))
            kept.add(key | errors)
            harness.say(f"{method}, epsilon {epsilon:g}: pairs {errors['pairs']:.3g}")


if __name__ == "__main__":
    main()
