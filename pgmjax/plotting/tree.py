"""A junction tree as a picture: one line a clique, branches indented, the longest way straight down.

A child whose subtree holds at least half of its parent's goes straight on, the others one step to the
right: a chain is one column, and no clique of n stands further right than log2(n) steps. Every clique has
a line of its own, so that names never lie on one another, however the tree branches.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from pgmjax._internal import checks
from pgmjax.inference.plan.junction_tree import JunctionTree
from pgmjax.inference.plan.structure import Variables
from pgmjax.plotting import axes as drawing

MOST_CHARACTERS = 72  # of a clique's line
STEP = 0.3  # inches to the right


@dataclasses.dataclass(frozen=True)
class TreeLayout:
    """The position of each clique of a forest.

    Attributes:
        row: line from the top, counted from 0.
        column: steps to the right.
    """

    row: tuple[int, ...]
    column: tuple[int, ...]


def lay_out(parent: Sequence[int]) -> TreeLayout:
    """Lay a forest out, one row a node; what goes straight on stands below its siblings.

    Args:
        parent: index of each node's parent, -1 for roots; parents before their children.

    Example:
        >>> lay_out([-1, 0, 0, 2, 3])
        TreeLayout(row=(0, 1, 2, 3, 4), column=(0, 1, 0, 0, 0))
    """
    held = [1] * len(parent)
    children: list[list[int]] = [[] for _ in parent]
    for node in range(len(parent) - 1, -1, -1):
        if parent[node] >= 0:
            held[parent[node]] += held[node]
            children[parent[node]].append(node)
    row, column = [0] * len(parent), [0] * len(parent)
    open_nodes = [node for node in reversed(range(len(parent))) if parent[node] < 0]
    reached = 0
    while open_nodes:
        node = open_nodes.pop()
        row[node], reached = reached, reached + 1
        for child in children[node]:
            column[child] = column[node] + (2 * held[child] < held[node])
        # the last that is put there comes first; what goes straight on waits for all the others
        open_nodes += sorted(children[node], key=lambda child: (column[child] > column[node], held[child]))
    return TreeLayout(tuple(row), tuple(column))


def draw(tree: JunctionTree, names: Sequence[str], axes: Any = None) -> Any:
    """Draw a junction forest.

    Args:
        tree: the forest.
        names: the attribute of each variable.
        axes: matplotlib axes to draw on; None makes a figure that fits.

    Returns:
        The axes.
    """
    layout = lay_out(tree.parent)
    labels = [_label(names, clique, tree.structure.cells(clique)) for clique in tree.cliques]
    if axes is None:
        axes = _new_axes(layout, labels)
    colours = drawing.style()
    drawing.clear(axes, colours)
    width = axes.get_window_extent().width / axes.figure.dpi
    steps = max(width / STEP, 2 * max(layout.column))  # at least half of the width is for names
    axes.set(xticks=[], yticks=[], xlim=(-0.5, steps - 0.5), ylim=(len(labels) - 0.3, -1))
    axes.set_title(_title(tree), color=colours.ink, fontsize=10, loc="left")
    for child, parent in enumerate(tree.parent):
        if parent >= 0:
            left, right = layout.column[parent], layout.column[child]
            top, bottom = layout.row[parent], layout.row[child]
            axes.plot([left, left, right], [top, bottom, bottom], color=colours.muted, linewidth=1, zorder=1)
    areas = [24 + 12 * math.log10(tree.structure.cells(clique)) for clique in tree.cliques]
    axes.scatter(layout.column, layout.row, s=areas, color=colours.fit, zorder=2)
    _write(axes, tree, names, layout, labels, colours)
    return axes


def _write(
    axes: Any,
    tree: JunctionTree,
    names: Sequence[str],
    layout: TreeLayout,
    labels: Sequence[str],
    colours: drawing.Colours,
) -> None:
    """Write cliques beside their nodes and separators above them, as far as a line's height allows."""
    height = axes.get_window_extent().height / axes.figure.dpi / (len(labels) + 1)  # inches a line
    if height < 0.1:
        return
    size = min(9.5, 72 * height * 0.5)
    for n, label in enumerate(labels):
        place = {"xy": (layout.column[n], layout.row[n]), "textcoords": "offset points", "va": "center"}
        axes.annotate(label, xytext=(9, 0), color=colours.ink, fontsize=size, **place)
        if height >= 0.3 and tree.parent[n] >= 0:
            shared = _listed([names[v] for v in tree.separator[n]])
            axes.annotate(shared, xytext=(9, 36 * height), color=colours.muted, fontsize=8, **place)


def _new_axes(layout: TreeLayout, labels: Sequence[str]) -> Any:
    """Axes of a figure with room for every line, as long as a page can be."""
    lines = len(labels)
    height = 0.42 if lines <= 60 else max(0.2, 30 / lines) if lines <= 150 else 30 / lines
    width = STEP * (max(layout.column) + 1) + 0.085 * max(map(len, labels)) + 0.3
    pyplot = checks.optional("matplotlib.pyplot", extra="report")
    figure, axes = pyplot.subplots(figsize=(max(width, 5), height * (lines + 1) + 0.4))
    figure.subplots_adjust(0.02, 0.01, 0.99, 1 - 0.35 / figure.get_figheight())
    return axes


def _label(names: Sequence[str], clique: Variables, cells: int) -> str:
    return f"{_listed([names[v] for v in clique])}  ({_count(cells)})"


def _listed(names: Sequence[str]) -> str:
    """Names behind one another, as many as a line holds."""
    for shown in range(len(names), 0, -1):
        left = len(names) - shown
        text = ", ".join(drawing.short(name, 30) for name in names[:shown])
        text += f" and {left} more" if left else ""
        if len(text) <= MOST_CHARACTERS:
            break
    return text


def _title(tree: JunctionTree) -> str:
    number = len(tree.cliques)
    largest = max(map(tree.structure.cells, tree.cliques))
    cliques = f"{number:,} clique{'s' if number > 1 else ''}"
    return f"junction tree: {cliques}, {_count(tree.cells)} cells, the largest {_count(largest)}"


def _count(cells: int) -> str:
    return f"{cells:,}" if cells < 10**9 else f"{cells:.2g}"
