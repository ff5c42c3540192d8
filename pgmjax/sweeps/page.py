"""The results of a sweep as one HTML page that opens offline, in light and dark mode."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from pgmjax._internal import checks, page
from pgmjax.sweeps.store import ResultFile
from pgmjax.sweeps.work import DONE

METRICS = {
    "mean_absolute_share": "mean absolute error, share of records",
    "root_mean_square_share": "root mean square error, share of records",
    "largest_share": "largest absolute error, share of records",
    "total_variation": "mean total variation of the workload's marginals",
}
NUMBERS = (*METRICS, "seconds", "first_seconds", "steps")

_NOTE = (
    "Medians over the trials, with bars from the lower to the upper quartile, on logarithmic axes: against "
    "epsilon, where mechanisms stand side by side, and against the time of a trial, where left and low is "
    "better. A line joins a mechanism's epsilons. Compiling counts in the trial that it happened in. Tap a "
    "point, or go through them with the Tab and arrow keys, to read its numbers."
)
_NONE = "\N{EN DASH}"

_MEANING = {
    "mean absolute error": "over all answers of the workload, of |released answer - exact answer|",
    "root mean square, largest": "of the same differences; shares are divided by the number of records",
    "total variation": "half the L1 distance of the model's marginal from the true one, both as "
    "distributions: 0 is equal, 1 is disjoint; the mean over the workload's marginals",
    "seconds": "of a trial, from the mechanism's start to its fitted model; where trials were fitted in one "
    "batch, the batch's time divided by their number. Errors are computed afterwards and not counted",
    "first": "seconds until the group's first trial was done, compiling included; of a batch, all of it",
    "fit": "how the fits ended, with the number of trials where they differ",
}

_ORDER = ("table_name", "workload", "label", "epsilon_value", "finished", "group_key")
_HEADS = (
    *("table", "workload", "mechanism", "epsilon", "trials", "mean absolute error", "root mean square"),
    *("largest", "total variation", "seconds", "first", "steps", "fit"),
)


def render(results: ResultFile, sweep: str | None = None) -> str:
    """Return the results page of a sweep as HTML text.

    Args:
        results: an open results file.
        sweep: name of the sweep; may be None if the file holds only one.

    Raises:
        ValueError: the file has no rows, the sweep is not in it, or it holds several and none is named.
    """
    rows = results.rows()
    names = list(dict.fromkeys(row["sweep"] for row in rows))
    checks.refuse(
        (not names, f"{results.path} holds no result yet: run the sweep first."),
        (
            sweep is None and len(names) > 1,
            f"{results.path} holds several sweeps, name one of: {', '.join(names)}.",
        ),
    )
    chosen = names[0] if sweep is None else sweep
    rows = [row for row in rows if row["sweep"] == chosen]
    if not rows:
        raise ValueError(f"{results.path} holds no sweep {chosen!r}; there are: {', '.join(names)}.")
    runs = [run for run in results.runs() if run["sweep"] == chosen]
    return _page(chosen, rows, runs)


@dataclasses.dataclass(frozen=True)
class Quartiles:
    """Median and quartiles, by linear interpolation between order statistics."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Quartiles | None:
        """Return the quartiles of the finite values, or None if there are none.

        Example:
            >>> Quartiles.of([1, 2, None, 3, 4, 5])
            Quartiles(low=2.0, median=3.0, high=4.0)
        """
        there = [float(value) for value in values if value is not None and np.isfinite(value)]
        return cls(*map(float, np.percentile(there, (25, 50, 75)))) if there else None


