"""Whole releases of tables: `auto` and its rivals, rows, bins, error bars, verdicts, public tables."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from scipy import special

from blocks.text import Line, by, geometric, markdown, median, newest


def _recipes(lines: Sequence[Line]) -> dict[tuple, list[float]]:
    runs = newest([{"table": "made", **line} for line in lines], "table", "method", "epsilon", "seed")
    return {key: [x["error"] for x in group] for key, group in by(runs, "table", "method", "epsilon").items()}


EPSILONS = (0.1, 1.0, 10.0)


def recipe(lines: Sequence[Line]) -> str:
    """Made tables of which not all pairs fit."""
    names = {
        "recipe": "batch AIM: the command's choice with a delta",
        "mst": "MST",
        "kept": "`marginals` of the 38 pairs that fit",
        "spread": "`marginals` of as many pairs, spread over all attributes",
        "pure mst": "MST, δ = 0: the command's choice without a delta",
        "pure recipe": "batch AIM, δ = 0",
    }
    found, rows = _recipes(lines), []
    for method, name in names.items():
        errors = [found["made", method, epsilon] for epsilon in EPSILONS]
        cells = [f"{statistics.mean(x):.3f}" + f" ({len(x)})" * (len(x) != 4) for x in errors]
        rows.append([name, *cells])
    return markdown(["measured by", "ε = 0.1", "ε = 1", "ε = 10"], rows)


def recipe_real(lines: Sequence[Line]) -> str:
    """Real tables of which not all pairs fit, without a delta; the least error of a row in bold."""
    found, rows = _recipes(lines), []
    for table, epsilon in itertools.product(("diamonds", "titanic"), EPSILONS):
        methods = ("pure kept", "pure mst", "pure recipe")
        errors = [statistics.mean(found[table, method, epsilon]) for method in methods]
        cells = [f"**{x:.3f}**" if x == min(errors) else f"{x:.3f}" for x in errors]
        rows.append([table, f"{epsilon:g}", *cells])
    head = ["table", "ε", "`marginals` of the pairs that fit", "MST", "batch AIM: the command's choice"]
    return markdown(head, rows)


def fitting(lines: Sequence[Line]) -> str:
    """Where all pairs fit: errors over that of the best, as geometric mean and largest, by the noise."""
    cell = ("table", "seed", "epsilon", "delta")
    best = {key: min(x["error"] for x in group) for key, group in by(lines, *cell).items()}
    methods, rows = ("auto", "all pairs", "attributes alone", "batch AIM"), []
    bounds = (0, 0.5, 1.5, 5, 20, float("inf"))
    for low, high in itertools.pairwise(bounds):
        some = [line for line in lines if low <= line["noise"] < high]
        row = []
        for method in methods:
            mine = [x for x in some if x["method"] == method]
            ratios = [x["error"] / best[tuple(x[key] for key in cell)] for x in mine]
            row.append(", ".join(f"{x:#.3g}".rstrip(".") for x in (geometric(ratios), max(ratios))))
        name = (
            f"up to {high:g}"
            if low == 0
            else f"{low:g} to {high:g}"
            if high < bounds[-1]
            else f"above {low:g}"
        )
        rows.append([f"{name} ({len(ratios)})", *row])
    return markdown(["noise (cells)", "`auto`", *methods[1:]], rows)


def rows_errors(lines: Sequence[Line]) -> str:
    """What drawing rows adds to the error of a release."""
    names = {"diamonds": "diamonds (`--demo`)", "adult": "Adult", "titanic": "Titanic", "loans": "Loans"}
    last, rows = {line["table"]: line for line in lines}, []
    for table, name in (names | {"stroke": "Stroke"}).items():
        line = last[table]
        keys = ("model", "independent", "rounded", "independent_to_model", "rounded_to_model")
        size = f"{line['rows']:,} x {line['attributes']}"
        rows.append([name, size, *(f"{line[key]:.4f}" for key in keys)])
    head = ["table", "rows x columns", "the model", "independent rows", "dealt rows"]
    return markdown([*head, "independent to the model", "dealt to the model"], rows)


SIDES = ("fixed", "discovery", "dpmm", "dpmm-public", "dpsynth", "dpsynth-sample", "resample")


def discovery(lines: Sequence[Line]) -> str:
    """Medians of the two-way distance on the grid of ranks, by table and budget."""
    runs = newest([line for line in lines if "failed" not in line], "table", "side", "epsilon", "seed")
    found, rows = by(runs, "table", "epsilon", "side"), []
    for table, epsilon in sorted({key[:2] for key in found}):
        groups = [found.get((table, epsilon, side), []) for side in SIDES]
        cells = [f"{median(x['two_way'] for x in group):.3f}" if group else "-" for group in groups]
        rows.append([table, f"{epsilon:g}", *cells])
    return markdown(["table", "ε", *SIDES], rows)


def coverage(lines: Sequence[Line]) -> str:
    """Shares of intervals that hold the table's answer: means over trials with standard errors."""
    methods = ("linear", "laplace, optimum", "bootstrap, optimum", "bootstrap")
    found, rows = by(newest(lines, "method", "scale", "trial"), "method", "scale"), []
    groups = {"linear": ("given",), "laplace, optimum": ("given", "all", "model")}
    for method, scale in itertools.product(methods, (30.0, 100.0, 300.0)):
        for group in groups.get(method, ("given", "model")):
            some = [x[group] for x in found[method, scale] if x[group]["answers"]]
            cells = [method, f"{scale:.0f}", group, str(len(some))]
            cells.append(f"{statistics.mean(x['answers'] for x in some):.0f}")
            for level in ("0.90", "0.95"):
                shares = [100 * x[level] for x in some]
                error = statistics.stdev(shares) / len(shares) ** 0.5
                cells.append(f"{statistics.mean(shares):.1f} ± {error:.1f}")
            ends = [statistics.mean(x[name] for x in some) for name in ("mean_stddev", "rmse")]
            rows.append([*cells, *(f"{end:.1f}" for end in ends)])
    head = ["method", "scale", "answers", "trials", "answers a trial", "90 %", "95 %"]
    return markdown([*head, "mean stddev", "rms error"], rows)


