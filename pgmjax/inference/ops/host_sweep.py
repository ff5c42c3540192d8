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
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pgmjax.inference.ops import Reduce
from pgmjax.inference.plan.contraction import ContractionPath, Form
from pgmjax.kernels.log_sum_exp import host_logsumexp, host_max

Axes = tuple[int, ...]
Passed = tuple[float, list[np.ndarray], float]  # log-partition, derivatives by all tables, lost probability

RANGE = 600.0  # nats: float64 reaches from exp(-708) to exp(709)
FLUSH = RANGE / 2  # of the factors of a product, which then stays within RANGE
LEAST_LOG = 700.0  # nats below 1, whose exponential is still a normal number
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


def _summed(step: _Step, parts: list[Any]) -> ScaledTable | np.ndarray:
    """Return a step's result: as probabilities if both operands are and no cell is lost, else logarithms."""
    if all(isinstance(part, ScaledTable) for part in parts):
        found = _multiplied(step, parts, step.read([part.table for part in parts]))
        if not found.table.any():
            return ScaledTable(step.written(found.table), 0.0, 0.0, 0.0)
        if found.within_range() and found.lost is None:
            return found.written(step)
    return step.written(step.reduced(step.read([*map(logs_of, parts)]), host_logsumexp))


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

    def written(self, form: Form | _Step) -> ScaledTable:
        """Return the table, which has a step's shape, in its own."""
        lost = None if self.lost is None else form.written(self.lost)
        return ScaledTable(form.written(self.table), self.scale, self.low, self.high, lost)


def _multiplied(step: _Step, parts: Sequence[ScaledTable], read: Sequence[np.ndarray]) -> ScaledTable:
    """Return a step's result, over the operands' scales."""
    low, high = sum(part.low for part in parts), sum(part.high for part in parts)
    scale = sum(part.scale for part in parts)
    return ScaledTable(step.summed(read), scale, low, high + math.log(step.terms))


