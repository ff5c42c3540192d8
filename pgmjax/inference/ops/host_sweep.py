"""Forward and backward passes of a contraction in NumPy, in float64, without logarithms or compilation.

Every table is held as probabilities divided by a scale, whose logarithm is kept beside it. A step of two
tables is then one batched matrix product, and so is each half of its backward pass, the derivative of the
partition function. Exponentials are taken of the potentials only.

Bounds on the logarithms of a table's cells follow from those of its operands. As long as every product with
another table stays within float64's range nothing is lost. Else the table is divided by its largest cell, and
cells below exp(-FLUSH) are set to 0, which also avoids denormal numbers: arithmetic with these is slow. The
probability lost by that is the sum over these cells of cell times derivative. `HostMarginals.error` is the
sum of all such losses. It says when logarithms (`log_marginals`) are needed instead: if potentials that
differ by hundreds of nats compensate each other.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pgmjax.inference.plan.path import ContractionPath
from pgmjax.kernels.log_sum_exp import host_logsumexp

Axes = tuple[int, ...]

RANGE = 600.0  # nats: float64 reaches from exp(-708) to exp(709)
FLUSH = RANGE / 2  # of the factors of a product, which then stays within RANGE
LEAST_LOG = 700.0  # nats below 1, whose exponential is still a normal number
# Of more products than MANY_PRODUCTS, each of fewer terms than FEW_TERMS, einsum is faster than one BLAS call
# for each.
MANY_PRODUCTS, FEW_TERMS = 64, 512
CHUNK_CELLS = 4_000_000  # cells that are formed at once for a maximum


@dataclasses.dataclass(frozen=True)
class HostMarginals:
    """Results of both passes.

    Attributes:
        log_partition: log of the sum over all joint states (nats).
        vector: the marginal of every clique (probabilities), one after another, each row-major.
        error: bound on the probability that is lost, beyond rounding; infinity if it may be all.
    """

    log_partition: float
    vector: np.ndarray
    error: float


def marginals(path: ContractionPath, vector: np.ndarray) -> HostMarginals:
    """Return the log-partition and all marginals of a model.

    Args:
        path: the plan; its last step leaves a scalar.
        vector: log-potentials of every clique, one after another, each row-major; float64, finite or minus
            infinity.
    """
    layout = _layout(path)
    top = np.maximum.reduceat(vector, layout.starts)
    top[np.isneginf(top)] = 0.0
    logs = vector - np.repeat(top, layout.sizes)
    lows = np.minimum.reduceat(logs, layout.starts)
    if np.isneginf(lows.min()):
        lows = np.minimum.reduceat(np.where(np.isneginf(logs), 0.0, logs), layout.starts)
    plain = lows.sum() > -RANGE and layout.log_states < RANGE
    passes: _Passes = _Passes(path, logs, top) if plain else _ScaledPasses(path, logs, top, lows)
    if not (passes.forward() and passes.backward()):
        return HostMarginals(-math.inf, np.zeros_like(vector), math.inf)
    return HostMarginals(passes.log_partition, passes.marginals(), passes.error)


def maximum(path: ContractionPath, vector: np.ndarray) -> float:
    """Return the largest sum of potentials over all joint states (nats); arguments as for `marginals`."""
    tables = _layout(path).split(vector)
    for step in _steps(path):
        operands = [each.read(tables[each.table]) for each in step.operands]
        for each in step.operands:
            tables[each.table] = None  # type: ignore[call-overload]  # its memory is free
        tables.append(step.turned(step.maximum(operands)))
    return float(tables[-1])


def contracted(path: ContractionPath, tables: Sequence[np.ndarray]) -> np.ndarray:
    """Return the logarithm of the sum over all variables but the path's output [sizes of the output].

    Products are matrix products; logarithms take over from the step at which cells would be lost.

    Args:
        path: the plan.
        tables: log-potentials of every clique, float64, finite or minus infinity.
    """
    alive: list[Any] = [scaled(table) for table in tables]
    with np.errstate(divide="ignore"):
        for step in _steps(path):
            parts = [alive[each.table] for each in step.operands]
            for each in step.operands:
                alive[each.table] = None  # its memory is free
            alive.append(_summed(step, parts))
        return logs_of(alive[-1])


def logs_of(table: ScaledTable | np.ndarray) -> np.ndarray:
    """Return the logarithms of a table that `scaled` gave."""
    if not isinstance(table, ScaledTable):
        return table
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(table.table) + table.scale)


def scaled(logs: np.ndarray) -> ScaledTable | np.ndarray:
    """Return a table as probabilities over a scale; as it is if cells would be lost."""
    top = float(logs.max())
    if np.isneginf(top):
        return ScaledTable(np.zeros(logs.shape), 0.0, 0.0, 0.0)
    low = float(logs.min())
    if np.isneginf(low):
        low = float(logs[logs > -np.inf].min())
    return logs if low - top < -FLUSH else ScaledTable(np.exp(logs - top), top, low - top, 0.0)


def _summed(step: _Step, parts: list[ScaledTable | np.ndarray]) -> ScaledTable | np.ndarray:
    """Return a step's result: as probabilities if both operands are and no cell is lost, else logarithms."""
    places = step.operands
    if not all(isinstance(part, ScaledTable) for part in parts):
        read = [each.read(logs_of(part)) for each, part in zip(places, parts, strict=True)]
        return step.turned(step.log_sum(read))
    scaled = [part for part in parts if isinstance(part, ScaledTable)]
    read = [each.read(part.table) for each, part in zip(places, scaled, strict=True)]
    found = _multiplied(step, scaled, read)
    if not found.table.any():
        return ScaledTable(step.turned(found.table), 0.0, 0.0, 0.0)
    if not found.within_range() or found.lost is not None:
        logs = [np.log(part.table) for part in scaled]
        read = [each.read(table) for each, table in zip(places, logs, strict=True)]
        return step.turned(step.log_sum(read)) + sum(part.scale for part in scaled)
    return found.turned(step.turned)


