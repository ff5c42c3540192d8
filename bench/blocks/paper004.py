"""McKenna et al. 2019: figures 1, 2a, 2b and 3, regularised fits, AIM and its peers."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Any

from harness import seconds

from blocks.text import Line, by, figure, geometric, last_code, markdown, median, newest

TABLES = ("titanic", "adult", "loans", "stroke")
NAMES = {"privbayes": "PrivBayes", "dual-query": "DualQuery", "mwem": "MWEM", "hdmm": "HDMM"}
ARMS = ("paper", "optimum", "regularised", "L1")
# the paper's ratio of the error without to that with graphical-model estimation, where it prints one
PRINTED = {
    "privbayes": {"adult": "1.3", "loans": "6", "stroke": "7"},
    "dual-query": {"titanic": "1.2", "adult": "1.8", "loans": "3.5", "stroke": "4.4"},
    "mwem": {},
    "hdmm": {"titanic": "6.6", "adult": "3.2", "loans": "27", "stroke": "6.3"},
}
Cell = dict[str, Any]


def cells(lines: Sequence[Line]) -> dict[tuple[str, str], Cell]:
    """Return median errors by arm for each mechanism and table at epsilon 1, with the number of trials."""
    runs = newest(lines, "table", "mechanism", "epsilon", "seed")
    found = by([line for line in runs if line["epsilon"] == 1], "mechanism", "table")
    return {
        key: {arm: median(line["errors"].get(arm) for line in group) for arm in ARMS}
        | {"trials": len(group), "failed": sum("paper" in line["failed"] for line in group)}
        for key, group in found.items()
    }


def _over(cell: Cell, arm: str, other: str = "paper") -> str:
    return f"{cell[other] / cell[arm]:.1f}" if cell[arm] and cell[other] else "-"


def figure1(lines: Sequence[Line]) -> str:
    """All arms of the paper's four mechanisms."""
    head = ["mechanism", "table", *ARMS, "paper / optimum", "printed", "paper / regularised", "trials"]
    found, rows = cells(lines), []
    for mechanism, table in itertools.product(PRINTED, TABLES):
        cell = found[mechanism, table]
        errors = [figure(cell[arm]) for arm in ARMS]
        errors[0] += f" ({cell['failed']} of {cell['trials']} failed)" if cell["failed"] else ""
        ends = [PRINTED[mechanism].get(table, "-"), _over(cell, "regularised"), str(cell["trials"])]
        rows.append([mechanism, table, *errors, _over(cell, "optimum"), *ends])
    return markdown(head, rows)


def figure1_workloads(lines: Sequence[Line]) -> str:
    """The paper's estimate over the optimum, on several draws of the triples."""
    runs = newest(lines, "table", "mechanism", "epsilon", "workload", "seed")
    found, rows = by(runs, "mechanism", "table"), []
    for (mechanism, table), group in sorted(found.items()):
        errors = [line["errors"] for line in group]
        ratios = sorted(e["paper"] / e["optimum"] for e in errors if {"paper", "optimum"} <= {*e})
        ends = [f"{x:.1f}" for x in (ratios[0], statistics.median(ratios), ratios[-1])]
        rows.append([mechanism, table, *ends, PRINTED[mechanism].get(table, "-"), str(len(ratios))])
    return markdown(["mechanism", "table", "least", "median", "largest", "printed", "workloads"], rows)


def figure1_default(lines: Sequence[Line]) -> str:
    """The paper's estimate beside the default fit; DualQuery's likelihood has no pull."""
    found, rows = cells(lines), []
    for mechanism, table in itertools.product(PRINTED, TABLES):
        cell = found[mechanism, table]
        arm = "optimum" if mechanism == "dual-query" else "regularised"
        errors = [figure(cell["paper"]), figure(cell[arm]), _over(cell, arm)]
        printed = PRINTED[mechanism].get(table, "-")
        rows.append([NAMES[mechanism], table.capitalize(), *errors, printed, str(cell["trials"])])
    return markdown(["mechanism", "table", "own", "pgmjax", "own / pgmjax", "printed", "trials"], rows)