def verdicts(lines: Sequence[Line]) -> str:
    """The pairs of each verdict, with the median and the largest of their errors."""
    names, rows = ("good", "coarse", "noise", "not determined"), []
    for line in newest(lines, "table", "mechanism", "delta", "seed"):
        cells = []
        for name in names:
            one = line["verdicts"].get(name)
            cells.append(f"{one['pairs']}: {one['median']:.3f}, {one['largest']:.3f}" if one else "-")
        ends = [f"{line['error']:.4f}", f"{line['cpu_seconds']:.0f}"]
        rows.append([line["table"], line["mechanism"], line["delta"], *ends, *cells])
    return markdown(["table", "mechanism", "delta", "error of all pairs", "CPU s", *names], rows)


def public_tables(lines: Sequence[Line]) -> dict[str, str]:
    """How many public tables went from file to draft, check and release."""
    last = newest(lines, "table")
    done = Counter(
        stage for line in last for stage in ("draft", "check", "release") if line.get(stage) == "done"
    )
    return {"all": str(len(last)), **{stage: str(number) for stage, number in done.items()}}


def statuses(lines: Sequence[Line]) -> str:
    """How random fits end, and which are false, by the last line."""
    line = lines[-1]
    keys = [key for key in line if key != "slowest"]
    return markdown(
        [*keys, "slowest, CPU s"], [[*(str(line[key]) for key in keys), f"{line['slowest']:.1f}"]]
    )


def analyses(lines: Sequence[Line]) -> dict[str, str]:
    """How often intervals of analyses held the population's value, and how wide they were, by route."""
    last, rows = newest(lines, "table", "mechanism", "epsilon", "release"), []
    cases = itertools.product(("yes", "merged", "no"), (1.0, 10.0))
    for (together, epsilon), name in itertools.product(cases, last[0]["held"]):
        of_epsilon = [x["held"][name] for x in last if x["epsilon"] == epsilon]
        some = [each for each in of_epsilon if _together(each) == together]
        if some:
            routes = [
                [_by_the_rule(one) for one in some],
                [_by_the_rule(one, published=True) for one in some],
            ]
            routes += [[one[route] for one in some] for route in ("draws", "naive")]
            told = [
                f"{100 * statistics.mean(held for held, _ in each):.0f}, "
                f"{statistics.geometric_mean(width for _, width in each):.2f}"
                for each in routes
            ]
            rows.append([name, together, f"{epsilon:.0f}", str(len(some)), *told])
    ways = ["`tables`", "published rule", "`estimate`", "one table alone"]
    head = ["analysis", "measured together", "epsilon", "releases", *ways]
    mechanisms = []
    for (mechanism, epsilon), group in sorted(by(last, "mechanism", "epsilon").items()):
        inside = [one for x in group for one in x["held"].values() if one["inside"]]
        held = [_by_the_rule(x)[0] for x in inside], [x["draws"][0] for x in inside]
        shares = [f"{100 * statistics.mean(each):.0f}" for each in held]
        mechanisms.append([mechanism, f"{epsilon:.0f}", str(len(inside)), *shares])
    return {
        "all": markdown(head, rows),
        "pooled": _pooled(last),
        "wide": _widths(last, 10.0),
        "mechanisms": markdown(["mechanism", "epsilon", "intervals", "`tables`", "`estimate`"], mechanisms),
        "number": f"{len(last):,}",
        "low": _low_cells(last),
    }


