"""Figure 3: workload error and both losses along the steps of the solvers, HDMM's answers on Adult.

    PGMJAX_DATA=... python bench/paper004/figure3.py [--splits equal optimal] [--trials 3]

epsilon 1, replace-one. `l2, mirror descent` is the paper's Algorithm 1 with line search, `l2, dual averaging`
its Algorithm 2; `l2` and `l1` are the engine's own ways to the certified optimum; `l2, regularised` is the
default estimator. Every checkpoint is a fit of its own from the start, so that the last one costs as much as
all before it; the seeds are fitted in one batch.
"""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import harness
import numpy as np
from blocks.text import figure, median
from mechanisms import Table, engine, hdmm_release

import pgmjax as pj

CHECKPOINTS = (50, 100, 200, 300, 400, 600, 1000, 2000, 4000)
ARMS = {
    "l2, mirror descent": {"loss": "l2", "solver": "mirror_descent", "tol": 0},
    "l2, dual averaging": {"loss": "l2", "solver": "dual_averaging", "tol": 0},
    "l2": {"loss": "l2"},
    "l1": {"loss": "l1"},
    "l2, regularised": {"loss": "l2", "regularisation": "auto", "tol": None},
}


def losses(measurements: list[pj.LinearMeasurement], model: pj.GraphicalModel) -> dict[str, float]:
    """Both losses of a model, in standard deviations of the noise: half the sum of squares, and the sum."""
    residuals = [(np.ravel(model.answer(m.query)) - m.flat_values()) / m.row_stddevs() for m in measurements]
    whole = np.concatenate(residuals)
    return {"l2": float(0.5 * (whole**2).sum()), "l1": float(np.abs(whole).sum())}


def lines_of(table: Table, split: str, arm: str, steps: int, seeds: list[int]) -> list[dict]:
    """One checkpoint of an arm for all seeds."""
    answers = [list(hdmm_release(table, seed, 1.0, split).measurements) for seed in seeds]
    start = None
    if ARMS[arm].get("solver"):  # the paper's algorithms begin at the uniform distribution
        start = pj.GraphicalModel.from_potentials(table.domain, {}, total=table.total)
    batch = engine(**{**ARMS[arm], "max_steps": steps}).fit_batch(table.domain, answers, table.total, start)
    return [
        {
            "split": split,
            "arm": arm,
            "steps": steps,
            "seed": seed,
            "done": fit.steps,
            "status": fit.status.name,
            "gap": fit.gap,
            "error": table.error(fit.model),
            **losses(measured, fit.model),
        }
        for seed, measured, fit in zip(seeds, answers, batch, strict=True)
    ]


def draw(kept: harness.Results, canvas: object) -> None:
    """Error and losses against steps, equal split."""
    panels = canvas.subplots(1, 3)  # type: ignore[attr-defined]
    names = {"error": "workload error", "l1": "L1 loss", "l2": "L2 loss"}
    for panel, (key, title) in zip(panels, names.items(), strict=True):
        for arm in ARMS:
            lines = kept.where(split="equal", arm=arm)
            steps = sorted({line["steps"] for line in lines})
            values = [median(line[key] for line in lines if line["steps"] == step) for step in steps]
            panel.loglog(steps, values, marker="o", label=arm)
        panel.set(xlabel="steps", title=title)
        panel.grid(True, alpha=0.3)
    panels[0].legend(fontsize="small")


def main() -> None:
    """Run what lacks, and draw."""
    options = harness.parser(__doc__, trials=3)
    options.add_argument("--splits", nargs="+", choices=("equal", "optimal"), default=["equal", "optimal"])
    options.add_argument("--arms", nargs="+", choices=ARMS, default=[*ARMS])
    chosen = options.parse_args()
    kept = harness.Results("paper004-figure3", ("split", "arm", "steps", "seed"), again=chosen.again)
    table = Table("adult")
    for split in [] if chosen.plot else chosen.splits:
        for arm in chosen.arms:
            for steps in CHECKPOINTS:
                seeds = kept.missing("seed", range(chosen.trials), split=split, arm=arm, steps=steps)
                for line in lines_of(table, split, arm, steps, seeds) if seeds else []:
                    kept.add(line)
                    harness.say(
                        f"{split} {arm} {steps} steps, seed {line['seed']}: error {figure(line['error'])}"
                    )
    harness.figure("paper004-figure3", lambda canvas: draw(kept, canvas), (12, 3.6))


if __name__ == "__main__":
    main()
