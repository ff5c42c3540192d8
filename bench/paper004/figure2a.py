"""Figure 2a: HDMM on Adult for epsilon 0.1 to 10, by local least squares and by the engine.

    PGMJAX_DATA=... python bench/paper004/figure2a.py [--epsilons 0.1 ...] [--trials 5]

Uniform split, replace-one. Errors on the workload, and on the measured queries themselves: of least
squares the noisy answers' own projection, of the engine the model's answers. All epsilons of a seed are
fitted in one batch.
"""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import harness
import numpy as np
from blocks.text import figure, median
from mechanisms import ARMS, Table, engine, hdmm_release
from workload import relative

import pgmjax as pj
from pgmjax.strategies import local_least_squares

EPSILONS = [0.1, 0.3, 1.0, 3.0, 10.0]


def trial(table: Table, seed: int, epsilons: list[float]) -> list[dict]:
    """Measure with every epsilon, fit them together."""
    answers = [list(hdmm_release(table, seed, epsilon, "equal").measurements) for epsilon in epsilons]
    queries = [measured.query for measured in answers[0]]
    tables = table.data.marginals([measured.clique for measured in answers[0]])
    exact = [
        np.ravel(query.apply(counts)).astype(float) for query, counts in zip(queries, tables, strict=True)
    ]
    asked = pj.Workload(queries)
    fits = {
        arm: engine(**options).fit_batch(table.domain, answers, table.total) for arm, options in ARMS.items()
    }
    lines = []
    for place, epsilon in enumerate(epsilons):
        own = local_least_squares(table.domain, table.workload, answers[place])
        again = local_least_squares(table.domain, asked, answers[place])
        errors = {"local least squares": [relative(table.exact, own), relative(exact, again)]}
        for arm, batch in fits.items():
            model = batch[place].model
            measured = relative(exact, (model.answer(query) for query in queries))
            errors[arm] = [table.error(model), measured]
        lines.append({"seed": seed, "epsilon": epsilon, "errors": errors})
    return lines


def draw(kept: harness.Results, canvas: object) -> None:
    """Errors against epsilon."""
    panel = canvas.subplots()  # type: ignore[attr-defined]
    epsilons = sorted({line["epsilon"] for line in kept.lines.values()})
    for arm, colour in zip(("local least squares", *ARMS), ("C1", "C0", "C2"), strict=True):
        for which, style in ((0, "-"), (1, "--")):
            values = [
                median(line["errors"][arm][which] for line in kept.where(epsilon=epsilon))
                for epsilon in epsilons
            ]
            label = f"{arm}, {('workload', 'measurements')[which]}"
            panel.loglog(epsilons, values, style, color=colour, marker="o", label=label)
    panel.set(xlabel="epsilon", ylabel="error")
    panel.legend(fontsize="small")
    panel.grid(True, alpha=0.3)


def main() -> None:
    """Run what lacks, and draw."""
    options = harness.parser(__doc__, trials=5)
    options.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    chosen = options.parse_args()
    kept = harness.Results("paper004-figure2a", ("seed", "epsilon"), again=chosen.again)
    table = Table("adult")
    for seed in range(0 if chosen.plot else chosen.trials):
        epsilons = [e for e in chosen.epsilons if kept.missing("epsilon", [e], seed=seed)]
        for line in trial(table, seed, epsilons) if epsilons else []:
            kept.add(line)
            found = ", ".join(f"{arm} {figure(pair[0])}" for arm, pair in line["errors"].items())
            harness.say(f"seed {seed}, epsilon {line['epsilon']:g}: {found}")
    harness.figure("paper004-figure2a", lambda canvas: draw(kept, canvas), (6, 4))


if __name__ == "__main__":
    main()