def _together(held: Mapping[str, Any]) -> str:
    """Whether the cells of an analysis were measured together, apart from one another or merged."""
    if held["inside"]:
        return "yes"
    return "merged" if held.get("merged") else "no"  # only lines of mechanisms that merge say so


def _pooled(lines: Sequence[Line]) -> str:
    """How often intervals of each analysis held over everything that was measured together."""
    rows = []
    for name in lines[0]["held"]:
        some = [x["held"][name] for x in lines if x["held"][name]["inside"]]
        held = [_by_the_rule(x)[0] for x in some], [x["draws"][0] for x in some]
        rows.append([name, f"{len(some):,}", *(f"{100 * statistics.mean(each):.1f}" for each in held)])
    return markdown(["analysis", "intervals", "`tables`", "`estimate`"], rows)


def _widths(lines: Sequence[Line], epsilon: float) -> str:
    """The geometric mean of widths at an epsilon beside those of the records, by route."""
    some = [x for line in lines if line["epsilon"] == epsilon for x in line["held"].values() if x["inside"]]
    tables = statistics.geometric_mean(_by_the_rule(x)[1] for x in some)
    draws = statistics.geometric_mean(x["draws"][1] for x in some)
    return f"{tables:.2f} times as wide (`tables`) and {draws:.2f} times (`estimate`)"


def _by_the_rule(held: Mapping[str, Any], published: bool = False) -> tuple[bool, float]:
    """Whether an interval of tables held, and its width: by `combine`, or by the rule as it was published.

    The published rule has the variance without noise, and a floor, as u where T is not above 0.
    """
    (between, within), m = held["parts"], 20  # tables of a release
    spread = (1 + 1 / m) * between
    least, few = (within, m - 1.0) if published else ((1 + 2 / m) * within, math.inf)
    variance, df = least, few
    if spread - within > (0 if published else least):
        variance, df = spread - within, max((m - 1) * (1 - within / spread) ** 2, 1.0)
    quantile = special.ndtri(0.975) if math.isinf(df) else special.stdtrit(df, 0.975)
    half = float(quantile) * math.sqrt(variance)
    return abs(held["off"]) <= half, half / float(special.ndtri(0.975))


def _low_cells(lines: Sequence[Line]) -> str:
    """The analyses of a cell, measured together, that hold in less than 90 % of releases, beyond chance."""
    found = []
    for (table, mechanism, epsilon), group in by(lines, "table", "mechanism", "epsilon").items():
        where = f"{table}, {mechanism}, epsilon {epsilon:.0f}"
        for name in group[0]["held"]:
            some = [x["held"][name] for x in group if x["held"][name]["inside"]]
            held = {"tables": [_by_the_rule(x)[0] for x in some], "estimate": [x["draws"][0] for x in some]}
            found += [
                f"{name} of {where}, `{route}` ({sum(each)} of {len(each)})"
                for route, each in held.items()
                # upper end of the 99.9 % interval of Clopper and Pearson
                if not all(each) and special.betaincinv(sum(each) + 1, len(each) - sum(each), 0.9995) < 0.9
            ]
    return "; ".join(found) or "none"


def emptied(lines: Sequence[Line]) -> str:
    """How often intervals of single tables held, by the number of refits and the degree of kept moments."""
    last, rows = newest(lines, "table", "pair", "stddev", "rounds", "degree"), []
    variants = list(dict.fromkeys((line["rounds"], line["degree"]) for line in last))
    for stddev in sorted({line["stddev"] for line in last}, reverse=True):
        for table, pair in dict.fromkeys((line["table"], line["pair"]) for line in last):
            some = {
                (line["rounds"], line["degree"]): line
                for line in last
                if (line["table"], line["pair"], line["stddev"]) == (table, pair, stddev)
            }
            told = [", ".join(f"{100 * held:.0f}" for held in some[each]["held"]) for each in variants]
            rows.append([f"{stddev:g}", f"{table}: {' and '.join(pair)}", *told])
    named = [f"{rounds}" + (f", degree {degree}" if degree else "") for rounds, degree in variants]
    return markdown(["noise", "pair", *named], rows)
