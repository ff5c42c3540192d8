"""Plots of error against epsilon and against time, as SVG coloured by the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from pgmjax.sweeps.summary import METRICS, Line, Quartiles

COLOURS = 9
WIDTH, HEIGHT = 420, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 10, 10, 44
_MOST_TICKS = 6
Scale = Callable[[float], float]


def marker(series: int, x: float, y: float) -> str:
    """Return the marker of a series at a point; shapes differ as well as colours."""
    shape = series % 5
    if shape == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    paths = {
        1: "M{a:.1f},{b:.1f}h7v7h-7z",
        2: "M{x:.1f},{t:.1f}l5,5l-5,5l-5,-5z",
        3: "M{x:.1f},{t:.1f}l5,8.6h-10z",
        4: "M{x:.1f},{u:.1f}l-5,-8.6h10z",
    }
    place = {"x": x, "a": x - 3.5, "b": y - 3.5, "t": y - 5, "u": y + 5}
    return f'<path d="{paths[shape].format(**place)}"/>'


def against_epsilon(lines: Sequence[Line], series: Sequence[str], metric: str) -> str:
    """Plot the medians of one table and workload against epsilon, with interquartile bars."""
    found = _points(lines, metric, lambda line: _exactly(line.epsilon_value))
    return _panel(found, series, "epsilon", f"{METRICS[metric]}, against epsilon", epsilons=True)


def against_time(lines: Sequence[Line], series: Sequence[str], metric: str) -> str:
    """Plot the medians of one table and workload against seconds per trial, with bars in both directions."""
    found = _points(lines, metric, lambda line: line.numbers["seconds"])
    return _panel(found, series, "seconds a trial", f"{METRICS[metric]}, against seconds a trial")


def _points(
    lines: Sequence[Line], metric: str, across: Callable[[Line], Quartiles | None]
) -> list[tuple[Line, Quartiles, Quartiles]]:
    """Each line with its x and y quartiles; those not above 0 are left out (log axes)."""
    found = []
    for line in lines:
        x, y = across(line), line.numbers[metric]
        if x is not None and y is not None and min(x.low, y.low) > 0:
            found.append((line, x, y))
    return found


def _exactly(value: float) -> Quartiles:
    return Quartiles(value, value, value)


def _panel(
    points: Sequence[tuple[Line, Quartiles, Quartiles]],
    series: Sequence[str],
    across: str,
    label: str,
    epsilons: bool = False,
) -> str:
    if not points:
        return '<p class="note">No trial is done, or all errors are 0.</p>'
    margin = 22 if epsilons else 8
    x_range = min(x.low for _, x, _ in points), max(x.high for _, x, _ in points)
    y_range = min(y.low for _, _, y in points), max(y.high for _, _, y in points)
    x_scale = _log_scale(x_range, _LEFT + margin, WIDTH - _RIGHT - margin)
    y_scale = _log_scale(y_range, HEIGHT - _BOTTOM - 8, _TOP + 8)
    values = sorted({x.median for _, x, _ in points}) if epsilons else _ticks(*x_range)
    drawn = [_axes(x_scale, y_scale, values, _ticks(*y_range), across)]
    for number, name in enumerate(series):
        own = [(line, x, y) for line, x, y in points if line.label == name]
        # shift series sideways so that they do not overlap at one epsilon
        shift = (number - (len(series) - 1) / 2) * min(3.5, 30 / len(series)) if epsilons else 0.0
        if own:
            drawn.append(_series(number, name, own, x_scale, y_scale, shift))
    body = "\n".join(drawn)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">\n{body}\n</svg>'


def _series(
    number: int,
    name: str,
    points: Sequence[tuple[Line, Quartiles, Quartiles]],
    x_scale: Scale,
    y_scale: Scale,
    shift: float,
) -> str:
    places = [(x_scale(x.median) + shift, y_scale(y.median)) for _, x, y in points]
    trace = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    marks = [f'<polyline class="trace" points="{trace}"/>']
    for (line, across, up), (x, y) in zip(points, places, strict=True):
        bars = f"M{x:.1f},{y_scale(up.low):.1f}V{y_scale(up.high):.1f}"
        if across.low < across.high:
            bars += f"M{x_scale(across.low):.1f},{y:.1f}H{x_scale(across.high):.1f}"
        told = f"{name}, epsilon {line.epsilon}: {_quartiles(up)}"
        if line.numbers["seconds"] is not None:
            told += f"; {line.numbers['seconds'].median:.3g} s a trial"
        marks.append(
            f'<g class="point" data-e="{escape(line.epsilon)}"><title>{escape(told)}</title>'
            f'<path class="bar" d="{bars}"/>{marker(number, x, y)}</g>'
        )
    return f'<g class="series s{number % COLOURS}" data-m="{escape(name)}">{"".join(marks)}</g>'


def _quartiles(numbers: Quartiles) -> str:
    return f"median {numbers.median:.3g}, quartiles {numbers.low:.3g} to {numbers.high:.3g}"


def _axes(
    x_scale: Scale, y_scale: Scale, x_ticks: Sequence[float], y_ticks: Sequence[float], across: str
) -> str:
    bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    parts = []
    for value in y_ticks:
        y = y_scale(value)
        parts.append(f'<path class="grid" d="M{_LEFT},{y:.1f}H{right}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    last = -math.inf
    for value in x_ticks:
        x = x_scale(value)
        parts.append(f'<path class="grid" d="M{x:.1f},{_TOP}V{bottom}"/>')
        if x - last >= 34:
            parts.append(
                f'<text class="tick" x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{value:g}</text>'
            )
            last = x
    middle = (_LEFT + right) / 2
    parts.append(f'<text class="name" x="{middle}" y="{HEIGHT - 7}" text-anchor="middle">{across}</text>')
    return "".join(parts)


def _log_scale(span: tuple[float, float], start: float, end: float) -> Scale:
    low, high = math.log(span[0]), math.log(span[1])
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    return lambda value: start + (math.log(value) - low) / (high - low) * (end - start)


def _ticks(low: float, high: float) -> list[float]:
    """A few round numbers within the range of a log axis, or its ends if it contains fewer than two."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for factors in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        found = [float(f"{factor}e{power}") for power in range(first, last + 1) for factor in factors]
        found = [value for value in found if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
        if len(found) >= 3:
            return found[:: -(-len(found) // _MOST_TICKS)]
    return found if len(found) == 2 else [float(f"{value:.2g}") for value in dict.fromkeys((low, high))]
