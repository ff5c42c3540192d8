"""Message passing by levels as index maps: one small program for any number of cliques.

The nodes of a level tree are padded to a few classes and assigned to steps. The rest of the structure is
stored as integer maps: the position in the flat vector of potentials of each cell of each node's table, the
positions of a node's incoming messages among those sent so far, and the position of each clique's cells in
the result. A compiled program depends only on `LevelSizes`; the maps are its arguments.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pgmjax.inference.plan import level_tree
from pgmjax.inference.plan.forecast import Forecast, ModelTooLargeError, device_rates
from pgmjax.inference.plan.level_tree import Groups, Shape, round_up
from pgmjax.inference.plan.structure import Structure

# Entries of the map from the flat vector to the tables that are not positions.
IMPOSSIBLE, NEUTRAL = -1, -2
FAR_TOO_MANY = 2**40  # cells of all nodes: beyond any memory
Parts = tuple[tuple[tuple[int, int], ...], ...]  # for each axis, the (size, stride) of its variables

GATHERED, LAUNCHES = 4, 10  # cells whose time a gathered one takes, and launches that a step takes
OPERATIONS = 120  # compiled operations per shape, independent of the number of cliques
STEP_KERNELS, CLASS_KERNELS = 7, 5  # of a step on a GPU, and more for each class (counted)


@dataclasses.dataclass(frozen=True)
class LevelSizes:
    """The sizes that determine a compiled program.

    Attributes:
        steps: number of steps of a sweep.
        fan_in: number of messages that a node receives from below.
        shapes: shape of the table of a node of each class.
        widths: number of nodes of each class in a step.
        length: length of a flat vector.
    """

    steps: int
    fan_in: int
    shapes: tuple[Shape, ...]
    widths: tuple[int, ...]
    length: int

    @property
    def cells(self) -> int:
        """Cells of all padded tables."""
        return self.steps * sum(w * math.prod(s) for w, s in zip(self.widths, self.shapes, strict=True))

    @property
    def sent_up(self) -> int:
        """Message entries that one step sends towards the root."""
        return sum(w * s[0] * s[1] for w, s in zip(self.widths, self.shapes, strict=True))

    @property
    def sent_down(self) -> int:
        """Message entries that one step sends towards the leaves."""
        return sum(w * s[1] * s[2] for w, s in zip(self.widths, self.shapes, strict=True))


class LevelMaps(NamedTuple):
    """The index maps of a structure, int32; an array for each class, but for `out`.

    Attributes:
        tables: position in the flat vector of each cell, or IMPOSSIBLE or NEUTRAL [steps, width, cells].
        up: positions of each node's incoming messages among all messages sent up, or the position after the
            last one if there is no message [steps, width, fan-in, cells of the separator below].
        down: positions of each node's incoming message among all messages sent down [steps, width, cells
            of the separator above]; the first position after them for roots, the second for padding.
        out: position among the beliefs of all classes, one after another, of each entry of a flat vector, or
            IMPOSSIBLE in its padding [length].
    """

    tables: tuple[Any, ...]
    up: tuple[Any, ...]
    down: tuple[Any, ...]
    out: Any


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """A level tree with its classes and schedule, without index maps."""

    tree: level_tree.LevelTree
    classes: level_tree.Classes
    schedule: level_tree.Schedule
    sizes: LevelSizes

    @property
    def structure(self) -> Structure:
        """The model's sizes and cliques."""
        return self.tree.structure

    @property
    def forecast(self) -> Forecast:
        """The forecast cost of one call."""
        structure, sizes = self.structure, self.sizes
        tables = sorted(
            ((v, structure.cells(v)) for v in {tuple(sorted(node.variables)) for node in self.tree.nodes}),
            key=lambda entry: (-entry[1], entry[0]),
        )
        inputs, by = structure.length, device_rates()
        maps = sizes.cells + sizes.length + sizes.steps * (sizes.fan_in * sizes.sent_down + sizes.sent_up)
        return Forecast(
            method=f"{sizes.steps} levels of {sum(sizes.widths)} nodes in {len(sizes.shapes)} shapes, "
            f"{sizes.cells:,} cells with padding",
            largest=max((n for _, n in tables), default=1),
            inputs=inputs,
            # potentials, conditionals and beliefs of all nodes, and the maps
            cells=3 * sizes.cells + maps,
            work=2 * sizes.cells + inputs,
            largest_tables=tuple(tables[:3]),
            operations=OPERATIONS * len(sizes.shapes),
            seconds=GATHERED * by.cell * (sizes.cells + inputs) + LAUNCHES * by.launch * sizes.steps,
            kernels=sizes.steps * (STEP_KERNELS + CLASS_KERNELS * len(sizes.shapes)),
        )