def log_marginals(path: ContractionPath, vector: np.ndarray) -> HostMarginals:
    """Same as `marginals` in logarithms, without a loss: slower by the exponentials of all products."""
    layout, steps = _layout(path), _steps(path)
    tables, read, results = layout.split(vector), [], []
    for step in steps:
        read.append([each.read(tables[each.table]) for each in step.operands])
        results.append(step.log_sum(read[-1]))
        tables.append(step.turned(results[-1]))
    weights = [np.ones(())] * len(tables)
    for number in reversed(range(len(steps))):
        step, weight = steps[number], weights[len(layout.sizes) + number]
        shares = step.log_shares(read.pop(), results.pop(), weight)
        for each, share in zip(step.operands, shares, strict=True):
            weights[each.table] = each.turned(share)
    flat = np.concatenate([weight.reshape(-1) for weight in weights[: len(layout.sizes)]])
    return HostMarginals(float(tables[-1]), flat, 0.0)


@dataclasses.dataclass
class ScaledTable:
    """A table divided by a scale.

    Attributes:
        table: the cells over the scale.
        scale: logarithm of the scale.
        low: lower bound on the logarithm of the table's cells but zeros.
        high: upper bound.
        lost: the cells that were set to 0 [shape of the table], 0 elsewhere; None if there are none.
    """

    table: np.ndarray
    scale: float
    low: float
    high: float
    lost: np.ndarray | None = None

    def within_range(self) -> bool:
        """Rescale the table if products with it may leave float64; return False if no cell is left."""
        if self.low >= -FLUSH and self.high <= FLUSH:
            return True
        size = float(self.table.max())
        if not size > math.exp(-RANGE):
            return False
        self.table /= size
        self.scale += math.log(size)
        self.high = 0.0
        least = float(self.table.min())
        if least == 0:
            least = float(self.table[self.table > 0].min())
        if least < math.exp(-FLUSH):
            self.lost = np.where(self.table < math.exp(-FLUSH), self.table, 0.0)
            self.table -= self.lost
        self.low = max(math.log(least), -FLUSH)
        return True

    def rescaled(self, shape: Axes) -> ScaledTable | np.ndarray:
        """Return the table in a shape, over its largest cell; logarithms if cells of it would be lost."""
        size = float(self.table.max())
        if size == 0:
            return ScaledTable(self.table.reshape(shape), 0.0, 0.0, 0.0)
        low = self.low - self.high
        if low < -FLUSH:
            low = math.log(float(self.table[self.table > 0].min())) - math.log(size)
        if low < -FLUSH:
            return logs_of(self).reshape(shape)
        return ScaledTable((self.table / size).reshape(shape), self.scale + math.log(size), low, 0.0)

    def turned(self, turn: Callable[[np.ndarray], np.ndarray]) -> ScaledTable:
        """Return the table with its axes in another order."""
        lost = None if self.lost is None else turn(self.lost)
        return ScaledTable(turn(self.table), self.scale, self.low, self.high, lost)


