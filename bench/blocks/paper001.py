"""Zhu et al. 2017: mean absolute errors, online weights, similarities, networks in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from blocks.text import Line, markdown, newest, spread

LARGE = ("NETTRACE", "SEARCHLOGS", "FACEBOOK")
NAMES = (*LARGE, "SIMULATED")


class Lines:
    """The kept lines of `mae.py`, the newest of each point."""

    def __init__(self, lines: Sequence[Line]):
        keys = ("data", "method", "tests", "epsilon")
        self.lines = {tuple(line[key] for key in keys): line for line in lines}

    def get(self, data: str, method: str, tests: int, epsilon: str = "1") -> Line | None:
        """Return a point's line."""
        return self.lines.get((data, method, tests, epsilon))

    def best(self, data: str, kind: str, tests: int, epsilon: str = "1") -> Line | None:
        """Return the line of least error among the settings of a kind."""
        found = [
            line
            for (name, method, number, budget), line in self.lines.items()
            if (name, number, budget) == (data, tests, epsilon) and method.startswith(kind)
        ]
        return min(found, key=lambda line: line["mae"]) if found else None

    def values(self, place: int, **fixed: Any) -> list[Any]:
        """Return the different values of a key among points with these others."""
        order = ("data", "method", "tests", "epsilon")
        found = {
            key[place]
            for key in self.lines
            if all(key[order.index(name)] == value for name, value in fixed.items())
        }
        return sorted(found, key=lambda value: (float(value) if place > 1 else 0.0, str(value)))


def _ratio(line: Line) -> float:
    return line["mae"] / line["sensitivity_over_epsilon"]


def laplace(lines: Sequence[Line]) -> str:
    """Mean absolute error over mean sensitivity / epsilon; "all": over all lines, by answers."""
    kept = Lines(lines)
    counts, rows = kept.values(2, method="laplace", epsilon="1"), []
    for data in NAMES:
        row = [kept.get(data, "laplace", tests) for tests in counts]
        every = [line for key, line in kept.lines.items() if key[:2] == (data, "laplace")]
        weights = [line["tests"] * line["runs"] for line in every]
        mean = sum(w * _ratio(line) for w, line in zip(weights, every, strict=True)) / sum(weights)
        rows.append([data, *("-" if x is None else f"{_ratio(x):.3f}" for x in row), f"{mean:.4f}"])
    return markdown(["data", *map(str, counts), "all"], rows)


def training(lines: Sequence[Line]) -> str:
    """Random training queries, linear learner, epsilon 1."""
    kept, rows = Lines(lines), []
    methods = [m for m in kept.values(1) if m.startswith("random") and m.endswith("linear")]
    counts = sorted(int(method.split(":")[1]) for method in methods)
    for data in NAMES:
        for tests in (100, 500):
            row = [spread(kept.get(data, f"random:{count}:linear", tests)) for count in counts]
            rows.append([data, str(tests), *row, spread(kept.get(data, "laplace", tests))])
    return markdown(["data", "tests", *(f"m = {count}" for count in counts), "laplace"], rows)


CURVES = ("laplace", "hb", "identity", "random:100:linear", "random:200:linear")


def tests(lines: Sequence[Line]) -> str:
    """By the number of test queries, epsilon 1."""
    kept = Lines(lines)
    counts = kept.values(2, method="laplace", epsilon="1")
    rows = [
        [data, method, *(spread(kept.get(data, method, number)) for number in counts)]
        for data in NAMES
        for method in CURVES
    ]
    return markdown(["data", "method", *map(str, counts)], rows)


METHODS = ("laplace", "matrix", "wavelet", "identity", "hb", "random:100:linear")


def epsilon(lines: Sequence[Line]) -> str:
    """500 test queries; "pmw" is the best of its settings at each point, which is chosen after the event."""
    kept = Lines(lines)
    budgets, rows = kept.values(3), []
    for data in NAMES:
        for method in METHODS:
            rows.append([data, method, *(spread(kept.get(data, method, 500, budget)) for budget in budgets)])
        best = [kept.best(data, "pmw", 500, budget) for budget in budgets]
        rows.append(
            [data, "pmw, best", *("-" if x is None else f"{spread(x)} ({x['method'][4:]})" for x in best)]
        )
    return markdown(["data", "method", *(f"epsilon {budget}" for budget in budgets)], rows)


