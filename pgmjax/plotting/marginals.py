"""Marginals of a model as panels of one figure: bars for one attribute, a heat map for two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pgmjax._internal.extras import pyplot
from pgmjax.data.domain import Clique, Domain
from pgmjax.measurements.linear import NoisyMarginal
from pgmjax.plotting import axes as drawing

MOST_PANELS = 60
COLUMNS = 3


class _Panel(NamedTuple):
    """A marginal of the model and its noisy counts, if measured.

    Attributes:
        clique: one or two attributes.
        fitted: counts of the model [size of each attribute].
        noisy: the noisy marginal, or None if not measured.
    """

    clique: Clique
    fitted: np.ndarray
    noisy: NoisyMarginal | None

    @property
    def width(self) -> int:
        """Number of grid columns: heat maps of noisy and fitted counts are drawn side by side."""
        return 1 + (len(self.clique) == 2 and self.noisy is not None)


def draw(
    domain: Domain,
    cliques: Sequence[Clique],
    marginal: Callable[[Clique], np.ndarray],
    noisy: Callable[[Clique], NoisyMarginal | None],
    stddevs: float,
) -> dict[Clique, Any]:
    """Draw marginals.

    Args:
        domain: the domain.
        cliques: cliques of one or two attributes.
        marginal: function that returns the model's counts of a clique.
        noisy: function that returns the noisy marginal of a clique, or None if not measured.
        stddevs: length of the error bars each way, in standard deviations of the noise.

    Returns:
        For each clique, the matplotlib axes with its fitted counts.

    Raises:
        ValueError: there is no clique, there are too many, or one has more than two attributes.
    """
    if not 1 <= len(cliques) <= MOST_PANELS:
        raise ValueError(
            f"a figure holds 1 to {MOST_PANELS} marginals, got {len(cliques):,}: pass cliques=[...]."
        )
    for clique in cliques:
        if len(clique) > 2:
            raise ValueError(f"a panel shows one or two attributes, got {len(clique)}: {clique}.")
    panels = [_Panel(clique, marginal(clique), noisy(clique)) for clique in cliques]
    places, rows = _places([panel.width for panel in panels])
    columns = max(column + panel.width for panel, (_, column) in zip(panels, places, strict=True))
    figure = pyplot.figure(figsize=(4.2 * columns, 2.9 * rows + 0.3), layout="constrained")
    grid = figure.add_gridspec(rows, columns)
    drawn: dict[Clique, Any] = {}
    for panel, (row, column) in zip(panels, places, strict=True):
        axes = [figure.add_subplot(grid[row, column + i]) for i in range(panel.width)]
        for part in axes:
            drawing.clear(part)
        names = [domain.attribute(name).code_names() for name in panel.clique]
        (_bars if len(names) == 1 else _maps)(axes, panel, names, stddevs)
        drawn[panel.clique] = axes[-1]
    _legend(figure, panels, stddevs)
    return drawn


def _places(widths: Sequence[int]) -> tuple[list[tuple[int, int]], int]:
    """Grid row and column of each panel, filled row by row, and the number of rows."""
    places, row, column = [], 0, 0
    for width in widths:
        if column + width > COLUMNS:
            row, column = row + 1, 0
        places.append((row, column))
        column += width
    return places, row + 1


def _bars(axes: Sequence[Any], panel: _Panel, names: list[Any], stddevs: float) -> None:
    values, spread = (None, None) if panel.noisy is None else (panel.noisy.values, panel.noisy.stddevs)
    drawing.bars(axes[0], names[0], panel.fitted, values, spread, stddevs)
    title = drawing.literal(drawing.short(panel.clique[0], 40))
    axes[0].set_title(title, fontsize=10.5, loc="left")


def _maps(axes: Sequence[Any], panel: _Panel, names: list[Any], _stddevs: float) -> None:
    tables = [panel.fitted] if panel.noisy is None else [panel.noisy.values, panel.fitted]
    top = max(*(float(np.max(table)) for table in tables), np.finfo(float).tiny)
    first, second = (drawing.literal(drawing.short(name, 30)) for name in panel.clique)
    said = ["measured (noisy)", "fitted"][-len(tables) :]
    for part, table, kind in zip(axes, tables, said, strict=True):
        image = drawing.heat_map(part, table, top)
        part.set_title(f"{first} by {second}, {kind}", fontsize=10.5, loc="left")
        drawing.name_ticks(part.set_xticks, names[1], width=26)
        drawing.name_ticks(part.set_yticks, names[0], upright=True)
        part.set_xlabel(second, color=drawing.MUTED, fontsize=9.5)
    axes[0].set_ylabel(first, color=drawing.MUTED, fontsize=9.5)
    drawing.colour_bar(image, axes)


def _legend(figure: Any, panels: Sequence[_Panel], stddevs: float) -> None:
    """Add a legend for bars and points, if any points are drawn."""
    if all(panel.noisy is None or len(panel.clique) == 2 for panel in panels):
        return
    bar = pyplot.Rectangle((0, 0), 1, 1, color=drawing.FIT, label="fitted count")
    said = f"noisy count, {stddevs:g} standard deviations each way"
    point = pyplot.Line2D([], [], color=drawing.NOISY, marker="o", markersize=3.2, linewidth=0.9, label=said)
    figure.legend(handles=[bar, point], loc="outside upper left", ncols=2, frameon=False, fontsize=9.5)
