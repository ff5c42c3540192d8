"""Which parents an attribute may have in a Bayesian network: from public numbers alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from pgmjax import random
from pgmjax.data.domain import Domain
from pgmjax.inference.plan.growth import candidate_cells
from pgmjax.mechanisms.taxonomies import Candidate, Levels, Parents

_WALKED = 10  # sets looked at for each that is wanted, before sets are drawn instead
_WIDEST = 60  # attributes: with more, there are more sets than anybody wants

Noise = Callable[[int], Any]
"""From a number of marginals to the mean absolute noise of a cell (counts)."""


def of_degree(chosen: Sequence[str], rest: Sequence[str], degree: int, most: int) -> list[Candidate]:
    """Return every child with every set of `degree` parents, or of all chosen while they are fewer.

    Args:
        chosen: the attributes that are in the network.
        rest: those that are not.
        degree: the number of parents.
        most: more candidates than this are thinned: each child keeps the same number of its sets.
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


def of_cells(
    levels: Levels, chosen: Sequence[str], rest: Sequence[str], cells: int, most: int
) -> list[Candidate]:
    """Return every child with every maximal set of parents that keeps their table within some cells.

    Maximal: no parent can be added, and none taken at a finer level. A child whose own values exceed the
    cells has no parents.

    Args:
        levels: the attributes.
        chosen: those that are in the network.
        rest: those that are not.
        cells: the most cells of parents and child together.
        most: more candidates than this are thinned: each child keeps the same number of its sets.

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


def that_fit(
    domain: Domain, network: Sequence[Candidate], candidates: Sequence[Candidate], cells: int
) -> list[Candidate]:
    """Return the candidates with which a model of the network stays within some cells.

    A child of whose sets none does comes without parents.
    """
    grown = candidate_cells(domain, [each.clique for each in network], [c.clique for c in candidates])
    kept = [each for each, size in zip(candidates, grown.tolist(), strict=True) if size <= cells]
    served = {each.child for each in kept}
    return kept + [
        Candidate(child) for child in dict.fromkeys(c.child for c in candidates) if child not in served
    ]


def useful_degree(records: int, attributes: int, theta: Fraction, noise: Noise) -> int:
    """Return the most parents for which binary marginals are theta-useful, 0 if none are.

    Args:
        records: their public number n.
        attributes: their number d.
        theta: how many times the mean noise a cell of n / 2^(k+1) records must be on average.
        noise: of a number of marginals.

    Example:
        >>> useful_degree(5_000, 10, Fraction(4), lambda marginals: Fraction(2 * marginals))
        6
    """
    degrees = range(min(attributes, 60))
    return max((k for k in degrees if records >= theta * noise(attributes - k) * 2 ** (k + 1)), default=0)


def useful_cells(records: int, attributes: int, theta: Fraction, noise: Noise) -> int:
    """Return the most cells of a theta-useful marginal, where every attribute has one; see above."""
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
        if level and cells // now * options[level - 1] <= room:
            return False
    return True


def _all(sizes: Mapping[str, tuple[int, ...]], room: int, most: int) -> list[Parents] | None:
    """All maximal sets; None where there are too many to look through."""
    looked = list(itertools.islice(maximal_sets(sizes, room), _WALKED * most + 1))
    return None if len(looked) > _WALKED * most else [each for each in looked if each is not None]


def _drawn(sizes: Mapping[str, tuple[int, ...]], room: int, quota: int) -> list[Parents]:
    """Some maximal sets: attributes in random order, each at the finest level that still fits."""
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
    """Different ones of an endless stream: a quota of them, or fewer where they repeat."""
    return list(dict.fromkeys(itertools.islice(drawn, 4 * quota)))[:quota]


def _quota(rest: Sequence[str], most: int) -> int:
    return max(1, most // len(rest))
