"""The cheapest tree of products of a few tables, and parts of a tree of more tables made again.

Of few tables, `optimal_merges` finds the cheapest tree of products by dynamic programming over their subsets.
Only subsets that can be part of a tree cheaper than a known one are stored. With a good known tree they are
few (about a thousand of 32,768 for fifteen three-way marginals of Adult). `refined_merges` improves a tree
locally: it re-optimises subtrees of a few tables, in several passes at most.

References:
    Pfeifer, Haegeman and Verstraete, Faster identification of optimal contraction sequences for
    tensor networks, Physical Review E 90, 033315 (2014). Gray and Kourtis, Hyper-optimized tensor network
    contraction, Quantum 5, 410 (2021), "subtree reconfiguration".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

# limits of the exhaustive search
LIMIT = 62  # most tables, and groups of variables with equal occurrences: bits of an integer
MAX_PAIRS = 2_000_000  # pairs of subsets of tables, after which the whole search gives up
_BITS = 12

# limits of the local search
PART = 9  # tables of a part
PASSES = 3
NEGLIGIBLE = 0.01  # parts with a smaller share of the weight are left unchanged
LOCAL_MAX_PAIRS = 100_000  # as MAX_PAIRS, for a part; lower, since many parts are rebuilt


def optimal_merges(
    tables: Sequence[frozenset[int]],
    outside: frozenset[int],
    sizes: Sequence[int],
    stored: float,
    bound: float,
    max_pairs: int = MAX_PAIRS,
) -> tuple[float, list[tuple[int, int]]] | None:
    """Find the pairwise products of least weight among all orders, outer products included.

    A variable is summed in the product after which it occurs in no other table.

    Args:
        tables: variables of each table, at least one.
        outside: variables that are needed elsewhere and never summed.
        sizes: size of each variable.
        stored: cost of a stored cell.
        bound: upper bound on the weight; the tighter, the faster.
        max_pairs: maximum number of pairs of subsets to try.

    Returns:
        The weight and the merges (pairs of numbers: tables, then one for each merge). None if none exists
        below the bound, or if there are too many tables or pairs.
    """
    groups = _groups(tables, outside, sizes)
    if not groups or max(len(tables), len(groups)) > LIMIT:
        return None
    return _Search(len(tables), groups, stored, bound, max_pairs).run()


def _groups(
    tables: Sequence[frozenset[int]], outside: frozenset[int], sizes: Sequence[int]
) -> list[tuple[int, bool, int]]:
    """Variables that occur in the same tables, as one group: tables as bits, whether in `outside`, size."""
    found: dict[tuple[int, bool], int] = {}
    for v in sorted(frozenset().union(*tables)):
        key = (sum(1 << i for i, t in enumerate(tables) if v in t), v in outside)
        found[key] = found.get(key, 1) * sizes[v]
    return [(members, wanted, size) for (members, wanted), size in found.items()]


class _Search:
    """Costs of all subsets that can be part of a tree below the bound, small ones first."""

    def __init__(
        self,
        count: int,
        groups: list[tuple[int, bool, int]],
        stored: float,
        bound: float,
        max_pairs: int,
    ):
        self.count, self.groups, self.stored, self.bound = count, groups, stored, bound
        self.pairs_left = max_pairs
        sizes = [float(size) for _, _, size in groups]
        self.parts = [_products(sizes[i : i + _BITS]) for i in range(0, len(sizes), _BITS)]
        single = np.array([1 << i for i in range(count)], np.int64)
        held = sum(
            ((single & members) != 0).astype(np.int64) << g for g, (members, _, _) in enumerate(groups)
        )
        none = np.zeros(count, np.int64)
        # by number of tables: the subsets, their open variables, their cost, and one of the two parts of each
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
        """All products of two disjoint subsets of given sizes, below the bound."""
        (a, a_open, a_cost, _), (b, b_open, b_cost, _) = self.levels[small], self.levels[large]
        self.pairs_left -= a.size * b.size
        if self.pairs_left < 0:
            return a[:0], a_open[:0], a_cost[:0], a[:0]
        fits = ((a[:, None] & b) == 0) & (a_cost[:, None] + b_cost < self.bound)
        i, j = np.nonzero(fits)
        union = a_open[i] | b_open[j]
        cost = a_cost[i] + b_cost[j] + self.cells(union)
        keep = cost < self.bound
        return a[i][keep] | b[j][keep], union[keep], cost[keep], a[i][keep]

    def _cheapest(self, subset: np.ndarray, union: np.ndarray, cost: np.ndarray, part: np.ndarray):  # type: ignore[no-untyped-def]
        """The cheapest product of each subset, if a lower bound on the total cost is below the bound."""
        order = np.lexsort((cost, subset))
        first = np.ones(order.size, bool)
        first[1:] = subset[order][1:] != subset[order][:-1]
        chosen = order[first]
        subset, union, cost, part = subset[chosen], union[chosen], cost[chosen], part[chosen]
        # open: needed by a table outside the subset, or by the output
        still = np.zeros_like(union)
        for g, (members, wanted, _) in enumerate(self.groups):
            still |= ((subset & members) != members).astype(np.int64) << g if not wanted else np.int64(1 << g)
        still &= union
        cells = self.cells(still)
        cost = cost + self.stored * cells
        later = cells if subset.size and subset[0] != (1 << self.count) - 1 else 0.0
        # a table that is not the whole is read by a product at least as large as itself
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
    """Product of the sizes in each subset, with subsets as bits."""
    table = np.ones(1 << len(sizes))
    for i, size in enumerate(sizes):
        table[1 << i : 2 << i] = table[: 1 << i] * size
    return table


def refined_merges(
    tables: Sequence[frozenset[int]],
    outside: frozenset[int],
    sizes: Sequence[int],
    found: Sequence[tuple[int, int]],
    stored: float,
) -> list[tuple[int, int]]:
    """Improve a tree of products of all tables by rebuilding parts of it.

    Args:
        tables: variables of each table.
        outside: variables that are never summed.
        sizes: size of each variable.
        found: the tree, as merges: pairs of numbers, tables first, then one for each merge.
        stored: cost of a stored cell.

    Returns:
        Merges whose weight is at most that of `found`.
    """
    tree = _Tree(tables, outside, sizes, found, stored)
    for _ in range(PASSES):
        before = tree.total()
        for node in sorted(tree.children, key=tree.own, reverse=True):
            if node in tree.children:
                tree.rebuild(node)
        if tree.total() >= before * (1 - 1e-9):
            break
    return tree.merges(len(tables))


class _Tree:
    """A binary tree of products whose parts can be replaced."""

    def __init__(
        self,
        tables: Sequence[frozenset[int]],
        outside: frozenset[int],
        sizes: Sequence[int],
        found: Sequence[tuple[int, int]],
        stored: float,
    ):
        self.outside, self.sizes, self.stored = outside, sizes, stored
        self.uses = Counter(v for t in tables for v in t)
        self.held = {i: Counter(t) for i, t in enumerate(tables)}
        self.open: dict[int, frozenset[int]] = {i: self._open(i) for i in self.held}
        self.children: dict[int, tuple[int, int]] = {}
        self.next = len(tables)
        for left, right in found:
            self._join(left, right)
        self.root = self.next - 1

    def _open(self, node: int) -> frozenset[int]:
        mine = self.held[node]
        return frozenset(v for v, n in mine.items() if n < self.uses[v] or v in self.outside)

    def _join(self, left: int, right: int, number: int | None = None) -> int:
        if number is None:
            number, self.next = self.next, self.next + 1
        self.children[number] = (left, right)
        self.held[number] = self.held[left] + self.held[right]
        self.open[number] = self._open(number)
        return number

    def _cells(self, variables: frozenset[int]) -> float:
        return math.prod(float(self.sizes[v]) for v in variables)

    def own(self, node: int) -> float:
        """Weight of one product."""
        left, right = self.children[node]
        union = self._cells(self.open[left] | self.open[right])
        return union + self.stored * self._cells(self.open[node])

    def total(self) -> float:
        return sum(map(self.own, self.children))

    def rebuild(self, node: int) -> None:
        """Replace the products directly below a node by the cheapest ones."""
        inner, leaves = [node], list(self.children[node])
        while len(leaves) < PART:
            heaviest = max((n for n in leaves if n in self.children), key=self.own, default=None)
            if heaviest is None:
                break
            leaves.remove(heaviest)
            leaves.extend(self.children[heaviest])
            inner.append(heaviest)
        before = sum(map(self.own, inner))
        if len(leaves) < 3 or before < NEGLIGIBLE * self.total():
            return
        tables = [self.open[n] for n in leaves]
        bound = before * (1 - 1e-6)
        better = optimal_merges(tables, self.open[node], self.sizes, self.stored, bound, LOCAL_MAX_PAIRS)
        if better is None:
            return
        for old in inner:
            del self.children[old], self.held[old], self.open[old]
        names = list(leaves)
        for n, (left, right) in enumerate(better[1], start=2):
            last = n == len(leaves)
            names.append(self._join(names[left], names[right], node if last else None))

    def merges(self, count: int) -> list[tuple[int, int]]:
        """All products, inner ones first."""
        name = {i: i for i in range(count)}
        found: list[tuple[int, int]] = []

        def visit(node: int) -> int:
            if node not in name:
                left, right = self.children[node]
                last = visit(right)
                found.append((visit(left), last))
                name[node] = count + len(found) - 1
            return name[node]

        visit(self.root)
        return found
