"""The losses of residuals of linear measurements in standard deviations: L2, half the squares, and L1.

Marginals are probabilities, so the residual of a row is ``(Q mu - y / total) * (total / stddev)``.
Both quotients are formed in float64 on the host. In float32 a total of 1e9 with a stddev of 1e-3
gives residuals up to 1e12 and squares up to 1e24, far below the largest float32 (3e38); measurements
that could overflow are refused when the loss is bound.

`LinearLoss` and `BoundLinear` are what both share; the L1 loss is smoothed for gradients. `curvatures`
bounds a weighted query's curvature in a squared loss, for the step size of gradient methods.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.device import dot, module_of
from pgmjax.data.domain import Clique, Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.losses.base import (
    BoundLoss,
    BoundResiduals,
    Loss,
    check_arguments,
    of_host,
    unique_cliques,
)
from pgmjax.inference.ops import host_join, join, split
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import CONTINUOUS, Gaussian, NoiseDistribution
from pgmjax.queries import DenseMatrix, Product, Query, marginal
from pgmjax.queries.blocks import contract
from pgmjax.queries.sums import transposed

Asked = tuple[tuple[int, Query], ...]
Arrays = tuple[Any, Any, tuple[Any, ...], tuple[Any, ...], Any]
ARRAYS = ("values", "weights", "asked_values", "asked_weights", "rest")
"""The fields of a `BoundLinear` that are leaves."""

_MAX_ENTRIES = 4_000_000  # of a matrix squared in `curvatures`
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
        arrays: those of the loss, in float64.
    """

    cliques: tuple[Clique, ...]
    asked: Asked
    values: tuple[np.ndarray, ...]
    stddevs: tuple[np.ndarray, ...]
    total: float
    curvature: float
    arrays: Arrays


@dataclasses.dataclass(frozen=True, eq=False)
class BoundLinear(BoundLoss):
    """A sum over the residuals of given measurements.

    A class must have `flat`, `bends` and `exact`, and be registered as a pytree: the fields `ARRAYS` are
    data, `layout` is static, and `host` is dropped.

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

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques whose marginals `__call__` takes."""
        return of_host(self.host).cliques

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each clique's table."""
        return self.layout.shapes

    def __call__(self, marginals: Sequence[Any]) -> jax.Array:
        """Return the (smoothed) loss of marginals in probabilities, a scalar."""
        if len(marginals) != len(self.shapes):
            raise ValueError(f"expected {len(self.shapes)} marginals, one a clique, got {len(marginals)}.")
        return self.flat(join(marginals))

    def standardised(self, marginals: Any) -> tuple[jax.Array, ...]:
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

    @abc.abstractmethod
    def bends(self) -> tuple[float, float]:
        """Return `sharpness` and `largest` of `BoundResiduals`, the same for all residuals."""

    def residuals(self, marginals: np.ndarray) -> BoundResiduals:
        """Return the residuals at a vector of marginals."""
        cells = sum(math.prod(shape) for shape in self.shapes)
        short = dataclasses.replace(self, values=self.values[:cells], weights=self.weights[:cells])
        # what each residual changes by with each cell: the queries' matrices
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        rows = [np.diag(short.weights)]
        for (at, query), weights, answers in zip(
            self.layout.asked, self.asked_weights, self.asked_values, strict=True
        ):
            matrix = query.matrix(_axes(self.shapes[at]))
            scale = np.broadcast_to(weights, answers.shape).reshape(-1, len(matrix), 1)
            part = np.zeros((scale.shape[0] * len(matrix), cells))
            part[:, ends[at] - matrix.shape[1] : ends[at]] = (scale * matrix).reshape(len(part), -1)
            rows.append(part)
        values = host_join(short.standardised(marginals), np.float64)
        sharpness, largest = (np.full(len(values), bend) for bend in self.bends())
        return BoundResiduals(np.concatenate(rows), values, sharpness, largest, np.zeros(len(marginals)))

    def padded(self, length: int) -> Self:
        """Return the loss for vectors padded to a given length; padding has weight 0."""
        more = length - len(self.values)
        if not more:
            return self
        values, weights = (np.pad(each, (0, more)) for each in (self.values, self.weights))
        return dataclasses.replace(self, values=values, weights=weights)

    def cast(self, dtype: Any) -> Self:
        """Return the loss with device arrays of another type, unpadded; itself for its own type."""
        if self.values.dtype == dtype:
            return self
        arrays = _cast(of_host(self.host).arrays, dtype)
        return dataclasses.replace(self, **dict(zip(ARRAYS, arrays, strict=True)))

    def exact_residuals(self, marginals: Sequence[np.ndarray]) -> np.ndarray:
        """Return all residuals [rows] in standard deviations in float64, on the host."""
        host, found = of_host(self.host), []
        for (at, query), values, stddevs in zip(host.asked, host.values, host.stddevs, strict=True):
            table = np.asarray(marginals[at], np.float64)
            answers = table if query.is_identity else query.apply(table)
            found.append(((answers[None] * host.total - values) / stddevs).reshape(-1))
        return np.concatenate(found)

    def least(self) -> float:
        """Return a lower bound on the loss of any marginals: 0."""
        return 0.0

    def lipschitz(self) -> float:
        """Return the sum over measurements of ``max_j sum_i (Q_ij total / stddev_i)**2``."""
        return of_host(self.host).curvature


