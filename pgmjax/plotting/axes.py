"""Drawing on matplotlib axes, in colours that the caller gives: bars, heat maps, names along an axis.

The report draws in the colours of its page (`release.figures`), a notebook in those of matplotlib's
style (`style`). Only released or fitted numbers come here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks

MOST_BARS = 120
MOST_LABELS = 8
_TICKS = 9.5  # points
_MAP = ["#f2f2f1", "#c9dcd6", "#8fbfb6", "#4f9a97", "#256f7c", "#10475f", "#071f3a"]


@dataclasses.dataclass(frozen=True)
class Colours:
    """The colours of a drawing, as matplotlib takes them.

    Attributes:
        ink: of text.
        muted: of text and lines that matter less.
        grid: of the lines behind.
        fit: of fitted numbers.
        noisy: of noisy numbers.
    """

    ink: str
    muted: str
    grid: str
    fit: str
    noisy: str


def style() -> Colours:
    """Colours that follow matplotlib's current style, light or dark."""
    settings = checks.optional("matplotlib", extra="report").rcParams
    # greys and the colours of numbers are legible on white and on black alike
    return Colours(settings["text.color"], "#7a848c", "#80808055", "#5fa39d", "#d9622b")


def clear(axes: Any, colours: Colours) -> None:
    """Take the frame and the background off axes, and write their ticks small."""
    axes.patch.set_visible(False)
    axes.tick_params(colors=colours.muted, labelsize=_TICKS, length=0)
    for side in axes.spines.values():
        side.set_visible(False)


def bars(
    axes: Any,
    names: Sequence[str],
    fitted: np.ndarray,
    noisy: np.ndarray | None,
    stddev: np.ndarray | None,
    colours: Colours,
    stddevs: float = 2.0,
) -> None:
    """Draw one attribute's marginal: fitted counts as bars, noisy ones as points with their spread.

    Args:
        axes: matplotlib axes.
        names: names of the values [cells].
        fitted: counts of the model [cells].
        noisy: noisy counts [cells], or None.
        stddev: their standard deviations [cells].
        colours: to draw in.
        stddevs: how many standard deviations are drawn each way.
    """
    group = -(-len(fitted) // MOST_BARS)
    names = [names[i] for i in range(0, len(names), group)]
    fitted = grouped(fitted, group)
    places = np.arange(len(fitted))
    axes.bar(places, fitted, width=0.86, color=colours.fit, linewidth=0)
    if noisy is not None and stddev is not None:
        error = stddevs * np.sqrt(grouped(np.square(stddev), group))
        size = 3.2 if len(places) <= 40 else 1.8
        axes.errorbar(
            places, grouped(noisy, group), yerr=error, fmt="o", markersize=size, color=colours.noisy,
            ecolor=colours.noisy, elinewidth=0.9, capsize=0,
        )  # fmt: skip
    name_ticks(axes.set_xticks, names)
    axes.set_xlim(-0.7, len(places) - 0.3)
    axes.axhline(0, color=colours.muted, linewidth=0.7)
    axes.yaxis.set_major_formatter(thousands)
    axes.grid(axis="y", color=colours.grid, linewidth=0.6)
    axes.set_axisbelow(True)


def heat_map(axes: Any, table: np.ndarray, top: float) -> Any:
    """Draw a table of counts; colour grows with the square root of the count.

    Args:
        axes: matplotlib axes.
        table: counts [rows, columns]; negative ones are drawn as zero.
        top: the count at the end of the scale, > 0.

    Returns:
        The image, for a colour bar.
    """
    colors = checks.optional("matplotlib.colors", extra="report")
    return axes.imshow(
        np.clip(table, 0, None), norm=colors.PowerNorm(gamma=0.5, vmin=0.0, vmax=top),
        cmap=colors.LinearSegmentedColormap.from_list("counts", _MAP), aspect="auto", interpolation="none",
        origin="lower",
    )  # fmt: skip


def colour_bar(image: Any, panels: Sequence[Any], colours: Colours) -> None:
    """Draw the scale of a heat map beside its panels."""
    bar = panels[0].figure.colorbar(image, ax=list(panels), fraction=0.03, pad=0.015, format=thousands)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=colours.muted, labelsize=_TICKS, length=0)


def grouped(values: np.ndarray, group: int) -> np.ndarray:
    """Sums over runs of `group` neighbours."""
    values = np.asarray(values, dtype=np.float64)
    return np.add.reduceat(values, np.arange(0, len(values), group))


def name_ticks(set_ticks: Any, names: Sequence[str], upright: bool = False, width: int = 36) -> None:
    """Write at most a dozen value names along an axis, slanted where they are long."""
    step = -(-len(names) // MOST_LABELS)
    shown = [short(names[i]) for i in range(0, len(names), step)]
    slant = not upright and sum(map(len, shown)) > width
    look = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if slant else {}
    set_ticks(range(0, len(names), step), shown, **look)


def short(name: str, most: int = 16) -> str:
    """A name cut to a number of characters, its dollar signs no mathematics."""
    name = name.replace("$", r"\$")
    return name if len(name) <= most else name[: most - 1] + "…"


def thousands(value: float, _place: Any = None) -> str:
    """A count with its thousands apart."""
    return f"{value:,.0f}" if abs(value) >= 1 or value == 0 else f"{value:g}"
