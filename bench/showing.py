"""Results to look at: tables in Markdown, and plots where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import harness


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def figure(name: str, draw: Callable[[Any], object], size: tuple[float, float]) -> None:
    """Draw a plot beside the results, where matplotlib is installed.

    Args:
        name: of the picture, without its ending.
        draw: draws on a matplotlib figure.
        size: width and height (inches).
    """
    try:
        import matplotlib
    except ImportError:
        harness.say("matplotlib is not installed: no plot")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    canvas = pyplot.figure(figsize=size, layout="constrained")
    draw(canvas)
    path = harness.RESULTS / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path, dpi=110)
    pyplot.close(canvas)
    harness.say(f"plot: bench/results/{path.name}")