class LinearLoss(Loss):
    """A loss of linear residuals.

    A class must have `_of_residuals`, which passes them to its `BoundLinear`, and may have `noise_level`.

    Attributes:
        merges: whether repeated measurements of the same cells count as their precision-weighted mean, with
            the same sum of squares up to a constant. Otherwise the first is in the vector and the others are
            among the queries.
    """

    merges: ClassVar[bool] = False

    @abc.abstractmethod
    def _of_residuals(self, *linear: Any) -> BoundLinear:
        """Return the loss of some residuals, the fields of a `BoundLinear`."""

    def bind(
        self, domain: Domain, measurements: Sequence[LinearMeasurement], total: float, dtype: Any = "float32"
    ) -> BoundLinear:
        """Return the loss of these measurements (see `Loss.bind`)."""
        return self.bind_rows(domain, [measurements], [total], dtype)[0]

    def bind_rows(
        self,
        domain: Domain,
        rows: Sequence[Sequence[LinearMeasurement]],
        totals: Sequence[float],
        dtype: Any = "float32",
    ) -> list[BoundLinear]:
        """Return the loss of each row, all bound together (see `Loss.bind_rows`).

        Measurements on the same attributes share one clique. Only those of the first row are checked here.

        Raises:
            TypeError: not measurements.
            ValueError: no measurement, one that does not fit, or values too large for the dtype.
        """
        _, dtype = check_arguments(domain, rows[0], totals[0], dtype)
        if not rows[0]:
            raise ValueError("a loss needs at least one measurement, got none.")
        cliques = unique_cliques([measurement.clique for measurement in rows[0]])
        position = {frozenset(clique): at for at, clique in enumerate(cliques)}
        groups: dict[tuple[int, Query], list[tuple[np.ndarray, np.ndarray]]] = {}
        bends, scale = np.zeros(len(rows)), np.array(totals, np.float64)
        for column in zip(*rows, strict=True):
            at = position[frozenset(column[0].clique)]
            query, values, stddevs = _aligned(column, cliques[at], domain)
            stddevs = _told_apart(column[0].clique, values, stddevs)
            _check_ranges(column, values, stddevs, domain, scale, dtype, len(rows[0]))
            bends += curvatures(query, domain, _by_row(scale, stddevs) / stddevs)
            axes = len(query.clique)
            named = _cells(axes) if query.is_identity else query.rename(tuple(map(str, range(axes))))
            groups.setdefault((at, named), []).append((values, stddevs))
        together = [map(list, zip(*group, strict=True)) for group in groups.values()]
        measured = [(np.stack(y, 1), np.stack(np.broadcast_arrays(*s), 1)) for y, s in together]
        all_values, all_stddevs = zip(*measured, strict=True)
        shapes = tuple(map(domain.shape_of, cliques))
        layout, double = _scaled(tuple(groups), all_values, all_stddevs, scale, shapes, self.merges)
        found: list[BoundLinear] = []
        for row, (total, bend) in enumerate(zip(scale.tolist(), bends.tolist(), strict=True)):
            of_row = operator.itemgetter((row, ...))
            values, stddevs, arrays = jax.tree.map(of_row, (all_values, all_stddevs, double))
            host = HostPart(cliques, tuple(groups), values, stddevs, total, bend, arrays)
            found.append(self._of_residuals(layout, *_cast(arrays, dtype), host))
        return found


