"""Contraction plans: the order in which the tables of a model are multiplied and summed out.

Paths come from elimination orders and from opt_einsum. Of few tables, `optimal_merges` finds the cheapest
tree of products by dynamic programming over their subsets. Only subsets that can be part of a tree cheaper
than a known one are stored. With a good known tree they are few (about a thousand of 32,768 for fifteen
three-way marginals of Adult). `refined_merges` improves a tree locally: it re-optimises subtrees of a few
tables, in several passes at most.

The executors in `inference.ops` run a path with any semiring: log-sum-exp for marginals, maximum for
the most likely assignment.

References:
    Pfeifer, Haegeman and Verstraete, Faster identification of optimal contraction sequences for
    tensor networks, Physical Review E 90, 033315 (2014). Gray and Kourtis, Hyper-optimized tensor network
    contraction, Quantum 5, 410 (2021), "subtree reconfiguration".
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import opt_einsum

from pgmjax.inference.plan import elimination, junction_tree
from pgmjax.inference.plan.path import ContractionPath, Merges, build, by_elimination
from pgmjax.inference.plan.structure import Structure, Variables

QUICK_TABLES = 12
EXHAUSTIVE_TABLES = 17
REFINED_TABLES = 64
OPT_EINSUM_TABLES = 200
WORTHWHILE = 1e6  # weight below which a path is not improved further

# limits of the exhaustive search
LIMIT = 62  # most tables, and groups of variables with equal occurrences: bits of an integer
MAX_PAIRS = 2_000_000  # pairs of subsets of tables, after which the whole search gives up
_BITS = 12

# limits of the local search
PART = 9  # tables of a part
PASSES = 3
NEGLIGIBLE = 0.01  # parts with a smaller share of the weight are left unchanged
LOCAL_MAX_PAIRS = 100_000  # as MAX_PAIRS, for a part; lower, since many parts are rebuilt


# Cost of a stored cell, which is transformed, kept for the backward pass and moved. A combined cell, which is
# a multiply-add in a matrix product or an exponential in the exact form, costs 1.
STORED = 40.0


def plan(
    structure: Structure,
    output: Sequence[int] = (),
    *,
    quick: bool = False,
    stored: float = STORED,
    calls: float = 1,
) -> ContractionPath:
    """Choose the cheapest of several paths, for each connected part of the model.

    Args:
        structure: the tables.
        output: variables to keep; they must occur in the structure.
        quick: only try the elimination orders of the greedy rules, which is fast for any size.
        stored: cost of a stored cell, used to compare paths.
        calls: number of calls that will use the path: the more, the longer orders are searched.
    """
    return _plan(structure, tuple(output), quick, stored, calls)


@functools.lru_cache(maxsize=64)
def _plan(
    structure: Structure, output: Variables, quick: bool, stored: float, calls: float
) -> ContractionPath:
    tables = _reduced(structure, frozenset(output))
    merges: Merges = []
    methods: dict[str, None] = {}
    for part in _parts(tables):
        found, method = _plan_part(structure, [tables[i] for i in part], output, quick, stored, calls)
        _append(merges, found, part, len(tables))
        methods[method] = None
    return build(structure, output, merges, " and ".join(methods) or "reduction")


def _reduced(structure: Structure, outside: frozenset[int]) -> list[Variables]:
    """Variables of each table after summing out those that occur in no other table."""
    uses = [0] * len(structure.sizes)
    for clique in structure.cliques:
        for v in set(clique):
            uses[v] += 1
    return [tuple(v for v in c if uses[v] > 1 or v in outside) for c in structure.cliques]


def _parts(tables: Sequence[Variables]) -> list[list[int]]:
    """Connected components of tables, only those of two or more."""
    holding: dict[int, list[int]] = {}
    for i, members in enumerate(tables):
        for v in members:
            holding.setdefault(v, []).append(i)
    seen = [False] * len(tables)
    parts = []
    for start in range(len(tables)):
        part = [] if seen[start] else [start]
        seen[start] = True
        for i in part:  # grows during iteration
            for v in tables[i]:
                new = [j for j in holding.pop(v, ()) if not seen[j]]
                part.extend(new)
                for j in new:
                    seen[j] = True
        if len(part) > 1:
            parts.append(sorted(part))
    return parts


def _append(merges: Merges, found: Merges, names: Sequence[int], count: int) -> None:
    """Add merges of the tables `names`, numbered from 0, to merges of `count` tables."""
    names = list(names)
    for left, right in found:
        merges.append((names[left], names[right]))
        names.append(count + len(merges) - 1)


def _plan_part(
    structure: Structure,
    tables: Sequence[Variables],
    output: Variables,
    quick: bool,
    stored: float,
    calls: float,
) -> tuple[Merges, str]:
    """Merges of one connected part, in its own numbering, and the name of the search method."""
    merges: Merges = []
    left = {i: frozenset(t) for i, t in enumerate(tables)}
    if EXHAUSTIVE_TABLES < len(tables) <= OPT_EINSUM_TABLES:
        merges, left = absorbed(list(left.values()), frozenset(output))
    variables = sorted(frozenset().union(*left.values()))
    number = {v: i for i, v in enumerate(variables)}
    part = Structure(
        structure.shape(variables), tuple(tuple(sorted(number[v] for v in t)) for t in left.values())
    )
    found, method = _find(part, tuple(number[v] for v in output if v in number), quick, stored, calls)
    _append(merges, found, list(left), len(tables))
    return merges, method


def _find(
    structure: Structure, output: Variables, quick: bool, stored: float, calls: float
) -> tuple[Merges, str]:
    if quick:
        orders = tuple(junction_tree.eliminate(structure, rule, output) for rule in junction_tree.RULES)
    else:
        orders = elimination.found(structure, output, calls)
    paths = [by_elimination(structure, output, e.order, f"{e.rule} elimination") for e in orders]
    best = min(paths, key=lambda path: weight(path, stored))
    if quick:
        return best.merges, best.method
    paths = [best]
    if 2 < len(structure.cliques) <= OPT_EINSUM_TABLES:
        paths.append(build(structure, output, from_opt_einsum(structure, output), "opt_einsum"))
    return improved(paths, stored)


def from_opt_einsum(structure: Structure, output: Variables) -> Merges:
    """Merges found by opt_einsum's automatic choice of method, of three tables or more."""
    tables = [frozenset(clique) for clique in structure.cliques]
    path = opt_einsum.paths.auto(tables, frozenset(output), dict(enumerate(structure.sizes)))
    return [(left, right) for left, right in opt_einsum.paths.linear_to_ssa(path)]


