"""Plots of a model beside the noisy answers it was fitted to, as SVG that follows the page's colours.

Every function takes released numbers only: measured (noisy) values, their standard deviations and
fitted ones. Colours are written as CSS variables (`--ink`, `--muted`, `--grid`, `--fit`,
`--noisy`), so that one drawing serves a light and a dark page. Needs matplotlib (extra `report`).
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax import _checks

MOST_BARS = 120
MOST_LABELS = 8
# what matplotlib is told to draw with, and the CSS variable each stands for
_COLOURS = {"#010101": "ink", "#020202": "muted", "#030303": "grid", "#040404": "fit", "#050505": "noisy"}
_INK, _MUTED, _GRID, _FIT, _NOISY = _COLOURS
# an inline drawing needs no namespaces, no size of its own, no font list and no names nobody refers to
_CLEANING = [
    (r"<metadata>.*?</metadata>", ""),
    (r"<style[^>]*>.*?</style>", ""),
    (r' xmlns(:xlink)?="[^"]*"', ""),
    (r"xlink:href", "href"),
    (r"(<svg[^>]*?) (?:width|height)=\"[^\"]*\"", r"\1"),
    (r"(<svg[^>]*?) (?:width|height)=\"[^\"]*\"", r"\1"),
    (r' id="[A-Za-z0-9.]+_\d+"', ""),
    (r" font-family: [^;\"]*;", ""),
    (r"font: (?:[a-z]+ )*([\d.]+px)[^;\"]*", r"font-size: \1"),
    (r' transform="rotate\(-0 [^"]*"', ""),
    (r">\s+<", ">\n<"),
]
_MAP = ["#f2f2f1", "#c9dcd6", "#8fbfb6", "#4f9a97", "#256f7c", "#10475f", "#071f3a"]


def one_way_svg(
    names: Sequence[str],
    fitted: np.ndarray,
    noisy: np.ndarray | None = None,
    stddev: np.ndarray | None = None,
    *,
    title: str = "",
) -> str:
    """Draw one attribute's marginal: fitted counts as bars, noisy ones as points with 2 stddev each way.

    Args:
        names: names of the values [cells].
        fitted: counts of the model [cells].
        noisy: noisy counts [cells]; None where the attribute was in no measurement.
        stddev: their standard deviations [cells].
        title: the attribute's name, for readers of the drawing that cannot see it.

    Returns:
        An `<svg>` element. More than 120 values are drawn in groups of neighbours.
    """
    group = -(-len(fitted) // MOST_BARS)
    names = [names[i] for i in range(0, len(names), group)]
    fitted = _grouped(fitted, group)
    figure, axes = _figure(4.6, 2.5)
    places = np.arange(len(fitted))
    axes.bar(places, fitted, width=0.86, color=_FIT, linewidth=0)
    if noisy is not None and stddev is not None:
        error = 2 * np.sqrt(_grouped(np.square(stddev), group))
        size = 3.2 if len(places) <= 40 else 1.8
        axes.errorbar(
            places, _grouped(noisy, group), yerr=error, fmt="o", markersize=size, color=_NOISY,
            ecolor=_NOISY, elinewidth=0.9, capsize=0,
        )  # fmt: skip
    _name_ticks(axes.set_xticks, names)
    axes.set_xlim(-0.7, len(places) - 0.3)
    axes.axhline(0, color=_MUTED, linewidth=0.7)
    axes.yaxis.set_major_formatter(_thousands)
    axes.grid(axis="y", color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    return _svg(figure, f"{title}: fitted counts as bars, noisy counts as points" if title else "")


def two_way_svg(
    row_names: Sequence[str],
    column_names: Sequence[str],
    noisy: np.ndarray,
    fitted: np.ndarray,
    *,
    axis_names: tuple[str, str],
) -> str:
    """Draw one pair's marginal twice on one colour scale: noisy counts on the left, fitted on the right.

    Args:
        row_names: names of the first attribute's values [rows].
        column_names: names of the second attribute's values [columns].
        noisy: noisy counts [rows, columns]; negative ones are drawn as zero.
        fitted: counts of the model [rows, columns].
        axis_names: the two attributes.

    Returns:
        An `<svg>` element.
    """
    colors = _checks.optional("matplotlib.colors", extra="report")
    top = max(float(np.max(noisy)), float(np.max(fitted)), 1.0)
    scale = colors.PowerNorm(gamma=0.5, vmin=0.0, vmax=top)
    palette = colors.LinearSegmentedColormap.from_list("counts", _MAP)
    figure, panels = _figure(7.2, 3.2, columns=2)
    for axes, table, label in zip(panels, (noisy, fitted), ("measured (noisy)", "fitted"), strict=True):
        image = axes.imshow(
            np.clip(table, 0, None), norm=scale, cmap=palette, aspect="auto", interpolation="none",
            origin="lower",
        )  # fmt: skip
        axes.set_title(label, color=_MUTED, fontsize=10, loc="left")
        _name_ticks(axes.set_xticks, column_names, width=26)
        axes.set_xlabel(_short(axis_names[1], 60), color=_INK, fontsize=10)
    _name_ticks(panels[0].set_yticks, row_names, upright=True)
    panels[0].set_ylabel(_short(axis_names[0], 60), color=_INK, fontsize=10)
    panels[1].set_yticks([])
    bar = figure.colorbar(image, ax=list(panels), fraction=0.03, pad=0.015, format=_thousands)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=_MUTED, labelsize=9.5, length=0)
    return _svg(figure, f"{axis_names[0]} by {axis_names[1]}: measured noisy counts beside fitted counts")


def _figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    """A figure without pyplot (no window, no global state) and its axes in the page's colours."""
    figure_module = _checks.optional("matplotlib.figure", extra="report")
    figure = figure_module.Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(1, columns, squeeze=False)[0]
    for axes in panels:
        axes.patch.set_visible(False)
        axes.tick_params(colors=_MUTED, labelsize=9.5, length=0)
        for side in axes.spines.values():
            side.set_visible(False)
    return figure, panels if columns > 1 else panels[0]


def _grouped(values: np.ndarray, group: int) -> np.ndarray:
    """Sums over runs of `group` neighbours."""
    values = np.asarray(values, dtype=np.float64)
    return np.add.reduceat(values, np.arange(0, len(values), group))


def _name_ticks(set_ticks: Any, names: Sequence[str], upright: bool = False, width: int = 36) -> None:
    """Write at most a dozen value names along an axis, slanted where they are long."""
    step = -(-len(names) // MOST_LABELS)
    shown = [_short(names[i]) for i in range(0, len(names), step)]
    slant = not upright and sum(map(len, shown)) > width
    look = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if slant else {}
    set_ticks(range(0, len(names), step), shown, **look)


def _short(name: str, most: int = 16) -> str:
    name = name.replace("$", r"\$")
    return name if len(name) <= most else name[: most - 1] + "…"


def _thousands(value: float, _place: Any = None) -> str:
    return f"{value:,.0f}" if abs(value) >= 1 or value == 0 else f"{value:g}"


def _svg(figure: Any, label: str) -> str:
    """The figure as an `<svg>` element that takes its colours and font from the page."""
    matplotlib = _checks.optional("matplotlib", extra="report")
    out = io.StringIO()
    # text stays text: smaller, searchable, in the page's font; a fixed salt makes equal plots equal files
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": label or "pgmjax"}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    for pattern, replacement in _CLEANING:
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    for colour, name in _COLOURS.items():
        text = text.replace(colour, f"var(--{name})")
    head = f'<svg role="img" aria-label="{html.escape(label)}"' if label else '<svg role="img"'
    return text.replace("<svg", head, 1)
