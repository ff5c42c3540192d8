"""Contraction plans: the order in which the tables of a model are multiplied and summed out.

The executors in `inference.ops` run a path with any semiring: log-sum-exp for marginals, maximum for
the most likely assignment.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from pgmjax._internal import checks
from pgmjax.inference.plan import elimination, junction_tree, search
from pgmjax.inference.plan.path import ContractionPath, MatrixProduct, Merges, Step, build
from pgmjax.inference.plan.search import CellCosts
from pgmjax.inference.plan.structure import Structure, Variables

__all__ = ["SEARCHES", "WEIGHTS", "ContractionPath", "MatrixProduct", "Step", "plan"]

# A stored cell is transformed, kept for the backward pass and moved. A combined cell is a multiply-add
# in a matrix product, or an exponential in the exact form.
WEIGHTS = CellCosts(union=1.0, stored=40.0)
SEARCHES = ("auto", "elimination", "cotengra")
_OPT_EINSUM_TABLES = 200


def plan(
    structure: Structure,
    output: Sequence[int] = (),
    *,
    find: str = "auto",
    weights: CellCosts = WEIGHTS,
    calls: float = 1,
) -> ContractionPath:
    """Choose the cheapest of several paths, for each connected part of the model.

    Args:
        structure: the tables.
        output: variables to keep; they must occur in the structure.
        find: `auto` (elimination orders, opt_einsum, then exhaustive or local search), `elimination`
            (only the orders of the greedy rules; fast for any size) or `cotengra` (its optimiser in addition
            to `auto`).
        weights: costs of a combined and of a stored cell, used to compare paths.
        calls: number of calls that will use the path: the more, the longer orders are searched.

    Raises:
        ValueError: unknown `find`.
        ImportError: `find` is `cotengra`, which is not installed.
    """
    return _plan(structure, tuple(output), checks.choice("find", find, SEARCHES), weights, calls)


@functools.lru_cache(maxsize=64)
def _plan(
    structure: Structure, output: Variables, find: str, weights: CellCosts, calls: float
) -> ContractionPath:
    tables = _reduced(structure, frozenset(output))
    merges: Merges = []
    methods: dict[str, None] = {}
    for part in _parts(tables):
        found, method = _plan_part(structure, [tables[i] for i in part], output, find, weights, calls)
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
    find: str,
    weights: CellCosts,
    calls: float,
) -> tuple[Merges, str]:
    """Merges of one connected part, in its own numbering, and the name of the search method."""
    merges: Merges = []
    left = {i: frozenset(t) for i, t in enumerate(tables)}
    if search.EXHAUSTIVE_TABLES < len(tables) <= _OPT_EINSUM_TABLES:
        merges, left = search.absorbed(list(left.values()), frozenset(output))
    variables = sorted(frozenset().union(*left.values()))
    number = {v: i for i, v in enumerate(variables)}
    part = Structure(
        structure.shape(variables), tuple(tuple(sorted(number[v] for v in t)) for t in left.values())
    )
    found, method = _find(part, tuple(number[v] for v in output if v in number), find, weights, calls)
    _append(merges, found, list(left), len(tables))
    return merges, method


def _find(
    structure: Structure, output: Variables, find: str, weights: CellCosts, calls: float
) -> tuple[Merges, str]:
    if find == "elimination":
        orders = tuple(junction_tree.eliminate(structure, rule, output) for rule in junction_tree.RULES)
    else:
        orders = elimination.found(structure, output, calls)
    paths = [
        build(structure, output, search.from_elimination(structure, e), f"{e.rule} elimination")
        for e in orders
    ]
    best = min(paths, key=lambda path: search.weight(path, weights))
    if find == "elimination":
        return best.merges, best.method
    paths = [best]
    if 2 < len(structure.cliques) <= _OPT_EINSUM_TABLES:
        paths.append(build(structure, output, search.from_opt_einsum(structure, output), "opt_einsum"))
    if find == "cotengra":
        paths.append(build(structure, output, search.from_cotengra(structure, output), "cotengra"))
    return search.improved(paths, weights)
