"""Publishing real rows: all pairs of nine attributes of Adult, maximum entropy, dealt and independent rows.

    OPENBLAS_NUM_THREADS=1 PGMJAX_DATA=... python bench/paper000/real_rows.py [--epsilons 1 4] [--seeds 5]

All 4,186 cells of the 36 pairs are measured with Laplace noise of scale 36 / epsilon (add-remove), as in
`publishing.py`, which draws its table from a model. Errors are sums of absolute differences of joint
probabilities, means over the pairs. Noise is seeded: nothing here is a release. Lines stand in
bench/results/paper000-real-rows.jsonl.
"""

from __future__ import annotations

import itertools
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "paper004"))

import harness
import workload

import pgmjax as pj
from pgmjax import queries
from pgmjax.history import History, MaxEntropy
from pgmjax.measurements.noise import DiscreteLaplace

NAMES = (
    *("workclass", "education-num", "marital-status", "occupation", "relationship", "race", "sex"),
    *("native-country", "income>50K"),
)
PAIRS = list(itertools.combinations(NAMES, 2))
COLUMNS = ("noisy", "cut at 0", "model", "independent", "rounded")


def trial(data: pj.Dataset, domain: pj.Domain, epsilon: float, seed: int) -> harness.Line:
    """Measure, fit and draw once: the error of each table."""
    rows, scale = data.count(), len(PAIRS) / epsilon
    truth = data.marginals(PAIRS)
    rng = np.random.default_rng(5 + seed)
    noisy = [np.round(table + rng.laplace(0, scale, table.shape)).astype(np.int64) for table in truth]
    values = np.concatenate([table.reshape(-1) for table in noisy])
    asked = [queries.marginal(pair) for pair in PAIRS]
    history = History.from_answers(domain, asked, values, distribution=DiscreteLaplace(scale))
    fit = MaxEntropy(progress=False).fit(history, rows)

    def error(tables: list[np.ndarray]) -> float:
        return float(np.mean([np.abs(a - b).sum() for a, b in zip(tables, truth, strict=True)]) / rows)

    def drawn(method: str) -> float:
        columns = fit.sample(rows, seed=6, method=method)
        return error(pj.Dataset.from_columns(domain, columns).marginals(PAIRS))

    return {
        "noisy": error(noisy),
        "cut at 0": error([np.maximum(table, 0) for table in noisy]),
        "model": error([fit.model.marginal(pair) for pair in PAIRS]),
        "independent": drawn("multinomial"),
        "rounded": drawn("round"),
        "status": fit.status.name,
    }


def main() -> None:
    """Run the trials that lack, and keep their lines."""
    options = harness.parser(__doc__)
    options.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 4.0])
    options.add_argument("--seeds", type=int, default=5)
    chosen = options.parse_args()
    whole, data = workload.load("adult")
    domain = whole.project(NAMES)
    kept = harness.Results("paper000-real-rows", ("epsilon", "seed"))
    for epsilon in chosen.epsilons:
        for seed in kept.missing("seed", range(chosen.seeds), epsilon=epsilon):
            line = kept.add({"epsilon": epsilon, "seed": seed} | trial(data, domain, epsilon, seed))
            harness.say(
                f"epsilon {epsilon:g}, seed {seed}: " + ", ".join(f"{x} {line[x]:.4f}" for x in COLUMNS)
            )


if __name__ == "__main__":
    main()
