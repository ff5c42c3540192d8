"""Improve a tree of products locally: rebuild parts of a few tables at least weight, until none gains.

References:
    Gray and Kourtis, Hyper-optimized tensor network contraction, Quantum 5, 410 (2021),
    "subtree reconfiguration".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from pgmjax.inference.plan import optimal

PART = 9  # tables of a part
PASSES = 3
NEGLIGIBLE = 0.01  # parts that weigh less of the whole are left alone
PAIRS = 100_000


def merges(
    tables: Sequence[frozenset[int]],
    outside: frozenset[int],
    sizes: Sequence[int],
    found: Sequence[tuple[int, int]],
    weights: optimal.Weights,
) -> list[tuple[int, int]]:
    """Rebuild parts of a tree of products that joins all tables.

    Args:
        tables: variables of each table.
        outside: variables that are never summed.
        sizes: size of each variable.
        found: the tree, as merges: pairs of numbers, tables first, then one for each merge.
        weights: the weight of a product.

    Returns:
        Merges of at most the same weight.
    """
    tree = _Tree(tables, outside, sizes, found, weights)
    for _ in range(PASSES):
        before = tree.total()
        for node in sorted(tree.children, key=tree.own, reverse=True):
            if node in tree.children:
                tree.rebuild(node)
        if tree.total() >= before * (1 - 1e-9):
            break
    return tree.merges(len(tables))


class _Tree:
    """A binary tree of products whose parts can be exchanged."""

    def __init__(
        self,
        tables: Sequence[frozenset[int]],
        outside: frozenset[int],
        sizes: Sequence[int],
        found: Sequence[tuple[int, int]],
        weights: optimal.Weights,
    ):
        self.outside, self.sizes, self.weights = outside, sizes, weights
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
        return self.weights.union * union + self.weights.stored * self._cells(self.open[node])

    def total(self) -> float:
        return sum(map(self.own, self.children))

    def rebuild(self, node: int) -> None:
        """Exchange the products right below a node for the cheapest ones."""
        inner, leaves = [node], list(self.children[node])
        while len(leaves) < PART:
            heaviest = max((n for n in leaves if n in self.children), key=self.own, default=None)
            if heaviest is None:
                break
            leaves.remove(heaviest)
            leaves.extend(self.children[heaviest])
            inner.append(heaviest)
        weight = sum(map(self.own, inner))
        if len(leaves) < 3 or weight < NEGLIGIBLE * self.total():
            return
        tables = [self.open[n] for n in leaves]
        bound = weight * (1 - 1e-6)
        better = optimal.merges(tables, self.open[node], self.sizes, self.weights, bound, PAIRS)
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
        result: list[tuple[int, int]] = []
        stack = [self.root]
        while stack:
            node = stack[-1]
            if node in name:
                stack.pop()
                continue
            left, right = self.children[node]
            waiting = [n for n in (left, right) if n not in name]
            if waiting:
                stack.extend(waiting)
                continue
            result.append((name[left], name[right]))
            name[node] = count + len(result) - 1
            stack.pop()
        return result
