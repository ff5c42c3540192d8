"""Plots of the mean absolute errors that `mae.py` keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import common
import harness
from blocks.paper001 import CURVES, METHODS, Lines
from common import NAMES
from harness import Line


def draw(lines: Sequence[Line]) -> None:
    """Draw all plots."""
    kept = Lines(lines)
    harness.figure("paper001-mae-training", lambda canvas: _draw_training(canvas, kept), (11, 4.6))
    harness.figure("paper001-mae-test", lambda canvas: _draw_test(canvas, kept), (13, 4.6))
    harness.figure("paper001-mae-epsilon", lambda canvas: _draw_epsilon(canvas, kept), (13, 4.6))


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
        harness.legend_below(axes, 6, columns=1)


def _draw_test(canvas: Any, kept: Lines) -> None:
    counts = kept.values(2, method="laplace", epsilon="1")
    for place, data in enumerate(NAMES):
        axes = canvas.add_subplot(1, 4, place + 1)
        for method in CURVES:
            _curve(axes, [(tests, kept.get(data, method, tests)) for tests in counts], method)
        axes.set(title=data, xscale="log", yscale="log", xlabel="test queries", ylabel="MAE (counts)")
        harness.legend_below(axes, 6)


def _draw_epsilon(canvas: Any, kept: Lines) -> None:
    budgets = kept.values(3)
    for place, data in enumerate(NAMES):
        axes = canvas.add_subplot(1, 4, place + 1)
        for method in METHODS:
            points = [(float(budget), kept.get(data, method, 500, budget)) for budget in budgets]
            _curve(axes, points, method)
        _curve(axes, [(float(b), kept.best(data, "pmw", 500, b)) for b in budgets], "pmw, best")
        axes.set(title=data, xscale="log", yscale="log", xlabel="epsilon", ylabel="MAE (counts)")
        harness.legend_below(axes, 6)
