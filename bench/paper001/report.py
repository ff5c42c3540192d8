"""Tables and plots of the mean absolute errors that `mae.py` keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import common
from common import NAMES
from showing import figure, markdown

Line = dict[str, Any]


class Lines:
    """The kept lines, the newest of each point."""

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


def shown(line: Line | None) -> str:
    """Return an error with its standard error."""
    return "-" if line is None else f"{line['mae']:.3g} ± {line['standard_error']:.1g}"


def _ratio(line: Line) -> float:
    return line["mae"] / line["sensitivity_over_epsilon"]


def everything(lines: Sequence[Line]) -> None:
    """Print all tables and draw all plots."""
    kept = Lines(lines)
    for table in (laplace, training, test, epsilon, learners):
        print(f"\n{table.__doc__}\n\n{table(kept)}")
    figure("paper001-mae-training", lambda canvas: _draw_training(canvas, kept), (11, 3.6))
    figure("paper001-mae-test", lambda canvas: _draw_test(canvas, kept), (13, 3.6))
    figure("paper001-mae-epsilon", lambda canvas: _draw_epsilon(canvas, kept), (13, 3.6))


def laplace(kept: Lines) -> str:
    """Laplace: mean absolute error over mean sensitivity / epsilon; "all": over all lines, by answers."""
    counts = kept.values(2, method="laplace", epsilon="1")
    rows = []
    for data in NAMES:
        row = [kept.get(data, "laplace", tests) for tests in counts]
        every = [line for key, line in kept.lines.items() if key[:2] == (data, "laplace")]
        weights = [line["tests"] * line["runs"] for line in every]
        mean = sum(w * _ratio(line) for w, line in zip(weights, every, strict=True)) / max(1, sum(weights))
        rows.append([data, *("-" if x is None else f"{_ratio(x):.3f}" for x in row), f"{mean:.4f}"])
    return markdown(["data", *map(str, counts), "all"], rows)


def training(kept: Lines) -> str:
    """Random training queries, linear learner, epsilon 1."""
    methods = [m for m in kept.values(1) if m.startswith("random") and m.endswith("linear")]
    counts = sorted(int(method.split(":")[1]) for method in methods)
    rows = []
    for data in NAMES:
        for tests in (100, 500):
            row = [shown(kept.get(data, f"random:{count}:linear", tests)) for count in counts]
            rows.append([data, str(tests), *row, shown(kept.get(data, "laplace", tests))])
    return markdown(["data", "tests", *(f"m = {count}" for count in counts), "laplace"], rows)


def test(kept: Lines) -> str:
    """Number of test queries, epsilon 1."""
    counts = kept.values(2, method="laplace", epsilon="1")
    methods = ("laplace", "hb", "identity", "random:100:linear", "random:200:linear")
    rows = [
        [data, method, *(shown(kept.get(data, method, tests)) for tests in counts)]
        for data in NAMES
        for method in methods
    ]
    return markdown(["data", "method", *map(str, counts)], rows)


METHODS = ("laplace", "matrix", "wavelet", "identity", "hb", "random:100:linear")


def epsilon(kept: Lines) -> str:
    """500 test queries; "pmw" is the best of its settings at each point, which is chosen after the event."""
    budgets = kept.values(3)
    rows = []
    for data in NAMES:
        for method in METHODS:
            rows.append([data, method, *(shown(kept.get(data, method, 500, budget)) for budget in budgets)])
        best = [kept.best(data, "pmw", 500, budget) for budget in budgets]
        rows.append(
            [data, "pmw, best", *("-" if x is None else f"{shown(x)} ({x['method'][4:]})" for x in best)]
        )
    return markdown(["data", "method", *(f"epsilon {budget}" for budget in budgets)], rows)


def learners(kept: Lines) -> str:
    """Learners on random ranges, 500 test queries, epsilon 1."""
    names = ("linear", "ridge", "svr", "network", "bagging", "boosting")
    rows = [
        [data, str(count), *(shown(kept.get(data, f"random:{count}:{name}", 500)) for name in names)]
        for data in ("NETTRACE", "FACEBOOK")
        for count in (100, 400)
    ]
    return markdown(["data", "m", *names], rows)


def _curve(axes: Any, points: Sequence[tuple[float, Line | None]], label: str, style: str = "-o") -> None:
    found = [(x, line["mae"]) for x, line in points if line is not None]
    if found:
        axes.plot(*zip(*found, strict=True), style, label=label, markersize=3)


def _draw_training(canvas: Any, kept: Lines) -> None:
    for place, data in enumerate(common.LARGE):
        axes = canvas.add_subplot(1, 3, place + 1)
        counts = sorted(int(m.split(":")[1]) for m in kept.values(1, data=data) if m.endswith(":linear"))
        for tests in (100, 500):
            points = [(count, kept.get(data, f"random:{count}:linear", tests)) for count in counts]
            _curve(axes, points, f"random ranges, {tests} test queries")
            flat = kept.get(data, "laplace", tests)
            _curve(axes, [(count, flat) for count in counts], f"Laplace, {tests}", "--")
        axes.set(title=data, xscale="log", yscale="log", xlabel="training queries", ylabel="MAE (counts)")
        axes.legend(fontsize=6)


def _draw_test(canvas: Any, kept: Lines) -> None:
    counts = kept.values(2, method="laplace", epsilon="1")
    for place, data in enumerate(NAMES):
        axes = canvas.add_subplot(1, 4, place + 1)
        for method in ("laplace", "hb", "identity", "random:100:linear", "random:200:linear"):
            _curve(axes, [(tests, kept.get(data, method, tests)) for tests in counts], method)
        axes.set(title=data, xscale="log", yscale="log", xlabel="test queries", ylabel="MAE (counts)")
        axes.legend(fontsize=6)


def _draw_epsilon(canvas: Any, kept: Lines) -> None:
    budgets = kept.values(3)
    for place, data in enumerate(NAMES):
        axes = canvas.add_subplot(1, 4, place + 1)
        for method in METHODS:
            points = [(float(budget), kept.get(data, method, 500, budget)) for budget in budgets]
            _curve(axes, points, method)
        _curve(axes, [(float(b), kept.best(data, "pmw", 500, b)) for b in budgets], "pmw, best")
        axes.set(title=data, xscale="log", yscale="log", xlabel="epsilon", ylabel="MAE (counts)")
        axes.legend(fontsize=6)
