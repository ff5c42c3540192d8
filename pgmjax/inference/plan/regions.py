"""Region graphs: what approximate inference works on where no exact plan fits.

The largest cliques are the outer regions, their intersections (or single attributes) the inner ones.
Every inner region has an edge to each outer region that contains it, and tables over outer regions count
as consistent when they agree on every inner one. Memory is that of the outer regions, whatever loops there
are.

References:
    Yedidia, Freeman and Weiss (2005), Constructing free-energy approximations and generalized belief
    propagation algorithms (the cluster variation method and Bethe's form, here in two layers).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from pgmjax.inference.plan.structure import Structure, Variables

INNER = ("intersections", "attributes")


@dataclasses.dataclass(frozen=True)
class RegionGraph:
    """Outer regions, inner regions and which contains which.

    Attributes:
        structure: the model's sizes and cliques.
        outer: variables of each outer region: the cliques that lie within no other.
        inner: variables of each inner region, ascending.
        holder: for each clique of the structure the number of the outer region that it lies within.
        above: for each inner region the numbers of the outer regions that contain it, two or more.
    """

    structure: Structure
    outer: tuple[Variables, ...]
    inner: tuple[Variables, ...]
    holder: tuple[int, ...]
    above: tuple[tuple[int, ...], ...]

    @functools.cached_property
    def below(self) -> tuple[tuple[int, ...], ...]:
        """For each outer region the numbers of the inner regions within it."""
        found: list[list[int]] = [[] for _ in self.outer]
        for number, holders in enumerate(self.above):
            for holder in holders:
                found[holder].append(number)
        return tuple(map(tuple, found))

    @functools.cached_property
    def cells(self) -> int:
        """Cells of all outer regions together."""
        return sum(map(self.structure.cells, self.outer))

    def summary(self) -> str:
        """The region graph in a line.

        Example:
            >>> print(region_graph(Structure((2, 3, 2), ((0, 1), (1, 2), (2, 0)))).summary())
            3 outer regions with 16 cells, 3 inner regions with 7 cells, 6 edges
        """
        inside = sum(map(self.structure.cells, self.inner))
        return (
            f"{len(self.outer):,} outer regions with {self.cells:,} cells, {len(self.inner):,} inner regions "
            f"with {inside:,} cells, {sum(map(len, self.above)):,} edges"
        )


def region_graph(structure: Structure, inner: str = "intersections") -> RegionGraph:
    """Make a region graph.

    Args:
        structure: sizes and cliques.
        inner: `intersections` of outer regions, of any number of them (the cluster variation method), or
            single `attributes` (Bethe's form: weaker where cliques share more than one attribute).

    Raises:
        ValueError: another word for `inner`.

    Example:
        >>> graph = region_graph(Structure((2, 2, 2, 2), ((0, 1, 2), (1, 2, 3), (3, 0), (1,))))
        >>> graph.outer, graph.inner, graph.holder
        (((0, 1, 2), (1, 2, 3), (3, 0)), ((0,), (3,), (1, 2)), (0, 1, 2, 0))
    """
    if inner not in INNER:
        raise ValueError(f"inner must be one of {INNER}, got {inner!r}.")
    outer = _maximal(structure.cliques)
    sets = [frozenset(region) for region in outer]
    near: dict[int, set[int]] = {}
    for number, region in enumerate(sets):
        for variable in region:
            near.setdefault(variable, set()).add(number)
    holder = tuple(min(_containing(clique, near)) for clique in structure.cliques)
    if inner == "attributes":
        parts: list[Variables] = [(variable,) for variable, holders in near.items() if len(holders) > 1]
    else:
        parts = _intersections(sets, near)
    parts.sort(key=lambda part: (len(part), part))
    above = tuple(tuple(sorted(_containing(part, near))) for part in parts)
    return RegionGraph(structure, outer, tuple(parts), holder, above)


def _maximal(cliques: Sequence[Variables]) -> tuple[Variables, ...]:
    """The cliques that lie within no other, the first of those over the same variables."""
    first: dict[frozenset[int], Variables] = {}
    for clique in cliques:
        first.setdefault(frozenset(clique), clique)
    near: dict[int, set[frozenset[int]]] = {}
    for key in first:
        for variable in key:
            near.setdefault(variable, set()).add(key)
    return tuple(
        clique
        for key, clique in first.items()
        if not any(key < other for other in min((near[v] for v in key), key=len, default=set(first)))
    )


def _containing(part: Sequence[int], near: dict[int, set[int]]) -> set[int]:
    """The outer regions that contain some variables; all of them for none."""
    if not part:
        return set().union(*near.values())
    return set.intersection(*(near[v] for v in part))


def _intersections(sets: Sequence[frozenset[int]], near: dict[int, set[int]]) -> list[Variables]:
    """All intersections of two or more outer regions that are not empty."""
    found: set[frozenset[int]] = set()
    waiting = list(sets)
    while waiting:
        region = waiting.pop()
        others = set().union(*(near[v] for v in region))
        for part in {region & sets[other] for other in others} - found - {region}:
            found.add(part)
            waiting.append(part)
    return [tuple(sorted(part)) for part in found]
