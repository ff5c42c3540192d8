"""The parents that an attribute of a Bayesian network may have, by public values alone.

A marginal of an attribute and its parents may be measured only if it is theta-useful: its average cell is at
least theta times the mean absolute noise. A taxonomy may merge the values of parents, not those of children.

References:
    Zhang, Cormode, Procopiuc, Srivastava and Xiao 2017, "PrivBayes", sections 4.1 and 5.2.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from pgmjax import random
from pgmjax._internal import checks
from pgmjax.data.domain import Clique, Domain
from pgmjax.inference.plan.growth import candidate_cells
from pgmjax.queries import Product, compression, identity
from pgmjax.queries.blocks import AttributeQuery

_WALKED = 10  # sets looked at for each that is wanted, before sets are drawn instead
_WIDEST = 60  # attributes: with more, there are more sets than anybody wants

Noise = Callable[[int], Any]
"""The mean absolute noise of a cell (counts) as a function of the number of marginals."""

Parents = tuple[tuple[str, int], ...]
"""Attributes with a level of their taxonomy; 0 means not merged."""

Taxonomies = Mapping[str, tuple[tuple[int, ...], ...]]
"""Increasingly coarse maps by attribute, each with the group of every code."""


def parents_of_degree(chosen: Sequence[str], rest: Sequence[str], degree: int, most: int) -> list[Candidate]:
    """Return every child with every set of `degree` parents, or with all of `chosen` if there are fewer.

    Args:
        chosen: the attributes in the network.
        rest: the other attributes.
        degree: the number of parents.
        most: the largest number of candidates. More are thinned to the same number of sets per child.
    """
    size = min(degree, len(chosen))
    if math.comb(len(chosen), size) * len(rest) <= most:
        sets: list[Sequence[str]] = list(itertools.combinations(chosen, size))
        return [Candidate(child, tuple((name, 0) for name in each)) for child in rest for each in sets]
    draw = random.generator(len(chosen))
    found = []
    for child in rest:
        drawn = (sorted(draw.permutation(len(chosen))[:size].tolist()) for _ in itertools.count())
        sets = [[chosen[i] for i in places] for places in _distinct(map(tuple, drawn), _quota(rest, most))]
        found += [Candidate(child, tuple((name, 0) for name in each)) for each in sets]
    return found


def parents_of_cells(
    levels: AttributeLevels, chosen: Sequence[str], rest: Sequence[str], cells: int, most: int
) -> list[Candidate]:
    """Return every child with every maximal set of parents for which their table has at most `cells` cells.

    A set is maximal if no parent can be added or taken at a finer level. A child that alone exceeds the
    limit has no parents.

    Args:
        levels: the attributes with their taxonomies.
        chosen: the attributes in the network.
        rest: the other attributes.
        cells: the largest number of cells of parents and child together.
        most: the largest number of candidates. More are thinned to the same number of sets per child.

    References:
        Zhang et al. 2017, "PrivBayes", Algorithms 5 and 6.
    """
    sizes = {name: levels.sizes(name) for name in chosen}
    rooms = {child: max(cells // levels.domain[child], 1) for child in rest}
    quota = _quota(rest, most)
    sets: dict[int, list[Parents]] = {}
    for room in set(rooms.values()):
        near = {name: size for name, size in sizes.items() if min(size) <= room}
        found = None if len(near) > _WIDEST else _all(near, room, most)
        sets[room] = _drawn(near, room, quota) if found is None else found
    if sum(len(sets[room]) for room in rooms.values()) > most:
        draw = random.generator(len(chosen))
        for room, found in sets.items():
            kept = sorted(draw.permutation(len(found))[:quota].tolist())
            sets[room] = [found[i] for i in kept]
    return [Candidate(child, parents) for child in rest for parents in sets[rooms[child]]]


def candidates_that_fit(
    domain: Domain, network: Sequence[Candidate], candidates: Sequence[Candidate], cells: int
) -> list[Candidate]:
    """Return the candidates with which a model of the network has at most `cells` cells.

    A child without such a candidate is returned without parents.
    """
    grown = candidate_cells(domain, [each.clique for each in network], [c.clique for c in candidates])
    kept = [each for each, size in zip(candidates, grown.tolist(), strict=True) if size <= cells]
    served = {each.child for each in kept}
    return kept + [
        Candidate(child) for child in dict.fromkeys(c.child for c in candidates) if child not in served
    ]


def mean_noise(part: Fraction, unit: str) -> Noise:
    """Return the mean absolute noise of a cell if a part of a budget is divided among marginals."""
    if unit == "epsilon":
        return lambda marginals: Fraction(2 * marginals) / part
    # Gaussian noise of variance m / rho, the mean of whose size is sqrt(2 / pi) standard deviations
    return lambda marginals: Fraction(math.sqrt(2 * marginals / (math.pi * part)))


def useful_degree(records: int, attributes: int, theta: Fraction, noise: Noise) -> int:
    """Return the largest number k of parents for which binary marginals are theta-useful, 0 if none are.

    Args:
        records: the public number n of records.
        attributes: the number d of attributes.
        theta: the required ratio of the average cell, n / 2^(k+1) records, to the mean absolute noise.
        noise: the mean absolute noise as a function of the number of marginals.

    Example:
        >>> useful_degree(5_000, 10, Fraction(4), lambda marginals: Fraction(2 * marginals))
        6
    """
    degrees = range(min(attributes, 60))
    return max((k for k in degrees if records >= theta * noise(attributes - k) * 2 ** (k + 1)), default=0)


def useful_cells(records: int, attributes: int, theta: Fraction, noise: Noise) -> int:
    """Return the most cells of a theta-useful marginal, where each attribute has one; see `useful_degree`."""
    return math.floor(records / (theta * noise(attributes)))


def maximal_sets(sizes: Mapping[str, tuple[int, ...]], room: int) -> Iterator[Parents | None]:
    """Yield the maximal sets of parents of at most `room` cells, and None for each other set looked at."""
    names = list(sizes)

    def walk(place: int, taken: Parents, cells: int) -> Iterator[Parents | None]:
        if place == len(names):
            yield taken if _is_maximal(sizes, dict(taken), cells, room) else None
            return
        name = names[place]
        for level, size in enumerate(sizes[name]):
            if cells * size <= room:
                yield from walk(place + 1, (*taken, (name, level)), cells * size)
        yield from walk(place + 1, taken, cells)

    return walk(0, (), 1)


def _is_maximal(sizes: Mapping[str, tuple[int, ...]], taken: dict[str, int], cells: int, room: int) -> bool:
    for name, options in sizes.items():
        level = taken.get(name, len(options))
        now = options[level] if level < len(options) else 1
        # a parent that is not taken yet has one level more than there are: the next finer one is its coarsest
        if level and cells // now * options[level - 1] <= room:
            return False
    return True


def _all(sizes: Mapping[str, tuple[int, ...]], room: int, most: int) -> list[Parents] | None:
    """Return all maximal sets, or None if there are too many to enumerate."""
    looked = list(itertools.islice(maximal_sets(sizes, room), _WALKED * most + 1))
    return None if len(looked) > _WALKED * most else [each for each in looked if each is not None]


def _drawn(sizes: Mapping[str, tuple[int, ...]], room: int, quota: int) -> list[Parents]:
    """Return random maximal sets: attributes in random order, each at the finest level that fits."""
    draw = random.generator(room)
    names = list(sizes)

    def one() -> Parents:
        cells, taken = 1, {}
        for place in draw.permutation(len(names)).tolist():
            name = names[place]
            level = next((i for i, size in enumerate(sizes[name]) if cells * size <= room), None)
            if level is not None:
                taken[name] = level
                cells *= sizes[name][level]
        return tuple((name, taken[name]) for name in names if name in taken)

    return _distinct((one() for _ in itertools.count()), quota)


def _distinct(drawn: Iterator[Any], quota: int) -> list[Any]:
    """Return `quota` distinct items of an infinite stream, or fewer if they repeat too often."""
    return list(dict.fromkeys(itertools.islice(drawn, 4 * quota)))[:quota]


def _quota(rest: Sequence[str], most: int) -> int:
    return max(1, most // len(rest))


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
class AttributeLevels:
    """The attributes with their taxonomies.

    Args:
        domain: the attributes.
        taxonomies: increasingly coarse maps by attribute, each with the group of every code.

    Raises:
        ValueError: an attribute is unknown, or a map is not coarser than the previous one.
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
    checks.kind(given, Mapping, "taxonomies must map attribute names to lists of maps")
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
    checks.refuse(
        (
            number != max(groups) + 1 or number < 2,
            f"the groups of a map of the taxonomy of {name!r} must be 0..g-1, at least 2 of them.",
        ),
        (
            number >= len(set(finer)) or len(set(zip(finer, groups, strict=True))) != len(set(finer)),
            f"each map of the taxonomy of {name!r} must merge groups of the one before, got {number} groups "
            f"after {len(set(finer))}: give maps from fine to coarse.",
        ),
    )