def arrange(structure: Structure) -> Arrangement:
    """Arrange a structure in levels, without index maps, which is cheap even for large tables.

    Raises:
        ModelTooLargeError: the tables have at least 2**40 cells, far beyond any memory.
    """
    tree = level_tree.build(structure)
    cells = sum(structure.cells(node.variables) for node in tree.nodes)
    if cells >= FAR_TOO_MANY:
        raise ModelTooLargeError(
            f"levels over these cliques have {float(cells):.1e} cells: measure fewer or smaller cliques that "
            "overlap less."
        )
    classes = level_tree.classify(tree)
    schedule = level_tree.schedule(tree, classes)
    length = round_up(max(1, structure.length))
    sizes = LevelSizes(schedule.steps, tree.fan_in, classes.shapes, schedule.widths, length)
    return Arrangement(tree, classes, schedule, sizes)


def index_maps(arrangement: Arrangement) -> LevelMaps:
    """The maps of an arrangement.

    Raises:
        ValueError: more cells than an int32 can number.
    """
    sizes = arrangement.sizes
    if max(sizes.cells, sizes.length, sizes.steps * max(sizes.sent_up, sizes.sent_down)) >= 2**31:
        raise ValueError(
            f"levels number cells with 32 bits, got {sizes.cells:,} padded cells: use another oracle, "
            "or measure fewer or smaller cliques."
        )
    writer, classes = _Writer(arrangement), range(len(sizes.shapes))
    tables, up, down = (tuple(map(write, classes)) for write in (writer.tables, writer.up, writer.down))
    return LevelMaps(tables, up, down, _inverse([one.reshape(-1) for one in tables], sizes.length))


def _inverse(tables: Sequence[np.ndarray], length: int, chunk: int = 1 << 18) -> np.ndarray:
    """Position among the cells of all tables of each entry of the flat vector."""
    # cells that are not in the vector are written to two extra entries at its end, which are cut off
    out = np.full(length - min(IMPOSSIBLE, NEUTRAL), IMPOSSIBLE, np.int32)
    first = 0
    for flat in tables:
        for start in range(0, flat.size, chunk):  # in parts that fit in the cache
            part = flat[start : start + chunk]
            out[part] = np.arange(first + start, first + start + part.size, dtype=np.int32)
        first += flat.size
    return out[:length]


