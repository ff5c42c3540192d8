"""The cheapest tree of products over a few tables, by dynamic programming over their subsets.

Only subsets that can be part of a tree cheaper than a known one are ever held; with a good known
tree they are few (about a thousand of 32,768 for fifteen three-way marginals of Adult).

References:
    Pfeifer, Haegeman and Verstraete, Faster identification of optimal contraction sequences for
    tensor networks, Physical Review E 90, 033315 (2014).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

LIMIT = 62  # tables, and variables that differ in where they occur: bits of an integer
MAX_PAIRS = 2_000_000
_BITS = 12


@dataclasses.dataclass(frozen=True)
class Weights:
    """What a product costs, in any unit.

    Attributes:
        union: of a cell of the combined table.
        stored: of a cell of the result.
    """

    union: float
    stored: float


def merges(
    tables: Sequence[frozenset[int]],
    outside: frozenset[int],
    sizes: Sequence[int],
    weights: Weights,
    bound: float,
    max_pairs: int = MAX_PAIRS,
) -> tuple[float, list[tuple[int, int]]] | None:
    """Find the pairwise products of least weight, all orders considered, outer products included.

    A variable is summed in the product after which no other table holds it.

    Args:
        tables: variables of each table, at least one.
        outside: variables that something else needs: never summed.
        sizes: size of each variable.
        weights: the weight of a product.
        bound: only what is cheaper than this is looked for; the closer, the faster.
        max_pairs: give up after so many pairs of subsets.

    Returns:
        The weight and the merges (pairs of numbers: tables, then one for each merge), or None: there
        is none below the bound, too many tables, or too many pairs.
    """
    groups = _groups(tables, outside, sizes)
    if not groups or max(len(tables), len(groups)) > LIMIT:
        return None
    return _Search(len(tables), groups, weights, bound, max_pairs).run()


def _groups(
    tables: Sequence[frozenset[int]], outside: frozenset[int], sizes: Sequence[int]
) -> list[tuple[int, bool, int]]:
    """Variables that occur in the same tables, as one: those tables as bits, whether open, size."""
    found: dict[tuple[int, bool], int] = {}
    for v in sorted(frozenset().union(*tables)):
        key = (sum(1 << i for i, t in enumerate(tables) if v in t), v in outside)
        found[key] = found.get(key, 1) * sizes[v]
    return [(members, wanted, size) for (members, wanted), size in found.items()]


class _Search:
    """Costs of all subsets that can be part of a tree within the bound, small ones first."""

    def __init__(
        self,
        count: int,
        groups: list[tuple[int, bool, int]],
        weights: Weights,
        bound: float,
        max_pairs: int,
    ):
        self.count, self.groups, self.weights, self.bound = count, groups, weights, bound
        self.pairs_left = max_pairs
        sizes = [float(size) for _, _, size in groups]
        self.parts = [_products(sizes[i : i + _BITS]) for i in range(0, len(sizes), _BITS)]
        single = np.array([1 << i for i in range(count)], np.int64)
        held = sum(
            ((single & members) != 0).astype(np.int64) << g for g, (members, _, _) in enumerate(groups)
        )
        none = np.zeros(count, np.int64)
        # by number of tables: the subsets, the variables they hold open, their cost, and one part of each
        self.levels = [(none[:0],) * 4, (single, held, np.zeros(count), none)]

    def cells(self, bits: np.ndarray) -> np.ndarray:
        """Cells of tables over groups of variables."""
        result = self.parts[0][bits & ((1 << _BITS) - 1)]
        for n, part in enumerate(self.parts[1:], start=1):
            result = result * part[bits >> (n * _BITS) & ((1 << _BITS) - 1)]
        return result

    def run(self) -> tuple[float, list[tuple[int, int]]] | None:
        for size in range(2, self.count + 1):
            found = [self._join(i, size - i) for i in range(1, size // 2 + 1)]
            if self.pairs_left < 0:
                return None
            self.levels.append(
                self._cheapest(*(np.concatenate(column) for column in zip(*found, strict=True)))
            )
        subsets, _, cost, _ = self.levels[-1]
        return (float(cost[0]), self._merges(int(subsets[0]))) if subsets.size else None

    def _join(self, small: int, large: int) -> tuple[np.ndarray, ...]:
        """All products of a subset of one size with a disjoint one of another, within the bound."""
        (a, a_open, a_cost, _), (b, b_open, b_cost, _) = self.levels[small], self.levels[large]
        self.pairs_left -= a.size * b.size
        if self.pairs_left < 0:
            return a[:0], a_open[:0], a_cost[:0], a[:0]
        fits = ((a[:, None] & b) == 0) & (a_cost[:, None] + b_cost < self.bound)
        i, j = np.nonzero(fits)
        union = a_open[i] | b_open[j]
        cost = a_cost[i] + b_cost[j] + self.weights.union * self.cells(union)
        keep = cost < self.bound
        return a[i][keep] | b[j][keep], union[keep], cost[keep], a[i][keep]

    def _cheapest(self, subset: np.ndarray, union: np.ndarray, cost: np.ndarray, part: np.ndarray):  # type: ignore[no-untyped-def]
        """For each subset its cheapest product, if what must follow stays within the bound."""
        order = np.lexsort((cost, subset))
        first = np.ones(order.size, bool)
        first[1:] = subset[order][1:] != subset[order][:-1]
        chosen = order[first]
        subset, union, cost, part = subset[chosen], union[chosen], cost[chosen], part[chosen]
        still = np.zeros_like(union)
        for g, (members, wanted, _) in enumerate(self.groups):
            still |= ((subset & members) != members).astype(np.int64) << g if not wanted else np.int64(1 << g)
        still &= union
        cells = self.cells(still)
        cost = cost + self.weights.stored * cells
        later = self.weights.union * cells if subset.size and subset[0] != (1 << self.count) - 1 else 0.0
        keep = cost + later < self.bound
        return subset[keep], still[keep], cost[keep], part[keep]

    def _merges(self, whole: int) -> list[tuple[int, int]]:
        part = {int(s): int(p) for level in self.levels for s, p in zip(level[0], level[3], strict=True)}
        found: list[tuple[int, int]] = []

        def visit(subset: int) -> int:
            if subset & (subset - 1) == 0:
                return subset.bit_length() - 1
            left, right = visit(part[subset]), visit(subset - part[subset])
            found.append((left, right))
            return self.count + len(found) - 1

        visit(whole)
        return found


def _products(sizes: Sequence[float]) -> np.ndarray:
    """Product of the sizes of each subset, subsets as bits."""
    table = np.ones(1 << len(sizes))
    for i, size in enumerate(sizes):
        table[1 << i : 2 << i] = table[: 1 << i] * size
    return table
