"""Contraction paths as plain data: steps over labelled tables.

Each step adds two tables in log space (or takes one alone) and reduces the variables that nothing
later needs. Variables that one table alone holds are reduced before it meets another, so every
step of two tables is a batched product in the semiring: batch, left, summed and right variables.
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
        operands: one or two indices of tables; inputs come first, then a table for each step.
        union: variables of the combined table, those that stay before those that go.
        kept: the variables that stay: the leading ones of `union`, in the order of the result's axes.
    """

    operands: tuple[int, ...]
    union: Variables
    kept: Variables


@dataclasses.dataclass(frozen=True)
class MatrixProduct:
    """Variables of a step of two tables, as those of a batched matrix product.

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
        structure: the tables that enter.
        output: variables left open, in the order of the result's axes.
        steps: the last one leaves the result.
        method: what found the path.
    """

    structure: Structure
    output: Variables
    steps: tuple[Step, ...]
    method: str

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        """Kept, since every call of a compiled function asks for it."""
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
        """Pairs of tables that are multiplied: inputs by number, then one for each product."""
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
        """Variables of a table, by its number among inputs and results, in the order of its axes."""
        inputs = self.structure.cliques
        return inputs[table] if table < len(inputs) else self.steps[table - len(inputs)].kept

    def product(self, step: Step) -> MatrixProduct | None:
        """The form of a step of two tables; None for a step that reduces one."""
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
        output: variables to keep open.
        merges: pairs of tables, by number: the inputs, then one for each merge. Tables that no pair
            takes are multiplied at the end, small ones first.
        method: what found them.
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
        if not self.steps or set(self.steps[-1].kept) != set(output):
            self.steps.append(Step((last,), output, output))


def _with_axes(structure: Structure, output: Variables, steps: list[Step]) -> tuple[Step, ...]:
    """Give every result the axes in the order in which its reader wants them.

    A product reads its left table as (batch, left, summed) and its right one as (batch, summed,
    right), a reduction reads (kept, reduced): so only inputs are ever transposed before they are
    read, and a result at most once, while it is written.
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
