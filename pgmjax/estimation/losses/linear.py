"""Residuals of linear measurements in standard deviations, shared by the L1 and L2 losses.

Marginals are probabilities, so the residual of a row is ``(Q mu - y / total) * (total / stddev)``.
Both quotients are formed in float64 on the host. In float32 a total of 1e9 with a stddev of 1e-3
gives residuals up to 1e12 and squares up to 1e24, far below the largest float32 (3e38); measurements
that could overflow are refused when the loss is bound.

`curvature` bounds a weighted query's curvature in a squared loss, for the step size of gradient methods.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.arrays import module_of
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.losses.base import check_arguments, unique_cliques
from pgmjax.inference.ops.tables import host_join, join, split
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.queries import DenseMatrix, Product, Query
from pgmjax.queries.blocks import contract
from pgmjax.queries.rows import transposed

Asked = tuple[tuple[int, Query], ...]

_MAX_ENTRIES = 4_000_000  # of a matrix squared in `curvature`
MOST_DIGITS = 1e12  # counts over noise: of 16 digits, two for the noise itself and two for sums of many cells


@dataclasses.dataclass(frozen=True)
class QueryLayout:
    """Static structure of the residuals: cliques and queries, without attribute names.

    Attributes:
        shapes: shape of each clique's table.
        asked: distinct pairs (position of the clique, query) other than the cells themselves; the query's
            attributes are named by the indices of the table's axes.
        rows: total number of measured values.
    """

    shapes: tuple[tuple[int, ...], ...]
    asked: Asked
    rows: int


@dataclasses.dataclass(frozen=True, eq=False)
class HostPart:
    """Host-only data in float64: values and stddevs (counts) of every query, constants.

    Attributes:
        double: the residuals as on the device, with arrays in float64.
    """

    cliques: tuple[Clique, ...]
    asked: Asked
    values: tuple[np.ndarray, ...]
    stddevs: tuple[np.ndarray, ...]
    total: float
    curvature: float
    double: LinearResiduals


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["values", "weights", "asked_values", "asked_weights", "rest"],
    meta_fields=["layout"],
    drop_fields=["host"],
)
@dataclasses.dataclass(frozen=True, eq=False)
class LinearResiduals:
    """Residuals of all measurements: those of cells in one vector, others per query.

    Nearly all measurements are of the cells themselves. Their residuals are one operation on the vector
    of all marginals, for any number of cliques; each other query on a clique is compiled separately.

    Attributes:
        layout: the structure (static).
        values: for each cell of each clique the measured value over the total, in the device's dtype.
        weights: total over standard deviation; 0 for cells that are not measured and for padding.
        asked_values: for each other query [measurements, rows of each attribute] its values over the
            total.
        asked_weights: total over standard deviation, of the same shapes, or with axes of length 1
            if every measurement of the query has a single standard deviation.
        rest: constant term of half the squares after merging repeated measurements, a scalar.
        host: float64 copies, absent after a JAX transformation.
    """

    layout: QueryLayout
    values: Any
    weights: Any
    asked_values: tuple[Any, ...]
    asked_weights: tuple[Any, ...]
    rest: Any
    host: HostPart | None = None

    def __call__(self, marginals: Any) -> tuple[jax.Array, ...]:
        """Return the residuals in standard deviations of one vector of marginals (probabilities)."""
        xp = module_of(marginals)
        cells = (marginals[: len(self.values)] - self.values) * self.weights
        if not self.layout.asked:
            return (cells,)
        tables = split(marginals, self.layout.shapes)
        return (
            cells,
            *(
                (query.apply(tables[at], xp)[None] - values) * weights
                for (at, query), values, weights in zip(
                    self.layout.asked, self.asked_values, self.asked_weights, strict=True
                )
            ),
        )

    def transposed(self, weights: Sequence[Any], marginals: np.ndarray) -> np.ndarray:
        """Return the gradient of the sum of weight times residual, as a vector like `marginals`, in NumPy."""
        found = np.zeros(len(marginals))
        np.multiply(weights[0], self.weights, out=found[: len(self.weights)])
        if self.layout.asked:
            tables = split(found, self.layout.shapes)
            parts = zip(self.layout.asked, self.asked_weights, weights[1:], strict=True)
            for (at, query), scale, weight in parts:
                rows = (weight * scale).sum(axis=0)
                tables[at][...] += transposed(query, _axes(tables[at].shape), rows.reshape(-1))
        return found

    def joined(self, marginals: Sequence[Any]) -> jax.Array:
        """Return tables as one vector."""
        if len(marginals) != len(self.layout.shapes):
            raise ValueError(
                f"expected {len(self.layout.shapes)} marginals, one a clique, got {len(marginals)}."
            )
        return join(marginals)

    def cast(self, dtype: Any) -> LinearResiduals:
        """Return the residuals with device arrays of another type, unpadded; itself for its own type."""
        if self.values.dtype == dtype:
            return self
        host = self.on_host()
        found = jax.tree.map(lambda leaf: leaf.astype(dtype, copy=False), host.double)
        return dataclasses.replace(found, host=host)

    def padded(self, length: int) -> LinearResiduals:
        """Return the residuals for vectors padded to a given length; padding has weight 0."""
        more = length - len(self.values)
        if not more:
            return self
        padded = [np.pad(each, (0, more)) for each in (self.values, self.weights)]
        return dataclasses.replace(self, values=padded[0], weights=padded[1])

    def unpadded(self, cells: int) -> LinearResiduals:
        """Return the residuals for vectors of the cells alone."""
        return dataclasses.replace(self, values=self.values[:cells], weights=self.weights[:cells])

    def rows(self) -> np.ndarray:
        """Return what each residual changes by with each cell [residuals, cells], in NumPy."""
        without = dataclasses.replace(
            self,
            values=np.zeros_like(self.values),
            asked_values=tuple(np.zeros_like(each) for each in self.asked_values),
        )
        units = np.eye(len(self.values))
        return np.stack([host_join(without(unit), np.float64) for unit in units], axis=1)

    def exact(self, marginals: Sequence[np.ndarray]) -> np.ndarray:
        """Return all residuals [rows] in standard deviations in float64, on the host."""
        host = self.on_host()
        return np.concatenate(
            [
                ((_answers(query, np.asarray(marginals[at], np.float64)) * host.total - y) / s).reshape(-1)
                for (at, query), y, s in zip(host.asked, host.values, host.stddevs, strict=True)
            ]
        )

    def on_host(self) -> HostPart:
        """Return the float64 part; refuse after a JAX transformation."""
        if self.host is None:
            raise ValueError(
                "this loss went through a JAX transformation and lost its float64 part: call exact, cliques "
                "and lipschitz on the loss that losses.build returned."
            )
        return self.host


@functools.lru_cache(maxsize=512)
def _axes(shape: tuple[int, ...]) -> Domain:
    """Return the domain of a table whose attributes are named by the indices of its axes."""
    return Domain({str(axis): size for axis, size in enumerate(shape)})


def linear_residuals(
    domain: Domain,
    measurements: Sequence[LinearMeasurement],
    total: float,
    dtype: Any,
    merge: bool = False,
) -> LinearResiduals:
    """Return the residuals of measurements; those on the same attributes share one clique.

    Args:
        domain: the attributes.
        measurements: noisy answers.
        total: number of records (counts).
        dtype: type of the device arrays.
        merge: replace repeated measurements of the same cells by their precision-weighted mean, with
            the same sum of squares up to a constant. Otherwise the first is in the vector and the
            others are among the queries.

    Raises:
        TypeError: not measurements.
        ValueError: no measurement, one that does not fit, or values too large for the dtype.
    """
    total, dtype = check_arguments(domain, measurements, total, dtype)
    if not measurements:
        raise ValueError("a loss needs at least one measurement, got none.")
    cliques = unique_cliques([measurement.clique for measurement in measurements])
    position = {frozenset(clique): at for at, clique in enumerate(cliques)}
    groups: dict[tuple[int, Query], list[tuple[np.ndarray, np.ndarray]]] = {}
    bend = 0.0
    for measurement in measurements:
        at = position[frozenset(measurement.clique)]
        query, values, stddevs = _aligned(measurement, cliques[at], domain)
        stddevs = _told_apart(measurement.clique, values[None], stddevs[None])[0]
        scale = np.array([total])
        _check_ranges([measurement], values[None], stddevs[None], domain, scale, dtype, len(measurements))
        bend += curvature(query, domain, total / stddevs)
        key = (at, query.rename(tuple(str(axis) for axis in range(len(query.clique)))))
        groups.setdefault(key, []).append((values, stddevs))
    all_values = tuple(np.stack([values for values, _ in group]) for group in groups.values())
    all_stddevs = tuple(_stacked([stddevs for _, stddevs in group]) for group in groups.values())
    shapes = tuple(domain.shape_of(clique) for clique in cliques)
    double = _scaled(tuple(groups), all_values, all_stddevs, total, shapes, merge)
    host = HostPart(cliques, tuple(groups), all_values, all_stddevs, total, bend, double)
    return dataclasses.replace(double, host=host).cast(dtype)


def residuals_of_rows(
    domain: Domain,
    rows: Sequence[Sequence[LinearMeasurement]],
    totals: Sequence[float],
    dtype: Any,
    merge: bool = False,
) -> list[LinearResiduals]:
    """Return the residuals of each row of a batch: the same as `linear_residuals` of each.

    Rows that measure nothing twice are checked and laid out together.

    Args:
        domain: the attributes.
        rows: measurements of each row, with the same cliques and queries, checked against the domain.
        totals: number of records of each row (counts).
        dtype: type of the device arrays.
        merge: as in `linear_residuals`.
    """
    first = linear_residuals(domain, rows[0], totals[0], dtype, merge)
    host = first.on_host()
    if len(host.asked) < len(rows[0]):
        rest = zip(rows[1:], totals[1:], strict=True)
        return [first, *(linear_residuals(domain, row, total, dtype, merge) for row, total in rest)]
    bends, scale = np.zeros(len(rows)), np.array(totals, np.float64)
    measured: list[tuple[np.ndarray, np.ndarray]] = []
    for place, (at, _) in enumerate(host.asked):
        column = [row[place] for row in rows]
        query, *_ = _aligned(column[0], host.cliques[at], domain)
        values, stddevs = _column(column, query, host.cliques[at], domain)
        stddevs = _told_apart(column[0].clique, values, stddevs)
        _check_ranges(column, values, stddevs, domain, scale, np.dtype(dtype), len(host.asked))
        bends += _curvatures(query, domain, _by_row(scale, stddevs) / stddevs)
        measured.append((values, stddevs))
    double = _rows_scaled(host.double, host.asked, measured, scale)
    single = jax.tree.map(lambda leaf: leaf.astype(dtype, copy=False), double)
    parts = [
        HostPart(
            host.cliques,
            host.asked,
            tuple(values[row, None] for values, _ in measured),
            tuple(stddevs[row, None] for _, stddevs in measured),
            float(scale[row]),
            float(bends[row]),
            _row(double, row),
        )
        for row in range(len(rows))
    ]
    return [dataclasses.replace(_row(single, row), host=part) for row, part in enumerate(parts)]


def _column(
    column: Sequence[LinearMeasurement], query: Query, clique: Clique, domain: Domain
) -> tuple[np.ndarray, np.ndarray]:
    """Return values and stddevs of one measurement in all rows [rows, ...], as `_aligned` gives each."""
    own = column[0].query
    shape = own.shape(domain)
    values = np.stack([one.values for one in column]).astype(np.float64).reshape(-1, *shape)
    stddevs = np.stack([one.stddev for one in column])
    stddevs = stddevs.reshape(-1, *(shape if column[0].stddev.ndim else (1,) * len(shape)))
    if own.clique == clique or isinstance(query, DenseMatrix):
        return values, stddevs
    axes = [0, *(1 + own.clique.index(name) for name in clique)]
    return values.transpose(axes), stddevs.transpose(axes)


def _by_row(numbers: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Return one number a row with as many axes as another array."""
    return numbers.reshape(-1, *(1,) * (like.ndim - 1))