def figure1_gains(lines: Sequence[Line]) -> str:
    """Adult: the paper's estimate beside the optimum, as the paper has it, and the default."""
    rows = []
    for name in ("privbayes", "dual-query", "hdmm", "mwem"):
        cell = cells(lines)[name, "adult"]
        errors = ["-" if cell[arm] is None else f"{cell[arm]:.3f}" for arm in ARMS[:3]]
        printed = PRINTED[name].get("adult", "-")
        rows.append(
            [NAMES[name], *errors[:2], _over(cell, "optimum"), printed, errors[2], f"{cell['trials']}"]
        )
    head = ["mechanism", "own estimate", "graphical model", "gain", "gain in the paper", "default", "trials"]
    return markdown(head, rows)


def figure1_numbers(lines: Sequence[Line]) -> dict[str, str]:
    """Single figures of the other tables."""
    found = cells(lines)
    result = {f"{m}-{t}": _over(found[m, t], "optimum") for m, t in found if m in PRINTED}
    titanic = found["mwem", "titanic"]
    return result | {f"mwem-titanic-{arm}": figure(titanic[arm]) for arm in ("paper", "optimum")}


def figure1_ratios(lines: Sequence[Line]) -> str:
    """Geometric means of the regularised arm's error over that of the optimum and of the paper's estimate."""
    runs, rows = newest(lines, "table", "mechanism", "epsilon", "seed"), []
    groups = by(sorted(runs, key=lambda line: line["epsilon"]), "mechanism", "table", "epsilon")
    order = ("privbayes", "mwem", "hdmm", "mst", "aim")
    for mechanism, table in itertools.product(order, TABLES):
        for (name, other, epsilon), group in groups.items():
            if (name, other) != (mechanism, table):
                continue
            ratios = [ratio([line["errors"] for line in group], arm) for arm in ("optimum", "paper")]
            if set(ratios) != {"-"}:
                rows.append([mechanism, table, f"{epsilon:g}", *ratios, str(len(group))])
    head = ["mechanism", "table", "epsilon", "over the optimum", "over the paper's estimate", "trials"]
    return markdown(head, rows)


def ratio(errors: Sequence[dict[str, float]], other: str) -> str:
    """Return a geometric mean with its standard error."""
    logs = [math.log(e["regularised"] / e[other]) for e in errors if "regularised" in e and other in e]
    if not logs:
        return "-"
    error = f" ± {statistics.stdev(logs) / math.sqrt(len(logs)):.3f}" if len(logs) > 1 else ""
    return f"{math.exp(statistics.mean(logs)):.3f}{error}"


FIGURE2A = ("local least squares", "optimum", "regularised")


def game_steps(lines: Sequence[Line]) -> str:
    """DualQuery's gain after more steps of the fit, from the same games."""
    rows, groups = [], by(newest(lines, "table", "steps", "seed"), "table", "steps")
    for (table, steps), group in sorted(groups.items()):
        errors = [x["errors"] for x in group if "optimum" in x["errors"]]
        medians = [median(x[arm] for x in errors) for arm in ("paper", "optimum")]
        gain = f"{medians[0] / medians[1]:.1f}" if errors else "-"
        printed = PRINTED["dual-query"].get(table, "-")
        rows.append([table, f"{steps:,}", *map(figure, medians), gain, printed, str(len(errors))])
    head = ["table", "steps", "the game's records", "optimum", "ratio", "printed", "trials"]
    return markdown(head, rows)


def _figure2a(lines: Sequence[Line]) -> dict[float, list[list[float | None]]]:
    found = by(newest(lines, "seed", "epsilon"), "epsilon")
    return {
        epsilon: [[median(x["errors"][arm][which] for x in group) for which in (0, 1)] for arm in FIGURE2A]
        for (epsilon,), group in sorted(found.items())
    }


def figure2a(lines: Sequence[Line]) -> str:
    """HDMM on Adult by epsilon: errors on the workload and on the measurements."""
    names = [f"{arm}, workload" for arm in ("least squares", "optimum", "regularised")]
    head = ["epsilon", *itertools.chain.from_iterable((name, "measurements") for name in names), "trials"]
    trials = {e: len(group) for (e,), group in by(newest(lines, "seed", "epsilon"), "epsilon").items()}
    rows = [
        [f"{epsilon:g}", *(figure(x) for arm in arms for x in arm), str(trials[epsilon])]
        for epsilon, arms in _figure2a(lines).items()
    ]
    return markdown(head, rows)


def figure2a_numbers(lines: Sequence[Line]) -> dict[str, str]:
    """How many times less than least squares the error on the workload is."""
    found, result = _figure2a(lines), {}
    for epsilon, (own, *fits) in found.items():
        for name, fit in zip(FIGURE2A[1:], fits, strict=True):
            result[f"{name}-{epsilon:g}".replace(".", "")] = f"{own[0] / fit[0]:.1f}"
    return result


