"""When each node of a level tree is visited: a list schedule with a fixed width for each class.

References:
    Hu, Parallel sequencing and assembly line problems (1961): highest level first.
"""

from __future__ import annotations

import dataclasses
import heapq

from pgmjax.inference.plan.level_classes import CELLS_A_STEP, Classes, round_up
from pgmjax.inference.plan.level_tree import LevelTree


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Where each node stands.

    Attributes:
        steps: steps of a sweep, rounded up.
        widths: for each class, how many of its nodes a step takes.
        step: for each node its step on the way up: children stand in earlier ones.
        place: for each node its place among those of its class in the step.
    """

    steps: int
    widths: tuple[int, ...]
    step: list[int]
    place: list[int]


def schedule(tree: LevelTree, classes: Classes) -> Schedule:
    """Choose widths and steps that waste least, and place every node."""
    heights = tree.heights()
    depth = round_up(max(heights, default=0) + 1)
    counts = [classes.of.count(k) for k in range(len(classes.shapes))]
    cells = [a * b * c * d for a, b, c, d in classes.shapes]
    best: tuple[float, Schedule] | None = None
    tried = set()
    for stretch in (1.0, 1.25, 1.5, 2.0):
        target = round_up(int(depth * stretch))
        widths = tuple(round_up(-(-round_up(n) // target)) for n in counts)
        if widths in tried:
            continue
        tried.add(widths)
        found = _place(tree, classes, heights, widths)
        a_step = sum(w * n for w, n in zip(widths, cells, strict=True)) + CELLS_A_STEP * (1 + len(cells))
        cost = found.steps * a_step
        if best is None or cost < best[0]:
            best = cost, found
    assert best is not None
    return best[1]


def _place(tree: LevelTree, classes: Classes, heights: list[int], widths: tuple[int, ...]) -> Schedule:
    """Visit from the roots down, those with the longest way below them first."""
    nodes, of = tree.nodes, classes.of
    ready: list[list[tuple[int, int]]] = [[] for _ in widths]
    for i, node in enumerate(nodes):
        if node.parent < 0:
            heapq.heappush(ready[of[i]], (-heights[i], i))
    step, place = [0] * len(nodes), [0] * len(nodes)
    now, left = 0, len(nodes)
    while left:
        taken = [
            [heapq.heappop(queue)[1] for _ in range(min(width, len(queue)))]
            for queue, width in zip(ready, widths, strict=True)
        ]
        for some in taken:
            left -= len(some)
            for at, i in enumerate(some):
                step[i], place[i] = now, at
                for child in nodes[i].children:
                    heapq.heappush(ready[of[child]], (-heights[child], child))
        now += 1
    steps = round_up(now)
    return Schedule(steps, widths, [steps - 1 - s for s in step], place)
