"""Views of a fit: the plot of loss and gap, and its notebook display."""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmjax._internal import checks, html
from pgmjax.model.graphical import GraphicalModel
from pgmjax.plotting import axes


class FitPictures:
    """Plot and notebook display of a fit; `Fit` provides the data."""

    if TYPE_CHECKING:
        model: GraphicalModel
        status: Any
        steps: int
        loss: float
        gap: float
        trace: tuple[tuple[int, float, float], ...]
        method: str

    def plot_trace(self, ax: Any = None) -> Any:
        """Plot loss and certified gap after each block of steps, and at the end of the fit.

        Both are in the loss's unit, on one logarithmic scale; the gap bounds `loss - optimum`.
        Values that are not finite and positive are not drawn.

        Args:
            ax: matplotlib axes to draw on; None for a new figure.

        Returns:
            The matplotlib axes. Needs matplotlib (extra `plots`).

        Raises:
            ValueError: no solver ran, so there is nothing to draw.
        """
        if not self.trace:
            raise ValueError("this fit has no trace: no solver ran for it, or it was made by hand.")
        if ax is None:
            pyplot = checks.optional("matplotlib.pyplot", extra="plots")
            _, ax = pyplot.subplots(figsize=(5.6, 3.4), layout="constrained")
        axes.clear(ax)
        steps, loss, gap = np.array(self.trace, float).T
        shown = [("loss", loss, self.loss, axes.FIT), ("certified gap", gap, self.gap, axes.NOISY)]
        for name, values, end, colour in shown:
            drawn = np.where(np.isfinite(values) & (values > 0), values, np.nan)
            ax.plot(steps, drawn, color=colour, marker="o", markersize=2.5, linewidth=1.3, label=name)
            if math.isfinite(end) and end > 0:
                ax.plot([self.steps], [end], color=colour, marker="D", markersize=5.5, linestyle="none")
        ax.set_yscale("log")
        ax.tick_params(which="minor", length=0)
        ax.set_xlim(left=0)
        ax.set_xlabel("steps", color=axes.MUTED)
        ax.set_title(_ended(self), fontsize=10, loc="left")
        ax.grid(axis="y", color=axes.GRID, linewidth=0.6)
        ax.legend(frameon=False, fontsize=9.5)
        return ax

    def _repr_html_(self) -> str:
        facts: dict[str, Any] = {"method": self.method} if self.method != "exact" else {}
        facts |= {"status": self.status.name, "steps": self.steps, "loss": self.loss, "gap at most": self.gap}
        return html.card("Fit", facts, self.model._repr_html_())


def batch_html(fits: Sequence[FitPictures]) -> str:
    """Return the notebook display of the fits of a batch."""
    ended = collections.Counter(fit.status.name for fit in fits)
    rows = ((n, fit.status.name, fit.steps, fit.loss, fit.gap) for n, fit in enumerate(fits))
    listed = html.table(("row", "status", "steps", "loss", "gap at most"), rows, len(fits))
    return html.card("BatchFit", {"fits": len(fits), **ended}, listed)


def _ended(fit: FitPictures) -> str:
    gap = f"{fit.gap:.3g}" if math.isfinite(fit.gap) else "unknown"
    return f"{fit.status.name} after {fit.steps:,} steps: loss {fit.loss:.6g}, gap at most {gap}"
