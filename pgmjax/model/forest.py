"""A forest of regions: the part of locally consistent tables that one distribution has exactly.

Regions are taken one after another, each with what is new in it and one part that an earlier one holds.
The product of the conditional distributions of the new given the part is a distribution whose
junction tree is no larger than the regions, and whose marginals on them are theirs.

References:
    Chow and Liu (1968), Approximating discrete probability distributions with dependence trees: with
    pairs as regions this is their tree.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pgmjax.data.cliques import Clique, marginal_of


def conditionals(cliques: Sequence[Clique], tables: Sequence[np.ndarray]) -> dict[Clique, np.ndarray]:
    """Log-conditionals whose product is the forest's distribution.

    Args:
        cliques: attributes of the regions.
        tables: their marginals (probabilities), which agree where they overlap.

    Returns:
        For each region taken the log-probabilities of what is new in it given its part [size of each
        attribute of both]. The next region is that which joins those before and tells most of its new
        attributes; one that joins none only where no other is left.
    """
    if not cliques:
        return {}
    sets = [frozenset(clique) for clique in cliques]
    regions = list(zip(cliques, tables, strict=True))
    known: set[str] = set()
    shared: list[set[frozenset[str]]] = [{frozenset()} for _ in cliques]
    gains: dict[tuple[int, Clique, Clique], float] = {}
    offers: dict[int, tuple[bool, float, frozenset[str]]] = {}

    def offer(number: int) -> tuple[bool, float, frozenset[str]]:
        """Whether a region joins those before, how many nats its new attributes gain, given which part."""
        clique, table = regions[number]
        new = tuple(name for name in clique if name not in known)
        best = (False, -np.inf, frozenset[str]())
        for part in shared[number]:
            key = number, tuple(name for name in clique if name in part), new
            if key not in gains:
                gains[key] = _gain(clique, table, key[1], new)
            best = max(best, (bool(part), gains[key], part), key=lambda found: found[:2])
        return best

    found: dict[Clique, np.ndarray] = {}
    waiting = set(range(len(cliques)))
    stale = set(waiting)
    while waiting:
        offers.update((number, offer(number)) for number in stale)
        chosen = max(sorted(waiting), key=lambda number: offers[number][:2])
        clique, table = regions[chosen]
        part = offers[chosen][2]
        kept = tuple(name for name in clique if name in part or name not in known)
        found[kept] = _log_conditional(marginal_of(clique, table, kept), kept, part)
        fresh = sets[chosen] - known
        known |= fresh
        waiting = {number for number in waiting if not sets[number] <= known}
        stale = {number for number in waiting if sets[number] & set(kept)}
        for number in stale:
            shared[number].add(sets[number] & frozenset(kept))
    return found


def _entropy(table: np.ndarray) -> float:
    positive = table[table > 0]
    return float(-(positive * np.log(positive)).sum())


def _gain(clique: Clique, table: np.ndarray, part: Clique, new: Clique) -> float:
    """Entropies of new attributes alone less their joint entropy given a part (nats)."""
    alone = sum(_entropy(marginal_of(clique, table, (name,))) for name in new)
    joint = _entropy(marginal_of(clique, table, (*part, *new)))
    return alone - joint + _entropy(marginal_of(clique, table, part))


def _log_conditional(table: np.ndarray, clique: Clique, part: frozenset[str]) -> np.ndarray:
    new = tuple(i for i, name in enumerate(clique) if name not in part)
    given = table.sum(axis=new, keepdims=True)
    uniform = 1 / np.prod([table.shape[i] for i in new])
    with np.errstate(divide="ignore"):
        return np.log(np.where(given > 0, table / np.where(given > 0, given, 1), uniform))