def _told_apart(clique: Clique, values: np.ndarray, stddevs: np.ndarray) -> np.ndarray:
    """Return the stddevs of each row [rows, ...], raised to what float64 can tell apart, with a warning."""
    largest = np.abs(values).reshape(len(values), -1).max(axis=1)
    least = _by_row(largest / MOST_DIGITS, stddevs)
    if (stddevs >= least).all():
        return stddevs
    digits = MOST_DIGITS * float((least / stddevs).max())
    checks.warn(
        f"the counts of the measurement on {clique} are up to {digits:.0e} times their noise, more than the "
        f"{MOST_DIGITS:.0e} that float64 can tell apart: they are fitted as if their noise were that much. "
        "Counts that are known exactly may be a FixedMarginal."
    )
    return np.maximum(stddevs, least)


def _check_ranges(
    column: Sequence[LinearMeasurement],
    values: np.ndarray,
    stddevs: np.ndarray,
    domain: Domain,
    totals: np.ndarray,
    dtype: np.dtype,
    share: int,
) -> None:
    """Refuse rows in which a product of total, values, stddevs and coefficients could leave the dtype.

    Args:
        column: one measurement in all rows, of the same query.
        values: of each row [rows, ...], counts.
        stddevs: of each row [rows, ...], counts.
        domain: the attributes.
        totals: number of records of each row [rows], counts.
        dtype: of the device arrays.
        share: number of measurements in a row.
    """
    rows = len(column)
    answers = totals * max(1.0, _size(column[0].query.l1_sensitivity(Relation.ADD_REMOVE, domain)))
    largest = np.abs(values).reshape(rows, -1).max(axis=1)
    distances = np.log10(answers + largest) - np.log10(stddevs.reshape(rows, -1).min(axis=1))
    losses = 2 * np.maximum(distances, 0) + math.log10(column[0].values.size * share)
    shares = np.log10(np.maximum(largest, np.finfo(dtype).tiny)) - np.log10(totals)
    limit = math.log10(float(np.finfo(dtype).max)) - 1
    for what, reach in (("loss", losses.max()), ("values as shares of the total", shares.max())):
        if reach > limit:
            remedy = "use dtype='float64' or " if dtype == np.float32 else ""
            raise ValueError(
                f"the {what} of the measurement on {column[0].clique} could reach 1e{reach:.0f}, above what "
                f"{dtype} holds (1e{limit:.0f}): {remedy}check that stddev, values and total are in counts."
            )


