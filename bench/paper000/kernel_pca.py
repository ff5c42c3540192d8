"""Kernel PCA on random 2-D queries: error against alpha, cross-validation, time against queries.

    PGMJAX_DATA=... python bench/paper000/kernel_pca.py run [--count 5000] [--kind range] [--no-prior]
    python bench/paper000/kernel_pca.py draw

The paper's setting: answers about 500,000 records with Laplace noise of scale 5,000, the number of records
public, a prior bought for epsilon 0.02. `run` adds a line to bench/results/paper000-kernel-pca.jsonl; `draw`
draws error against alpha of all lines.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import table
from inputs import KINDS, history, prior, rmse

from pgmjax.history import CrossValidation, KernelPCA, kernel

import harness  # isort: skip  # found by `inputs`
from blocks.paper000 import runs  # isort: skip
from harness import timed  # isort: skip

SCALE = 5_000.0
NEW = 500
ALPHAS = np.geomspace(1e2, 1e7, 16)
NAME = "paper000-kernel-pca"


def run(count: int, kind: str, with_prior: bool, seed: int) -> dict:
    """One history: its decomposition, the choice of alpha, and errors over all alphas."""
    data = table.dataset()
    past, truth = history(KINDS[kind](table.domain(), count, seed=seed), data, SCALE, seed)
    new, new_truth = history(KINDS["range"](table.domain(), NEW, seed=seed + 1000), data, SCALE, seed)
    belief = prior(data, seed=seed) if with_prior else None
    _, rows_seconds = timed(lambda: past.rows)
    _, kernel_seconds = timed(lambda: kernel(past.rows, None, belief))
    pca, pca_seconds = timed(lambda: KernelPCA.of(past, belief, table.ROWS))
    validation = CrossValidation.k_fold(pca, 5, seed=seed)
    chosen, choosing_seconds = timed(validation.choose)
    one_out, one_out_seconds = timed(CrossValidation.leave_one_out(pca).choose)
    fitted, answer_seconds = timed(lambda: pca.fitted(chosen.alpha))
    past_errors = [rmse(pca.fitted(float(alpha)).values, truth) for alpha in [*ALPHAS, math.inf]]
    new_errors = [rmse(pca.answer(new.rows, float(alpha)).values, new_truth) for alpha in ALPHAS]
    estimated = [math.sqrt(max(0.0, validation.error(float(alpha)))) for alpha in ALPHAS]
    return {
        "count": count,
        "kind": kind,
        "prior": with_prior,
        "seed": seed,
        "rank": pca.spectrum.rank,
        "seconds": {
            "rows": rows_seconds,
            "kernel": kernel_seconds,
            "kernel and pca": pca_seconds,
            "5-fold choice": choosing_seconds,
            "leave-one-out choice": one_out_seconds,
            "answers": answer_seconds,
        },
        "peak_gb": harness.peak_mb() * 2**20 / 1e9,
        "raw": rmse(past.values, truth),
        "chosen": {
            "alpha": chosen.alpha,
            "estimate": math.sqrt(max(0.0, chosen.error)),
            "past": rmse(fitted.values, truth),
            "new": rmse(pca.answer(new.rows, chosen.alpha).values, new_truth),
            "evaluations": len(chosen.alphas),
        },
        "one_out": {"alpha": one_out.alpha, "past": rmse(pca.fitted(one_out.alpha).values, truth)},
        "alphas": list(ALPHAS),
        "past": past_errors[:-1],
        "past_unbiased": past_errors[-1],
        "new": new_errors,
        "estimated": estimated,
    }


def draw(lines: list[dict], canvas: Any) -> None:
    """Error against alpha, a panel a run."""
    axes = canvas.subplots(1, len(lines), sharey=True, squeeze=False)
    for axis, line in zip(axes[0], lines, strict=True):
        axis.loglog(line["alphas"], line["past"], label="past queries")
        axis.loglog(line["alphas"], line["new"], label="new ranges")
        axis.loglog(line["alphas"], line["estimated"], "--", label="5-fold estimate")
        axis.axhline(line["raw"], color="grey", lw=0.8, label="raw noise")
        axis.axvline(line["chosen"]["alpha"], color="grey", lw=0.8, ls=":")
        known = "prior bought" if line["prior"] else "no prior"
        axis.set(title=f"{line['count']:,} {line['kind']}, {known}", xlabel="alpha (counts)")
    axes[0][0].set_ylabel("RMSE (counts)")
    axes[0][0].legend(fontsize=7)


def main() -> None:
    """Run one setting or draw all."""
    options = harness.parser(__doc__)
    options.add_argument("what", choices=("run", "draw"))
    options.add_argument("--count", type=int, default=5_000, help="past queries")
    options.add_argument("--kind", choices=tuple(KINDS), default="range")
    options.add_argument("--no-prior", action="store_true")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--dry", action="store_true", help="keep no line")
    chosen = options.parse_args()
    if chosen.what == "draw":
        lines = runs(harness.read(harness.RESULTS / f"{NAME}.jsonl"))
        harness.figure(NAME, lambda canvas: draw(lines, canvas), (3.6 * len(lines), 3.4))
        return
    line = run(chosen.count, chosen.kind, not chosen.no_prior, chosen.seed)
    if not chosen.dry:
        harness.keep(NAME, line)
    print(json.dumps(line))


if __name__ == "__main__":
    main()
