"""Contraction paths as plain data: steps over labelled tables, and what they cost.

Each step adds two tables in log space (or takes a single one) and reduces the variables that are not
needed later. Variables that occur in one table only are reduced before it is combined with another, so
every step of two tables is a batched product in the semiring: batch, left, summed and right variables.
The cost of a path is computed from sizes: work, bytes moved, peak memory, program size.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence

from pgmjax._internal import device
from pgmjax._internal.memory import readable_bytes
from pgmjax.inference.plan.forecast import Rates, device_rates
from pgmjax.inference.plan.structure import Structure, Variables

Merges = list[tuple[int, int]]

# Compiled operations of a step with its gradient, used to estimate the compile time.
REDUCTION_OPERATIONS = 6
PRODUCT_OPERATIONS = 16
SHOWN = 4  # products, in words
# A step is a large product if its union has at least LARGE cells, and each side at least SIDE (measured on
# plans with unions to 1e9 cells: sides of 4 instead of 8 save a tenth to a third of the time and memory).
LARGE, SIDE = 300_000, 4
# Off a CPU its method takes about 14 launches more than a plain step. In their time, 35 µs, a card moves a
# union of ten million cells three times (forecast); it is stored then, so that the bound is lower.
LARGE_ELSEWHERE = 1 << 22


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

    @functools.cached_property
    def work(self) -> int:
        """Cells of all combined tables: the number of exponentials."""
        return sum(self.structure.cells(step.union) for step in self.steps)

    @functools.cached_property
    def touched(self) -> int:
        """Cells that all steps read and write."""
        cells = self.structure.cells
        read = (i for step in self.steps for i in step.operands)
        return sum(cells(self.variables(i)) for i in read) + sum(cells(step.kept) for step in self.steps)

    @functools.cached_property
    def forward_peak(self) -> int:
        """Most cells at once in a forward pass alone: inputs, results still needed, and the new one twice."""
        cells, first = self.structure.cells, len(self.structure.cliques)
        alive = peak = 0
        for step in self.steps:
            alive += cells(step.kept)
            peak = max(peak, alive + cells(step.kept))
            alive -= sum(cells(self.variables(i)) for i in step.operands if i >= first)
        return self.structure.length + peak

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
    return builder.path(output, method)


def by_elimination(
    structure: Structure, output: Sequence[int], order: Iterable[int], method: str
) -> ContractionPath:
    """The steps of a bucket elimination: for each variable, its tables in pairs, small ones first."""
    output = tuple(output)
    builder = _Builder(structure, frozenset(output))
    for v in order:
        bucket = sorted(builder.holding[v], key=lambda i: (len(builder.tables[i]), i))
        while len(bucket) > 1:
            bucket = [*bucket[2:], builder.merge(bucket[0], bucket[1])]
    return builder.path(output, method)


class _Builder:
    """Appends steps, reducing every variable as soon as it occurs in one table only."""

    def __init__(self, structure: Structure, wanted: frozenset[int]):
        self.structure, self.wanted = structure, wanted
        self.steps: list[Step] = []
        self.tables: dict[int, frozenset[int]] = {}
        self.holding: list[set[int]] = [set() for _ in structure.sizes]  # the tables that have a variable
        for i, clique in enumerate(structure.cliques):
            self._put(i, clique)

    def _put(self, i: int, variables: Iterable[int]) -> None:
        self.tables[i] = frozenset(variables)
        for v in self.tables[i]:
            self.holding[v].add(i)

    def _add(self, operands: tuple[int, ...]) -> int:
        union = frozenset().union(*(self.tables[i] for i in operands))
        for i in operands:
            for v in self.tables.pop(i):
                self.holding[v].discard(i)
        kept = tuple(sorted(v for v in union if self.holding[v] or v in self.wanted))
        new = len(self.structure.cliques) + len(self.steps)
        self.steps.append(Step(operands, (*kept, *sorted(union.difference(kept))), kept))
        self._put(new, kept)
        return new

    def _reduced(self, i: int) -> int:
        """The table without variables that occur in no other table, which makes products smaller."""
        alone = any(len(self.holding[v]) == 1 and v not in self.wanted for v in self.tables[i])
        return self._add((i,)) if alone else i

    def merge(self, left: int, right: int) -> int:
        return self._add((self._reduced(left), self._reduced(right)))

    def path(self, output: Variables, method: str) -> ContractionPath:
        """All steps, with the tables that are left multiplied at the end, small ones first."""
        rest = sorted(self.tables, key=lambda i: self.structure.cells(self.tables[i]))
        while len(rest) > 1:
            rest = [self.merge(rest[0], rest[1]), *rest[2:]]
        last = self._reduced(rest[0])
        if not self.steps or set(self.steps[-1].kept) != set(output):
            self.steps.append(Step((last,), output, output))
        return ContractionPath(self.structure, output, _with_axes(self.structure, output, self.steps), method)


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


@dataclasses.dataclass(frozen=True)
class Dimensions:
    """A product `C[batch, left, right] = sum over summed of A[batch, left, summed] B[batch, summed, right]`.

    Attributes:
        batch: cells of the variables that all three tables share.
        left: cells of the variables in the left table and the result.
        summed: cells of the variables that are summed.
        right: cells of the variables in the right table and the result.
        is_large: whether it runs as a large product.
    """

    batch: int
    left: int
    summed: int
    right: int
    is_large: bool

    @property
    def union(self) -> int:
        """Cells of both tables combined: exponentials of the exact form."""
        return self.batch * self.left * self.summed * self.right

    @property
    def stored(self) -> int:
        """Cells of its three tables."""
        rows, columns = self.left, self.right
        return self.batch * (rows * self.summed + self.summed * columns + rows * columns)


@dataclasses.dataclass(frozen=True)
class Cost:
    """Cost of one call: a value and its gradient with respect to every input.

    Values are for one forward pass (`exponentials`) or for the forward and backward pass together (all
    others). They are computed from sizes; nothing is measured.

    Attributes:
        exponentials: cells of all combined tables, one exponential each in the exact form, forward.
        moved: cells that are read and written, forward and backward.
        stored: cells of all step results, which are kept from the forward to the backward pass.
        peak: cells in memory at the peak: inputs, gradients, results still needed and workspace.
        operations: approximate number of compiled operations.
        products: the products whose union exceeds all three tables, most work first.
        slices: number of runs of the path (1: not sliced).
        summed: cells of the combined tables of all steps but large products.
        large: cells of the combined tables of large products.
        carried: cells of the tables of large products, and of the inputs of each slice, if there are several.
    """

    exponentials: int
    moved: int
    stored: int
    peak: int
    operations: int
    products: tuple[Dimensions, ...]
    slices: int
    summed: int
    large: int
    carried: int

    def seconds(self, by: Rates | None = None, exact: bool = False) -> float:
        """Forecast time of one call, once compiled (s).

        Args:
            by: rates of the machine. Default: those of the device at hand.
            exact: run all products in exact log-space form, none as a matrix product.
        """
        by = by or device_rates()
        return float(sum(count * getattr(by, rate) for rate, count in self.units(exact).items()))

    def units(self, exact: bool = False) -> dict[str, int]:
        """Units of work of one call, by the name of their rate in `Rates`.

        A cell of a combined table takes three exponentials: one forward, one backward for each operand. A
        large product takes three matrix products, and its tables are transformed as often.

        Args:
            exact: as for `seconds`.
        """
        return {
            "launch": self.slices * self.operations,
            "exponential": 3 * (self.summed + (self.large if exact else 0)),
            "flop": 0 if exact else 6 * self.large,
            "cell": 3 * self.carried,
        }

    def lines(self, fast: bool = False) -> list[str]:
        """The costs as lines of text, with memory in float32.

        Args:
            fast: whether large products run as matrix products.

        Example:
            >>> from pgmjax.inference.plan import contraction
            >>> path = contraction.plan(Structure((2, 3, 4), ((0, 1), (1, 2), (2, 0))))
            >>> print(of_path(path).lines()[0])
            24 combined cells + 6 of reductions, 144 flops as matrix products
        """
        combined = self.slices * sum(p.union for p in self.products)
        lines = [
            f"{combined:,} combined cells + {self.exponentials - combined:,} of reductions, "
            f"{6 * combined:,} flops as matrix products",
            f"{readable_bytes(4 * self.moved)} moved; {readable_bytes(4 * self.peak)} at the peak",
            f"about {self.operations:,} compiled operations",
        ]
        large = "matrix product" if fast else "exact, in tiles"
        for p in self.products[:SHOWN]:
            sizes = f"{p.batch:,} x [{p.left:,}, {p.summed:,}] x [{p.summed:,}, {p.right:,}]"
            lines.append(f"  product {sizes}, {large if p.is_large else 'exact, at once'}")
        if len(self.products) > SHOWN:
            lines.append(f"  and {len(self.products) - SHOWN} smaller products")
        return lines


def large(path: ContractionPath) -> dict[int, MatrixProduct]:
    """The large products of a path on the device that programs run on, by step number."""
    return _large(path, LARGE if device.is_cpu() else LARGE_ELSEWHERE)


@functools.lru_cache(maxsize=256)
def _large(path: ContractionPath, least: int) -> dict[int, MatrixProduct]:
    cells, found = path.structure.cells, {}
    for number, step in enumerate(path.steps):
        product = path.product(step)
        if product and cells(step.union) >= least:
            sides = cells(product.left), cells(product.summed), cells(product.right)
            if min(sides) >= SIDE:
                found[number] = product
    return found


@functools.lru_cache(maxsize=64)
def of_path(path: ContractionPath) -> Cost:
    """Cost of a path."""
    cells, large_ones = path.structure.cells, large(path)
    products = [
        Dimensions(cells(p.batch), cells(p.left), cells(p.summed), cells(p.right), number in large_ones)
        for number, p in enumerate(map(path.product, path.steps))
        if p
    ]
    unions = sum(p.union for p in products if p.is_large)
    tiled = (p for p in products if min(p.left, p.summed, p.right) > 1)
    return Cost(
        exponentials=path.work,
        moved=3 * path.touched,  # once more for each half of the backward pass
        stored=sum(cells(step.kept) for step in path.steps),
        peak=_peak(path),
        operations=REDUCTION_OPERATIONS * (len(path.steps) - len(products))
        + PRODUCT_OPERATIONS * len(products),
        products=tuple(sorted(tiled, key=lambda p: -p.union)),
        slices=1,
        summed=path.work - unions,
        large=unions,
        carried=sum(p.stored for p in products if p.is_large),
    )


def _peak(path: ContractionPath) -> int:
    """Peak number of cells in memory during the forward and the backward pass.

    Inputs and their gradients count throughout, as a solver stores both. The backward pass frees a
    result and its cotangent after differentiating the step that produced it. A step's workspace is the
    exponentials of its operands and of its result.
    """
    cells, first = path.structure.cells, len(path.structure.cliques)
    results = [cells(step.kept) for step in path.steps]
    alive = 2 * path.structure.length + sum(results) + results[-1]
    peak = 0
    for result, step in zip(reversed(results), reversed(path.steps), strict=True):
        alive += sum(results[i - first] for i in step.operands if i >= first)
        workspace = result + sum(cells(path.variables(i)) for i in step.operands)
        peak = max(peak, alive + workspace)
        alive -= 2 * result  # with its cotangent
    return peak