def absorbed(
    tables: Sequence[frozenset[int]], outside: frozenset[int]
) -> tuple[Merges, dict[int, frozenset[int]]]:
    """Merge tables into tables that contain all their variables, which leaves fewer tables to search over.

    Args:
        tables: variables of each table.
        outside: variables that are never summed.

    Returns:
        Merges, and the variables of the remaining tables.
    """
    left = dict(enumerate(tables))
    uses = Counter(v for t in tables for v in t)
    merges: Merges = []
    waiting = sorted(left, key=lambda i: len(left[i]))
    for i in waiting:  # grows during iteration
        if i not in left:
            continue
        small = left[i]
        into = min(
            (j for j, t in left.items() if j != i and small <= t), key=lambda j: len(left[j]), default=None
        )
        if into is None:
            continue
        new = len(tables) + len(merges)
        merges.append((i, into))
        uses.subtract(small)
        left[new] = frozenset(v for v in left.pop(into) if uses[v] > 1 or v in outside)
        del left[i]
        waiting.append(new)
    return merges, left


def improved(paths: Sequence[ContractionPath], stored: float) -> tuple[Merges, str]:
    """The best of some paths, improved further if that is fast and worthwhile.

    With up to `EXHAUSTIVE_TABLES` tables, the best path is the bound of an exhaustive search. If the search
    finds nothing, or with more tables, up to `REFINED_TABLES`, each path is improved locally.

    Args:
        paths: paths of one connected structure, in which each variable is an output or in two tables.
        stored: cost of a stored cell.

    Returns:
        Merges, and the name of the method that found them.
    """
    best = min(paths, key=lambda path: weight(path, stored))
    structure, outside = best.structure, frozenset(best.output)
    count = len(structure.cliques)
    worthwhile = weight(best, stored) >= WORTHWHILE or count <= QUICK_TABLES
    if not worthwhile or not 2 < count <= REFINED_TABLES:
        return best.merges, best.method
    if count <= EXHAUSTIVE_TABLES:
        tables = [frozenset(c) for c in structure.cliques]
        bound = weight(best, stored) * (1 + 1e-9)
        found = optimal_merges(tables, outside, structure.sizes, stored, bound)
        if found is not None:
            return found[1], "exhaustive search"
    best = min((_refined(path, stored) for path in paths), key=lambda path: weight(path, stored))
    return best.merges, best.method


def _refined(path: ContractionPath, stored: float) -> ContractionPath:
    structure, outside = path.structure, frozenset(path.output)
    tables = [frozenset(c) for c in structure.cliques]
    merges = refined_merges(tables, outside, structure.sizes, path.merges, stored)
    return build(structure, path.output, merges, f"{path.method}, improved locally")


def weight(path: ContractionPath, stored: float) -> float:
    """Weight of all products of a path (not of its reductions of single tables)."""
    cells = path.structure.cells
    products = [step for step in path.steps if len(step.operands) == 2]
    return sum(cells(s.union) + stored * cells(s.kept) for s in products)


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
