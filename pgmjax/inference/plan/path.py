"""Contraction paths as plain data: steps over labelled tables.

Each step adds two tables in log space (or takes a single one) and reduces the variables that are not
needed later. Variables that occur in one table only are reduced before it is combined with another, so
every step of two tables is a batched product in the semiring: batch, left, summed and right variables.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence

from pgmjax.inference.plan.structure import Structure, Variables

Merges = list[tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class Step:
    """Combine tables `operands` and reduce.

    Attributes:
        operands: one or two indices of tables; inputs come first, then one table for each step.
        union: variables of the combined table, kept ones before reduced ones.
        kept: the kept variables: the leading ones of `union`, in the order of the result's axes.
    """

    operands: tuple[int, ...]
    union: Variables
    kept: Variables


@dataclasses.dataclass(frozen=True)
class MatrixProduct:
    """Variables of a step of two tables, grouped as in a batched matrix product.

    Attributes:
        batch: in both tables and the result.
        left: in the left table and the result.
        summed: in both tables, not in the result.
        right: in the right table and the result.
    """

    batch: Variables
    left: Variables
    summed: Variables
    right: Variables


@dataclasses.dataclass(frozen=True)
class ContractionPath:
    """All steps of a contraction.

    Attributes:
        structure: the input tables.
        output: variables of the result, in the order of its axes.
        steps: the steps; the last one gives the result.
        method: name of the search method.
    """

    structure: Structure
    output: Variables
    steps: tuple[Step, ...]
    method: str

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        """Cached, since every call of a compiled function needs it."""
        return hash((self.structure, self.output, self.steps))

    @property
    def largest(self) -> int:
        """Cells of the largest stored table, inputs and result included."""
        cells = self.structure.cells
        return max([cells(c) for c in self.structure.cliques] + [cells(s.kept) for s in self.steps])

    @property
    def work(self) -> int:
        """Cells of all combined tables: the number of exponentials."""
        return sum(self.structure.cells(step.union) for step in self.steps)

    @property
    def merges(self) -> Merges:
        """Pairs of tables that are multiplied, numbered: inputs first, then one for each product."""
        first = len(self.structure.cliques)
        name = {i: i for i in range(first)}  # number of a table here -> its number among merges
        found: Merges = []
        for number, step in enumerate(self.steps, start=first):
            if len(step.operands) == 1:
                name[number] = name[step.operands[0]]
                continue
            found.append((name[step.operands[0]], name[step.operands[1]]))
            name[number] = first + len(found) - 1
        return found

    def variables(self, table: int) -> Variables:
        """Variables of a table in the order of its axes; inputs are numbered first, then results."""
        inputs = self.structure.cliques
        return inputs[table] if table < len(inputs) else self.steps[table - len(inputs)].kept

    def product(self, step: Step) -> MatrixProduct | None:
        """The matrix product of a step of two tables; None for a step that reduces a single table."""
        if len(step.operands) == 1:
            return None
        left, right = (frozenset(self.variables(i)) for i in step.operands)
        return MatrixProduct(
            batch=tuple(v for v in step.kept if v in left and v in right),
            left=tuple(v for v in step.kept if v not in right),
            summed=step.union[len(step.kept) :],
            right=tuple(v for v in step.kept if v not in left),
        )


def build(
    structure: Structure, output: Sequence[int], merges: Iterable[tuple[int, int]], method: str
) -> ContractionPath:
    """Turn an order of merges into steps.

    Args:
        structure: the tables.
        output: variables to keep.
        merges: pairs of tables, by number: the inputs, then one for each merge. Remaining tables are
            multiplied at the end, small ones first.
        method: name of the search method.
    """
    output = tuple(output)
    builder = _Builder(structure, frozenset(output))
    name = {i: i for i in builder.tables}  # number of a table in `merges` -> its number here
    for count, (left, right) in enumerate(merges, start=len(structure.cliques)):
        name[count] = builder.merge(name[left], name[right])
    builder.merge_all()
    builder.arrange(output)
    return ContractionPath(structure, output, _with_axes(structure, output, builder.steps), method)


class _Builder:
    """Appends steps, reducing every variable as soon as it occurs in one table only."""

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
        """The table without variables that occur in no other table, which makes products smaller."""
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
        if not self.steps or set(self.steps[-1].kept) != set(output):
            self.steps.append(Step((last,), output, output))


def _with_axes(structure: Structure, output: Variables, steps: list[Step]) -> tuple[Step, ...]:
    """Order the axes of every result as the step that reads it needs them.

    A product reads its left table as (batch, left, summed) and its right one as (batch, summed,
    right); a reduction reads (kept, reduced). Hence only inputs are ever transposed before they are
    read, and a result at most once, when it is written.
    """
    first = len(structure.cliques)
    kept = {first + len(steps) - 1: output}
    done: list[Step] = []
    for number in range(first + len(steps) - 1, first - 1, -1):
        step = steps[number - first]
        result, gone = kept[number], tuple(v for v in step.union if v not in set(step.kept))
        done.append(Step(step.operands, (*result, *gone), result))
        members = [set(steps[i - first].kept if i >= first else structure.cliques[i]) for i in step.operands]
        if len(members) == 1:
            kept[step.operands[0]] = (*result, *gone)
            continue
        both = members[0] & members[1]
        batch = tuple(v for v in result if v in both)
        own = [tuple(v for v in result if v in m and v not in both) for m in members]
        kept[step.operands[0]] = (*batch, *own[0], *gone)
        kept[step.operands[1]] = (*batch, *gone, *own[1])
    return tuple(reversed(done))