def _multiplied(step: _Step, parts: Sequence[ScaledTable], read: Sequence[np.ndarray]) -> ScaledTable:
    """Return a step's result, over the operands' scales."""
    low, high = sum(part.low for part in parts), sum(part.high for part in parts)
    scale = sum(part.scale for part in parts)
    return ScaledTable(step.result(read), scale, low, high + math.log(step.terms))


class _Passes:
    """Both passes over tables of which every product stays within float64's range.

    Attributes:
        log_partition: log of the result.
        error: bound on the lost probability.
    """

    def __init__(self, path: ContractionPath, logs: np.ndarray, top: np.ndarray):
        self.steps, self.layout, self.top = _steps(path), _layout(path), top
        self.cells = np.exp(logs)
        self.arrays = self.layout.split(self.cells)  # inputs, then results
        self.read: list[list[np.ndarray]] = []
        self.log_partition, self.error = -math.inf, 0.0

    def forward(self) -> bool:
        """Run all steps; return False if the result is lost."""
        arrays = self.arrays
        for step in self.steps:
            operands = [each.read(arrays[each.table]) for each in step.operands]
            self.read.append(operands)
            arrays.append(step.turned(step.result(operands)))
        if not arrays[-1] > 0:
            return False
        self.log_partition = math.log(arrays[-1]) + float(self.top.sum())
        return True

    def backward(self) -> bool:
        """Run the derivatives of all steps, in reverse; return False if too much may be lost."""
        first = len(self.layout.sizes)
        self.weights = [np.ones(())] * len(self.arrays)  # derivatives of the result, as `arrays`
        for number in reversed(range(len(self.steps))):
            step, operands, weight = self.steps[number], self.read.pop(), self.weights[first + number]
            for place, each in enumerate(step.operands):
                self.weights[each.table] = each.turned(step.derivative(operands, weight, place))
        return True

    def marginals(self) -> np.ndarray:
        """Return the marginals of all inputs, one after another."""
        layout = self.layout
        found = np.concatenate([weight.reshape(-1) for weight in self.weights[: len(layout.sizes)]])
        found *= self.cells
        found /= np.repeat(np.add.reduceat(found, layout.starts), layout.sizes)
        return found


class _ScaledPasses(_Passes):
    """Both passes over tables whose scales are kept apart.

    Attributes:
        tables: inputs, then results.
    """

    def __init__(self, path: ContractionPath, logs: np.ndarray, top: np.ndarray, lows: np.ndarray):
        layout = _layout(path)
        lost: list[Any] = [None] * len(top)
        if lows.min() < -FLUSH:
            small = logs < -FLUSH
            lost = layout.split(np.where(small & (logs > -np.inf), np.exp(np.maximum(logs, -LEAST_LOG)), 0.0))
            logs[small] = -np.inf
        super().__init__(path, logs, top)
        self.tables = [
            ScaledTable(table, scale, max(low, -FLUSH), 0.0, gone if low < -FLUSH else None)
            for table, scale, low, gone in zip(self.arrays, top.tolist(), lows.tolist(), lost, strict=True)
        ]

    def forward(self) -> bool:
        """Run all steps; return False if the result is lost."""
        for step in self.steps:
            parts = [self.tables[each.table] for each in step.operands]
            operands = [each.read(part.table) for each, part in zip(step.operands, parts, strict=True)]
            found = _multiplied(step, parts, operands)
            if not found.within_range():
                return False
            self.read.append(operands)
            self.tables.append(found.turned(step.turned))
        total = self.tables[-1]
        if not total.table > 0:
            return False
        self.log_partition = math.log(total.table) + total.scale
        return True

    def backward(self) -> bool:
        """Run the derivatives of all steps, in reverse; return False if too much may be lost."""
        first = len(self.layout.sizes)
        weights = [ScaledTable(np.ones(()), 0.0, 0.0, 0.0)] * len(self.tables)
        for number in reversed(range(len(self.steps))):
            step, operands, weight = self.steps[number], self.read.pop(), weights[first + number]
            for place, each in enumerate(step.operands):
                made = step.derivative(operands, weight.table, place)
                found = dataclasses.replace(weight, table=made, lost=None)
                if len(operands) > 1:  # the derivative is a product with the other operand, and its scale too
                    other = self.tables[step.operands[1 - place].table]
                    found.scale, found.low = weight.scale + other.scale, weight.low + other.low
                    found.high = weight.high + other.high + math.log(step.cells / made.size)
                    if not found.within_range():
                        return False
                weights[each.table] = found.turned(each.turned)
                self._count(self.tables[each.table], weights[each.table])
        self.weights = [weight.table for weight in weights]
        return self.error < 1

    def _count(self, table: ScaledTable, weight: ScaledTable) -> None:
        """Add what was lost of a table and of the derivative with respect to it."""
        lost = 0.0
        if table.lost is not None:
            lost += float(np.sum(table.lost * weight.table))
        if weight.lost is not None:
            lost += float(np.sum(weight.lost * table.table))
        # a cell times its derivative is its part of the partition function, so what was lost of either is
        # a share of that: the sum of all these products is the whole
        kept = self.log_partition - table.scale - weight.scale
        if kept < -RANGE:  # whose terms leave float64's range
            self.error = math.inf
        elif lost:
            self.error += math.exp(min(math.log(lost) - kept, 0.0))


