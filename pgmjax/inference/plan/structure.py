"""The structure of a model without names: sizes of variables and cliques of integers.

Plans, and therefore compiled programs, depend only on the structure: two domains that differ in their
attribute names share both.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

Variables = tuple[int, ...]
Parts = tuple[tuple[tuple[int, int], ...], ...]  # for each axis, the (size, stride) of its variables
# Entries of a map of cells to places in a flat vector that are not positions.
IMPOSSIBLE, NEUTRAL = -1, -2
MOST_CELLS = 10**150  # stands for more, so that costs, their sums and products with rates are floats


@dataclasses.dataclass(frozen=True)
class Structure:
    """Variables 0..n-1 with their sizes, and cliques over them.

    Attributes:
        sizes: number of values of each variable.
        cliques: variables of each clique, in the order of its table's axes.
    """

    sizes: tuple[int, ...]
    cliques: tuple[Variables, ...]

    @classmethod
    def named(
        cls, sizes: Mapping[str, int], cliques: Iterable[Sequence[str]]
    ) -> tuple[Structure, tuple[str, ...]]:
        """Number the attributes of the cliques by first appearance.

        Args:
            sizes: size of each attribute; may include attributes that are in no clique.
            cliques: attribute names of each clique.

        Returns:
            The structure, and the attribute name of each variable.
        """
        cliques = list(map(tuple, cliques))
        names = tuple(dict.fromkeys(itertools.chain.from_iterable(cliques)))
        number = dict(zip(names, itertools.count()))
        numbered = tuple([tuple(map(number.__getitem__, clique)) for clique in cliques])
        return cls(tuple([int(sizes[name]) for name in names]), numbered), names

    def shape(self, variables: Iterable[int]) -> tuple[int, ...]:
        """Sizes of some variables."""
        return tuple(self.sizes[v] for v in variables)

    def cells(self, variables: Iterable[int]) -> int:
        """Number of cells of a table over some variables: exact up to `MOST_CELLS`, which stands for more."""
        return min(math.prod(self.sizes[v] for v in variables), MOST_CELLS)

    def largest(self, tables: Iterable[Variables], count: int = 3) -> tuple[tuple[Variables, int], ...]:
        """The largest of some tables, given by their variables, with their cells."""
        cells = {variables: self.cells(variables) for variables in tables}
        return tuple(sorted(cells.items(), key=lambda entry: -entry[1])[:count])

    def strides(self, variables: Sequence[int], step: int = 1) -> dict[int, int]:
        """Stride of each variable in a row-major table over them, if the last one's is `step`."""
        found = {}
        for v in reversed(variables):
            found[v] = step
            step *= self.sizes[v]
        return found

    @functools.cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shape of each clique's table."""
        return tuple(self.shape(clique) for clique in self.cliques)

    @functools.cached_property
    def length(self) -> int:
        """Number of cells of all cliques' tables."""
        return sum(map(self.cells, self.cliques))

    @functools.cached_property
    def uncovered(self) -> float:
        """Log of the number of states of the variables in no clique (nats)."""
        used = set().union(*self.cliques)
        return float(sum(math.log(n) for v, n in enumerate(self.sizes) if v not in used))

    def neighbours(self) -> list[set[int]]:
        """For each variable, the other variables that share a clique with it."""
        near: list[set[int]] = [set() for _ in self.sizes]
        for clique in self.cliques:
            for v in clique:
                near[v].update(clique)
        for v, others in enumerate(near):
            others.discard(v)
        return near


def members(mask: int) -> Variables:
    """Variables of a clique given as bits."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return tuple(found)


def parts_of(structure: Structure, axes: Iterable[Sequence[int]], stride: Mapping[int, int]) -> Parts:
    """For each axis, the size and stride of its variables; those without a stride change nothing."""
    return tuple(tuple((structure.sizes[v], stride.get(v, 0)) for v in axis) for axis in axes)


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
