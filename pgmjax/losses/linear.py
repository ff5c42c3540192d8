"""Residuals of linear measurements in standard deviations, the common part of L1 and L2 losses.

Marginals are probabilities, so the residual of a row is ``(Q mu - y / total) * (total / stddev)``.
Both quotients are formed in float64 on the host. In float32 a total of 1e9 with a stddev of 1e-3
gives residuals up to 1e12 and squares up to 1e24, far below the largest float32 (3e38); what could
pass it is refused when the loss is bound.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax.cliques import Clique
from pgmjax.domain import Domain
from pgmjax.losses.base import check_arguments, unique_cliques
from pgmjax.losses.curvature import curvature
from pgmjax.measurements import LinearMeasurement
from pgmjax.queries import DenseMatrix, Query
from pgmjax.relation import Relation


@dataclasses.dataclass(frozen=True)
class Layout:
    """Which query is asked of which clique: the static part.

    Attributes:
        cliques: each set of attributes once.
        answers: distinct pairs (position of the clique, query in the clique's order).
        rows: the number of values of all measurements.
    """

    cliques: tuple[Clique, ...]
    answers: tuple[tuple[int, Query], ...]
    rows: int

    def answer(self, marginals: Sequence[Any], xp: Any) -> list[Any]:
        """Return the answers [1, rows of each attribute] of each distinct query."""
        if len(marginals) != len(self.cliques):
            raise ValueError(f"expected {len(self.cliques)} marginals, one a clique, got {len(marginals)}.")
        return [query.apply(marginals[at], xp)[None] for at, query in self.answers]


@dataclasses.dataclass(frozen=True, eq=False)
class HostPart:
    """What only the host needs, in float64: values and stddevs (counts), and constants."""

    values: tuple[np.ndarray, ...]
    stddevs: tuple[np.ndarray, ...]
    total: float
    curvature: float


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["values", "weights"],
    meta_fields=["layout"],
    drop_fields=["host"],
)
@dataclasses.dataclass(frozen=True, eq=False)
class LinearResiduals:
    """Residuals of all measurements, those of one query on one clique together.

    There is an array for each distinct query and none over all of them: with a thousand cliques,
    joining the tables and splitting their gradient again takes XLA 14 s to compile, this 2 s.

    Attributes:
        layout: the structure (static).
        values: for each distinct query [measurements, rows of each attribute], the measured value
            over the total, in the device's dtype (leaves).
        weights: total over standard deviation, of the same shapes, or with ones for the rows where
            every measurement of the query has one standard deviation (leaves).
        host: float64 copies, absent after a JAX transformation.
    """

    layout: Layout
    values: tuple[Any, ...]
    weights: tuple[Any, ...]
    host: HostPart | None = None

    def __call__(self, marginals: Sequence[Any]) -> tuple[jax.Array, ...]:
        """Return the residuals in standard deviations, of marginals in probabilities."""
        answers = self.layout.answer(marginals, jnp)
        return tuple(
            (answer - values) * weights
            for answer, values, weights in zip(answers, self.values, self.weights, strict=True)
        )

    def exact(self, marginals: Sequence[np.ndarray]) -> np.ndarray:
        """Return all residuals [rows] in standard deviations in float64, on the host."""
        host = self.on_host()
        answers = self.layout.answer([np.asarray(table, np.float64) for table in marginals], np)
        return np.concatenate(
            [
                ((answer * host.total - values) / stddevs).reshape(-1)
                for answer, values, stddevs in zip(answers, host.values, host.stddevs, strict=True)
            ]
        )

    def on_host(self) -> HostPart:
        """Return the float64 part, or say where it is."""
        if self.host is None:
            raise ValueError(
                "this loss went through a JAX transformation and lost its float64 part: call exact and "
                "lipschitz on the loss that losses.build returned."
            )
        return self.host


def linear_residuals(
    domain: Domain, measurements: Sequence[LinearMeasurement], total: float, dtype: Any
) -> LinearResiduals:
    """Return the residuals of measurements; those on the same attributes share one clique.

    Raises:
        TypeError: something else than measurements.
        ValueError: no measurement, one that does not fit, or numbers too large for the dtype.
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
        _check_range(measurement, domain, total, dtype, len(measurements))
        bend += curvature(query, domain, total / stddevs)
        groups.setdefault((at, query), []).append((values, stddevs))
    all_values = tuple(np.stack([values for values, _ in group]) for group in groups.values())
    all_stddevs = tuple(_stacked([stddevs for _, stddevs in group]) for group in groups.values())
    layout = Layout(cliques, tuple(groups), sum(array.size for array in all_values))
    return LinearResiduals(
        layout,
        tuple((array / total).astype(dtype) for array in all_values),
        tuple((total / array).astype(dtype) for array in all_stddevs),
        HostPart(all_values, all_stddevs, total, bend),
    )


def _stacked(stddevs: list[np.ndarray]) -> np.ndarray:
    return np.stack(np.broadcast_arrays(*stddevs))


def _aligned(
    measurement: LinearMeasurement, clique: Clique, domain: Domain
) -> tuple[Query, np.ndarray, np.ndarray]:
    """Return query, values and stddevs (one, or one a row) with axes in the order of `clique`."""
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


def _check_range(
    measurement: LinearMeasurement, domain: Domain, total: float, dtype: np.dtype, share: int
) -> None:
    """Refuse residuals whose sum of squares could overflow the dtype."""
    answer = float(measurement.query.l1_sensitivity(Relation.ADD_REMOVE, domain)) * total
    farthest = answer + float(np.max(np.abs(measurement.flat_values())))
    worst = math.log10(farthest + 1) - math.log10(float(np.min(measurement.stddev)))
    reach = 2 * worst + math.log10(measurement.values.size * share)
    limit = math.log10(float(np.finfo(dtype).max)) - 1
    if reach > limit:
        remedy = "use dtype='float64' or " if dtype == np.float32 else ""
        raise ValueError(
            f"the loss of the measurement on {measurement.clique} could reach 1e{reach:.0f}, above what "
            f"{dtype} holds (1e{limit:.0f}): {remedy}check that stddev and values are in counts."
        )
