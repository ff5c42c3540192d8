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
        measured: for each measurement the position in `answers`.
    """

    cliques: tuple[Clique, ...]
    answers: tuple[tuple[int, Query], ...]
    measured: tuple[int, ...]

    def answer(self, marginals: Sequence[Any], xp: Any) -> Any:
        """Return all answers one after the other [rows of all measurements]."""
        if len(marginals) != len(self.cliques):
            raise ValueError(f"expected {len(self.cliques)} marginals, one a clique, got {len(marginals)}.")
        each = [xp.reshape(query.apply(marginals[at], xp), (-1,)) for at, query in self.answers]
        return xp.concatenate([each[at] for at in self.measured])


@dataclasses.dataclass(frozen=True, eq=False)
class HostPart:
    """What only the host needs, in float64: values and stddevs (counts) of all rows, and constants."""

    values: np.ndarray
    stddevs: np.ndarray
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
    """Residuals of all rows of all measurements.

    Attributes:
        layout: the structure (static).
        values: [rows] measured value over total, in the device's dtype (a leaf).
        weights: [rows] total over standard deviation, in the device's dtype (a leaf).
        host: float64 copies, absent after a JAX transformation.
    """

    layout: Layout
    values: Any
    weights: Any
    host: HostPart | None = None

    def __call__(self, marginals: Sequence[Any]) -> jax.Array:
        """Return the residuals [rows] in standard deviations, of marginals in probabilities."""
        return (self.layout.answer(marginals, jnp) - self.values) * self.weights

    def exact(self, marginals: Sequence[np.ndarray]) -> np.ndarray:
        """Return the residuals [rows] in standard deviations in float64, on the host."""
        host = self.on_host()
        answers = self.layout.answer([np.asarray(table, np.float64) for table in marginals], np)
        return (answers * host.total - host.values) / host.stddevs

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
    answers: dict[tuple[int, Query], int] = {}
    measured, values, stddevs = [], [], []
    bend = 0.0
    for measurement in measurements:
        at = position[frozenset(measurement.clique)]
        query, rows_values, rows_stddevs = _aligned(measurement, cliques[at], domain)
        measured.append(answers.setdefault((at, query), len(answers)))
        values.append(rows_values)
        stddevs.append(rows_stddevs)
        weights = total / rows_stddevs
        _check_range(measurement, domain, weights, rows_values / total, dtype, len(measurements))
        bend += curvature(query, domain, weights)
    host = HostPart(np.concatenate(values), np.concatenate(stddevs), total, bend)
    layout = Layout(cliques, tuple(answers), tuple(measured))
    return LinearResiduals(
        layout, (host.values / total).astype(dtype), (total / host.stddevs).astype(dtype), host
    )


def _aligned(
    measurement: LinearMeasurement, clique: Clique, domain: Domain
) -> tuple[Query, np.ndarray, np.ndarray]:
    """Return query, values and stddevs with rows in the order of `clique`."""
    query, values, stddevs = measurement.query, measurement.flat_values(), measurement.row_stddevs()
    if query.clique == clique:
        return query, values, stddevs
    axes = [query.clique.index(name) for name in clique]
    if isinstance(query, DenseMatrix):
        entries = query.matrix(domain)
        entries = entries.reshape(len(entries), *domain.shape_of(query.clique))
        entries = entries.transpose([0, *(axis + 1 for axis in axes)]).reshape(len(entries), -1)
        return DenseMatrix(clique, entries), values, stddevs
    shape = query.shape(domain)
    values, stddevs = (array.reshape(shape).transpose(axes).reshape(-1) for array in (values, stddevs))
    return query.reorder(clique), values, stddevs


def _check_range(
    measurement: LinearMeasurement,
    domain: Domain,
    weights: np.ndarray,
    fractions: np.ndarray,
    dtype: np.dtype,
    share: int,
) -> None:
    """Refuse residuals whose sum of squares could overflow the dtype."""
    answer = float(measurement.query.l1_sensitivity(Relation.ADD_REMOVE, domain))
    worst = math.log10(float(np.max(weights))) + math.log10(answer + float(np.max(np.abs(fractions))) + 1)
    reach = 2 * worst + math.log10(weights.size * share)
    limit = math.log10(float(np.finfo(dtype).max)) - 1
    if reach > limit:
        remedy = "use dtype='float64' or " if dtype == np.float32 else ""
        raise ValueError(
            f"the loss of the measurement on {measurement.clique} could reach 1e{reach:.0f}, above what "
            f"{dtype} holds (1e{limit:.0f}): {remedy}check that stddev and values are in counts."
        )
