"""The shapes of a level tree's nodes, padded to a few classes.

The variables of a node fall into four groups: shared with the parent only, with parent and children,
with the children only, with neither. Its table has one axis for each group. Messages then need no
transposing: the one to the parent sums the last two axes out, the one to the children the first and
the last. Nodes of similar shape form a class and are padded to its shape, so that the number of
compiled operations depends on the number of classes alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from pgmjax.inference.plan.level_tree import LevelTree, Node
from pgmjax.inference.plan.structure import Structure, Variables

Shape = tuple[int, int, int, int]
Groups = tuple[Variables, Variables, Variables, Variables]

MOST_CLASSES = 4
# What one class more costs in each step, in cells that could be computed meanwhile, and how much
# padding is accepted to save one.
CELLS_A_STEP = 4000
PADDING = 0.5


@dataclasses.dataclass(frozen=True)
class Classes:
    """Which class each node belongs to.

    Attributes:
        groups: for each node its variables by axis; an adder's stand on two axes.
        of: for each node the index of its class.
        shapes: padded shape of each class.
    """

    groups: list[Groups]
    of: list[int]
    shapes: tuple[Shape, ...]


def round_up(number: int, steps: int = 4) -> int:
    """The least number of the form (steps + k) 2^j, 0 <= k < steps, that is not smaller.

    Example:
        >>> [round_up(n) for n in (3, 9, 11, 100)]
        [3, 10, 12, 112]
    """
    unit = 1
    while number > 2 * steps * unit:
        unit *= 2
    return -(-number // unit) * unit


def classify(tree: LevelTree) -> Classes:
    """Group the variables of every node into axes, and the nodes into classes."""
    groups = [_groups(node) for node in tree.nodes]
    shapes = [_shape(tree.structure, g) for g in groups]
    counts = Counter(shapes)
    depth = max(tree.heights(), default=0) + 1
    plain = Counter(shape for shape, node in zip(shapes, tree.nodes, strict=True) if not node.is_adder)
    for i, node in enumerate(tree.nodes):
        if node.is_adder:
            doubled = (*groups[i][1:2], (), *groups[i][1:2], ())
            wide = _shape(tree.structure, doubled)
            if _fits_any(wide, plain) and not _fits_any(shapes[i], plain):
                counts[shapes[i]] -= 1
                counts[wide] += 1
                groups[i], shapes[i] = doubled, wide
    merged = _merge([(s, n) for s, n in sorted(counts.items()) if n], depth)
    number = {shape: k for k, (_, members) in enumerate(merged) for shape in members}
    return Classes(groups, [number[s] for s in shapes], tuple(padded for padded, _ in merged))


def _groups(node: Node) -> Groups:
    if not node.children:  # a leaf may put what it shares on either axis: as most inner nodes do
        shared = tuple(v for v in node.variables if v in node.above)
        return shared[:1], shared[1:], tuple(v for v in node.variables if v not in node.above), ()
    above, below = node.above, node.below
    return (
        tuple(v for v in node.variables if v in above and v not in below),
        tuple(v for v in node.variables if v in above and v in below),
        tuple(v for v in node.variables if v not in above and v in below),
        tuple(v for v in node.variables if v not in above and v not in below),
    )


def _shape(structure: Structure, groups: Sequence[Variables]) -> Shape:
    a, b, c, d = (structure.cells(group) for group in groups)
    return a, b, c, d


def _fits_any(shape: Shape, others: Counter[Shape]) -> bool:
    return any(all(s <= o for s, o in zip(shape, other, strict=True)) for other in others)


def _merge(counts: list[tuple[Shape, int]], depth: int) -> list[tuple[Shape, list[Shape]]]:
    """Merge shapes while that adds little padding, or while there are too many."""
    members = [[shape] for shape, _ in counts]
    # floats: products of unions pass what int64 holds
    shapes = np.array([shape for shape, _ in counts], dtype=np.float64).reshape(-1, 4)
    number = np.array([n for _, n in counts], dtype=np.float64)
    shapes, number, members = _coarse(shapes, number, members)
    while len(members) > 1:
        union = np.maximum(shapes[:, None], shapes[None])
        own = number * shapes.prod(-1)
        added = union.prod(-1) * (number[:, None] + number[None]) - own[:, None] - own[None]
        added[np.tril_indices(len(members))] = np.inf
        i, j = np.unravel_index(np.argmin(added), added.shape)
        if len(members) <= MOST_CLASSES and added[i, j] > CELLS_A_STEP * depth + PADDING * own.sum():
            break
        shapes[i], number[i] = union[i, j], number[i] + number[j]
        members[i] = members[i] + members[j]
        shapes, number = np.delete(shapes, j, 0), np.delete(number, j)
        del members[j]
    return [(_padded(own), own) for own in members]


def _coarse(
    shapes: np.ndarray, number: np.ndarray, members: list[list[Shape]], most: int = 64
) -> tuple[np.ndarray, np.ndarray, list[list[Shape]]]:
    """Join shapes of about the same axes until there are few enough to compare all pairs."""
    octave = 0.5
    while len(shapes) > most:
        keys: dict[tuple[int, ...], list[int]] = {}
        for i, shape in enumerate(shapes):
            keys.setdefault(tuple(math.ceil(math.log2(s) / octave) for s in shape), []).append(i)
        joined = list(keys.values())
        shapes = np.array([shapes[rows].max(0) for rows in joined])
        number = np.array([number[rows].sum() for rows in joined])
        members = [[shape for row in rows for shape in members[row]] for rows in joined]
        octave *= 2
    return shapes, number, members


def _padded(members: list[Shape]) -> Shape:
    """The least shape that holds all; rounded up where they differ, so that similar models agree."""
    if len(members) == 1:
        return members[0]
    a, b, c, d = (round_up(max(axis)) for axis in zip(*members, strict=True))
    return a, b, c, d
