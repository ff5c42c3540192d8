"""Drawing on matplotlib axes: bars, heat maps, tick labels. Only released or fitted numbers are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks

MOST_BARS = 120
MOST_LABELS = 8
_TICKS = 9.5  # points
MUTED, GRID, FIT, NOISY = "#7a848c", "#80808055", "#5fa39d", "#d9622b"
"""The colours of secondary text and lines, of grid lines, of fitted and of noisy numbers: all can be seen on
white and on black. Text has that of matplotlib's style."""
_MAP = ["#f2f2f1", "#c9dcd6", "#8fbfb6", "#4f9a97", "#256f7c", "#10475f", "#071f3a"]


def clear(axes: Any) -> None:
    """Remove the frame and background of axes, and make their tick labels small."""
    axes.patch.set_visible(False)
    axes.tick_params(colors=MUTED, labelsize=_TICKS, length=0)
    for side in axes.spines.values():
        side.set_visible(False)


def bars(
    axes: Any,
    names: Sequence[str],
    fitted: np.ndarray,
    noisy: np.ndarray | None,
    stddev: np.ndarray | None,
    stddevs: float = 2.0,
) -> None:
    """Draw one attribute's marginal: fitted counts as bars, noisy counts as points with error bars.

    Args:
        axes: matplotlib axes.
        names: names of the values [cells].
        fitted: counts of the model [cells].
        noisy: noisy counts [cells], or None.
        stddev: their standard deviations [cells], or None.
        stddevs: length of the error bars each way, in standard deviations.
    """
    group = -(-len(fitted) // MOST_BARS)
    names, fitted = grouped_names(names, group), grouped(fitted, group)
    places = np.arange(len(fitted))
    axes.bar(places, fitted, width=0.86, color=FIT, linewidth=0)
    if noisy is not None and stddev is not None:
        error = stddevs * np.sqrt(grouped(np.square(stddev), group))
        size = 3.2 if len(places) <= 40 else 1.8
        axes.errorbar(
            places, grouped(noisy, group), yerr=error, fmt="o", markersize=size, color=NOISY,
            ecolor=NOISY, elinewidth=0.9, capsize=0,
        )  # fmt: skip
    name_ticks(axes.set_xticks, names)
    axes.set_xlim(-0.7, len(places) - 0.3)
    axes.axhline(0, color=MUTED, linewidth=0.7)
    axes.yaxis.set_major_formatter(thousands)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def heat_map(axes: Any, table: np.ndarray, top: float) -> Any:
    """Draw a table of counts; the colour scale is in the square root of the count.

    Args:
        axes: matplotlib axes.
        table: counts [rows, columns]; negative ones are drawn as zero.
        top: count at the upper end of the scale, > 0.

    Returns:
        The image, for a colour bar.
    """
    colors = checks.optional("matplotlib.colors", extra="plots")
    return axes.imshow(
        np.clip(table, 0, None), norm=colors.PowerNorm(gamma=0.5, vmin=0.0, vmax=top),
        cmap=colors.LinearSegmentedColormap.from_list("counts", _MAP), aspect="auto", interpolation="none",
        origin="lower",
    )  # fmt: skip


def colour_bar(image: Any, panels: Sequence[Any]) -> None:
    """Draw the colour bar of a heat map next to its panels."""
    bar = panels[0].figure.colorbar(image, ax=list(panels), fraction=0.03, pad=0.015, format=thousands)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=MUTED, labelsize=_TICKS, length=0)


def grouped(values: np.ndarray, group: int) -> np.ndarray:
    """Sums over consecutive runs of `group` values."""
    values = np.asarray(values, dtype=np.float64)
    return np.add.reduceat(values, np.arange(0, len(values), group))


def grouped_names(names: Sequence[str], group: int) -> list[str]:
    """Names of consecutive runs of `group` values: the first and the last of each.

    Example:
        >>> grouped_names(["a", "b", "c"], 2)
        ['a … b', 'c']
    """
    runs = [names[i : i + group] for i in range(0, len(names), group)]
    return [run[0] if len(run) == 1 else f"{run[0]} … {run[-1]}" for run in runs]


def name_ticks(set_ticks: Any, names: Sequence[str], upright: bool = False, width: int = 36) -> None:
    """Label an axis with at most `MOST_LABELS` value names, slanted if they are long."""
    step = -(-len(names) // MOST_LABELS)
    shown = list(map(literal, distinct(names[::step])))
    slant = not upright and sum(map(len, shown)) > width
    look = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if slant else {}
    set_ticks(range(0, len(names), step), shown, **look)


def distinct(names: Sequence[str], most: int = 16) -> list[str]:
    """Names of at most `most` characters, of which those of different names differ.

    They are cut at the end; if that makes two of them equal, in the middle; if that does too, they end with
    their number.

    Example:
        >>> distinct(["Region no. 1", "Region no. 2"], 8)
        ['Reg…o. 1', 'Reg…o. 2']
    """
    for cut in (short, _without_middle):
        found = [cut(name, most) for name in names]
        if len(set(found)) == len(set(names)):
            return found
    ends = [f" {number}" for number in range(1, len(names) + 1)]
    return [short(name, most - len(end)) + end for name, end in zip(names, ends, strict=True)]


def short(name: str, most: int = 16) -> str:
    """A name cut after `most` characters."""
    return name if len(name) <= most else name[: most - 1] + "…"


def _without_middle(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most // 2 - 1] + "…" + name[-(most // 2) :]


def literal(text: str) -> str:
    """Text that matplotlib draws as it is, dollar signs too."""
    return text.replace("$", r"\$")


def thousands(value: float, _place: Any = None) -> str:
    """A count with thousands separators, and with the decimals that a tick between whole numbers needs.

    Example:
        >>> thousands(1.5), thousands(2e6), thousands(-0.0)
        ('1.5', '2,000,000', '0')
    """
    return f"{value:z,.0f}" if value == round(value) else f"{value:,.10g}"
