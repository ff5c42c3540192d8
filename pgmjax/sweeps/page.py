"""The results of a sweep as one HTML page that opens without a network, by day and by night."""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from pgmjax.sweeps import figures, page_parts
from pgmjax.sweeps.store import ResultFile
from pgmjax.sweeps.summary import METRICS, Line, summarise
from pgmjax.sweeps.work import DONE


def render(results: ResultFile, sweep: str | None = None) -> str:
    """Return the page of a sweep as the text of an HTML file.

    Args:
        results: an open file of results.
        sweep: whose rows; None where the file holds those of one sweep only.

    Raises:
        ValueError: there is no row, no such sweep, or there are several and none is named.
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
                page_parts.controls(lines, series),
                _plots("Error against epsilon", _EPSILON_NOTE, lines, series, figures.against_epsilon),
                _plots("Error against time", _TIME_NOTE, lines, series, figures.against_time),
                page_parts.table(lines),
                page_parts.failures(rows),
                page_parts.meaning(rows),
                page_parts.machines(runs, rows),
            ],
        )
    )
    package = importlib.resources.files("pgmjax")
    shared = package.joinpath("report.css").read_text(encoding="utf-8")
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


_EPSILON_NOTE = (
    "Medians over the trials; bars reach from the lower to the upper quartile. Both axes are logarithmic. "
    "Mechanisms stand side by side at each epsilon."
)
_TIME_NOTE = (
    "Medians over the trials; bars reach from quartile to quartile both ways. A line joins a mechanism's "
    "epsilons. Left and low is better. Compiling counts in the trial that it happened in."
)


def _heading(sweep: str, rows: Sequence[Mapping[str, Any]], lines: Sequence[Line]) -> str:
    done = sum(row["status"] == DONE for row in rows)
    facts = {
        "cells": f"{len(rows):,}",
        "not done": f"{len(rows) - done:,}",
        "tables": str(len({line.table for line in lines})),
        "workloads": str(len({line.workload for line in lines})),
        "mechanisms": str(len({line.label for line in lines})),
        "epsilons": str(len({line.epsilon for line in lines})),
        "trials": page_parts.span([line.trials for line in lines]),
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
