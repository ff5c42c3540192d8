"""Drawings of counts as SVG text: bars with noisy points beside them, and heat maps.

They are written directly, without a plotting library, which would take longer than the fit of many releases.
Colours are CSS variables of the page (`--ink`, `--muted`, `--grid`, `--fit`, `--noisy`), so that one drawing
works on light and dark pages. Lengths are in units of the drawing's view box.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from html import escape

import numpy as np

from pgmjax.plotting.axes import distinct, grouped, grouped_names, short, thousands

MOST_BARS = 120
_MOST_LABELS = 8
_WIDE, _HIGH = 360, 220  # on a phone a unit is about a pixel
_MAP_WIDE, _MAP_HIGH = 320, 270
_LETTER = 6.2  # width of a letter of size 11
_MAP = ("#f2f2f1", "#c9dcd6", "#8fbfb6", "#4f9a97", "#256f7c", "#10475f", "#071f3a")
_SLANT = 35  # degrees


def bars(
    names: Sequence[str],
    fitted: np.ndarray,
    noisy: np.ndarray | None = None,
    stddev: np.ndarray | None = None,
    *,
    title: str = "",
) -> str:
    """Draw one attribute's marginal: fitted counts as bars, noisy counts as points with 2-stddev bars.

    Args:
        names: names of the values [cells].
        fitted: counts of the model [cells].
        noisy: noisy counts [cells]; None if the attribute was not measured.
        stddev: their standard deviations [cells].
        title: name of the attribute, used in the accessible label of the drawing.

    Returns:
        An `<svg>` element. With more than 120 values, neighbouring values are grouped, and named by the
        first and the last.
    """
    group = -(-len(fitted) // MOST_BARS)
    names, fitted = grouped_names(names, group), grouped(fitted, group)
    spread = np.zeros(0)
    if noisy is not None and stddev is not None:
        noisy, spread = grouped(noisy, group), 2 * np.sqrt(grouped(np.square(stddev), group))
    points = np.zeros(0) if noisy is None else noisy
    low = min(0.0, float(np.min(points - spread, initial=0.0)))
    high = max(1e-9, float(np.max(fitted)), float(np.max(points + spread, initial=0.0)))
    step = -(-len(names) // _MOST_LABELS)
    shown = list(zip(range(0, len(names), step), distinct(names[::step]), strict=True))
    slanted = sum(len(name) for _, name in shown) > 28
    longest = max(len(name) for _, name in shown)
    foot = 24 + slanted * longest * _LETTER * math.sin(math.radians(_SLANT))
    marks = _ticks(low, high)
    left = 8 + _LETTER * max(len(thousands(mark)) for mark in marks)
    if slanted:
        left = _left(left, _WIDE - 6, [((k + 0.7) / (len(names) + 0.4), name) for k, name in shown])
    wide, floor = _WIDE - left - 6, _HIGH - foot

    def across(place: float) -> float:
        return left + wide * (place + 0.7) / (len(names) + 0.4)

    def up(value: float) -> float:
        return 8 + (floor - 8) * (high - value) / (high - low)

    texts = [_name(across(k), floor, name, slanted) for k, name in shown]
    lines = [_rule(left, up(mark), _WIDE - 6, up(mark), "grid") for mark in marks]
    lines += [_text(left - 4, up(mark) + 4, thousands(mark), "end", "muted") for mark in marks]
    width = across(0.43) - across(-0.43)
    drawn = [
        _box(across(k - 0.43), min(up(value), up(0)), width, abs(up(value) - up(0)))
        for k, value in enumerate(fitted.tolist())
    ]
    size = 2.4 if len(names) <= 40 else 1.4
    for k, (value, wide_by) in enumerate(zip(points.tolist(), spread.tolist(), strict=True)):
        drawn.append(_rule(across(k), up(value - wide_by), across(k), up(value + wide_by), "noisy"))
        drawn.append(_dot(across(k), up(value), size))
    drawn.append(_rule(left, up(0), _WIDE - 6, up(0), "muted"))
    label = f"{title}: fitted counts as bars, noisy counts as points" if title else ""
    return _svg(_WIDE, _HIGH, [*texts, *lines, *drawn], label)


def largest(
    names: Sequence[str],
    fitted: np.ndarray,
    noisy: np.ndarray | None,
    stddev: np.ndarray | None,
    *,
    title: str,
) -> str:
    """Draw counts like `bars`, from the top downwards, each with its name: for few values out of many."""
    words = distinct(names, 22)
    points = np.zeros(0) if noisy is None or stddev is None else np.asarray(noisy, float)
    spread = np.zeros(0) if noisy is None or stddev is None else 2 * np.asarray(stddev, float)
    low = min(0.0, float(np.min(points - spread, initial=0.0)))
    high = max(1e-9, float(np.max(fitted)), float(np.max(points + spread, initial=0.0)))
    left, floor = 8 + _LETTER * max(map(len, words)), 16.0 * len(words) + 8

    def across(value: float) -> float:
        return left + (_WIDE - left - 20) * (value - low) / (high - low)

    marks = _ticks(low, high, 4)
    parts = [_text(left - 4, 16 * k + 16, word, "end", "ink") for k, word in enumerate(words)]
    parts += [_rule(across(mark), 4, across(mark), floor, "grid") for mark in marks]
    parts += [_text(across(mark), floor + 14, thousands(mark), "middle", "muted") for mark in marks]
    for k, value in enumerate(np.asarray(fitted, float).tolist()):
        parts.append(_box(across(min(value, 0)), 16 * k + 6, abs(across(value) - across(0)), 12.5))
    for k, (value, wide_by) in enumerate(zip(points.tolist(), spread.tolist(), strict=True)):
        parts.append(
            _rule(across(value - wide_by), 16 * k + 12, across(value + wide_by), 16 * k + 12, "noisy")
        )
        parts.append(_dot(across(value), 16 * k + 12, 2.0))
    parts.append(_rule(across(0), 4, across(0), floor, "muted"))
    return _svg(_WIDE, floor + 22, parts, f"{title}: the values with the largest fitted counts")


def heat_maps(
    row_names: Sequence[str],
    column_names: Sequence[str],
    noisy: np.ndarray,
    fitted: np.ndarray,
    *,
    axis_names: tuple[str, str],
) -> str:
    """Draw one pair's marginal twice on one colour scale: noisy counts first, then fitted ones.

    On a wide page they stand side by side, on a narrow one below each other.

    The colour scale is in the square root of the count; negative ones are drawn as zero.

    Args:
        row_names: names of the first attribute's values [rows].
        column_names: names of the second attribute's values [columns].
        noisy: noisy counts [rows, columns].
        fitted: counts of the model [rows, columns].
        axis_names: the two attributes.

    Returns:
        A `<div>` with two `<svg>` elements.
    """
    top = max(float(np.max(noisy)), float(np.max(fitted)), 1.0)
    names = f"{axis_names[0]} by {axis_names[1]}"
    maps = [
        _map(row_names, column_names, noisy, top, axis_names, ("measured (noisy)", f"{names}: noisy counts")),
        _map(row_names, column_names, fitted, top, axis_names, ("fitted", f"{names}: fitted counts")),
    ]
    return f'<div class="maps">{"".join(maps)}</div>'


def _map(
    row_names: Sequence[str],
    column_names: Sequence[str],
    table: np.ndarray,
    top: float,
    axis_names: tuple[str, str],
    titles: tuple[str, str],
) -> str:
    """Draw one table of counts with its colour scale, whose upper end is `top`."""
    rows, columns = (
        list(zip(range(0, len(names), step), distinct(names[::step], most), strict=True))
        for names, most in ((row_names, 12), (column_names, 16))
        for step in (-(-len(names) // _MOST_LABELS),)
    )
    slanted = sum(len(name) for _, name in columns) > 20
    longest = max(len(name) for _, name in columns)
    foot = 40 + slanted * longest * _LETTER * math.sin(math.radians(_SLANT))
    marks = [(mark, thousands(mark)) for mark in _ticks(0.0, top, 4)]
    left, floor = 26 + _LETTER * max(len(name) for _, name in rows), _MAP_HIGH - foot
    end = _MAP_WIDE - 26 - _LETTER * max(len(text) for _, text in marks)
    if slanted:
        left = _left(left, end, [((k + 0.5) / len(column_names), name) for k, name in columns])
    wide, high, scale = end - left, floor - 22, end + 8
    turned = f'transform="rotate(-90 12 {22 + high / 2:.2f})"'
    parts = [
        _text(left, 14, titles[0], "start", "muted"),
        _text(12, 22 + high / 2, short(axis_names[0], int(high / _LETTER)), "middle", "ink", turned),
        _text(left + wide / 2, _MAP_HIGH - 6, short(axis_names[1], 34), "middle", "ink"),
        _image(left, 22, wide, high, np.asarray(table)[::-1], top),
        # equal steps of the square root
        _image(scale, 22, 8, high, np.square(np.linspace(1, 0, 64))[:, None] * top, top),
    ]
    parts += [
        _text(left - 4, floor - high * (k + 0.5) / len(row_names) + 4, name, "end", "muted")
        for k, name in rows
    ]
    parts += [_name(left + wide * (k + 0.5) / len(column_names), floor, n, slanted) for k, n in columns]
    parts += [
        _text(scale + 12, 22 + high * (1 - math.sqrt(mark / top)) + 4, text, "start", "muted")
        for mark, text in marks
    ]
    return _svg(_MAP_WIDE, _MAP_HIGH, parts, titles[1])


def _left(least: float, end: float, names: Sequence[tuple[float, str]]) -> float:
    """Return where an axis begins, so that its slanted names do not reach out of the drawing.

    Args:
        least: where it begins at least.
        end: where it ends.
        names: with their places, as shares of the axis.
    """
    reach = 1.1 * _LETTER * math.cos(math.radians(_SLANT))  # capitals are wider
    return max(least, *((reach * len(name) - end * place) / (1 - place) for place, name in names))


def _ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most about `most` round numbers between two ends.

    Example:
        >>> _ticks(0.0, 47.0)
        [0.0, 10.0, 20.0, 30.0, 40.0]
    """
    rough = (high - low) / most
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * unit for unit in (1, 2, 5, 10) if size * unit >= rough)
    return [round(k * step, 12) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _svg(wide: float, high: float, parts: Sequence[str], label: str) -> str:
    named = f' aria-label="{escape(label)}"' if label else ""
    body = "\n".join(parts)
    return f'<svg role="img"{named} viewBox="0 0 {wide:g} {high:g}" font-size="11">\n{body}\n</svg>'


def _text(x: float, y: float, text: str, anchor: str, colour: str, more: str = "") -> str:
    place = f'x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}"'
    return f'<text {place} fill="var(--{colour})" {more}>{escape(text)}</text>'


def _name(x: float, floor: float, name: str, slanted: bool) -> str:
    """The name of a value below an axis."""
    if not slanted:
        return _text(x, floor + 15, name, "middle", "muted")
    return _text(
        x, floor + 12, name, "end", "muted", f'transform="rotate(-{_SLANT} {x:.2f} {floor + 12:.2f})"'
    )


def _rule(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    ends = f'x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"'
    return f'<line {ends} stroke="var(--{colour})" stroke-width="{0.9 if colour == "noisy" else 0.6}"/>'


def _box(x: float, y: float, wide: float, high: float) -> str:
    return f'<rect x="{x:.2f}" y="{y:.2f}" width="{wide:.2f}" height="{high:.2f}" fill="var(--fit)"/>'


def _dot(x: float, y: float, size: float) -> str:
    return f'<circle cx="{x:.2f}" cy="{y:.3f}" r="{size}" fill="var(--noisy)"/>'


def _image(x: float, y: float, wide: float, high: float, table: np.ndarray, top: float) -> str:
    """A table of counts as a picture of one pixel a cell."""
    data = base64.b64encode(_png(table, top)).decode("ascii")
    place = f'x="{x:.2f}" y="{y:.2f}" width="{wide:.2f}" height="{high:.2f}" preserveAspectRatio="none"'
    return f'<image {place} href="data:image/png;base64,{data}"/>'


def _png(table: np.ndarray, top: float) -> bytes:
    """A table of counts as PNG, in 256 colours in the square root of the count."""
    stops = np.array([[int(colour[k : k + 2], 16) for k in (1, 3, 5)] for colour in _MAP], float)
    at = np.linspace(0, 1, 256)
    channels = [np.interp(at, np.linspace(0, 1, len(stops)), channel) for channel in stops.T]
    palette = np.round(np.stack(channels, axis=1)).astype(np.uint8).tobytes()
    shares = np.sqrt(np.clip(np.asarray(table, float) / top, 0, 1))
    pixels = np.pad(
        np.round(255 * shares).astype(np.uint8), ((0, 0), (1, 0))
    )  # each row begins with its filter

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    size = struct.pack(">IIBBBBB", table.shape[1], table.shape[0], 8, 3, 0, 0, 0)
    head = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"PLTE", palette)
    return head + chunk(b"IDAT", zlib.compress(pixels.tobytes(), 9)) + chunk(b"IEND", b"")
