"""The results of a sweep as one HTML page that opens offline, in light and dark mode."""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from pgmjax.sweeps import figures
from pgmjax.sweeps.figures import COLOURS, marker
from pgmjax.sweeps.store import ResultFile
from pgmjax.sweeps.summary import METRICS, Line, Quartiles, summarise
from pgmjax.sweeps.work import DONE

_EPSILON_NOTE = (
    "Medians over the trials; bars reach from the lower to the upper quartile. Both axes are logarithmic. "
    "Mechanisms stand side by side at each epsilon."
)
_TIME_NOTE = (
    "Medians over the trials; bars reach from quartile to quartile both ways. A line joins a mechanism's "
    "epsilons. Left and low is better. Compiling counts in the trial that it happened in."
)

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
    if not names:
        raise ValueError(f"{results.path} holds no result yet: run the sweep first.")
    if sweep is None and len(names) > 1:
        raise ValueError(f"{results.path} holds several sweeps, name one of: {', '.join(names)}.")
    chosen = names[0] if sweep is None else sweep
    rows = [row for row in rows if row["sweep"] == chosen]
    if not rows:
        raise ValueError(f"{results.path} holds no sweep {chosen!r}; there are: {', '.join(names)}.")
    runs = [run for run in results.runs() if run["sweep"] == chosen]
    return _page(chosen, rows, runs)