@dataclasses.dataclass(frozen=True)
class L2(LinearLoss):
    """``0.5 * sum(((Q mu - y) / stddev)**2)``, the negative log-likelihood under Gaussian noise.

    Example:
        >>> L2().name
        'l2'

    References:
        McKenna et al. 2019, Appendix C.1 and C.2.
    """

    name: ClassVar[str] = "l2"
    merges: ClassVar[bool] = True

    def _of_residuals(self, *linear: Any) -> BoundL2:
        """Return the loss of some residuals."""
        return BoundL2(*linear)

    def noise_level(self, measurements: Sequence[LinearMeasurement]) -> float:
        """Return half the number of values, whatever the distribution of their noise."""
        return 0.5 * sum(measurement.values.size for measurement in measurements)


@jax.custom_jvp
def half_squares(residuals: tuple[jax.Array, ...]) -> jax.Array:
    """Return half the sum of squares of all entries, as one reduction over all arrays."""
    return 0.5 * jnp.sum(jnp.square(join(residuals)))


@half_squares.defjvp
def _half_squares_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[jax.Array, jax.Array]:
    # Per array, so that the gradient is elementwise, without a join and a split.
    (residuals,), (changes,) = primals, tangents
    return half_squares(residuals), functools.reduce(
        operator.add, [jnp.sum(each * change) for each, change in zip(residuals, changes, strict=True)]
    )


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=ARRAYS, meta_fields=["layout"], drop_fields=["host"]
)
@dataclasses.dataclass(frozen=True, eq=False)
class BoundL2(BoundLinear):
    """The L2 loss of given measurements."""

    def flat(self, marginals: Any) -> jax.Array:
        """Return the loss of all tables in one vector."""
        return half_squares(self.standardised(marginals)) + self.rest

    def value_and_gradient(self, marginals: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return `flat` and its gradient, in NumPy."""
        residuals = self.standardised(marginals)
        squares = sum(float(dot(each, each)) for each in residuals)
        return 0.5 * squares + self.rest, self.transposed(residuals, marginals)

    def bends(self) -> tuple[float, float]:
        """Return `sharpness` and `largest` of the residuals: those of half a square."""
        return 1.0, np.inf

    def exact(self, marginals: Sequence[np.ndarray]) -> float:
        """Return the loss in float64, on the host."""
        return float(0.5 * np.sum(np.square(self.exact_residuals(marginals))))


@dataclasses.dataclass(frozen=True)
class L1(LinearLoss):
    """``sum(abs(Q mu - y) / stddev)``, up to a factor the negative log-likelihood under Laplace noise.

    Gradients are those of a Huber function, at most ``rows * smoothing / 2`` below the loss.

    Attributes:
        smoothing: Huber threshold in standard deviations.

    References:
        McKenna et al. 2019, Appendix C.1 and C.2.
    """

    name: ClassVar[str] = "l1"
    smoothing: float = 0.01

    def __post_init__(self) -> None:
        object.__setattr__(self, "smoothing", checks.number("smoothing", self.smoothing, above=0))

    def _of_residuals(self, *linear: Any) -> BoundL1:
        """Return the loss of some residuals."""
        bound = BoundL1(*linear)
        return dataclasses.replace(bound, delta=np.asarray(self.smoothing, bound.values.dtype))

    def noise_level(self, measurements: Sequence[LinearMeasurement]) -> float:
        """Return the mean absolute noise of all values, in standard deviations."""
        return sum(_mean_absolute(measurement) * measurement.values.size for measurement in measurements)


def _mean_absolute(measurement: LinearMeasurement) -> float:
    """Return the mean absolute noise in standard deviations, by the continuous distribution of its family."""
    law: NoiseDistribution = CONTINUOUS.get(measurement.noise, Gaussian).of_stddev(1.0)
    if measurement.noise not in (*CONTINUOUS, "response") and measurement.distribution is not None:
        law = measurement.distribution
    return law.mean_absolute / law.stddev


@jax.custom_jvp
def huber(residuals: tuple[jax.Array, ...], delta: Any) -> jax.Array:
    """Return the sum over all entries r of ``r**2 / (2 delta)`` up to delta, ``abs(r) - delta / 2`` beyond.

    Branch-free, so that no unused branch can overflow.
    """
    every = join(residuals)
    near = jnp.clip(every, -delta, delta)
    return jnp.sum((near / delta) * (every - 0.5 * near))


@huber.defjvp
def _huber_jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[jax.Array, jax.Array]:
    (residuals, delta), (changes, change_of_delta) = primals, tangents
    slopes = [jnp.clip(each / delta, -1, 1) for each in residuals]
    of_residuals = [jnp.sum(slope * change) for slope, change in zip(slopes, changes, strict=True)]
    of_delta = [jnp.sum(-0.5 * slope**2) * change_of_delta for slope in slopes]
    return huber(residuals, delta), functools.reduce(operator.add, of_residuals + of_delta)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=[*ARRAYS, "delta"],
    meta_fields=["layout"],
    drop_fields=["host"],
)
@dataclasses.dataclass(frozen=True, eq=False)
class BoundL1(BoundLinear):
    """The L1 loss of given measurements.

    A residual r counts ``r**2 / (2 delta)`` up to delta and ``abs(r) - delta / 2`` beyond.

    Attributes:
        delta: Huber threshold in standard deviations, a scalar leaf.
    """

    delta: Any = None

    def flat(self, marginals: Any) -> jax.Array:
        """Return the smoothed loss of all tables in one vector."""
        return huber(self.standardised(marginals), self.delta)

    def value_and_gradient(self, marginals: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return `flat` and its gradient, in NumPy."""
        residuals = self.standardised(marginals)
        slopes = tuple(np.clip(each / self.delta, -1, 1) for each in residuals)
        terms = (dot(s, r - 0.5 * self.delta * s) for s, r in zip(slopes, residuals, strict=True))
        return np.float64(sum(map(float, terms))), self.transposed(slopes, marginals)

    def bends(self) -> tuple[float, float]:
        """Return `sharpness` and `largest` of the residuals: those of a Huber function."""
        return 1 / float(self.delta), 1.0

    def squared(self) -> BoundL2:
        """Return the l2 loss of the same residuals."""
        return BoundL2(*(getattr(self, field.name) for field in dataclasses.fields(BoundL2)))

    def cast(self, dtype: Any) -> BoundL1:
        """Return the loss with device arrays of another type."""
        return dataclasses.replace(super().cast(dtype), delta=np.asarray(self.delta, dtype))

    def exact(self, marginals: Sequence[np.ndarray]) -> float:
        """Return the unsmoothed loss in float64, on the host."""
        return float(np.sum(np.abs(self.exact_residuals(marginals))))

    def lipschitz(self) -> float:
        """Return the smoothed loss's constant: the L2 loss's divided by the smoothing."""
        return super().lipschitz() / float(self.delta)

    @property
    def smoothing(self) -> Any:
        """Huber threshold in standard deviations."""
        return self.delta

    def with_smoothing(self, delta: Any) -> BoundL1:
        """Return the loss with another threshold; same structure, so no retracing."""
        if not isinstance(delta, jax.Array):
            delta = np.asarray(checks.number("smoothing", delta, above=0), self.values.dtype)
        return dataclasses.replace(self, delta=delta)

    def slack(self) -> Any:
        """Return ``rows * smoothing / 2``, the bound on the loss minus its smoothed form."""
        return self.layout.rows * self.delta / 2


@functools.lru_cache(maxsize=512)
def _axes(shape: tuple[int, ...]) -> Domain:
    """Return the domain of a table whose attributes are named by the indices of its axes."""
    return Domain({str(axis): size for axis, size in enumerate(shape)})


def _cast(arrays: Arrays, dtype: Any) -> Arrays:
    cast: Arrays = jax.tree.map(lambda leaf: leaf.astype(dtype, copy=False), arrays)
    return cast


@functools.lru_cache(maxsize=64)
def _cells(axes: int) -> Query:
    """Return the query for the cells of a table, whose attributes are named by the indices of its axes."""
    return marginal(tuple(map(str, range(axes))))


def _aligned(
    column: Sequence[LinearMeasurement], clique: Clique, domain: Domain
) -> tuple[Query, np.ndarray, np.ndarray]:
    """Return the query of one measurement in all rows, and values and stddevs [rows, ...] over its answers.

    The axes are in the order of `clique`; of stddevs they have length 1 where one holds for all answers.
    """
    query = column[0].query
    shape = domain.shape_of(query.clique) if query.is_identity else query.shape(domain)
    values = np.stack([one.flat_values() for one in column]).reshape(-1, *shape)
    stddevs = np.stack([one.stddev for one in column])
    stddevs = stddevs.reshape(-1, *(shape if column[0].stddev.ndim else (1,) * len(shape)))
    if query.clique == clique:
        return query, values, stddevs
    axes = [0, *(1 + query.clique.index(name) for name in clique)]
    if isinstance(query, DenseMatrix):
        entries = query.matrix(domain)
        entries = entries.reshape(len(entries), *domain.shape_of(query.clique)).transpose(axes)
        return DenseMatrix(clique, entries.reshape(len(entries), -1)), values, stddevs
    return query.reorder(clique), values.transpose(axes), stddevs.transpose(axes)


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
    query = column[0].query
    most = 1.0 if query.is_identity else _size(query.l1_sensitivity(Relation.ADD_REMOVE, domain))
    answers = totals * max(1.0, most)
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


def _scaled(
    every: Asked,
    all_values: Sequence[np.ndarray],
    all_stddevs: Sequence[np.ndarray],
    totals: np.ndarray,
    shapes: tuple[tuple[int, ...], ...],
    merge: bool,
) -> tuple[QueryLayout, Arrays]:
    """Return layout and arrays in float64, with the measurements of cells apart from others.

    Every array has a leading axis of rows, and those that are given a second one of measurements.
    """
    cells = [np.zeros((2, len(totals), *shape)) for shape in shapes]
    asked, values, weights = [], [], []
    rest = np.zeros(len(totals))
    for (at, query), y, stddevs in zip(every, all_values, all_stddevs, strict=True):
        y, w = y / _by_row(totals, y), _by_row(totals, y) / stddevs
        if query.is_identity:
            if merge and y.shape[1] > 1:
                squares = np.broadcast_to(w**2, y.shape)
                mean = (squares * y).sum(axis=1) / squares.sum(axis=1)
                apart = squares * (y - mean[:, None]) ** 2
                rest += 0.5 * apart.reshape(len(totals), -1).sum(axis=1)
                cells[at][0], cells[at][1] = mean, np.sqrt(squares.sum(axis=1))
                continue
            cells[at][0], cells[at][1] = y[:, 0], w[:, 0]
            y, w = y[:, 1:], w[:, 1:]
            if not y.shape[1]:
                continue
        asked.append((at, query))
        values.append(y)
        weights.append(w)
    layout = QueryLayout(shapes, tuple(asked), sum(array[0].size for array in all_values))
    measured, precise = np.concatenate([c.reshape(2, len(totals), -1) for c in cells], axis=2)
    return layout, (measured, precise, tuple(values), tuple(weights), rest)


def curvatures(query: Query, domain: Domain, weights: np.ndarray) -> np.ndarray:
    """Return an upper bound on ``sum_i (Q_ij weights_i)**2`` over the cells j, for each row of a batch.

    Exact up to rounding for products with small blocks, small matrices and equal weights; otherwise
    the largest weight is used for all answers.

    Args:
        query: the query Q.
        domain: the attributes.
        weights: inverse standard deviation of each answer [rows, answers in any shape], in any unit.
    """
    flat = weights.reshape(len(weights), -1)
    if query.is_identity:  # a cell is in one answer
        return flat.max(axis=1) ** 2
    found = np.full(len(flat), np.nan)
    for row in np.flatnonzero(flat.min(axis=1) < flat.max(axis=1)):
        columns = _weighted_columns(query, domain, flat[row] ** 2)
        if columns is not None:
            found[row] = columns.max()
    if np.isnan(found).any():
        equal = flat.max(axis=1) ** 2 * float(query.l2_sensitivity_squared(Relation.ADD_REMOVE, domain))
        found = np.where(np.isnan(found), equal, found)
    return found


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
