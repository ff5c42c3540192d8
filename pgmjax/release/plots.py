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

from pgmjax._internal import checks
from pgmjax.plotting import axes as drawing

# what matplotlib is told to draw with, and the CSS variable each stands for
_COLOURS = {"#010101": "ink", "#020202": "muted", "#030303": "grid", "#040404": "fit", "#050505": "noisy"}
_PAGE = drawing.Colours(*_COLOURS)
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
    figure, axes = _figure(4.6, 2.5)
    drawing.bars(axes, names, fitted, noisy, stddev, _PAGE)
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
    top = max(float(np.max(noisy)), float(np.max(fitted)), 1.0)
    figure, panels = _figure(7.2, 3.2, columns=2)
    for axes, table, label in zip(panels, (noisy, fitted), ("measured (noisy)", "fitted"), strict=True):
        image = drawing.heat_map(axes, table, top)
        axes.set_title(label, color=_PAGE.muted, fontsize=10, loc="left")
        drawing.name_ticks(axes.set_xticks, column_names, width=26)
        axes.set_xlabel(drawing.short(axis_names[1], 60), color=_PAGE.ink, fontsize=10)
    drawing.name_ticks(panels[0].set_yticks, row_names, upright=True)
    panels[0].set_ylabel(drawing.short(axis_names[0], 60), color=_PAGE.ink, fontsize=10)
    panels[1].set_yticks([])
    drawing.colour_bar(image, panels, _PAGE)
    return _svg(figure, f"{axis_names[0]} by {axis_names[1]}: measured noisy counts beside fitted counts")


def _figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    """A figure without pyplot (no window, no global state) and its axes in the page's colours."""
    figure_module = checks.optional("matplotlib.figure", extra="report")
    figure = figure_module.Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(1, columns, squeeze=False)[0]
    for axes in panels:
        drawing.clear(axes, _PAGE)
    return figure, panels if columns > 1 else panels[0]


def _svg(figure: Any, label: str) -> str:
    """The figure as an `<svg>` element that takes its colours and font from the page."""
    matplotlib = checks.optional("matplotlib", extra="report")
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
