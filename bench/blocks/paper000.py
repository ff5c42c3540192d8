"""Chen, Zhou and Bhowmick 2012: kernel PCA, ridge form, publishing."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from blocks.text import Line, by, markdown, newest


def runs(lines: Sequence[Line]) -> list[Line]:
    """The newest lines, smallest histories first."""
    runs = newest(lines, "count", "kind", "prior")
    return sorted(runs, key=lambda line: (line["count"], line["kind"] == "general", line["prior"]))


def _named(line: Line) -> list[str]:
    return [f"{line['count']:,}", line["kind"], "bought" if line["prior"] else "none"]


def errors(lines: Sequence[Line]) -> str:
    """Root mean squared errors of answers to past queries and to new ones."""
    rows = []
    for line in runs(lines):
        chosen = line["chosen"]
        figures = [line["raw"], min(line["past"]), chosen["past"], chosen["new"], chosen["estimate"]]
        rows.append([*_named(line), *(f"{x:,.0f}" for x in (*figures, line["one_out"]["past"]))])
    head = ["queries", "kind", "prior", "raw noise", "least over alpha, past", "5-fold alpha: past"]
    return markdown([*head, "new", "estimated", "by leave-one-out"], rows)


BUSY = 2.0  # programs that wanted a core when a run began: its seconds say nothing


def costs(lines: Sequence[Line]) -> str:
    """Seconds by the clock, and memory, of the runs that had the machine to themselves."""
    quiet = [line for line in lines if (line.get("load_before") or 0) <= BUSY]
    steps = ("kernel", "kernel and pca", "5-fold choice", "leave-one-out choice")
    rows = [
        [*_named(line), *(f"{line['seconds'][x]['wall']:.1f}" for x in steps), f"{line['peak_gb']:.1f} GB"]
        for line in runs(quiet)
    ]
    head = ["queries", "kind", "prior", "kernel", "kernel and decomposition", "5-fold, 17 alphas"]
    return markdown([*head, "leave-one-out", "peak of memory"], rows)


def kernel_pca(lines: Sequence[Line]) -> str:
    """5,000 ranges with and without the prior."""
    rows = []
    for prior, name in ((True, "bought for ε = 0.02"), (False, "none")):
        (line,) = (x for x in runs(lines) if (x["count"], x["kind"], x["prior"]) == (5000, "range", prior))
        figures = (line["raw"], line["chosen"]["past"], line["chosen"]["new"])
        rows.append([name, *(f"{figure:,.0f}" for figure in figures)])
    return markdown(["prior", "noisy answers", "improved past answers", "new queries"], rows)


def unbiased(lines: Sequence[Line]) -> dict[str, str]:
    """The error of the 5,000 ranges without bias."""
    (line,) = (x for x in runs(lines) if (x["count"], x["kind"], x["prior"]) == (5000, "range", True))
    return {"unbiased": f"{line['past_unbiased']:,.0f}"}


def ridge(lines: Sequence[Line]) -> dict[str, str]:
    """All two-way cells at one alpha."""
    line = lines[-1]
    return {
        "rows": f"{line['rows']:,}",
        "rmse": f"{line['rmse']:.1f}",
        "noise": f"{line['rmse_raw']:.1f}",
        "seconds": f"{line['fitting']['wall']:.0f}",
        "answering": f"{line['answering_with_stddevs']['wall']:.0f}",
        "peak": f"{line['peak_gb']:.1f}",
    }


MANY, ONE_ALPHA = 5_000, 3e-3  # queries; the alpha of what does not vary it


def entropy(lines: Sequence[Line]) -> dict[str, str]:
    """Maximum entropy: the two solvers, errors against alpha and against the number of queries."""
    found = by(newest(lines, "task", "kind", "prior", "alpha", "queries", "solver"), "task")
    learners = [
        [x["solver"], f"{x['primal']:.2f}", f"{x['dual']:.2f}", f"{x['gap']:.2f}", *_past(x)]
        for x in found["learner",]
    ]
    alphas, fixed = [], []
    for x in sorted(found["alpha",], key=lambda x: (x["kind"], x["prior"], -x["alpha"]), reverse=True):
        errors = ["-" if x[name] is None else f"{x[name]:,.0f}" for name in ("past", "new", "estimate")]
        about = [x["prior"], f"{x['alpha']:g}", x["solver"]]
        if x["queries"] == MANY:
            gap = "-" if x.get("gap") is None else f"{x['gap']:.2f}"
            alphas.append([x["kind"], *about, *errors, gap, f"{x['at_box']:.2f}"])
        if by_number(x):
            fixed.append([f"{x['queries']:,}", *about, *errors, f"{x['seconds']:.0f}"])
    fixed.sort(key=lambda row: (row[1], int(row[0].replace(",", ""))))
    counts = [
        [f"{x['queries']:,}", f"{x['scale']:,.0f}", f"{x['raw']:,.0f}", *_past(x)]
        for x in sorted(found["queries",], key=lambda x: x["queries"])
    ]
    head = [
        "kind",
        "prior",
        "alpha",
        "solver",
        "past",
        "new",
        "5-fold estimate",
        "gap, nats",
        "share of weights at the box",
    ]
    return {
        "learner": markdown(["solver", "primal", "dual", "gap", "RMSE, past", "seconds"], learners),
        "alpha": markdown(head, alphas),
        "queries": markdown(["queries", "scale", "RMSE of the noise", "past", "seconds"], counts),
        "fixed": markdown(
            ["queries", "prior", "alpha", "solver", "past", "new", "5-fold estimate", "seconds"], fixed
        ),
    }


def by_number(line: Line) -> bool:
    """Return whether a line is of ranges at the alpha and the noise that all numbers of queries have."""
    one = line["task"] == "alpha" and line["kind"] == "ranges" and line["alpha"] == ONE_ALPHA
    return one and line["solver"] == "newton"


def _past(line: Line) -> list[str]:
    return [f"{line['past']:,.0f}", f"{line['seconds']:.1f}"]


METHODS = (
    "published rows",
    "model",
    "noisy input",
    "cut at 0",
    "cut at 0 and scaled",
    "product of one-way marginals",
    "retention replacement",
    "flipping",
)
RANGES = tuple(f"ranges_{k}" for k in range(1, 6))


def publishing(lines: Sequence[Line]) -> str:
    """A synthetic table against its noisy input and randomised responses."""
    found, rows = {(line["method"], line["epsilon"]): line for line in lines}, []
    for epsilon in (0.1, 1.0, 10.0):
        for method in METHODS:
            line = found[method, epsilon]
            keys = ("pairs", "worst_pair", "triples", *RANGES)
            rows.append([method, f"{epsilon:g}", *(_short(line.get(key)) for key in keys)])
    head = ["method", "epsilon", "pairs, mean", "pairs, worst", "five triples, mean", "1-D ranges"]
    return markdown([*head, "2-D", "3-D", "4-D", "5-D"], rows)


def _short(value: float | None) -> str:
    """Three digits, of large numbers without a run of zeros."""
    if value is None:
        return ""
    if value >= 100_000:
        return f"{value:.1e}".replace("e+0", "e").replace("e+", "e")
    return f"{float(f'{value:.3g}'):,g}" if value >= 1000 else f"{value:.3g}"


def real_rows(lines: Sequence[Line]) -> str:
    """Nine columns of Adult itself: mean errors of the pairs."""
    names = ("noisy", "cut at 0", "model", "independent", "rounded")
    rows = [
        [f"{epsilon:g}", *(f"{statistics.mean(x[name] for x in group):.4f}" for name in names)]
        for (epsilon,), group in sorted(by(newest(lines, "epsilon", "seed"), "epsilon").items())
    ]
    return markdown(
        ["epsilon", "noisy input", "cut off at 0", "the model", "independent rows", "dealt rows"], rows
    )
