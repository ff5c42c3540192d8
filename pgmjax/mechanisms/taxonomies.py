"""Attributes of a Bayesian network: children as they are, parents as they are or with values merged."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.queries import AttributeQuery, Product, compression, identity

Parents = tuple[tuple[str, int], ...]
"""Attributes with the level of their taxonomies at which they stand, 0 as they are."""

Taxonomies = Mapping[str, tuple[tuple[int, ...], ...]]
"""For some attributes coarser and coarser maps, each the group of every code."""


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A child with its parents, each an attribute and a level of its taxonomy (0: as it is)."""

    child: str
    parents: Parents = ()

    @property
    def clique(self) -> Clique:
        """Parents, then the child."""
        return (*(name for name, _ in self.parents), self.child)


@dataclasses.dataclass(frozen=True)
class Levels:
    """The attributes with their taxonomies.

    Args:
        domain: the attributes.
        taxonomies: for some of them coarser and coarser maps, each the group of every code.

    Raises:
        ValueError: an unknown attribute, or maps of which one is not coarser than the one before.
    """

    domain: Domain
    taxonomies: Taxonomies

    def __post_init__(self) -> None:
        for name, maps in self.taxonomies.items():
            finer: Sequence[int] = range(self.domain[name])
            for groups in maps:
                _check_coarser(name, finer, groups)
                finer = groups

    def sizes(self, name: str) -> tuple[int, ...]:
        """Return the number of values at each level, the finest first."""
        return (self.domain[name], *(max(groups) + 1 for groups in self.taxonomies.get(name, ())))

    def query(self, candidate: Candidate) -> Product:
        """Return the query that counts parents' values against the child's."""
        blocks: dict[str, AttributeQuery] = {}
        for name, level in candidate.parents:
            blocks[name] = compression(self.taxonomies[name][level - 1]) if level else identity()
        return Product({**blocks, candidate.child: identity()})


def read_taxonomies(given: Any) -> dict[str, tuple[tuple[int, ...], ...]]:
    """Return taxonomies as tuples of integers.

    Raises:
        TypeError: no mapping of names to lists of lists of integers.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"taxonomies must map attribute names to lists of maps, got {type(given).__name__}.")
    said = "a map of the taxonomy of"
    return {
        name: tuple(
            tuple(checks.integer(f"a group in {said} {name!r}", group, low=0) for group in groups)
            for groups in (checks.several(f"{said} {name!r}", each, "groups") for each in maps)
        )
        for name, maps in ((n, checks.several(f"the taxonomy of {n!r}", m, "maps")) for n, m in given.items())
    }


def _check_coarser(name: str, finer: Sequence[int], groups: Sequence[int]) -> None:
    if len(groups) != len(finer):
        raise ValueError(
            f"a map of the taxonomy of {name!r} must give the group of each of its {len(finer)} codes, got "
            f"{len(groups)} groups."
        )
    number = len(set(groups))
    if number != max(groups) + 1 or number < 2:
        raise ValueError(
            f"the groups of a map of the taxonomy of {name!r} must be 0..g-1, at least 2 of them."
        )
    if number >= len(set(finer)) or len(set(zip(finer, groups, strict=True))) != len(set(finer)):
        raise ValueError(
            f"each map of the taxonomy of {name!r} must merge groups of the one before, got {number} groups "
            f"after {len(set(finer))}: give maps from fine to coarse."
        )