FIGURE3 = ("l2, mirror descent", "l2, dual averaging", "l2", "l1", "l2, regularised", "l2, noise level")


def figure3(lines: Sequence[Line]) -> str:
    """Medians at the end, and the best on the way, which nobody can know without the table."""
    groups, rows = by(newest(lines, "split", "arm", "steps", "seed"), "split", "arm"), []
    for key in itertools.product(("equal", "optimal"), FIGURE3):
        group = groups.get(key, [])
        if not group:
            continue
        last = max(line["steps"] for line in group)
        at_end = [line for line in group if line["steps"] == last]
        least = [min(x["error"] for x in one) for one in by(group, "seed").values()]
        errors = [figure(median(line["error"] for line in at_end)), figure(median(least))]
        counts = [f"{median(line[name] for line in at_end):,.0f}" for name in ("done", "l2", "l1")]
        ends = ", ".join(sorted({line["status"] for line in at_end}))
        rows.append([*key, *errors, *counts, ends, str(len(at_end))])
    head = ["split", "fit", "error at the end", "least on the way", "steps", "L2 loss", "L1 loss"]
    return markdown([*head, "end", "trials"], rows)


METHODS = {
    "engine": "engine",
    "mbi": "mbi",
    "multiplicative-weights": "multiplicative weights",
    "lsmr": "LSMR",
}


def scalability(lines: Sequence[Line]) -> str:
    """Time per iteration against attributes: the last line of each point, of the last line's code."""
    found = {(line["method"], line["attributes"]): line for line in last_code(lines)}
    rows = []
    for count in sorted({count for method, count in found if method in METHODS}):
        steps = [found.get((method, count), {}).get("step_s") for method in ("mbi", "engine")]
        entries = [_entry(found.get((method, count), {})) for method in METHODS]
        cells_of = f"{10**count:,}" if count <= 4 else f"10^{count}"
        times = f"{steps[0] / steps[1]:.1f}" if all(steps) else "-"
        rows.append([f"{count:,}", cells_of, *entries, times])
    return markdown(["attributes", "cells", *METHODS.values(), "mbi / engine"], rows)


def _entry(line: Line) -> str:
    if "failed" in line:
        words = ("refused", "out of memory", "killed")
        return next((word for word in words if line["failed"].startswith(word)), "failed")
    return f"{seconds(line['step_s'])} ({seconds(line['cold_s'])})" if "step_s" in line else "-"


def scalability_numbers(lines: Sequence[Line]) -> dict[str, str]:
    """The engine at a thousand attributes."""
    found = {(line["method"], line["attributes"]): line for line in last_code(lines)}
    return {"engine-1000": seconds(found["engine", 1000]["step_s"])}


HELD_OUT = ("gssvocab", "doctor")


def regularisation(lines: Sequence[Line]) -> str:
    """The median error of the optimum, and the geometric mean of default over optimum."""
    runs = newest(lines, "table", "kind", "epsilon", "seed")
    epsilons = (0.1, 0.3, 1.0, 3.0, 10.0)
    kinds = {(t, k): [k] for t in ("adult", "loans", "stroke", "titanic") for k in ("marginals", "hdmm")}
    kinds |= {(t, "both"): ["marginals", "hdmm"] for t in HELD_OUT}
    rows = []
    for (table, kind), names in kinds.items():
        row = [table, "HDMM" if kind == "hdmm" else kind]
        for epsilon in epsilons:
            some = [x for x in runs if x["table"] == table and x["kind"] in names and x["epsilon"] == epsilon]
            middle = statistics.median(x["none"]["error"] for x in some)
            mean = f"{geometric([x['auto']['error'] / x['none']['error'] for x in some]):.2f}"
            row.append(f"{middle:#.3g} {mean.removeprefix('0')}")
        rows.append(row)
    return markdown(
        ["table", "measured by", *(f"epsilon {e:g}" if e == 0.1 else f"{e:g}" for e in epsilons)], rows
    )