@dataclasses.dataclass(frozen=True)
class Line:
    """Summary of a group of cells.

    Attributes:
        table: the table's name.
        workload: the workload's name.
        label: the mechanism with its options. A number is appended if the file holds several such groups that
            differ in something else (seed, estimator, version).
        epsilon: the budget, as exact text.
        epsilon_value: the same as a float.
        done: number of trials that succeeded.
        trials: number of trials that have a row.
        numbers: quartiles of each column in `NUMBERS`.
        statuses: number of fits that ended with each status.
    """

    table: str
    workload: str
    label: str
    epsilon: str
    epsilon_value: float
    done: int
    trials: int
    numbers: Mapping[str, Quartiles | None]
    statuses: Mapping[str, int]


def _grouped(
    rows: Iterable[Mapping[str, Any]], key: Callable[[Mapping[str, Any]], Any]
) -> dict[Any, list[Mapping[str, Any]]]:
    """Return rows by what they have in common."""
    found: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def summarise(rows: Iterable[Mapping[str, Any]]) -> list[Line]:
    """Return a line for each group of cells, sorted by table, workload, label and epsilon."""
    grouped = _grouped(rows, lambda row: row["group_key"])
    seen: collections.Counter[tuple[Any, ...]] = collections.Counter()
    lines = []
    for members in sorted(grouped.values(), key=lambda members: [members[0][name] for name in _ORDER]):
        first = members[0]
        place = tuple(first[name] for name in ("table_name", "workload", "label", "epsilon"))
        seen[place] += 1
        label = first["label"] if seen[place] == 1 else f"{first['label']} #{seen[place]}"
        done = [row for row in members if row["status"] == DONE]
        lines.append(
            Line(
                first["table_name"],
                first["workload"],
                label,
                first["epsilon"],
                first["epsilon_value"],
                len(done),
                len(members),
                {name: Quartiles.of(row[name] for row in done) for name in NUMBERS},
                collections.Counter(row["fit_status"] for row in done),
            )
        )
    return lines


