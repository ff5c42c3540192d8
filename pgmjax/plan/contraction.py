"""Contraction paths: in which order the tables of a model are multiplied and summed out.

A path is a list of steps over labelled tables. Each step adds two tables in log space (or takes
one alone) and reduces the variables that nothing later needs. The executors in `pgmjax.ops` run
it with any semiring: log-sum-exp for marginals, maximum for the most likely assignment.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import opt_einsum

from pgmjax.plan import elimination as elim
from pgmjax.plan.structure import Structure, Variables


@dataclasses.dataclass(frozen=True)
class Step:
    """Combine tables `operands` and reduce.

    Attributes:
        operands: one or two indices of tables; inputs come first, then a table for each step.
        union: variables of the combined table, those that stay before those that go.
        kept: the variables that stay: the leading ones of `union`.
    """

    operands: tuple[int, ...]
    union: Variables
    kept: Variables


@dataclasses.dataclass(frozen=True)
class ContractionPath:
    """All steps of a contraction.

    Attributes:
        structure: the tables that enter.
        output: variables left open, in the order of the result's axes.
        steps: the last one leaves the result.
        method: what found the path.
    """

    structure: Structure
    output: Variables
    steps: tuple[Step, ...]
    method: str

    @property
    def largest(self) -> int:
        """Cells of the largest stored table, inputs and result included."""
        cells = self.structure.cells
        return max([cells(c) for c in self.structure.cliques] + [cells(s.kept) for s in self.steps])

    @property
    def work(self) -> int:
        """Cells of all combined tables: the number of exponentials."""
        return sum(self.structure.cells(step.union) for step in self.steps)


def plan(structure: Structure, output: Sequence[int] = ()) -> ContractionPath:
    """Choose the cheapest of several paths: elimination orders and opt_einsum's.

    Args:
        structure: the tables.
        output: variables to keep open; they must occur in the structure.
    """
    output = tuple(output)
    inputs = [frozenset(c) for c in structure.cliques]
    pairs = {
        f"{e.rule} elimination": _from_elimination(inputs, e)
        for e in (elim.eliminate(structure, rule, output) for rule in elim.RULES)
    }
    if 2 < len(inputs) <= 200:
        pairs["opt_einsum"] = _from_opt_einsum(structure, output)
    paths = [_steps(structure, output, merges, name) for name, merges in pairs.items()]
    return min(paths, key=lambda path: path.work)


def _from_elimination(inputs: list[frozenset[int]], elimination: elim.Elimination) -> list[tuple[int, ...]]:
    """Merges that a bucket elimination makes: for each variable its tables two by two, small first."""
    tables = dict(enumerate(inputs))
    where: dict[int, set[int]] = {}
    for i, members in tables.items():
        for v in members:
            where.setdefault(v, set()).add(i)
    merges: list[tuple[int, ...]] = []
    count = len(inputs)
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


def _from_opt_einsum(structure: Structure, output: Variables) -> list[tuple[int, ...]]:
    letters = [opt_einsum.get_symbol(v) for v in range(len(structure.sizes))]
    words = ["".join(letters[v] for v in c) for c in structure.cliques]
    equation = ",".join(words) + "->" + "".join(letters[v] for v in output)
    path, _ = opt_einsum.contract_path(equation, *structure.shapes, shapes=True, optimize="auto")
    alive = list(range(len(words)))
    merges: list[tuple[int, ...]] = []
    count = len(words)
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


def _steps(
    structure: Structure, output: Variables, merges: list[tuple[int, ...]], method: str
) -> ContractionPath:
    builder = _Builder(structure, frozenset(output))
    name = {i: i for i in builder.tables}  # number of a table in `merges` -> its number here
    for count, (left, right) in enumerate(merges, start=len(structure.cliques)):
        name[count] = builder.merge(name[left], name[right])
    builder.merge_all()
    builder.arrange(output)
    return ContractionPath(structure, output, tuple(builder.steps), method)


class _Builder:
    """Appends steps, reducing every variable as soon as one table alone holds it."""

    def __init__(self, structure: Structure, wanted: frozenset[int]):
        self.structure, self.wanted = structure, wanted
        self.steps: list[Step] = []
        self.tables = {i: frozenset(c) for i, c in enumerate(structure.cliques)}
        self.uses = [0] * len(structure.sizes)
        for members in self.tables.values():
            for v in members:
                self.uses[v] += 1

    def _add(self, operands: tuple[int, ...]) -> int:
        union = frozenset().union(*(self.tables[i] for i in operands))
        for i in operands:
            for v in self.tables.pop(i):
                self.uses[v] -= 1
        kept = tuple(sorted(v for v in union if self.uses[v] or v in self.wanted))
        new = len(self.structure.cliques) + len(self.steps)
        self.steps.append(Step(operands, (*kept, *sorted(union.difference(kept))), kept))
        self.tables[new] = frozenset(kept)
        for v in kept:
            self.uses[v] += 1
        return new

    def _reduced(self, i: int) -> int:
        """The table without what only it holds: products with it are smaller so."""
        alone = any(self.uses[v] == 1 and v not in self.wanted for v in self.tables[i])
        return self._add((i,)) if alone else i

    def merge(self, left: int, right: int) -> int:
        return self._add((self._reduced(left), self._reduced(right)))

    def merge_all(self) -> None:
        rest = sorted(self.tables, key=lambda i: self.structure.cells(self.tables[i]))
        while len(rest) > 1:
            rest = [self.merge(rest[0], rest[1]), *rest[2:]]
        self._reduced(rest[0])

    def arrange(self, output: Variables) -> None:
        (last,) = self.tables
        if self.steps and self.steps[-1].kept == output:
            return
        self.steps.append(Step((last,), output, output))
