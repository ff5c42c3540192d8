"""Contractions as plain data, what they cost, and the search for one: steps over labelled tables.

Each step adds two tables in log space (or takes a single one) and reduces the variables that are not
needed later. Variables that occur in one table only are reduced before it is combined with another, so
every step of two tables is a batched product in the semiring: batch, left, summed and right variables.
The cost of a path is computed from sizes: work, bytes moved, peak memory, program size.

Paths come from elimination orders and from opt_einsum, and are improved by the searches of `merges`. The
executors in `inference.ops` run a path with any semiring: log-sum-exp for marginals, maximum for the most
likely assignment.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import opt_einsum

from pgmjax._internal import device
from pgmjax._internal.memory import readable_bytes
from pgmjax.inference.plan import elimination, junction_tree
from pgmjax.inference.plan.forecast import Rates, device_rates, seconds_of
from pgmjax.inference.plan.merges import optimal_merges, refined_merges
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

QUICK_TABLES = 12
EXHAUSTIVE_TABLES = 17
REFINED_TABLES = 64
OPT_EINSUM_TABLES = 200
WORTHWHILE = 1e6  # weight below which a path is not improved further
# Cost of a stored cell, which is transformed, kept for the backward pass and moved. A combined cell, which is
# a multiply-add in a matrix product or an exponential in the exact form, costs 1.
STORED = 40.0


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
class Form:
    """A table as a step reads it, or as it computes it: with one axis for each group of its variables.

    A step of two tables is a batched matrix product of [batch, left, summed] and [batch, summed, right] to
    [batch, left, right]; a step of one table reads [kept, reduced].

    Attributes:
        table: its number.
        order: its axes in the order of the step; None if they are in order.
        back: the reverse.
        ordered: its shape in that order.
        shape: cells of each group.
    """

    table: int
    order: tuple[int, ...] | None
    back: tuple[int, ...] | None
    ordered: tuple[int, ...]
    shape: tuple[int, ...]

    def read(self, table: Any) -> Any:
        """Return the table, an array of NumPy or JAX, in the step's shape."""
        return (table if self.order is None else table.transpose(self.order)).reshape(self.shape)

    def written(self, found: Any) -> Any:
        """Return an array of the step's shape as one of the table's shape."""
        found = found.reshape(self.ordered)
        return found if self.back is None else found.transpose(self.back)


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

    @functools.cached_property
    def forms(self) -> tuple[tuple[Form, ...], ...]:
        """For each step, the forms of its operands and of its result."""
        found = []
        for number, step in enumerate(self.steps, start=len(self.structure.cliques)):
            kept, gone = step.kept, step.union[len(step.kept) :]
            own = [set(self.variables(i)) for i in step.operands]
            batch = tuple(v for v in kept if v in own[0] and v in own[-1])
            if len(own) == 1:
                groups: tuple[tuple[Variables, ...], ...] = ((kept, gone), (kept,))
            else:
                left, right = (tuple(v for v in kept if v not in other) for other in reversed(own))
                groups = ((batch, left, gone), (batch, gone, right), (batch, left, right))
            found.append(tuple(map(self._form, (*step.operands, number), groups)))
        return tuple(found)

    def _form(self, table: int, groups: tuple[Variables, ...]) -> Form:
        own, wanted = self.variables(table), tuple(v for group in groups for v in group)
        order = None if own == wanted else tuple(map(own.index, wanted))
        back = None if own == wanted else tuple(map(wanted.index, own))
        return Form(
            table, order, back, self.structure.shape(wanted), tuple(map(self.structure.cells, groups))
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
        return seconds_of(self.units(exact), by or device_rates())

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


def large(path: ContractionPath) -> frozenset[int]:
    """The numbers of a path's steps that are large products on the device that programs run on."""
    return _large(path, LARGE if device.is_cpu() else LARGE_ELSEWHERE)


@functools.lru_cache(maxsize=256)
def _large(path: ContractionPath, least: int) -> frozenset[int]:
    return frozenset(
        number
        for number, (step, forms) in enumerate(zip(path.steps, path.forms, strict=True))
        if len(forms) > 2
        and path.structure.cells(step.union) >= least
        and min(*forms[0].shape[1:], forms[1].shape[2]) >= SIDE
    )


@functools.lru_cache(maxsize=64)
def of_path(path: ContractionPath) -> Cost:
    """Cost of a path."""
    cells, large_ones = path.structure.cells, large(path)
    products = []
    for number, (first, *others) in enumerate(path.forms):
        if len(others) > 1:
            batch, left, summed = first.shape
            products.append(Dimensions(batch, left, summed, others[0].shape[2], number in large_ones))
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
