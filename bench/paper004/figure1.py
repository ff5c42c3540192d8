"""Figure 1: mechanisms on four tables, by their papers' estimates and by the engine with and without a pull.

    PGMJAX_DATA=... python bench/paper004/figure1.py [--tables TABLE ...] [--mechanisms NAME ...]

epsilon 1 (delta 0.001 for DualQuery), replace-one, five draws of the noise, errors on the workload as
bench/paper004/workload.py defines them; bench/paper004/mechanisms.py says what the arms are. A run that was
stopped goes on where it was; a plot follows (--plot: alone). AIM and MST are not in the paper's figure:
--mechanisms names them. --epsilons asks for others. `--workloads 5 --tables titanic stroke` makes one trial
on each of five draws of the triples, which the paper does not print (`paper004-workloads.jsonl`).
`--game-steps 10000` fits DualQuery's games with as many steps as the paper's script, in place of 3,000
(`paper004-game-steps.jsonl`).
"""

from __future__ import annotations

import functools
import itertools
import pathlib
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import harness
import jax
from blocks.paper004 import ARMS, PRINTED, cells
from blocks.text import figure
from mechanisms import MECHANISMS, Table
from workload import TABLES


def run(kept: harness.Results, cell: dict[str, Any], trials: int) -> None:
    """Make the trials of a table, mechanism and epsilon that there are none of yet."""
    for seed in kept.missing("seed", range(trials), **cell):
        table = tables(cell["table"], cell.get("workload", 0))
        more = {"steps": cell["steps"]} if "steps" in cell else {}
        line = MECHANISMS[cell["mechanism"]](table, seed, cell["epsilon"], **more)
        kept.add({**cell, **line})
        found = ", ".join(f"{arm} {figure(error)}" for arm, error in line["errors"].items())
        harness.say(f"{' '.join(map(str, cell.values()))} seed {seed}: {found} {line['seconds']}")
        for arm, reason in line["failed"].items():
            harness.say(f"  {arm}: {reason}")
    jax.clear_caches()


tables = functools.cache(Table)


def draw(kept: harness.Results, canvas: object) -> None:
    """A panel for each mechanism, bars for the arms of each table."""
    medians = cells([*kept.lines.values()])
    panels = canvas.subplots(1, len(PRINTED), sharey=True)  # type: ignore[attr-defined]
    for panel, mechanism in zip(panels, PRINTED, strict=True):
        found = {table: medians.get((mechanism, table), {}) for table in TABLES}
        names = [arm for arm in ARMS if any(values.get(arm) for values in found.values())]
        for place, arm in enumerate(names):
            at = [number + 0.2 * place for number in range(len(TABLES))]
            panel.bar(at, [found[table].get(arm) or 0 for table in TABLES], 0.18, label=arm)
        panel.set_xticks([number + 0.25 for number in range(len(TABLES))], TABLES)
        panel.set(title=mechanism, yscale="log")
        if names:
            panel.legend(fontsize="small")
        panel.grid(True, axis="y", alpha=0.3)
    panels[0].set_ylabel("workload error")


def main() -> None:
    """Run what lacks, and draw."""
    options = harness.parser(__doc__, trials=5)
    options.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    options.add_argument("--mechanisms", nargs="+", choices=list(MECHANISMS), default=list(PRINTED))
    options.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    options.add_argument(
        "--workloads", type=int, help="trials on so many draws of the triples, and no figure"
    )
    options.add_argument("--game-steps", type=int, help="DualQuery alone, with so many steps, and no figure")
    chosen = options.parse_args()
    if chosen.game_steps is not None:
        names = ("table", "mechanism", "epsilon", "steps", "seed")
        kept = harness.Results("paper004-game-steps", names, again=chosen.again)
        for table, epsilon in itertools.product(chosen.tables, chosen.epsilons):
            about = {"mechanism": "dual-query", "table": table, "epsilon": epsilon}
            run(kept, {**about, "steps": chosen.game_steps}, chosen.trials)
        return
    if chosen.workloads is not None:
        names = ("table", "mechanism", "epsilon", "workload", "seed")
        kept = harness.Results("paper004-workloads", names, again=chosen.again)
        for cell in itertools.product(
            chosen.mechanisms, chosen.tables, chosen.epsilons, range(chosen.workloads)
        ):
            named = zip(("mechanism", "table", "epsilon", "workload"), cell, strict=True)
            run(kept, dict(named), 1)
        return
    kept = harness.Results("paper004-figure1", ("table", "mechanism", "epsilon", "seed"), again=chosen.again)
    runs = itertools.product(chosen.mechanisms, chosen.tables, chosen.epsilons)
    for mechanism, table, epsilon in [] if chosen.plot else runs:
        run(kept, {"mechanism": mechanism, "table": table, "epsilon": epsilon}, chosen.trials)
    harness.figure("paper004-figure1", lambda canvas: draw(kept, canvas), (14, 3.6))


if __name__ == "__main__":
    main()
