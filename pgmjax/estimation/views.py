"""Views of a fit: the plot of loss and gap, and its notebook display."""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax._internal import html
from pgmjax._internal.extras import pyplot
from pgmjax.plotting import axes


def plot_trace(fit: Any, ax: Any = None) -> Any:
    """Plot the trace of a fit; see `Fit.plot_trace`."""
    if not fit.trace:
        raise ValueError("this fit has no trace: no solver ran for it, or it was made by hand.")
    if ax is None:
        _, ax = pyplot.subplots(figsize=(5.6, 3.4), layout="constrained")
    axes.clear(ax)
    steps, loss, gap = np.array(fit.trace, float).T
    shown = [("loss", loss, fit.loss, axes.FIT), ("certified gap", gap, fit.gap, axes.NOISY)]
    for name, values, end, colour in shown:
        drawn = np.where(np.isfinite(values) & (values > 0), values, np.nan)
        ax.plot(steps, drawn, color=colour, marker="o", markersize=2.5, linewidth=1.3, label=name)
        if math.isfinite(end) and end > 0:
            ax.plot([fit.steps], [end], color=colour, marker="D", markersize=5.5, linestyle="none")
    ax.set_yscale("log")
    ax.tick_params(which="minor", length=0)
    ax.set_xlim(left=0)
    ax.set_xlabel("steps", color=axes.MUTED)
    ax.set_title(_ended(fit), fontsize=10, loc="left")
    ax.grid(axis="y", color=axes.GRID, linewidth=0.6)
    ax.legend(frameon=False, fontsize=9.5)
    return ax


def fit_html(fit: Any) -> str:
    """Return the notebook display of a fit."""
    facts: dict[str, Any] = {"method": fit.method} if fit.method != "exact" else {}
    facts |= {"status": fit.status.name, "steps": fit.steps, "loss": fit.loss, "gap at most": fit.gap}
    return html.card("Fit", facts, fit.model._repr_html_())


def batch_html(fits: Sequence[Any]) -> str:
    """Return the notebook display of the fits of a batch."""
    ended = collections.Counter(fit.status.name for fit in fits)
    rows = ((n, fit.status.name, fit.steps, fit.loss, fit.gap) for n, fit in enumerate(fits))
    listed = html.table(("row", "status", "steps", "loss", "gap at most"), rows, len(fits))
    return html.card("BatchFit", {"fits": len(fits), **ended}, listed)


def _ended(fit: Any) -> str:
    gap = f"{fit.gap:.3g}" if math.isfinite(fit.gap) else "unknown"
    return f"{fit.status.name} after {fit.steps:,} steps: loss {fit.loss:.6g}, gap at most {gap}"