def _page(sweep: str, rows: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> str:
    lines = summarise(rows)
    series = list(dict.fromkeys(line.label for line in sorted(lines, key=lambda line: line.label)))
    body = "\n".join(
        filter(
            None,
            [
                _heading(sweep, rows, lines),
                controls(lines, series),
                _plots("Error against epsilon", _EPSILON_NOTE, lines, series, figures.against_epsilon),
                _plots("Error against time", _TIME_NOTE, lines, series, figures.against_time),
                results_table(lines),
                failures(rows),
                meaning(rows),
                machines(runs, rows),
            ],
        )
    )
    package = importlib.resources.files("pgmjax")
    shared = package.joinpath("release/report.css").read_text(encoding="utf-8")
    own = package.joinpath("sweeps/page.css").read_text(encoding="utf-8")
    script = package.joinpath("sweeps/page.js").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sweep {escape(sweep)}</title>
<style>
{shared}{own}</style>
</head>
<body>
<main>
{body}
</main>
<script>
{script}</script>
</body>
</html>
"""


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
    tiles = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items())
    return f"""<header>
<h1>Sweep {escape(sweep)}</h1>
<p class="sub">Errors of private mechanisms against the true tables.</p>
<p class="warn"><strong>Not private.</strong> These are errors against exact tables, and the noise was made
from seeds. Of a table that must be protected, show this page to nobody who may not see the table.</p>
<dl class="facts">{tiles}</dl>
</header>"""


def _plots(title: str, note: str, lines: Sequence[Line], series: Sequence[str], draw: Any) -> str:
    places = list(dict.fromkeys((line.table, line.workload) for line in lines))
    drawn = []
    for number, metric in enumerate(METRICS):
        for table, workload in places:
            own = [line for line in lines if (line.table, line.workload) == (table, workload)]
            drawn.append(
                f'<figure data-t="{escape(table)}" data-w="{escape(workload)}" data-metric="{metric}"'
                f"{' hidden' if number else ''}><h3>{escape(table)}, {escape(workload)}</h3>"
                f"{draw(own, series, metric)}"
                f"<figcaption>{METRICS[metric]}</figcaption></figure>\n"
            )
    return f"""<section>
<h2>{title}</h2>
<p class="note">{note}</p>
<div class="panels">{"".join(drawn)}</div>
<p class="note none" hidden>Nothing is left by the choice above.</p>
</section>"""


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
        f'<label class="chip s{number % COLOURS}"><input type="checkbox" data-m="{escape(name)}" checked>'
        f'<svg viewBox="0 0 14 14" aria-hidden="true">{marker(number, 7, 7)}</svg>{escape(name)}</label>'
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
    cells = "".join(
        f'<th{" class=n" if 3 <= at < len(_HEADS) - 1 else ""}><button type="button">{head}</button></th>'
        for at, head in enumerate(_HEADS)
    )
    rows = "\n".join(map(_row, lines))
    return f"""<section>
<h2>All numbers</h2>
<p class="note">Medians over the trials, and under them the quartiles; errors as shares of the records. A
click on a heading sorts by it.</p>
<p><input type="search" id="search" placeholder="words to look for" aria-label="words to look for">
<span class="note" id="count">{len(lines):,} of {len(lines):,} lines</span></p>
<div class="tall scroll"><table id="numbers" class="cards">
<thead><tr>{cells}</tr></thead>
<tbody>
{rows}
</tbody></table></div>
</section>"""


def _row(line: Line) -> str:
    numbers = line.numbers
    trials = f"{line.done}" if line.done == line.trials else f"{line.done} of {line.trials}"
    several = len(line.statuses) > 1
    fits = ", ".join(
        f"{n} x {name.lower()}" if several else name.lower() for name, n in line.statuses.items()
    )
    steps = numbers["steps"]
    cells = [
        *(f"<td>{escape(text)}</td>" for text in (line.table, line.workload, line.label)),
        f'<td class="n" data-v="{line.epsilon_value!r}">{escape(line.epsilon)}</td>',
        f'<td class="n" data-v="{line.done}">{trials}</td>',
        *(_number(numbers[metric]) for metric in METRICS),
        _number(numbers["seconds"]),
        _plain(numbers["first_seconds"], ".3g"),
        _plain(steps, ",.0f"),
        f"<td>{escape(fits).replace('_', ' ')}</td>",
    ]
    place = f'data-t="{escape(line.table)}" data-w="{escape(line.workload)}" data-m="{escape(line.label)}"'
    return f'<tr {place} data-e="{escape(line.epsilon)}">{_titled(_HEADS, cells)}</tr>'


def _titled(heads: Sequence[str], cells: Iterable[str]) -> str:
    """Return cells that carry the title of their column, which a narrow page shows."""
    return "".join(
        cell.replace("<td", f'<td data-title="{head}"', 1) for head, cell in zip(heads, cells, strict=True)
    )


def _number(found: Quartiles | None) -> str:
    if found is None:
        return '<td class="n" data-v="">&ndash;</td>'
    around = f"<small>{found.low:.2g} &ndash; {found.high:.2g}</small>"
    return f'<td class="n" data-v="{found.median!r}">{found.median:.3g}{around}</td>'


def _plain(found: Quartiles | None, form: str) -> str:
    if found is None:
        return '<td class="n" data-v="">&ndash;</td>'
    return f'<td class="n" data-v="{found.median!r}">{found.median:{form}}</td>'


def failures(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the section of failed and refused cells, grouped by error, or "" if there are none."""
    alike: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["status"] != DONE:
            last = (row["error"] or "").strip().splitlines()[-1:] or ["no message"]
            alike.setdefault((row["label"], row["status"], last[0]), []).append(row)
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
    return f"""<section>
<h2>Not done</h2>
<p class="note">Each kind of failure with where it happened and the traceback of its first cell.</p>
{"".join(parts)}
</section>"""


def meaning(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the section that explains the numbers and lists the sizes of tables and workloads."""
    items = "".join(f"<li><strong>{word}</strong>: {words}</li>\n" for word, words in _MEANING.items())
    places = dict.fromkeys(
        tuple(row[name] for name in ("table_name", "records", "attributes", "workload", "entries", "queries"))
        for row in rows
    )
    heads = ("table", "records", "attributes", "workload", "entries", "answers")
    top = "".join(f"<th{'' if head in ('table', 'workload') else ' class=n'}>{head}</th>" for head in heads)
    cells = [
        [
            f"<td>{escape(each)}</td>" if isinstance(each, str) else f'<td class="n">{each:,}</td>'
            for each in row
        ]
        for row in places
    ]
    listed = "\n".join(f"<tr>{_titled(heads, row)}</tr>" for row in cells)
    return f"""<section>
<h2>What the numbers are</h2>
<ul>
{items}</ul>
<div class="scroll"><table class="cards">
<thead><tr>{top}</tr></thead>
<tbody>
{listed}
</tbody></table></div>
</section>"""


def machines(runs: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the section with the machine and versions of each run; identical ones are merged."""
    cells: dict[str, int] = {}
    for row in rows:
        cells[row["run"]] = cells.get(row["run"], 0) + 1
    alike: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for run in runs:
        alike.setdefault(_machine(run), []).append(run)
    heads = ("processor", "devices", "system", "versions")
    parts = []
    for words, members in alike.items():
        stored = sum(cells.get(run["run"], 0) for run in members)
        started = span([run["started"].replace("T", " ").partition("+")[0] for run in members])
        lines = [*zip(heads, words, strict=True), ("runs, cells", f"{len(members):,}, {stored:,}")]
        lines.append(("started (UTC)", started))
        listed = "\n".join(f"<tr><td>{word}</td><td>{escape(text)}</td></tr>" for word, text in lines)
        parts.append(f'<div class="scroll"><table class="machine">\n{listed}\n</table></div>')
    hosts = ", ".join(sorted({row["host"] for row in rows}))
    return f"""<section>
<h2>Machine and versions</h2>
{"".join(parts)}
<p class="note">Cells were computed on: {escape(hosts)}.</p>
</section>"""


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
