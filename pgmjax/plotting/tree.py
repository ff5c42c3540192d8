"""Drawing of a junction tree: one line per clique, branches indented, heavy paths straight down.

A child whose subtree has at least half the nodes of its parent's stays in the same column; other children are
indented by one step. A chain is therefore one column, and no clique of n is indented by more than log2(n)
steps. Each clique has its own line, so names never overlap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from pgmjax._internal.extras import pyplot
from pgmjax._internal.memory import scientific
from pgmjax.inference.plan.junction_tree import JunctionTree
from pgmjax.inference.plan.structure import Variables
from pgmjax.plotting import axes as drawing

MOST_CHARACTERS = 72  # length of a clique's line
MOST_CLIQUES, DRAWN = 150, 60  # of a tree with more cliques, the largest are drawn
STEP = 0.3  # indentation in inches


class TreeLayout(NamedTuple):
    """The position of each clique of a forest.

    Attributes:
        row: line of each node, counted from 0 at the top.
        column: number of indentation steps of each node.
    """

    row: tuple[int, ...]
    column: tuple[int, ...]


def lay_out(parent: Sequence[int]) -> TreeLayout:
    """Lay out a forest with one row per node; a child that is not indented comes below its siblings.

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
        # a stack: the last node pushed comes first; the child that is not indented comes last
        open_nodes += sorted(children[node], key=lambda child: (column[child] > column[node], held[child]))
    return TreeLayout(tuple(row), tuple(column))


def draw(tree: JunctionTree, names: Sequence[str], axes: Any = None) -> Any:
    """Draw a junction forest; of more than `MOST_CLIQUES` cliques, the largest `DRAWN` and their roots.

    A dashed line leads past cliques that are not drawn.

    Args:
        tree: the forest.
        names: attribute name of each variable.
        axes: matplotlib axes to draw on. Default: a new figure of suitable size.

    Returns:
        The axes.
    """
    whole = tree
    tree, passed = _largest(tree)
    title = _title(whole, len(tree.cliques))
    layout = lay_out(tree.parent)
    labels = [_label(names, clique, tree.structure.cells(clique)) for clique in tree.cliques]
    if axes is None:
        axes = _new_axes(layout, labels, title)
    drawing.clear(axes)
    width = axes.get_window_extent().width / axes.figure.dpi
    steps = max(width / STEP, 2 * max(layout.column))  # leave at least half of the width for names
    axes.set(xticks=[], yticks=[], xlim=(-0.5, steps - 0.5), ylim=(len(labels) - 0.3, -1))
    axes.set_title(title, fontsize=10, loc="left")
    for child, parent in enumerate(tree.parent):
        if parent >= 0:
            left, right = layout.column[parent], layout.column[child]
            top, bottom = layout.row[parent], layout.row[child]
            line = {"color": drawing.MUTED, "linewidth": 1, "zorder": 1}
            line["linestyle"] = "--" if passed and passed[child] else "-"
            axes.plot([left, left, right], [top, bottom, bottom], **line)
    areas = [24 + 12 * math.log10(tree.structure.cells(clique)) for clique in tree.cliques]
    axes.scatter(layout.column, layout.row, s=areas, color=drawing.FIT, zorder=2)
    _write(axes, tree, names, layout, labels)
    return axes


def _largest(tree: JunctionTree) -> tuple[JunctionTree, list[int] | None]:
    """The largest cliques of a large tree, each below the nearest of them on its branch.

    Returns:
        The tree of these cliques and of the roots above them, and the number of cliques that are passed over
        between each and its parent. A small tree is returned whole, with None.
    """
    if len(tree.cliques) <= MOST_CLIQUES:
        return tree, None
    by_size = sorted(range(len(tree.cliques)), key=lambda n: (-tree.structure.cells(tree.cliques[n]), n))
    drawn = by_size[:DRAWN]
    nodes = sorted({*drawn, *(_path_up(tree, n)[-1] for n in drawn)})
    place = {n: i for i, n in enumerate(nodes)}
    parents, separators, passed = [], [], []
    for n in nodes:
        above = _path_up(tree, n)[1:]
        between = next((k for k, up in enumerate(above) if up in place), len(above))
        parents.append(place[above[between]] if above else -1)
        separators.append(() if between else tree.separator[n])
        passed.append(between)
    cliques = tuple(tree.cliques[n] for n in nodes)
    part = JunctionTree(tree.structure, cliques, tuple(parents), tuple(separators), ())
    return part, passed


def _path_up(tree: JunctionTree, node: int) -> list[int]:
    """Return a node, its parent, and so on to its root."""
    path = [node]
    while tree.parent[path[-1]] >= 0:
        path.append(tree.parent[path[-1]])
    return path


def _write(
    axes: Any,
    tree: JunctionTree,
    names: Sequence[str],
    layout: TreeLayout,
    labels: Sequence[str],
) -> None:
    """Label nodes with their cliques and edges with their separators, as far as the line height allows."""
    height = axes.get_window_extent().height / axes.figure.dpi / (len(labels) + 1)  # inches per line
    if height < 0.1:
        return
    size = min(9.5, 72 * height * 0.5)
    for n, label in enumerate(labels):
        place = {"xy": (layout.column[n], layout.row[n]), "textcoords": "offset points", "va": "center"}
        axes.annotate(label, xytext=(9, 0), fontsize=size, **place)
        if height >= 0.3 and tree.separator[n]:
            shared = _listed([names[v] for v in tree.separator[n]])
            axes.annotate(shared, xytext=(9, 36 * height), color=drawing.MUTED, fontsize=8, **place)


def _new_axes(layout: TreeLayout, labels: Sequence[str], title: str) -> Any:
    """Axes of a new figure with room for every line, up to a maximum height."""
    lines = len(labels)
    height = 0.42 if lines <= 60 else max(0.2, 30 / lines) if lines <= 150 else 30 / lines
    width = STEP * (max(layout.column) + 1) + 0.085 * max(map(len, labels)) + 0.3
    size = max(width, 5, 0.085 * len(title) + 0.3), height * (lines + 1) + 0.4
    figure, axes = pyplot.subplots(figsize=size)
    figure.subplots_adjust(0.02, 0.01, 0.99, 1 - 0.35 / figure.get_figheight())
    return axes


def _label(names: Sequence[str], clique: Variables, cells: int) -> str:
    return f"{_listed([names[v] for v in clique])}  ({_count(cells)})"


def _listed(names: Sequence[str]) -> str:
    """Comma-separated names, as many as fit on a line."""
    for shown in range(len(names), 0, -1):
        left = len(names) - shown
        text = drawing.literal(", ".join(drawing.short(name, 30) for name in names[:shown]))
        text += f" and {left} more" if left else ""
        if len(text) <= MOST_CHARACTERS:
            break
    return text


def _title(tree: JunctionTree, drawn: int) -> str:
    number = len(tree.cliques)
    largest = max(map(tree.structure.cells, tree.cliques))
    cliques = f"{number:,} clique{'s' if number > 1 else ''}"
    cliques += f" ({drawn:,} drawn)" if drawn < number else ""
    return f"junction tree: {cliques}, {_count(tree.cells)} cells, the largest {_count(largest)}"


def _count(cells: int) -> str:
    return f"{cells:,}" if cells < 10**9 else scientific(cells)
