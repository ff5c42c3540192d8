"""Xiao and Xiong 2012: coverage, running times and errors of inference, sessions."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

from blocks.text import Line, by, markdown, newest


def _part(lines: Sequence[Line], part: str) -> list[Line]:
    return [line for line in lines if line["part"] == part]


def coverage(lines: Sequence[Line]) -> str:
    """Shares of intervals that hold the truth, beside what was computed."""
    found = {(line["target"], line["law"], line["scale"]): line for line in _part(lines, "coverage")}
    rows = []
    for target, law in itertools.product(("one answer", "mixed", "total"), ("laplace", "gaussian")):
        some = [found[target, law, scale] for scale in (0.5, 1, 4, 50)]
        rows.append([target, law, *(f"{x['covered']:.4f} (said {x['said']:.4f})" for x in some)])
    return markdown(["target", "distribution", "scale 0.5", "1", "4", "50"], rows)


def coverage_numbers(lines: Sequence[Line]) -> dict[str, str]:
    """The largest difference of what is held and what is said, rounded up."""
    found = _part(lines, "coverage")
    apart = max(abs(line["covered"] - line["said"]) for line in found)
    return {"apart": f"{-(-apart * 1000 // 1) / 1000:.3f}", "number": str(len(found))}


def joint(lines: Sequence[Line]) -> str:
    """How often intervals of all cells hold at once: simultaneous ones, and single ones."""
    found = {(x["intervals"], x["law"], x["scale"]): x for x in _part(lines, "joint")}
    rows = []
    for name, law in itertools.product(("simultaneous", "single"), ("laplace", "gaussian")):
        some = [found[name, law, scale] for scale in (0.5, 1, 4, 50)]
        rows.append([name, law, *(f"{x['covered']:.4f} (length {x['length']:.3g})" for x in some)])
    return markdown(["intervals", "distribution", "scale 0.5", "1", "4", "50"], rows)


def blue(lines: Sequence[Line]) -> str:
    """Seconds of the best linear unbiased estimate."""
    found = sorted(newest(_part(lines, "blue"), "m", "n"), key=lambda line: (line["m"], line["n"]))
    return markdown(
        ["m", "n", "seconds"], [[str(x["m"]), str(x["n"]), f"{x['cpu_seconds']:.2f}"] for x in found]
    )


def size(lines: Sequence[Line]) -> str:
    """Seconds and half-widths of the ways to the distribution of one answer."""
    rows = []
    for line in newest(_part(lines, "size"), "m", "n", "continuous", "method"):
        noise = "continuous" if line["continuous"] else "discrete"
        ends = [f"{line['cpu_seconds']:.4f}", f"{line['half_width']:.3f}"]
        rows.append([str(line["m"]), str(line["n"]), noise, line["method"], *ends])
    return markdown(["m", "n", "noise", "method", "seconds", "sure half-width"], rows)


def beta(lines: Sequence[Line]) -> str:
    """The same against beta, with the mass that the paper's grid loses."""
    found, rows = _part(lines, "beta"), []
    masses = {line["beta"]: f"{line['lost']:.1e}" for line in found if "lost" in line}
    for line in (line for line in found if "method" in line):
        lost = masses[line["beta"]] if line["method"] == "convolution step 1" else ""
        ends = [f"{line['cpu_seconds']:.4f}", f"{line['half_width']:.2f}", lost]
        rows.append([f"{line['beta']:.0f}", line["method"], *ends])
    return markdown(["beta", "method", "seconds", "sure half-width", "mass lost"], rows)


def error(lines: Sequence[Line]) -> str:
    """Error of Monte Carlo against draws."""
    rows = [
        [f"{x['draws']:,}", f"{x['cpu_seconds']:.2f}", f"{x['root_error']:.5f}", f"{x['root_bound']:.5f}"]
        for x in _part(lines, "error")
    ]
    return markdown(["draws", "seconds", "root of the error", "root of the bound"], rows)


FIGURES = ("cost", "answering_ratio", "reliability", "coverage", "relative_error")


def ends(lines: Sequence[Line]) -> dict[tuple, list[Line]]:
    """Return the last line of each session, by table, setting and method."""
    last = [line for line in lines if line["queries"] == line["number"] == 1000]
    return by(newest(last, "table", "setting", "method", "seed"), "table", "setting", "method")


def sessions(lines: Sequence[Line]) -> str:
    """The end of every method, means over seeds with the least and largest reliability."""
    groups, rows = ends(lines), []
    order = itertools.product(
        ("unbounded", "bounded"), ("NETTRACE", "SEARCHLOGS"), ("baseline", "session", "ols")
    )
    for setting, table, method in order:
        runs = groups[table, setting, method]
        told = {name: f"{statistics.mean(run[name] for run in runs):.3f}" for name in FIGURES}
        each = [run["reliability"] for run in runs]
        told["reliability"] += f" ({min(each):.2f} to {max(each):.2f})"
        rows.append([table, setting, method, *told.values(), str(len(runs))])
    head = ["table", "setting", "method", "cost", "answered", "reliability (range)", "coverage"]
    return markdown([*head, "relative error", "seeds"], rows)


def sessions_nettrace(lines: Sequence[Line]) -> str:
    """Cost and share of answered questions on NETTRACE."""
    settings = {"unbounded": "unlimited budget", "bounded": "cap of 1"}
    methods = {"baseline": "buy every answer", "session": "session"}
    groups, rows = ends(lines), []
    for setting, method in itertools.product(settings, methods):
        runs = groups["NETTRACE", setting, method]
        cost, ratio = (statistics.mean(run[name] for run in runs) for name in FIGURES[:2])
        rows.append([settings[setting], methods[method], f"{cost:.2f}", f"{100 * ratio:.0f} %"])
    return markdown(["setting", "method", "cost in ε", "answered"], rows)