def _size(number: Any) -> float:
    """Return a number as a float, infinity where no float is so large."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _curvatures(query: Query, domain: Domain, weights: np.ndarray) -> np.ndarray:
    """Same as `curvature` for the weights of each row [rows, ...]."""
    flat = weights.reshape(len(weights), -1)
    found = flat.max(axis=1) ** 2 * float(query.l2_sensitivity_squared(Relation.ADD_REMOVE, domain))
    for row in np.flatnonzero(flat.min(axis=1) < flat.max(axis=1)):
        found[row] = curvature(query, domain, weights[row])
    return np.asarray(found)


def _rows_scaled(
    first: LinearResiduals,
    every: Asked,
    measured: Sequence[tuple[np.ndarray, np.ndarray]],
    totals: np.ndarray,
) -> LinearResiduals:
    """Same as `_scaled` for every row, without repeated cells: every leaf has a leading axis [rows].

    Args:
        first: that of the first row.
        every: for each measurement the position of its clique, and its query.
        measured: values and stddevs of each measurement [rows, ...].
        totals: number of records of each row (counts).
    """
    rows, shapes = len(totals), first.layout.shapes
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    cells = np.zeros((2, rows, ends[-1]))
    asked: list[tuple[np.ndarray, np.ndarray]] = []
    for (at, query), (y, stddevs) in zip(every, measured, strict=True):
        scale = _by_row(totals, y)
        if _is_cells(query):
            place = slice(ends[at] - math.prod(shapes[at]), ends[at])
            np.divide(y, scale, out=cells[0][:, place].reshape(y.shape))
            cells[1][:, place] = (scale / stddevs).reshape(rows, -1)
        else:
            asked.append(((y / scale)[:, None], (scale / stddevs)[:, None]))
    return dataclasses.replace(
        first,
        values=cells[0],
        weights=cells[1],
        asked_values=tuple(values for values, _ in asked),
        asked_weights=tuple(weights for _, weights in asked),
        rest=np.zeros(rows),
    )


def _row(residuals: LinearResiduals, row: int) -> LinearResiduals:
    """Return the residuals of one row of those of `_rows_scaled`."""
    return dataclasses.replace(
        residuals,
        values=residuals.values[row],
        weights=residuals.weights[row],
        asked_values=tuple(values[row] for values in residuals.asked_values),
        asked_weights=tuple(weights[row] for weights in residuals.asked_weights),
        rest=residuals.rest[row, ...],
    )


def _scaled(
    every: Asked,
    all_values: Sequence[np.ndarray],
    all_stddevs: Sequence[np.ndarray],
    total: float,
    shapes: tuple[tuple[int, ...], ...],
    merge: bool,
) -> LinearResiduals:
    """Return the residuals in float64: the measurements of cells apart from others."""
    cells = [(np.zeros(shape), np.zeros(shape)) for shape in shapes]
    asked, values, weights = [], [], []
    rest = 0.0
    for (at, query), y, stddevs in zip(every, all_values, all_stddevs, strict=True):
        y, w = y / total, total / stddevs
        if _is_cells(query):
            if merge and len(y) > 1:
                squares = np.broadcast_to(w**2, y.shape)
                mean = (squares * y).sum(axis=0) / squares.sum(axis=0)
                rest += 0.5 * float(np.sum(squares * (y - mean) ** 2))
                cells[at] = mean, np.sqrt(squares.sum(axis=0))
                continue
            cells[at] = y[0], np.broadcast_to(w[0], y[0].shape)
            y, w = y[1:], w[1:]
            if not len(y):
                continue
        asked.append((at, query))
        values.append(y)
        weights.append(w)
    return LinearResiduals(
        QueryLayout(shapes, tuple(asked), sum(array.size for array in all_values)),
        host_join([y for y, _ in cells], np.float64),
        host_join([w for _, w in cells], np.float64),
        tuple(values),
        tuple(weights),
        np.asarray(rest, np.float64),
    )


def _answers(query: Query, table: np.ndarray) -> np.ndarray:
    """Return the answers to a query [1, rows of each attribute]."""
    return (table if _is_cells(query) else query.apply(table))[None]


def _is_cells(query: Query) -> bool:
    return isinstance(query, Product) and query.is_identity


def _stacked(stddevs: list[np.ndarray]) -> np.ndarray:
    return np.stack(np.broadcast_arrays(*stddevs))


def _aligned(
    measurement: LinearMeasurement, clique: Clique, domain: Domain
) -> tuple[Query, np.ndarray, np.ndarray]:
    """Return query, values and stddevs (one, or one per row) with axes in the order of `clique`."""
    query = measurement.query
    shape = query.shape(domain)
    values = measurement.flat_values().reshape(shape)
    stddevs = measurement.stddev.reshape(shape if measurement.stddev.ndim else (1,) * len(shape))
    if query.clique == clique:
        return query, values, stddevs
    axes = [query.clique.index(name) for name in clique]
    if isinstance(query, DenseMatrix):
        entries = query.matrix(domain)
        entries = entries.reshape(len(entries), *domain.shape_of(query.clique))
        entries = entries.transpose([0, *(axis + 1 for axis in axes)]).reshape(len(entries), -1)
        return DenseMatrix(clique, entries), values, stddevs
    return query.reorder(clique), values.transpose(axes), stddevs.transpose(axes)


def curvature(query: Query, domain: Domain, weights: np.ndarray) -> float:
    """Return an upper bound on ``sum_i (Q_ij weights_i)**2`` over the cells j.

    Exact up to rounding for products with small blocks, small matrices and equal weights; otherwise
    the largest weight is used for all rows.

    Args:
        query: the query Q.
        domain: the attributes.
        weights: inverse standard deviation of each row [rows, in any shape], in any unit.
    """
    largest = float(np.max(weights))
    if float(np.min(weights)) < largest:
        columns = _weighted_columns(query, domain, weights**2)
        if columns is not None:
            return float(columns.max())
    return largest**2 * float(query.l2_sensitivity_squared(Relation.ADD_REMOVE, domain))


def _weighted_columns(query: Query, domain: Domain, squares: np.ndarray) -> np.ndarray | None:
    """Return ``sum_i Q_ij**2 squares_i`` for every cell j, or None if it is too costly."""
    if isinstance(query, Product):
        result = squares.reshape(query.shape(domain))
        for axis, (name, block) in enumerate(zip(query.clique, query.blocks, strict=True)):
            size = domain[name]
            if block.kind == "identity":
                continue
            if block.rows(size) * size > _MAX_ENTRIES:
                return None
            result = contract(block.matrix(size).astype(np.float64).T ** 2, result, axis, np)
        return result
    if isinstance(query, DenseMatrix) or query.num_rows(domain) * domain.size(query.clique) <= _MAX_ENTRIES:
        return (query.matrix(domain).astype(np.float64) ** 2).T @ squares.reshape(-1)
    return None
