"""Figure 1: mechanisms on four tables, by their papers' estimates and by the engine with and without a pull.

    PGMJAX_DATA=... python bench/paper004/figure1.py [--tables TABLE ...] [--mechanisms NAME ...]

epsilon 1 (delta 0.001 for DualQuery), replace-one, five draws of the noise, errors on the workload as
bench/paper004/workload.py defines them; bench/paper004/mechanisms.py says what the arms are. A run that was
stopped goes on where it was; a table of medians, the gains of regularised fits, and a plot follow. AIM and
MST are not in the paper's figure: --mechanisms names them. --epsilons asks for others.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from typing import Any

import jax
from kept import Kept, harness, median, parser, shown
from mechanisms import MECHANISMS, Table
from showing import figure, markdown
from workload import TABLES

ARMS = ("paper", "optimum", "regularised", "L1")
# Whole paper's ratio of the error without to that with graphical-model estimation, where it prints one.
PAPER = {
    "privbayes": {"adult": "1.3", "loans": "6", "stroke": "7"},
    "dual-query": {"titanic": "1.2", "adult": "1.8", "loans": "3.5", "stroke": "4.4"},
    "mwem": {},
    "hdmm": {"titanic": "6.6", "adult": "3.2", "loans": "27", "stroke": "6.3"},
}


def run(kept: Kept, cell: dict[str, Any], trials: int) -> None:
    """Make the trials of a table, mechanism and epsilon that there are none of yet."""
    for seed in kept.missing("seed", range(trials), **cell):
        line = MECHANISMS[cell["mechanism"]](tables(cell["table"]), seed, cell["epsilon"])
        kept.add({**cell, **line})
        found = ", ".join(f"{arm} {shown(error)}" for arm, error in line["errors"].items())
        harness.say(f"{' '.join(map(str, cell.values()))} seed {seed}: {found} {line['seconds']}")
        for arm, reason in line["failed"].items():
            harness.say(f"  {arm}: {reason}")
    jax.clear_caches()


tables = functools.cache(Table)


def arms(kept: Kept, **cell: object) -> dict[str, float]:
    """Median error of every arm that ended."""
    lines = kept.where(**cell)
    names = dict.fromkeys(arm for line in lines for arm in line["errors"])
    return {name: median(line["errors"].get(name) for line in lines) for name in names}


HEAD = ["mechanism", "table", *ARMS, "paper / optimum", "printed", "paper / regularised", "trials"]


def rows(kept: Kept) -> list[list[str]]:
    """The table of medians at epsilon 1."""
    result = []
    for mechanism, printed in PAPER.items():
        for table in TABLES:
            cell = {"table": table, "mechanism": mechanism, "epsilon": 1.0}
            found, lines = arms(kept, **cell), kept.where(**cell)
            if not lines:
                continue
            failed = [line for line in lines if "paper" in line["failed"]]
            errors = [shown(found.get(arm)) for arm in ARMS]
            errors[0] += f" ({len(failed)} of {len(lines)} failed)" if failed else ""
            ratios = [
                f"{found['paper'] / found[arm]:.1f}" if "paper" in found and arm in found else "-"
                for arm in ("optimum", "regularised")
            ]
            result.append(
                [mechanism, table, *errors, ratios[0], printed.get(table, "-"), ratios[1], f"{len(lines)}"]
            )
    return result


def gains(kept: Kept) -> list[list[str]]:
    """Geometric means of the regularised arm's error over that of the optimum and of the paper's estimate."""
    result = []
    for mechanism, table in itertools.product(MECHANISMS, TABLES):
        for epsilon in sorted({line["epsilon"] for line in kept.where(mechanism=mechanism, table=table)}):
            lines = kept.where(mechanism=mechanism, table=table, epsilon=epsilon)
            cells = [ratio([line["errors"] for line in lines], other) for other in ("optimum", "paper")]
            ends = sorted({f"{arm} {why}" for line in lines for arm, why in line["failed"].items()})
            result.append([mechanism, table, f"{epsilon:g}", *cells, f"{len(lines)}", "; ".join(ends)[:90]])
    return result


def ratio(errors: list[dict[str, float]], other: str) -> str:
    """A geometric mean with its standard error."""
    logs = [math.log(e["regularised"] / e[other]) for e in errors if "regularised" in e and other in e]
    if not logs:
        return "-"
    spread = f" +- {statistics.stdev(logs) / math.sqrt(len(logs)):.3f}" if len(logs) > 1 else ""
    return f"{math.exp(statistics.mean(logs)):.3f}{spread}"


def draw(kept: Kept, canvas: object) -> None:
    """A panel for each mechanism, bars for the arms of each table."""
    panels = canvas.subplots(1, len(PAPER), sharey=True)  # type: ignore[attr-defined]
    for panel, mechanism in zip(panels, PAPER, strict=True):
        found = {table: arms(kept, table=table, mechanism=mechanism, epsilon=1.0) for table in TABLES}
        names = [arm for arm in ARMS if any(arm in values for values in found.values())]
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
    """Run, print and draw."""
    options = parser(__doc__)
    options.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    options.add_argument("--mechanisms", nargs="+", choices=list(MECHANISMS), default=list(PAPER))
    options.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    chosen = options.parse_args()
    kept = Kept("figure1", ("table", "mechanism", "epsilon", "seed"), again=chosen.again)
    cells = itertools.product(chosen.mechanisms, chosen.tables, chosen.epsilons)
    for mechanism, table, epsilon in [] if chosen.table else cells:
        run(kept, {"mechanism": mechanism, "table": table, "epsilon": epsilon}, chosen.trials)
    print(markdown(HEAD, rows(kept)))
    print(markdown(["mechanism", "table", "epsilon", "/ optimum", "/ paper", "trials", ""], gains(kept)))
    figure("paper004-figure1", lambda canvas: draw(kept, canvas), (14, 3.6))


if __name__ == "__main__":
    main()