@dataclasses.dataclass(frozen=True)
class _Layout:
    """The tables of a structure in one vector."""

    shapes: tuple[Axes, ...]
    starts: np.ndarray
    sizes: np.ndarray
    parts: tuple[slice, ...]
    log_states: float

    def split(self, vector: np.ndarray) -> list[np.ndarray]:
        """Return views of all tables."""
        return [vector[part].reshape(shape) for part, shape in zip(self.parts, self.shapes, strict=True)]


@functools.lru_cache(maxsize=256)
def _layout(path: ContractionPath) -> _Layout:
    shapes = path.structure.shapes
    sizes = np.array([math.prod(shape) for shape in shapes])
    ends = np.cumsum(sizes)
    parts = tuple(map(slice, (ends - sizes).tolist(), ends.tolist()))
    states = sum(map(math.log, path.structure.sizes))
    return _Layout(shapes, ends - sizes, sizes, parts, states)


@dataclasses.dataclass(frozen=True)
class _Operand:
    """A table as a step reads it.

    Attributes:
        table: its number.
        order: its axes in the order in which the step reads them; None if they are in order.
        back: the reverse.
        ordered: its shape in that order.
        shape: its shape for the step: [batch, rows, inner] or [batch, inner, columns], [kept, reduced].
    """

    table: int
    order: Axes | None
    back: Axes | None
    ordered: Axes
    shape: Axes

    def read(self, table: np.ndarray) -> np.ndarray:
        """Return the table as the step reads it."""
        if self.order is not None:
            table = table.transpose(self.order)
        return np.ascontiguousarray(table).reshape(self.shape)

    def turned(self, found: np.ndarray) -> np.ndarray:
        """Return an array of the step's shape as one of the table's shape."""
        found = found.reshape(self.ordered)
        return found if self.back is None else found.transpose(self.back)