def _page(sweep: str, rows: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> str:
    lines = summarise(rows)
    series = list(dict.fromkeys(line.label for line in sorted(lines, key=lambda line: line.label)))
    sections = [
        _heading(sweep, rows, lines),
        controls(lines, series),
        pictures(lines, series),
        results_table(lines),
        failures(rows),
        meaning(rows),
        machines(runs, rows),
    ]
    own = {name: page.resource("pgmjax.sweeps", f"page.{name}") for name in ("css", "js")}
    return page.document(f"Sweep {sweep}", sections, style=own["css"], scripts=[own["js"]])


def _heading(sweep: str, rows: Sequence[Mapping[str, Any]], lines: Sequence[Line]) -> str:
    done = sum(row["status"] == DONE for row in rows)
    facts = {
        "cells": f"{len(rows):,}",
        "not done": f"{len(rows) - done:,}",
        "tables": str(len({line.table for line in lines})),
        "workloads": str(len({line.workload for line in lines})),
        "mechanisms": str(len({line.label for line in lines})),
        "epsilons": str(len({line.epsilon for line in lines})),
        "trials": span([line.trials for line in lines]),
        "neighbouring tables": ", ".join(sorted({row["relation"] for row in rows})),
        "delta": ", ".join(sorted({row["delta"] for row in rows})),
    }
    warning = """<p class="sub">Errors of private mechanisms against the true tables.</p>
<p class="warn"><strong>Not private.</strong> These are errors against exact tables, and the noise was made
from seeds. Of a table that must be protected, show this page to nobody who may not see the table.</p>
"""
    return page.heading(f"Sweep {sweep}", warning, facts)


def pictures(lines: Sequence[Line], series: Sequence[str]) -> str:
    """Return the section with a picture of each error, table and workload; those of one error are shown."""
    places = list(dict.fromkeys((line.table, line.workload) for line in lines))
    drawn = []
    for number, metric in enumerate(METRICS):
        for table, workload in places:
            own = [line for line in lines if (line.table, line.workload) == (table, workload)]
            place = f' data-t="{escape(table)}" data-w="{escape(workload)}" data-metric="{metric}"'
            more = place + " hidden" * bool(number)
            drawing = {
                "kind": "points",
                "label": f"{METRICS[metric]}, against epsilon and against seconds a trial",
                "axes": ["epsilon", "seconds a trial"],
                "series": [
                    {"name": name, "colour": at, "points": _points(own, name, metric)}
                    for at, name in enumerate(series)
                ],
            }
            heads = {"mechanism": "", "epsilon": "n", "error": "n", "seconds": "n"}
            cells = (
                (line.label, line.epsilon, _number(line.numbers[metric]), _number(line.numbers["seconds"]))
                for line in own
            )
            title, numbers = f"{table}, {workload}", page.table(heads, cells, cards=False)
            drawn.append(page.picture(title, drawing, numbers, METRICS[metric], more))
    none = '<p class="note none" hidden>Nothing is left by the choice above.</p>'
    return page.section("Errors", f'<div class="panels">{"".join(drawn)}</div>\n{none}', _NOTE)


def _points(lines: Sequence[Line], name: str, metric: str) -> list[dict[str, Any]]:
    """Return the points of one mechanism: error against epsilon and time; what is not above 0 is left out."""
    found = []
    for line in sorted(lines, key=lambda line: line.epsilon_value):
        up, seconds = line.numbers[metric], line.numbers["seconds"]
        if line.label == name and up is not None and up.low > 0:
            timed = dataclasses.astuple(seconds) if seconds is not None and seconds.low > 0 else None
            at = [(line.epsilon_value,) * 3, timed]
            found.append({"label": line.epsilon, "at": at, "up": dataclasses.astuple(up)})
    return found


def controls(lines: Sequence[Line], series: Sequence[str]) -> str:
    """Return the page's controls: drop-down menus, and a legend whose entries are checkboxes."""
    choices = {
        "t": ("table", dict.fromkeys(line.table for line in lines)),
        "w": ("workload", dict.fromkeys(line.workload for line in lines)),
        "e": (
            "epsilon",
            dict.fromkeys(line.epsilon for line in sorted(lines, key=lambda line: line.epsilon_value)),
        ),
    }
    selects = [
        _select(key, word, {name: name for name in names}, "all") for key, (word, names) in choices.items()
    ]
    selects.append(_select("metric", "error", METRICS))
    chips = "".join(
        f'<label class="chip"><input type="checkbox" data-m="{escape(name)}" checked>'
        f'<svg viewBox="0 0 14 14" aria-hidden="true" data-kind="{number}"></svg>{escape(name)}</label>'
        for number, name in enumerate(series)
    )
    return f"""<nav class="controls" aria-label="what is shown">
<div class="selects">{"".join(selects)}</div>
<div class="chips">{chips}<button type="button" id="all">all</button><button type="button"
id="none">none</button></div>
</nav>"""


def _select(key: str, word: str, choices: Mapping[str, str], every: str = "") -> str:
    options = [f'<option value="">{every}</option>'] if every else []
    options += [f'<option value="{escape(name)}">{escape(said)}</option>' for name, said in choices.items()]
    return f'<label>{word} <select data-key="{key}">{"".join(options)}</select></label>'


def results_table(lines: Sequence[Line]) -> str:
    """Return the table of all groups."""
    heads = {head: "n" if 3 <= at < len(_HEADS) - 1 else "" for at, head in enumerate(_HEADS)}
    search = f"""<p><input type="search" id="search" placeholder="words" aria-label="words to look for">
<span class="note" id="count">{len(lines):,} of {len(lines):,} lines</span></p>
"""
    return page.section(
        "All numbers",
        search + page.table(heads, map(_row, lines), "numbers"),
        """Medians over the trials, with the quartiles in brackets; errors as shares of the records. A
        click on a heading sorts by it.""",
    )


def _row(line: Line) -> list[str]:
    numbers, several = line.numbers, len(line.statuses) > 1
    first, steps = numbers["first_seconds"], numbers["steps"]
    fits = (f"{n} x {name.lower()}" if several else name.lower() for name, n in line.statuses.items())
    return [
        line.table,
        line.workload,
        line.label,
        line.epsilon,
        f"{line.done}" if line.done == line.trials else f"{line.done} of {line.trials}",
        *(_number(numbers[metric]) for metric in METRICS),
        _number(numbers["seconds"]),
        _NONE if first is None else f"{first.median:.3g}",
        _NONE if steps is None else f"{steps.median:,.0f}",
        ", ".join(fits).replace("_", " "),
    ]


def _number(found: Quartiles | None) -> str:
    return _NONE if found is None else f"{found.median:.3g} ({found.low:.2g} \N{EN DASH} {found.high:.2g})"


def failures(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the section of failed and refused cells, grouped by error, or "" if there are none."""
    alike = _grouped((row for row in rows if row["status"] != DONE), _failure)
    if not alike:
        return ""
    parts = []
    for (label, status, last), members in alike.items():
        places = dict.fromkeys(
            f"{row['table_name']}, {row['workload']}, epsilon {row['epsilon']}" for row in members
        )
        listed = "".join(f"<li>{escape(place)}</li>" for place in places)
        parts.append(
            f"<details><summary><strong>{escape(label)}</strong> {status}, {len(members):,} "
            f"cell{'s' if len(members) > 1 else ''}: {escape(last)}</summary>"
            f"<ul>{listed}</ul><pre>{escape(members[0]['error'] or '')}</pre></details>"
        )
    note = "Each kind of failure with where it happened and the traceback of its first cell."
    return page.section("Not done", "".join(parts), note)


def _failure(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the mechanism, the status and the last line of the error of a cell that is not done."""
    last = (row["error"] or "").strip().splitlines()[-1:] or ["no message"]
    return row["label"], row["status"], last[0]


def meaning(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the section that explains the numbers and lists the sizes of tables and workloads."""
    items = "".join(f"<li><strong>{word}</strong>: {words}</li>\n" for word, words in _MEANING.items())
    places = dict.fromkeys(
        tuple(row[name] for name in ("table_name", "records", "attributes", "workload", "entries", "queries"))
        for row in rows
    )
    heads = {"table": "", "records": "n", "attributes": "n", "workload": "", "entries": "n", "answers": "n"}
    cells = ([each if isinstance(each, str) else f"{each:,}" for each in row] for row in places)
    return page.section("What the numbers are", f"<ul>\n{items}</ul>\n{page.table(heads, cells)}")


def machines(runs: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the section with the machine and versions of each run; identical ones are merged."""
    cells = collections.Counter(row["run"] for row in rows)
    alike = _grouped(runs, _machine)
    heads = ("processor", "devices", "system", "versions")
    parts = []
    for words, members in alike.items():
        stored = sum(cells[run["run"]] for run in members)
        started = span([run["started"].replace("T", " ").partition("+")[0] for run in members])
        lines = [*zip(heads, words, strict=True), ("runs, cells", f"{len(members):,}, {stored:,}")]
        lines.append(("started (UTC)", started))
        parts.append(page.named(lines))
    hosts = ", ".join(sorted({row["host"] for row in rows}))
    return page.section(
        "Machine and versions", "".join(parts) + page.notes(f"Cells were computed on: {hosts}.")
    )


def _machine(run: Mapping[str, Any]) -> tuple[str, ...]:
    memory = f", {run['memory_bytes'] / 1e9:.0f} GB" if run["memory_bytes"] else ""
    return (
        f"{run['processor']}, {run['cores']} cores{memory}",
        f"{', '.join(run['devices'])} ({run['backend']})",
        run["system"],
        ", ".join(f"{name} {version}" for name, version in run["versions"].items()),
    )


def span(values: Sequence[Any]) -> str:
    """Return the range of some values as text, or the single value if all are equal.

    Example:
        >>> span([5, 5]), span([3, 5])
        ('5', '3 to 5')
    """
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"
