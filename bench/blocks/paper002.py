"""Wang, Ying and Zhang 2016: cuts of a graph, error against rows, MWEM, rows in bulk."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from blocks.text import Line, by, markdown, newest

COUNTS = ("1", "10", "100")


def facebook(lines: Sequence[Line]) -> str:
    """Worst errors in percent of the expected cut, and as multiples of the predicted deviation."""
    rows = []
    for line in newest(lines, "vertices"):
        sd = line["predicted_sd"]
        errors = [
            line[kind][count] for kind in ("worst_error", "worst_error_one_release") for count in COUNTS
        ]
        cells = [f"{100 * error:.2f} % ({error / sd:.2f})" for error in errors]
        paper = f"{100 * line['paper']:.1f} % ({line['paper'] / sd:.2f})" if line["paper"] else "-"
        rows.append([f"{line['vertices']}", f"{line['edges']}", f"{100 * sd:.2f} %", *cells, paper])
    head = ["vertices", "edges", "predicted sd", "own release, worst of 1", "of 10", "of 100"]
    return markdown([*head, "one release, worst of 1", "of 10", "of 100", "paper"], rows)


def facebook_numbers(lines: Sequence[Line]) -> dict[str, str]:
    """The whole graph."""
    line = max(lines, key=lambda line: line["vertices"])
    return {"sd": f"{100 * line['predicted_sd']:.2f}", "paper": f"{100 * line['paper']:.1f}"}


KINDS = ("uniform", "indicator")
SHOWN = (500, 5_000, 50_000, 100_004)


def scaling(lines: Sequence[Line]) -> str:
    """Squared error against rows, between the bounds."""
    names = {
        "mean_square": "mean square",
        "exact_variance": "exact variance",
        "worst_variance": "hardest, exact",
        "upper_bound": "upper bound",
        "lower_bound": "lower bound",
        "mean_worst_square": "worst of a run, mean",
    }
    rows = [
        [line["kind"], f"{line['rows']:,}", *(f"{line[name]:.3g}" for name in names)]
        for line in newest(lines, "kind", "rows")
        if line["rows"] in SHOWN
    ]
    return markdown(["queries", "rows", *names.values()], rows)


def slope(lines: Sequence[Line], key: str) -> float:
    """The slope of a figure's logarithm over that of the rows, by least squares."""
    rows = [math.log(line["rows"]) for line in lines]
    return statistics.linear_regression(rows, [math.log(line[key]) for line in lines]).slope


def scaling_numbers(lines: Sequence[Line]) -> dict[str, str]:
    """Slopes of the logarithms, the largest factor between measured and exact, and the last sizes."""
    found, factors = newest(lines, "kind", "rows"), []
    result = {}
    for kind in KINDS:
        some = [line for line in found if line["kind"] == kind]
        for key, name in (("mean_square", kind), ("mean_worst_square", f"{kind}-worst")):
            result[name] = f"{slope(some, key):.3f}"
        factors += [abs(math.log(line["mean_square"] / line["exact_variance"])) for line in some]
        last = some[-1]
        for key, name in (("mean_square", "square"), ("exact_variance", "exact"), ("upper_bound", "bound")):
            result[f"{kind}-{name}"] = f"{last[key]:.2e}".replace("e-0", "e-")
    return result | {"factor": f"{math.exp(max(factors)):.3f}"}


NAMES = ("randomized-response", "mwem-paper", "mwem-default", "predicted_sd")
MWEM_FIGURES = (("heterogeneity", "queries", 100), ("queries", "heterogeneity", 1))
"""What varies in Figures 2 and 3, and what is kept at a value."""


def mwem_worst(lines: Sequence[Line]) -> list[Line]:
    """Worst errors over the databases, means of the runs, for each heterogeneity and number of queries."""
    found = []
    lines = newest(lines, "heterogeneity", "queries", "run", "database")
    for (parts, number), group in by(lines, "heterogeneity", "queries").items():
        runs = by(group, "run").values()
        errors = {name: [max(x[name] for x in run) for run in runs] for name in NAMES[:3]}
        found.append(
            {
                "heterogeneity": parts,
                "queries": number,
                "databases": max(map(len, runs)),
                "runs": len(runs),
                **{name: statistics.mean(each) for name, each in errors.items()},
                "predicted_sd": statistics.mean(x["predicted_sd"] for x in group),
                "standard_errors": {name: _standard_error(each) for name, each in errors.items()},
            }
        )
    return found


def _standard_error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def mwem(lines: Sequence[Line]) -> str:
    """Worst absolute errors against heterogeneity and number of queries."""
    rows = []
    for varied, other, value in MWEM_FIGURES:
        some = [x for x in mwem_worst(lines) if x[other] == value]
        for x in sorted(some, key=lambda x: x[varied]):
            sizes = [f"{x['heterogeneity']}", f"{x['queries']:,}"]
            spread = {name: f" ± {each:.4f}" * (x["runs"] > 1) for name, each in x["standard_errors"].items()}
            errors = [f"{x[name]:.4f}{spread[name]}" for name in NAMES[:3]]
            rows.append([*sizes, *errors, f"{x['predicted_sd']:.4f}", f"{x['runs']}"])
    head = ["heterogeneity", "queries", "randomised response", "MWEM, the paper's", "MWEM, default"]
    return markdown([*head, "predicted sd of one query", "runs"], rows)


def mwem_numbers(lines: Sequence[Line]) -> dict[str, str]:
    """From one function to 64 with a hundred queries, and from ten queries to a thousand."""
    found = {(x["heterogeneity"], x["queries"]): x for x in mwem_worst(lines)}
    result = {}
    for name, key in (("response", NAMES[0]), ("paper", NAMES[1]), ("default", NAMES[2])):
        ends = [found[parts, 100][key] for parts in (1, 64)]
        result |= {f"{name}-1": f"{ends[0]:.4f}", f"{name}-64": f"{ends[1]:.4f}"}
        result[f"{name}-times"] = f"{ends[1] / ends[0]:.2g}"
        for number in (10, 1000):
            result[f"{name}-queries-{number}"] = f"{found[1, number][key]:.4f}"
    return result


def bulk(lines: Sequence[Line]) -> str:
    """Seconds of the steps."""
    names = {
        "perturb_seconds": "read, perturb with secure noise and write",
        "count_seconds": "histograms of the groups",
        "answer_seconds": "answers with their variances",
        "seconds": "all",
    }
    return markdown(["step", "seconds"], [[name, f"{lines[-1][key]:.1f}"] for key, name in names.items()])


def bulk_numbers(lines: Sequence[Line]) -> dict[str, str]:
    """What is said of the whole run."""
    line = lines[-1]
    return {
        "seconds": f"{line['seconds']:.0f}",
        "peak": f"{line['peak_gb']:.2f}",
        "square": f"{line['mean_scaled_square']:.3f}",
        "worst": f"{line['worst_scaled_error']:.1f}",
        "within": f"{100 * line['within_95']:.1f}",
    }