@dataclasses.dataclass(frozen=True)
class _Step:
    """One or two operands, the shape of the product, and how it becomes the table that later steps read.

    Attributes:
        operands: what is read.
        ordered: shape of the product's variables: batch, rows, columns.
        order: the result's axes among these; None if they are in order.
        back: the reverse.
        terms: number of terms of a cell of the result.
        cells: number of all products.
    """

    operands: tuple[_Operand, ...]
    ordered: Axes
    order: Axes | None
    back: Axes | None
    terms: int
    cells: int

    def turned(self, found: np.ndarray) -> np.ndarray:
        """Return a product as the result's table."""
        found = found.reshape(self.ordered)
        return found if self.order is None else found.transpose(self.order)

    def result(self, tables: Sequence[np.ndarray]) -> np.ndarray:
        """Return the operands' product, summed."""
        if len(tables) > 1:
            return _product(tables[0], tables[1])
        (table,) = tables
        return table @ np.ones(table.shape[1]) if table.shape[1] > 1 else table.copy()

    def derivative(self, tables: Sequence[np.ndarray], weight: np.ndarray, place: int) -> np.ndarray:
        """Return the derivative of the sum of weight times result with respect to an operand."""
        if len(tables) == 1:
            return np.repeat(weight.reshape(-1), tables[0].shape[1])
        left, right = tables
        weight = weight if self.back is None else weight.transpose(self.back)
        weight = np.ascontiguousarray(weight).reshape(*left.shape[:2], right.shape[2])
        if place == 0:
            return _product(weight, right.transpose(0, 2, 1))
        return _product(left.transpose(0, 2, 1), weight)

    def maximum(self, tables: Sequence[np.ndarray]) -> np.ndarray:
        """Return the largest sum of the operands' logarithms."""
        if len(tables) == 1:
            return tables[0].max(axis=1)
        left, right = tables
        found = np.empty((*left.shape[:2], right.shape[2]))
        for rows, sums in _unions(left, right):
            sums.max(axis=2, out=found[rows])
        return found

    def log_sum(self, tables: Sequence[np.ndarray]) -> np.ndarray:
        """Return the logarithm of the sum of the exponentials of the operands' sums."""
        if len(tables) == 1:
            return host_logsumexp(tables[0], (1,))
        left, right = tables
        found = np.empty((*left.shape[:2], right.shape[2]))
        for rows, sums in _unions(left, right):
            found[rows] = host_logsumexp(sums, (2,))
        return found

    def log_shares(
        self, tables: Sequence[np.ndarray], result: np.ndarray, weight: np.ndarray
    ) -> list[np.ndarray]:
        """Return the sums of weight times share of the result over each operand's cells, from logarithms."""
        result = np.where(np.isfinite(result), result, 0.0)
        if len(tables) == 1:
            return [weight.reshape(-1, 1) * np.exp(tables[0] - result.reshape(-1, 1))]
        left, right = tables
        weight = weight if self.back is None else weight.transpose(self.back)
        weight = weight.reshape(result.shape)
        found = [np.empty_like(left), np.zeros_like(right)]
        for rows, sums in _unions(left, right):
            shares = np.exp(sums - result[rows][:, :, None]) * weight[rows][:, :, None]
            found[0][rows] = shares.sum(axis=3)
            found[1][rows[0]] += shares.sum(axis=1)
        return found


def _unions(left: np.ndarray, right: np.ndarray) -> Iterator[tuple[tuple[slice, slice], np.ndarray]]:
    """Yield sums [b, m, k, n] of [b, m, k] and [b, k, n] for some batches and rows at a time."""
    batch, rows, inner = left.shape
    some = max(1, CHUNK_CELLS // (inner * right.shape[2]))
    each = max(1, some // rows)
    for b in range(0, batch, each):
        for m in range(0, rows, some):
            part = slice(b, b + each), slice(m, m + some)
            yield part, left[part][:, :, :, None] + right[part[0], None]


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the batched matrix product of [b, m, k] and [b, k, n]."""
    batch, rows, inner = left.shape
    columns = right.shape[2]
    if inner == 1:
        return left * right
    if batch <= MANY_PRODUCTS or rows * inner * columns >= FEW_TERMS:
        return np.matmul(left, right)
    return np.einsum("bmk,bkn->bmn", left, right)


@functools.lru_cache(maxsize=256)
def _steps(path: ContractionPath) -> tuple[_Step, ...]:
    cells, shape_of = path.structure.cells, path.structure.shape

    def operand(table: int, *groups: Axes) -> _Operand:
        wanted = tuple(v for group in groups for v in group)
        order, back = _orders(path.variables(table), wanted)
        return _Operand(table, order, back, shape_of(wanted), tuple(map(cells, groups)))

    steps = []
    for step in path.steps:
        gone, product = step.union[len(step.kept) :], path.product(step)
        if product is None:
            alone = operand(step.operands[0], step.kept, gone)
            steps.append(_Step((alone,), shape_of(step.kept), None, None, cells(gone), cells(step.union)))
            continue
        left, right = step.operands
        operands = (
            operand(left, product.batch, product.left, product.summed),
            operand(right, product.batch, product.summed, product.right),
        )
        found = (*product.batch, *product.left, *product.right)
        order, back = _orders(found, step.kept)
        steps.append(_Step(operands, shape_of(found), order, back, cells(gone), cells(step.union)))
    return tuple(steps)


def _orders(own: Axes, wanted: Axes) -> tuple[Axes, Axes] | tuple[None, None]:
    """Return the transposition from the axes of `own` to those of `wanted`, and back; None if they agree."""
    if own == wanted:
        return None, None
    return tuple(own.index(v) for v in wanted), tuple(wanted.index(v) for v in own)