class _Writer:
    """Builds index maps, one pattern at a time for all nodes that share it."""

    def __init__(self, arrangement: Arrangement) -> None:
        self.sizes = arrangement.sizes
        self.nodes, self.structure = arrangement.tree.nodes, arrangement.tree.structure
        self.groups, self.of = arrangement.classes.groups, arrangement.classes.of
        schedule = arrangement.schedule
        self.slot = [
            s * self.sizes.widths[k] + p
            for s, p, k in zip(schedule.step, schedule.place, self.of, strict=True)
        ]
        self.up_base = self._bases(schedule, self.sizes.sent_up, 0)
        self.down_base = self._bases(schedule, self.sizes.sent_down, 1)
        starts = np.cumsum([0, *(self.structure.cells(c) for c in self.structure.cliques)])
        self.starts = starts.tolist()
        self.members: list[list[int]] = [[] for _ in self.sizes.shapes]
        for i, k in enumerate(self.of):
            self.members[k].append(i)

    def _bases(self, schedule: level_tree.Schedule, a_step: int, axis: int) -> list[int]:
        """Return the start of each node's message, which is over axes `axis` and `axis + 1`."""
        each = [shape[axis] * shape[axis + 1] for shape in self.sizes.shapes]
        first = [0, *np.cumsum([w * n for w, n in zip(self.sizes.widths, each, strict=True)]).tolist()]
        places = zip(schedule.step, schedule.place, self.of, strict=True)
        return [s * a_step + first[k] + p * each[k] for s, p, k in places]

    def _parts(self, groups: Iterable[Sequence[int]], stride: dict[int, int]) -> Parts:
        return tuple(tuple((self.structure.sizes[v], stride[v]) for v in group) for group in groups)

    def _strides(self, groups: Sequence[Sequence[int]], inner: int) -> dict[int, int]:
        """Stride of each variable in a message of two axes, the second padded to `inner`."""
        stride = {}
        for group, step in zip(groups, (inner, 1), strict=True):
            for v in reversed(group):
                stride[v] = step
                step *= self.structure.sizes[v]
        return stride

    def tables(self, k: int) -> np.ndarray:
        """Positions in the flat vector of the cells of a class's tables."""
        shape, sizes = self.sizes.shapes[k], self.sizes
        found = np.full((sizes.steps * sizes.widths[k], math.prod(shape)), IMPOSSIBLE, np.int32)
        found[:, 0] = NEUTRAL  # so that slots without a node send zeros
        patterns: dict[tuple[Parts, bool, bool], list[int]] = {}
        for i in self.members[k]:
            node, groups = self.nodes[i], self.groups[i]
            stride = dict.fromkeys(node.variables, 0)
            step = 1
            for v in reversed(node.variables if node.clique >= 0 else ()):
                stride[v] = step
                step *= self.structure.sizes[v]
            key = (self._parts(groups, stride), node.clique >= 0, _doubled(groups))
            patterns.setdefault(key, []).append(i)
        for (parts, measured, doubled), some in patterns.items():
            pattern = offsets(parts, shape)
            if doubled:
                rows = np.arange(shape[0])[:, None, None, None] == np.arange(shape[2])[:, None]
                pattern = np.where(np.broadcast_to(rows, shape).reshape(-1), pattern, IMPOSSIBLE)
            slots = [self.slot[i] for i in some]
            if measured:
                starts = np.array([self.starts[self.nodes[i].clique] for i in some], np.int32)
                found[slots] = np.where(pattern >= 0, pattern + starts[:, None], IMPOSSIBLE)
            else:
                found[slots] = np.where(pattern >= 0, NEUTRAL, IMPOSSIBLE)
        return found.reshape(sizes.steps, sizes.widths[k], -1)

    def up(self, k: int) -> np.ndarray:
        """Positions of the messages from below of a class's nodes."""
        (_, b, c, _), sizes = self.sizes.shapes[k], self.sizes
        nothing = sizes.steps * sizes.sent_up
        found = np.full((sizes.steps * sizes.widths[k], sizes.fan_in, b * c), nothing, np.int32)
        patterns: dict[Parts, list[tuple[int, ...]]] = {}
        for i in self.members[k]:
            for place, child in enumerate(self.nodes[i].children):
                stride = self._strides(self.groups[child][:2], sizes.shapes[self.of[child]][1])
                parts = self._parts(self.groups[i][1:3], stride)
                patterns.setdefault(parts, []).append((self.slot[i], place, self.up_base[child]))
        _fill(found, patterns, (b, c), nothing)
        return found.reshape(sizes.steps, sizes.widths[k], sizes.fan_in, -1)

    def down(self, k: int) -> np.ndarray:
        """Positions of the message from above of a class's nodes."""
        (a, b, _, _), sizes = self.sizes.shapes[k], self.sizes
        certain = sizes.steps * sizes.sent_down
        found = np.full((sizes.steps * sizes.widths[k], a * b), certain + 1, np.int32)
        found[:, 0] = certain  # roots, and slots without a node
        patterns: dict[Parts, list[tuple[int, ...]]] = {}
        for i in self.members[k]:
            above = self.nodes[i].parent
            if above >= 0:
                stride = self._strides(self.groups[above][1:3], sizes.shapes[self.of[above]][2])
                parts = self._parts(self.groups[i][:2], stride)
                patterns.setdefault(parts, []).append((self.slot[i], self.down_base[above]))
        _fill(found, patterns, (a, b), certain + 1)
        return found.reshape(sizes.steps, sizes.widths[k], -1)


def _fill(
    found: np.ndarray, patterns: dict[Parts, list[tuple[int, ...]]], shape: tuple[int, ...], nothing: int
) -> None:
    """Write the positions of messages into `found`, for each pattern at once its places and starts."""
    for parts, some in patterns.items():
        pattern = offsets(parts, shape)
        *places, starts = np.array(some, np.int32).T
        found[tuple(places)] = np.where(pattern >= 0, pattern + starts[:, None], nothing)


def _doubled(groups: Groups) -> bool:
    """Return whether the same variables are on two axes, so that only the diagonal is possible."""
    return bool(groups[0]) and groups[0] == groups[2]


def offsets(parts: Parts, shape: tuple[int, ...]) -> np.ndarray:
    """Sum of index times stride for every cell of a padded shape, flattened; IMPOSSIBLE for padding."""
    total = np.zeros((), np.int64)
    for axis, length in zip(parts, shape, strict=True):
        offsets = np.zeros(1, np.int64)
        for size, stride in axis:
            offsets = (offsets[:, None] + stride * np.arange(size)).reshape(-1)
        padded = np.full(length, -(2**40), np.int64)
        padded[: len(offsets)] = offsets
        total = total[..., None] + padded
    flat = total.reshape(-1)
    return np.where(flat >= 0, flat, IMPOSSIBLE).astype(np.int32)
