"""Figure 1: four mechanisms on four tables, by their papers' estimates and by the engine.

    PGMJAX_DATA=... python bench/paper004/figure1.py [--tables TABLE ...] [--mechanisms NAME ...]

epsilon 1 (delta 0.001 for DualQuery), replace-one, five draws of the noise, errors on the workload as
bench/paper004/workload.py defines them. Both arms of a mechanism take the same noisy answers, except
MWEM's, which choose for themselves. A run that was stopped goes on where it was; a table of medians and a
plot follow.
"""

from __future__ import annotations

import jax
from kept import Kept, harness, median, parser, shown
from mechanisms import MECHANISMS, Table
from showing import figure, markdown
from workload import TABLES

# Whole paper's ratio of the error without to that with graphical-model estimation, where it prints one.
PAPER = {
    "privbayes": {"adult": "1.3", "loans": "6", "stroke": "7"},
    "dual-query": {"titanic": "1.2", "adult": "1.8", "loans": "3.5", "stroke": "4.4"},
    "mwem": {},
    "hdmm": {"titanic": "6.6", "adult": "3.2", "loans": "27", "stroke": "6.3"},
}


def run(kept: Kept, table_name: str, mechanism: str, trials: int) -> None:
    """Make the trials of a cell that there are none of yet."""
    seeds = kept.missing("seed", range(trials), table=table_name, mechanism=mechanism)
    if not seeds:
        return
    for line in MECHANISMS[mechanism](Table(table_name), seeds):
        kept.add({"table": table_name, "mechanism": mechanism, **line})
        found = ", ".join(f"{arm} {shown(error)}" for arm, error in line["errors"].items())
        harness.say(
            f"{table_name} {mechanism} seed {line['seed']}: {found} ({line['seconds']:.0f} s a trial)"
        )
        for arm, reason in line.get("failed", {}).items():
            harness.say(f"  {arm}: {reason}")
    jax.clear_caches()


def arms(kept: Kept, table: str, mechanism: str) -> dict[str, float]:
    """Median error of every arm that ended."""
    lines = kept.where(table=table, mechanism=mechanism)
    names = dict.fromkeys(arm for line in lines for arm in line["errors"])
    return {name: median(line["errors"].get(name) for line in lines) for name in names}


def rows(kept: Kept) -> list[list[str]]:
    """The table of medians."""
    result = []
    for mechanism, printed in PAPER.items():
        for table in TABLES:
            lines = kept.where(table=table, mechanism=mechanism)
            found = arms(kept, table, mechanism)
            if not lines:
                continue
            failed = [line for line in lines if line.get("failed", {}).get("paper")]
            baseline = shown(found.get("paper")) + (
                f" ({len(failed)} of {len(lines)} failed)" if failed else ""
            )
            ratio = found["paper"] / found["engine"] if "paper" in found and "engine" in found else None
            others = [shown(found.get(arm)) for arm in ("engine", "engine, L1", "engine, noise level")]
            ours = "-" if ratio is None else f"{ratio:.1f}"
            seconds = f"{median(line['seconds'] for line in lines):.0f}"
            result.append(
                [mechanism, table, baseline, *others, ours, printed.get(table, "-"), f"{len(lines)}", seconds]
            )
    return result


HEAD = [
    "mechanism",
    "table",
    "without engine",
    "engine",
    "engine, L1",
    "engine, noise level",
    "ratio",
    "paper's ratio",
    "trials",
    "s a trial",
]


def draw(kept: Kept, canvas: object) -> None:
    """A panel for each mechanism, bars for the arms of each table."""
    panels = canvas.subplots(1, len(MECHANISMS), sharey=True)  # type: ignore[attr-defined]
    for panel, mechanism in zip(panels, MECHANISMS, strict=True):
        found = {table: arms(kept, table, mechanism) for table in TABLES}
        names = [
            arm
            for arm in ("paper", "engine", "engine, L1")
            if any(arm in values for values in found.values())
        ]
        for place, arm in enumerate(names):
            at = [number + 0.25 * place for number in range(len(TABLES))]
            panel.bar(at, [found[table].get(arm) or 0 for table in TABLES], 0.22, label=arm)
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
    options.add_argument("--mechanisms", nargs="+", choices=list(MECHANISMS), default=list(MECHANISMS))
    chosen = options.parse_args()
    kept = Kept("figure1", ("table", "mechanism", "seed"), again=chosen.again)
    if not chosen.table:
        for mechanism in chosen.mechanisms:
            for table in chosen.tables:
                run(kept, table, mechanism, chosen.trials)
    print(markdown(HEAD, rows(kept)))
    figure("paper004-figure1", lambda canvas: draw(kept, canvas), (14, 3.6))


if __name__ == "__main__":
    main()
