"""Cliques in a row as transfer matrices, whose product is associative: the plan of inference in few steps.

Cliques are put in a linear order. The frontier after a clique is the set of variables that occur both up to
it and behind it. A clique is then a matrix from the states of the frontier before it to those of the one
after it: its potential, summed over its private variables, and minus infinity where the frontiers
contradict each other. All matrices are padded to one size, and their number to a power of two by identities,
so that they can be multiplied by pairs. As in `inference.plan.levels`, the structure is stored in integer
maps, and a compiled program depends only on `ChainSizes`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.forecast import Forecast, ModelTooLargeError
from pgmjax.inference.plan.structure import (
    IMPOSSIBLE,
    NEUTRAL,
    Parts,
    Structure,
    Variables,
    offsets,
    parts_of,
)

OPERATIONS, KERNELS = 60, 10  # of a level, to compile and to launch on a GPU (counted)
OTHER_KERNELS = 5  # in no level


@dataclasses.dataclass(frozen=True)
class ChainSizes:
    """The sizes that determine a compiled program.

    Attributes:
        cliques: number of cliques.
        matrices: number of matrices, a power of two.
        states: states of the largest frontier.
        shared: most cells of a clique without its private variables.
        private: most states of the private variables of a clique.
        carried: most states of the variables of both its frontiers that a clique does not have.
        length: length of a flat vector.
        uncovered: log of the number of states of the variables in no clique.
    """

    cliques: int
    matrices: int
    states: int
    shared: int
    private: int
    carried: int
    length: int
    uncovered: float

    @property
    def levels(self) -> int:
        """Number of times that pairs are multiplied, up to a single matrix."""
        return self.matrices.bit_length() - 1


class ChainMaps(NamedTuple):
    """The index maps of a chain, int32, and what stands at its ends.

    Attributes:
        cells: position in the flat vector of each cell, or IMPOSSIBLE [cliques, shared, private].
        entries: position among the sums over private variables of each entry of each matrix, or IMPOSSIBLE or
            NEUTRAL [matrices, states, states].
        before: position among the messages [matrices, 2, states] of that to each cell from the left, or
            IMPOSSIBLE [cliques, shared, carried].
        behind: the same from the right.
        ends: the messages to the whole row from the left and right, or IMPOSSIBLE or NEUTRAL [2, states].
        out: position in `cells` of each entry of the flat vector [length].
    """

    cells: Any
    entries: Any
    before: Any
    behind: Any
    ends: Any
    out: Any


@dataclasses.dataclass(frozen=True)
class ChainPlan:
    """Cliques in a row, without index maps.

    Attributes:
        structure: the model.
        order: the cliques, by number.
        frontiers: variables of the frontier before the first clique, between each two, and after the last.
        sizes: what determines the program.
    """

    structure: Structure
    order: tuple[int, ...]
    frontiers: tuple[Variables, ...]
    sizes: ChainSizes

    @functools.cached_property
    def forecast(self) -> Forecast:
        """The forecast cost of one call."""
        structure, sizes = self.structure, self.sizes
        matrix = sizes.states**2
        cells = sizes.cliques * sizes.shared * (sizes.private + sizes.carried)
        work = sizes.matrices * sizes.states * matrix + 4 * sizes.matrices * matrix + 2 * cells
        largest = structure.largest([*self.frontiers, *structure.cliques])
        return Forecast(
            method=f"{sizes.cliques:,} cliques in a row, {sizes.matrices:,} matrices of {sizes.states:,} "
            f"states multiplied in {sizes.levels} levels",
            largest=max(matrix, largest[0][1]),
            inputs=structure.length,
            # products of all levels and the first map; maps, sums and beliefs of the cliques
            cells=3 * sizes.matrices * matrix + 4 * cells + sizes.length,
            work=work,
            largest_tables=largest,
            operations=OPERATIONS * (sizes.levels + 1),
            seconds=2e-9 * work + 1e-5 * KERNELS * sizes.levels,
            kernels=KERNELS * sizes.levels + OTHER_KERNELS,
        )


def arrange(structure: Structure) -> ChainPlan:
    """Put the cliques of a structure in a row, without index maps.

    Raises:
        ModelTooLargeError: the matrices have at least 2**31 entries, more than an int32 can number.
    """
    order = _order(structure)
    cliques = [structure.cliques[i] for i in order]
    frontiers = _frontiers(structure, cliques)
    pieces = [_pieces(*each) for each in zip(cliques, frontiers, frontiers[1:], strict=False)]
    shared, private, carried = (
        max((structure.cells(piece[k]) for piece in pieces), default=1) for k in range(3)
    )
    states = max(map(structure.cells, frontiers))
    matrices = 1 << max(1, (len(order) - 1).bit_length())
    if max(matrices * states**2, len(order) * shared * max(private, carried)) >= 2**31:
        raise ModelTooLargeError(
            f"cliques in a row number cells with 32 bits, got {matrices:,} matrices of more than "
            f"2^{states.bit_length() - 1} states: use another oracle, or measure fewer or smaller cliques "
            "that overlap less."
        )
    lengths = structure.length, structure.uncovered
    sizes = ChainSizes(len(order), matrices, states, shared, private, carried, *lengths)
    return ChainPlan(structure, order, frontiers, sizes)


def _order(structure: Structure) -> tuple[int, ...]:
    """Cliques in the order of a walk through the junction tree, from an end of it, long branches last.

    The frontier of a branch that is walked is kept until its end, so the longest branch comes last.
    """
    tree = junction_tree.build(structure)
    at: list[list[int]] = [[] for _ in tree.cliques]
    for clique, home in enumerate(tree.home):
        at[home].append(clique)
    order: list[int] = []
    for first in (i for i, j in enumerate(tree.parent) if j < 0):
        end = list(tree.walk(first))[-1]
        came = tree.walk(end)
        height = dict.fromkeys(came, 0)
        for i in reversed(came):
            height[came[i]] = max(height.get(came[i], 0), height[i] + 1)
        left = [end]
        while left:
            i = left.pop()
            order += at[i]
            left += sorted((j for j in tree.around[i] if came[j] == i), key=lambda j: (-height[j], j))
    return tuple(order)


def _frontiers(structure: Structure, cliques: Sequence[Variables]) -> tuple[Variables, ...]:
    """Variables before and behind each place; the private ones of the end cliques stand beyond the ends."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for place, clique in enumerate(cliques):
        for v in clique:
            first.setdefault(v, place)
            last[v] = place
    found: list[list[int]] = [[] for _ in range(len(cliques) + 1)]
    for v in sorted(first):
        for place in range(first[v], last[v]):
            found[place + 1].append(v)
    states = max(map(structure.cells, found))
    for end, frontier in ((0, 0), (len(cliques) - 1, -1)) if cliques else ():
        private = [v for v in sorted(set(cliques[end])) if first[v] == last[v]]
        if structure.cells(private) <= states and len(cliques) > 1:
            found[frontier] = private  # so that these cliques, too, have none to be summed out
    return tuple(map(tuple, found))