@functools.lru_cache(maxsize=256)
def program(path: ContractionPath) -> Program:
    """Return a path as NumPy runs it."""
    sizes = np.array([math.prod(shape) for shape in path.structure.shapes])
    ends = np.cumsum(sizes)
    parts = tuple(map(slice, (ends - sizes).tolist(), ends.tolist()))
    states = sum(map(math.log, path.structure.sizes))
    steps = []
    for step, (*operands, result) in zip(path.steps, path.forms, strict=True):
        terms = path.structure.cells(step.union[len(step.kept) :])
        steps.append(_Step(tuple(operands), result, terms, path.structure.cells(step.union)))
    return Program(tuple(steps), path.structure.shapes, ends - sizes, sizes, parts, states)


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """The steps of a path, and the tables of its cliques in one vector, one after another, each row-major.

    Log-potentials are float64, finite or minus infinity.

    Attributes:
        steps: the steps.
        shapes: of each table.
        starts: place of its first cell in the vector.
        sizes: its number of cells.
        parts: its place in the vector.
        log_states: logarithm of the number of joint states.
    """

    steps: tuple[_Step, ...]
    shapes: tuple[Axes, ...]
    starts: np.ndarray
    sizes: np.ndarray
    parts: tuple[slice, ...]
    log_states: float

    def marginals(self, vector: np.ndarray) -> HostMarginals:
        """Return the log-partition and all marginals of a model; the path's last step leaves a scalar."""
        top = np.maximum.reduceat(vector, self.starts)
        top[top == -np.inf] = 0.0
        logs = vector - np.repeat(top, self.sizes)
        lows = np.minimum.reduceat(logs, self.starts)
        if lows.min() == -np.inf:
            lows = np.minimum.reduceat(np.where(np.isneginf(logs), 0.0, logs), self.starts)
        if lows.sum() > -RANGE and self.log_states < RANGE:
            cells = np.exp(logs)
            found = self._plain(self.split(cells), top)
        else:
            lost = self._flushed(logs) if lows.min() < -FLUSH else [None] * len(top)
            cells = np.exp(logs)
            inputs = zip(self.split(cells), top.tolist(), lows.tolist(), lost, strict=True)
            tables = [
                ScaledTable(table, scale, max(low, -FLUSH), 0.0, gone) for table, scale, low, gone in inputs
            ]
            found = _ScaledPasses(self, tables).run()
        if found is None:
            return HostMarginals(-math.inf, np.zeros_like(vector), math.inf)
        log_partition, weights, error = found
        made = self._joined(weights)
        made *= cells
        made /= np.repeat(np.add.reduceat(made, self.starts), self.sizes)
        return HostMarginals(log_partition, made, error)

    def log_marginals(self, vector: np.ndarray) -> HostMarginals:
        """Same as `marginals` in logarithms, without a loss: slower by the exponentials of all products."""
        tables, read, results = self._in_logs(vector, host_logsumexp)
        weights = [np.ones(())] * len(tables)
        for number in reversed(range(len(self.steps))):
            step = self.steps[number]
            shares = step.log_shares(read.pop(), results.pop(), weights[len(self.sizes) + number])
            for each, share in zip(step.operands, shares, strict=True):
                weights[each.table] = each.written(share)
        return HostMarginals(float(tables[-1]), self._joined(weights), 0.0)

    def maximum(self, vector: np.ndarray) -> float:
        """Return the largest sum of potentials over all joint states (nats)."""
        return float(self._in_logs(vector, host_max)[0][-1])

    def contracted(self, tables: Sequence[np.ndarray]) -> np.ndarray:
        """Return the logarithm of the sum over all variables but the path's output [sizes of the output].

        Products are matrix products; logarithms take over from the step at which cells would be lost.
        """
        alive: list[Any] = [*map(scaled, tables)]
        with np.errstate(divide="ignore"):
            for step in self.steps:
                parts = [alive[each.table] for each in step.operands]
                for each in step.operands:
                    alive[each.table] = None  # its memory is free
                alive.append(_summed(step, parts))
            return logs_of(alive[-1])

    def split(self, vector: np.ndarray) -> list[np.ndarray]:
        """Return views of all tables."""
        return [vector[part].reshape(shape) for part, shape in zip(self.parts, self.shapes, strict=True)]

    def _joined(self, weights: Sequence[np.ndarray]) -> np.ndarray:
        """The first tables, those of the cliques, as a vector."""
        return np.concatenate([weight.reshape(-1) for weight in weights[: len(self.sizes)]])

    def _flushed(self, logs: np.ndarray) -> list[np.ndarray | None]:
        """Make small cells impossible; return what is lost of each table, None if nothing is."""
        small = (logs < -FLUSH) & (logs > -np.inf)
        lost = self.split(np.where(small, np.exp(np.maximum(logs, -LEAST_LOG)), 0.0))
        logs[small] = -np.inf
        return [table if table.any() else None for table in lost]

    def _in_logs(
        self, vector: np.ndarray, reduce: Reduce
    ) -> tuple[list[np.ndarray], list[list[np.ndarray]], list[np.ndarray]]:
        """All tables, and for each step its operands as it reads them, and its result."""
        tables, read, results = self.split(vector), [], []
        for step in self.steps:
            read.append(step.read([tables[each.table] for each in step.operands]))
            results.append(step.reduced(read[-1], reduce))
            tables.append(step.written(results[-1]))
        return tables, read, results

    def _plain(self, tables: list[np.ndarray], top: np.ndarray) -> Passed | None:
        """Both passes over tables of which every product stays within float64's range."""
        read = []
        for step in self.steps:
            read.append(step.read([tables[each.table] for each in step.operands]))
            tables.append(step.written(step.summed(read[-1])))
        total = float(tables[-1])
        if not total > 0:
            return None
        weights = [np.ones(())] * len(tables)  # derivatives of the result, as `tables`
        for number in reversed(range(len(self.steps))):
            step = self.steps[number]
            made = step.derivatives(read.pop(), weights[len(self.sizes) + number])
            for each, weight in zip(step.operands, made, strict=True):
                weights[each.table] = each.written(weight)
        return math.log(total) + float(top.sum()), weights, 0.0