def learners(lines: Sequence[Line]) -> str:
    """Learners on random ranges, 500 test queries, epsilon 1."""
    kept = Lines(lines)
    names = ("linear", "ridge", "gaussian-basis", "svr", "network", "bagging", "boosting")
    rows = [
        [data, str(count), *(spread(kept.get(data, f"random:{count}:{name}", 500)) for name in names)]
        for data in ("NETTRACE", "FACEBOOK")
        for count in (25, 50, 100, 200, 400, 1000)
    ]
    return markdown(["data", "m", *names], rows)


def nettrace(lines: Sequence[Line]) -> str:
    """Four methods on NETTRACE by the number of test queries."""
    names = {
        "laplace": "Laplace noise for each answer",
        "hb": "MLDP, trained on trees (`hb`, the default)",
        "random:100:linear": "MLDP, trained on 100 random ranges as in the paper",
        "matrix": "matrix mechanism, optimised for the test queries",
    }
    kept, rows = Lines(lines), []
    for method, name in names.items():
        found = [kept.get("NETTRACE", method, number) for number in (10, 30, 500)]
        rows.append([name, *("-" if x is None else _count(x["mae"]) for x in found)])
    return markdown(["method", "10 queries", "30 queries", "500 queries"], rows)


def _count(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def online_weights(lines: Sequence[Line]) -> str:
    """The best of the four settings that were tried."""
    rows, points = [], newest(lines, "data", "epsilon", "updates", "threshold")
    for data in LARGE[:2]:
        row = [data]
        for budget in ("0.1", "0.3", "1"):
            some = [line for line in points if (line["data"], line["epsilon"]) == (data, budget)]
            best = min(some, key=lambda line: line["mae"])
            error = float(f"{best['mae']:.3g}")
            row.append(f"{error:,g} ± {float(format(best['standard_error'], '.2g')):g}")
        rows.append(row)
    return markdown(["data", "epsilon 0.1", "0.3", "1"], rows)


MEASURES = (("cosine", "record"), ("cosine", "rating"), ("pearson", "record"))
TRAINING = (335, 671, 2013)


def similarity(lines: Sequence[Line]) -> str:
    """Mean absolute errors of similarities of fresh pairs of users."""
    keys, rows = ("measure", "protect", "epsilon", "method", "training", "tests"), []
    errors = {tuple(x[key] for key in keys): x["mae"] for x in lines if x["learner"] == "ridge"}
    for kind in MEASURES:
        for budget in ("0.1", "1", "10"):
            for count in (10, 500, 2000):
                learned = {m: errors[(*kind, budget, "mldp", m, count)] for m in TRAINING}
                best = min(learned, key=learned.__getitem__)
                figures = [errors[(*kind, budget, name, 0, count)] for name in ("laplace", "clipped")]
                figures.append(min(errors[(*kind, budget, "mean", m, count)] for m in TRAINING))
                shown = [f"{figure:.3f}" for figure in (*figures, learned[best])]
                rows.append([*kind, budget, str(count), *shown[:3], f"{shown[3]} ({best})"])
    head = ["similarity", "protected", "epsilon", "m_t", "Laplace", "within the range", "mean", "MLDP (m)"]
    return markdown(head, rows)


def similarity_errors(lines: Sequence[Line]) -> dict[tuple[str, int], float]:
    """Errors of learners on cosines of 500 fresh pairs, epsilon 1, a record protected, by training pairs."""
    wanted = {"measure": "cosine", "protect": "record", "epsilon": "1", "method": "mldp", "tests": 500}
    found = [x for x in lines if all(x[key] == value for key, value in wanted.items())]
    return {(x["learner"], x["training"]): x["mae"] for x in found}


def similarity_learners(lines: Sequence[Line]) -> str:
    """The learners of the paper, and ridge regression."""
    errors = similarity_errors(lines)
    rows = [
        [name.removeprefix("sklearn."), *(f"{errors[name, count]:.3f}" for count in TRAINING)]
        for name in dict.fromkeys(learner for learner, _ in errors)
    ]
    return markdown(["learner", *(f"m = {count:,}" for count in TRAINING)], rows)


def batch(lines: Sequence[Line]) -> dict[str, str]:
    """A thousand networks in one batch against scikit-learn's loop."""
    line = lines[-1]
    return {
        "networks": f"{line['networks']:,}",
        "seconds": f"{line['batch_seconds']:.0f}",
        "loop": f"{line['loop_seconds_float64']:,.0f}",
        "loop-float32": f"{line['loop_seconds_float32']:,.0f}",
        "times": f"{line['times_faster_float64']:.0f}",
        "times-float32": f"{line['times_faster_float32']:.0f}",
        "loss": f"{100 * (line['loss_ratio_float64'] - 1):.1f}",
    }
