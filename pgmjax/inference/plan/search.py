"""Where paths come from: elimination orders, opt_einsum, exhaustive and local search, cotengra."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import opt_einsum

from pgmjax._internal import checks
from pgmjax.inference.plan import elimination as elim
from pgmjax.inference.plan import optimal, refine
from pgmjax.inference.plan.path import ContractionPath, Merges, build
from pgmjax.inference.plan.structure import Structure, Variables

QUICK_TABLES = 12
EXHAUSTIVE_TABLES = 17
REFINED_TABLES = 64
WORTHWHILE = 1e6  # weight of a path below which no time goes into a better one
COTENGRA_TRIALS = 64


def from_elimination(structure: Structure, elimination: elim.Elimination) -> Merges:
    """Merges that a bucket elimination makes: for each variable its tables two by two, small first."""
    tables = {i: frozenset(c) for i, c in enumerate(structure.cliques)}
    where: dict[int, set[int]] = {}
    for i, members in tables.items():
        for v in members:
            where.setdefault(v, set()).add(i)
    merges: Merges = []
    count = len(structure.cliques)
    for v in elimination.order:
        bucket = sorted(where.get(v, ()), key=lambda i: (len(tables[i]), i))
        while len(bucket) > 1:
            left, right = bucket[0], bucket[1]
            union = tables.pop(left) | tables.pop(right)
            merges.append((left, right))
            tables[count] = union
            for u in union:
                where[u] -= {left, right}
                where[u].add(count)
            bucket = [*bucket[2:], count]
            count += 1
        if bucket:
            where.pop(v, None)
            tables[bucket[0]] = tables[bucket[0]] - {v}
    return merges


def from_opt_einsum(structure: Structure, output: Variables) -> Merges:
    """Merges of opt_einsum's own choice among its methods."""
    letters = [opt_einsum.get_symbol(v) for v in range(len(structure.sizes))]
    words = ["".join(letters[v] for v in c) for c in structure.cliques]
    equation = ",".join(words) + "->" + "".join(letters[v] for v in output)
    path, _ = opt_einsum.contract_path(equation, *structure.shapes, shapes=True, optimize="auto")
    return _numbered(path, len(words))


def from_cotengra(structure: Structure, output: Variables, trials: int = COTENGRA_TRIALS) -> Merges:
    """Merges of cotengra's hyper-optimiser (greedy and labels, one process, a fixed seed).

    Args:
        structure: the tables.
        output: variables to keep open.
        trials: paths to try.

    Raises:
        ImportError: cotengra is not installed.
    """
    cotengra = checks.optional("cotengra", "plan")
    optimizer = cotengra.HyperOptimizer(
        methods=["greedy", "labels"],
        max_repeats=trials,
        minimize="combo",
        optlib="random",
        parallel=False,
        progbar=False,
        seed=0,
    )
    tree = optimizer.search(
        [tuple(c) for c in structure.cliques], tuple(output), dict(enumerate(structure.sizes))
    )
    return _numbered(tree.get_path(), len(structure.cliques))


def _numbered(path: Iterable[Sequence[int]], count: int) -> Merges:
    """Positions among the tables that are left, as opt_einsum has them -> numbers of tables."""
    alive = list(range(count))
    merges: Merges = []
    for positions in path:
        chosen = [alive[p] for p in positions]
        for p in sorted(positions, reverse=True):
            del alive[p]
        while len(chosen) > 1:  # its last step may take several tables at once
            merges.append((chosen[0], chosen[1]))
            chosen = [*chosen[2:], count]
            count += 1
        alive.append(chosen[0])
    return merges


def absorbed(
    tables: Sequence[frozenset[int]], outside: frozenset[int]
) -> tuple[Merges, dict[int, frozenset[int]]]:
    """Multiply tables into tables that hold all their variables: fewer are left to search over.

    Args:
        tables: variables of each table.
        outside: variables that are never summed.

    Returns:
        Merges, and the tables that are left with their variables.
    """
    left = dict(enumerate(tables))
    uses = Counter(v for t in tables for v in t)
    merges: Merges = []
    waiting = sorted(left, key=lambda i: len(left[i]))
    for i in waiting:  # grows while it is read
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


def improved(paths: Sequence[ContractionPath], weights: optimal.Weights) -> tuple[Merges, str]:
    """The best of some paths, made better where that is quick and worth it.

    Up to `EXHAUSTIVE_TABLES` tables the best path bounds an exhaustive search; where that gives up,
    or there are more, up to `REFINED_TABLES`, each path is improved locally.

    Args:
        paths: paths of one connected structure whose every variable is open or in two tables.
        weights: the weight of a product.

    Returns:
        Merges, and the name of what found them.
    """
    best = min(paths, key=lambda path: weight(path, weights))
    structure, outside = best.structure, frozenset(best.output)
    count = len(structure.cliques)
    worthwhile = weight(best, weights) >= WORTHWHILE or count <= QUICK_TABLES
    if not worthwhile or not 2 < count <= REFINED_TABLES:
        return best.merges, best.method
    if count <= EXHAUSTIVE_TABLES:
        tables = [frozenset(c) for c in structure.cliques]
        bound = weight(best, weights) * (1 + 1e-9)
        found = optimal.merges(tables, outside, structure.sizes, weights, bound)
        if found is not None:
            return found[1], "exhaustive search"
    best = min((_refined(path, weights) for path in paths), key=lambda path: weight(path, weights))
    return best.merges, best.method


def _refined(path: ContractionPath, weights: optimal.Weights) -> ContractionPath:
    structure, outside = path.structure, frozenset(path.output)
    tables = [frozenset(c) for c in structure.cliques]
    merges = refine.merges(tables, outside, structure.sizes, path.merges, weights)
    return build(structure, path.output, merges, f"{path.method}, improved locally")


def weight(path: ContractionPath, weights: optimal.Weights) -> float:
    """Weight of all products of a path (not of its reductions of single tables)."""
    cells = path.structure.cells
    products = [step for step in path.steps if len(step.operands) == 2]
    return sum(weights.union * cells(s.union) + weights.stored * cells(s.kept) for s in products)