def _pieces(
    clique: Variables, before: Variables, behind: Variables
) -> tuple[Variables, Variables, Variables]:
    """Variables of a clique that are in its frontiers, those that are private, and those that pass it by."""
    around = {*before, *behind}
    return (
        tuple(v for v in clique if v in around),
        tuple(v for v in clique if v not in around),
        tuple(sorted(around.difference(clique))),
    )


def index_maps(arrangement: ChainPlan) -> ChainMaps:
    """The maps of a chain."""
    structure, sizes = arrangement.structure, arrangement.sizes
    count, states = sizes.cliques, sizes.states
    starts = np.cumsum([0, *map(structure.cells, structure.cliques)])
    cells = np.empty((count, sizes.shared * sizes.private), np.int32)
    messages = np.empty((2, count, sizes.shared * sizes.carried), np.int32)
    entries = np.where(np.eye(states, dtype=bool), NEUTRAL, IMPOSSIBLE).astype(np.int32)
    entries = np.repeat(entries.reshape(1, -1), sizes.matrices, 0)
    known: dict[tuple[Parts, ...], tuple[np.ndarray, ...]] = {}
    for place, number in enumerate(arrangement.order):
        before, behind = arrangement.frontiers[place : place + 2]
        clique = structure.cliques[number]
        own, *links, matrix = _patterns(structure, sizes, clique, before, behind, known)
        cells[place] = np.where(own >= 0, own + starts[number], IMPOSSIBLE)
        for side, link in enumerate(links):
            messages[side, place] = np.where(link >= 0, link + (2 * place + side) * states, IMPOSSIBLE)
        entries[place] = np.where(matrix >= 0, matrix + place * sizes.shared, IMPOSSIBLE)
    ends = [np.arange(states) < structure.cells(arrangement.frontiers[k]) for k in (0, -1)]
    out = np.zeros(sizes.length, np.int32)
    used = np.flatnonzero(cells.reshape(-1) >= 0)
    out[cells.reshape(-1)[used]] = used
    from_left, from_right = messages.reshape(2, count, sizes.shared, sizes.carried)
    return ChainMaps(
        cells.reshape(count, sizes.shared, sizes.private),
        entries.reshape(-1, states, states),
        from_left,
        from_right,
        np.where(ends, NEUTRAL, IMPOSSIBLE).astype(np.int32),
        out,
    )


def _patterns(
    structure: Structure,
    sizes: ChainSizes,
    clique: Variables,
    before: Variables,
    behind: Variables,
    known: dict[tuple[Parts, ...], tuple[np.ndarray, ...]],
) -> tuple[np.ndarray, ...]:
    """A clique's maps, counted from 0: of its cells, of the messages from both sides, of its matrix.

    Those of equal sizes and strides are taken from the known ones.
    """
    shared, private, carried = _pieces(clique, before, behind)
    both, strides = set(before).intersection(behind), structure.strides
    entry, same = strides(shared), strides(sorted(both))
    once = {v: step for v, step in entry.items() if v not in both}
    parts = (
        parts_of(structure, (shared, private), strides(clique)),
        parts_of(structure, (shared, carried), strides(before)),
        parts_of(structure, (shared, carried), strides(behind)),
        # the entries of the matrix; of variables in both frontiers, its two values must agree
        (*parts_of(structure, [before], entry), *parts_of(structure, [behind], once)),
        (*parts_of(structure, [before], same), *parts_of(structure, [behind], {})),
        (*parts_of(structure, [before], {}), *parts_of(structure, [behind], same)),
    )
    if parts not in known:
        square = (sizes.states, sizes.states)
        shapes = [(sizes.shared, each) for each in (sizes.private, sizes.carried, sizes.carried)]
        *found, matrix, left, right = map(offsets, parts, (*shapes, square, square, square))
        known[parts] = (*found, np.where(left == right, matrix, IMPOSSIBLE))
    return known[parts]