def regularisation_numbers(lines: Sequence[Line]) -> dict[str, str]:
    """Geometric means and the worst cells of default over optimum."""
    runs = newest(lines, "table", "kind", "epsilon", "seed")
    result = {}
    groups = {
        "four": [x for x in runs if x["table"] in TABLES],
        "four-marginals": [x for x in runs if x["table"] in TABLES and x["kind"] == "marginals"],
        "four-hdmm": [x for x in runs if x["table"] in TABLES and x["kind"] == "hdmm"],
        "held-out": [x for x in runs if x["table"] in HELD_OUT],
    }
    for name, group in groups.items():
        ratios = [x["auto"]["error"] / x["none"]["error"] for x in group]
        result |= {name: f"{geometric(ratios):.3f}", f"{name}-worst": f"{max(ratios):.2f}"}
        result[f"{name}-cells"] = str(len(group))
    for key in ("seconds", "steps"):
        result[key] = f"{statistics.median(x['auto'][key] / x['none'][key] for x in groups['four']):.2f}"
    return result


AIM = ("batch-aim", "aim", "mst", "mst-merged", "mwem", "dpmm-merged")
ERRORS = ("error", "cells_error", "rows_error", "rows_cells_error")


def aim(lines: Sequence[Line]) -> str:
    """Medians with quartiles; `answered` counts measurements."""
    groups, rows = by(newest(lines, "run", "seed"), "run"), []
    for name in AIM:
        group = groups[name,]
        errors = [_quartiles([line[key] for line in group]) for key in ERRORS]
        counts = [statistics.median(len(x["sigmas"]) for x in group), median(x["seconds"] for x in group)]
        rows.append([name, str(len(group)), *errors, *(f"{count:.0f}" for count in counts)])
    head = ["run", "trials", "error", "cells", "error of rows", "cells of rows", "answered", "seconds"]
    return markdown(head, rows)


def _quartiles(values: Sequence[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.4f} ({low:.4f} to {high:.4f})"


def aim_medians(lines: Sequence[Line]) -> str:
    """The medians alone, with the names of the mechanisms."""
    names = {
        "batch-aim": "batch AIM",
        "aim": "AIM",
        "dpmm-merged": "AIM of dpmm 0.1.9",
        "mwem": "MWEM",
        "mst-merged": "MST",
        "mst": "MST with `compress=False`",
    }
    groups, rows = by(newest(lines, "run", "seed"), "run"), []
    for run, name in names.items():
        group = groups[run,]
        errors = [f"{median(line[key] for line in group):.4f}" for key in ERRORS]
        rows.append([name, *errors, f"{median(line['seconds'] for line in group):.0f}", str(len(group))])
    return markdown(
        ["mechanism", "prefixes", "cells", "prefixes, rows", "cells, rows", "seconds", "trials"], rows
    )


PEERS = ("batch-aim", "mst", "dpsynth-swift", "dpsynth-aim-gdp", "dpsynth-mst")


def _peers(lines: Sequence[Line]) -> dict[tuple, list[Line]]:
    ended = [line for line in newest(lines, "run", "table", "epsilon", "seed") if "error" in line]
    return by(ended, "table", "epsilon", "run")


def peers(lines: Sequence[Line]) -> str:
    """Errors of models and of rows, the least of a row in bold; trials where they are not three."""
    groups, rows = _peers(lines), []
    for table, epsilon in itertools.product(("titanic", "adult", "stroke"), ("0.3", "1", "10")):
        row, errors = [table.capitalize(), epsilon], {}
        for run in PEERS:
            group = groups.get((table, epsilon, run), [])
            if group:
                errors[run] = median(line["error"] for line in group)
        for run in PEERS:
            group = groups.get((table, epsilon, run), [])
            if not group:
                row.append("-")
                continue
            text = f"{errors[run]:.3g} / {median(line['rows_error'] for line in group):.3g}"
            text = f"**{text}**" if errors[run] == min(errors.values()) else text
            row.append(text + (f" ({len(group)})" if len(group) != 3 else ""))
        rows.append(row)
    return markdown(["table", "ε", *PEERS], rows)


def peers_cost(lines: Sequence[Line]) -> str:
    """Seconds and memory at epsilon 1."""
    groups, rows = _peers(lines), []
    for table in ("titanic", "adult", "stroke"):
        row = [table.capitalize()]
        for run in PEERS:
            group = groups.get((table, "1", run), [])
            peak = median(line["peak_mb"] for line in group) if group else 0
            row.append(f"{median(x['seconds'] for x in group):.0f} s, {peak / 1024:.1f} GB" if group else "-")
        rows.append(row)
    return markdown(["table", *PEERS], rows)