class _ScaledPasses:
    """Both passes over tables whose scales are kept apart.

    Attributes:
        tables: inputs, then results.
        log_partition: log of the result.
        error: bound on the lost probability.
    """

    def __init__(self, program: Program, tables: list[ScaledTable]):
        self.steps, self.first, self.tables = program.steps, len(tables), tables
        self.log_partition, self.error = -math.inf, 0.0

    def run(self) -> Passed | None:
        """Run all steps and their derivatives; None if the result is lost, or too much may be."""
        read = []
        for step in self.steps:
            parts = [self.tables[each.table] for each in step.operands]
            read.append(step.read([part.table for part in parts]))
            found = _multiplied(step, parts, read[-1])
            if not found.within_range():
                return None
            self.tables.append(found.written(step))
        total = self.tables[-1]
        if not total.table > 0:
            return None
        self.log_partition = math.log(total.table) + total.scale
        weights = [ScaledTable(np.ones(()), 0.0, 0.0, 0.0)] * len(self.tables)
        for number in reversed(range(len(self.steps))):
            step, weight = self.steps[number], weights[self.first + number]
            made = step.derivatives(read.pop(), weight.table)
            for place, each in enumerate(step.operands):
                found = dataclasses.replace(weight, table=made[place], lost=None)
                if len(made) > 1:  # the derivative is a product with the other operand, and its scale too
                    other = self.tables[step.operands[1 - place].table]
                    found.scale, found.low = weight.scale + other.scale, weight.low + other.low
                    found.high = weight.high + other.high + math.log(step.cells / made[place].size)
                    if not found.within_range():
                        return None
                weights[each.table] = found.written(each)
                self._count(self.tables[each.table], weights[each.table])
        return (
            (self.log_partition, [weight.table for weight in weights], self.error) if self.error < 1 else None
        )

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
class _Step:
    """One or two operands and their product, summed.

    Attributes:
        operands: what is read.
        result: what is written.
        terms: number of terms of a cell of the result.
        cells: number of all products.
    """

    operands: tuple[Form, ...]
    result: Form
    terms: int
    cells: int

    def read(self, tables: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the operands in the step's shape, contiguous for BLAS."""
        # as `Form.read`, of which a call for each would be felt where tables are small
        return [
            np.ascontiguousarray(table if each.order is None else table.transpose(each.order)).reshape(
                each.shape
            )
            for each, table in zip(self.operands, tables, strict=True)
        ]

    def written(self, found: np.ndarray) -> np.ndarray:
        """Return the result as later steps read it."""
        found, back = found.reshape(self.result.ordered), self.result.back
        return found if back is None else found.transpose(back)

    def summed(self, tables: Sequence[np.ndarray]) -> np.ndarray:
        """Return the operands' product, summed."""
        return tables[0] @ np.ones(self.terms) if len(tables) == 1 else np.matmul(*tables)

    def derivatives(self, tables: Sequence[np.ndarray], weight: np.ndarray) -> list[np.ndarray]:
        """Return the derivatives of the sum of weight times result with respect to each operand."""
        weight = np.ascontiguousarray(self.result.read(weight))
        if len(tables) == 1:
            return [np.repeat(weight, tables[0].shape[1])]
        left, right = tables
        return [np.matmul(weight, right.transpose(0, 2, 1)), np.matmul(left.transpose(0, 2, 1), weight)]

    def reduced(self, tables: Sequence[np.ndarray], reduce: Reduce) -> np.ndarray:
        """Return the operands' sum, whose last axis is reduced."""
        if len(tables) == 1:
            return reduce(tables[0], (1,))
        found = np.empty(self.result.shape)
        for rows, sums in _unions(*tables):
            found[rows] = reduce(sums, (2,))
        return found

    def log_shares(
        self, tables: Sequence[np.ndarray], result: np.ndarray, weight: np.ndarray
    ) -> list[np.ndarray]:
        """Return the sums of weight times share of the result over each operand's cells, from logarithms."""
        result, weight = np.where(np.isfinite(result), result, 0.0), self.result.read(weight)
        if len(tables) == 1:
            return [weight[:, None] * np.exp(tables[0] - result[:, None])]
        left, right = tables
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
