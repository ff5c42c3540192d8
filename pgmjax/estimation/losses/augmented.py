"""Augmented Lagrangian loss of a fit with marginals fixed by equality constraints."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from pgmjax._internal.arrays import dot
from pgmjax.data.cliques import Clique
from pgmjax.estimation.losses.base import BoundLoss, BoundResiduals, WrappedLoss
from pgmjax.inference.ops.tables import host_join


@dataclasses.dataclass(frozen=True, eq=False)
class Equalities:
    """Equality constraints with multipliers and penalty parameter; float64, on the host.

    Attributes:
        cliques: of all tables of the loss, those of the measurements first.
        shapes: shapes of these tables.
        targets: target marginals in one vector (probabilities); arbitrary for unconstrained cells.
        held: for each table whether it is constrained.
        multipliers: Lagrange multipliers in one vector (loss per unit of probability), 0 if unconstrained.
        penalty_parameter: a residual d adds `penalty_parameter * d**2 / 2`.
    """

    cliques: tuple[Clique, ...]
    shapes: tuple[tuple[int, ...], ...]
    targets: np.ndarray
    held: tuple[bool, ...]
    multipliers: np.ndarray
    penalty_parameter: float

    @classmethod
    def of(
        cls, loss: BoundLoss, wanted: Sequence[tuple[Clique, np.ndarray]], penalty_parameter: float
    ) -> Equalities:
        """Add equality constraints to the cliques of a loss, with multipliers of zero.

        Args:
            loss: loss of the measurements.
            wanted: cliques with their marginals (probabilities), each set of attributes once.
            penalty_parameter: initial penalty parameter.
        """
        cliques, shapes = list(loss.cliques), list(loss.shapes)
        tables = [np.zeros(shape) for shape in shapes]
        held = [False] * len(shapes)
        for clique, target in wanted:
            at = next((i for i, own in enumerate(cliques) if set(own) == set(clique)), None)
            if at is None:
                cliques.append(clique)
                shapes.append(target.shape)
                tables.append(target)
                held.append(True)
            else:
                tables[at] = target.transpose([clique.index(name) for name in cliques[at]])
                held[at] = True
        targets = host_join(tables, np.float64)
        return cls(
            tuple(cliques), tuple(shapes), targets, tuple(held), np.zeros(len(targets)), penalty_parameter
        )

    @functools.cached_property
    def cells(self) -> np.ndarray:
        """Mask of the constrained cells, in one vector."""
        return np.repeat(self.held, [int(np.prod(shape)) for shape in self.shapes])


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["inner", "targets", "multipliers", "penalty_parameter"],
    meta_fields=["table_shapes"],
    drop_fields=["host"],
)
@dataclasses.dataclass(frozen=True, eq=False)
class Augmented(WrappedLoss):
    """``L(mu) + <lambda, mu - t> + rho / 2 |mu - t|**2`` over the cells with a target t.

    For any multipliers lambda, its minimum is at most the least L(mu) over the mu that meet t, so a lower
    bound on the former is one on the latter.

    Attributes:
        inner: the loss L of the measurements.
        targets: t in one vector (probabilities).
        multipliers: lambda in one vector, zero for cells without a target.
        penalty_parameter: rho in one vector, zero for cells without a target.
        table_shapes: shapes of all tables (static).
        host: the same in float64, absent after a JAX transformation.

    References:
        Hestenes (1969) and Powell (1969), the method of multipliers; Nocedal and Wright (2006), 17.3.
    """

    targets: Any
    multipliers: Any
    penalty_parameter: Any
    table_shapes: tuple[tuple[int, ...], ...]
    host: Equalities | None = None

    @classmethod
    def of(cls, inner: BoundLoss, host: Equalities, dtype: Any) -> Augmented:
        """Augment a loss by equality constraints, with device arrays of a type."""
        penalty_parameter = np.where(host.cells, host.penalty_parameter, 0.0)
        arrays = (host.targets.astype(dtype), host.multipliers.astype(dtype), penalty_parameter.astype(dtype))
        return cls(inner, *arrays, host.shapes, host)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques of the measurements, then those of equality constraints only."""
        return self.on_host().cliques

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each clique's table."""
        return self.table_shapes

    def flat(self, marginals: Any) -> jax.Array:
        """Return the augmented loss of all tables in one vector."""
        missed = marginals[: len(self.targets)] - self.targets
        return self.inner.flat(marginals) + dot(
            missed, self.multipliers + 0.5 * self.penalty_parameter * missed
        )

    def on_host_value_and_gradient(self, marginals: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return `flat` and its gradient, without compilation if the inner loss can."""
        value, gradient = self.inner.on_host_value_and_gradient(marginals)
        gradient, count = np.array(gradient), len(self.targets)
        missed = marginals[:count] - self.targets
        gradient[:count] += self.multipliers + self.penalty_parameter * missed
        return value + dot(missed, self.multipliers + 0.5 * self.penalty_parameter * missed), gradient

    def residuals(self, marginals: np.ndarray) -> BoundResiduals | None:
        """Return the residuals of the measurements and of the targets at a vector of marginals."""
        count = sum(math.prod(shape) for shape in self.inner.shapes)
        inner, held = self.inner.residuals(marginals[:count]), np.flatnonzero(self.penalty_parameter > 0)
        if inner is None:
            return None
        root = np.sqrt(np.asarray(self.penalty_parameter, np.float64)[held])
        rows = np.zeros((len(inner.rows) + len(held), len(marginals)))
        rows[: len(inner.rows), :count] = inner.rows
        rows[np.arange(len(inner.rows), len(rows)), held] = root
        slope = np.asarray(self.multipliers, np.float64)[: len(marginals)].copy()
        slope[:count] += inner.slope
        ones = np.ones(len(held))
        return BoundResiduals(
            rows,
            np.append(inner.values, root * (marginals[held] - self.targets[held])),
            np.append(inner.sharpness, ones),
            np.append(inner.largest, ones * np.inf),
            slope,
        )

    def least(self) -> float:
        """Return minus infinity: multipliers lower the loss without a bound."""
        return -math.inf

    def cast(self, dtype: Any) -> Augmented:
        """Return the loss with device arrays of another type."""
        return Augmented.of(self.inner.cast(dtype), self.on_host(), dtype)

    def exact(self, marginals: Sequence[np.ndarray]) -> float:
        """Return the loss of the measurements alone, in float64."""
        return self.inner.exact(marginals[: len(self.inner.shapes)])

    def lipschitz(self) -> float | None:
        """Return the measurements' constant plus that of each equality constraint, None if unknown."""
        known, host = self.inner.lipschitz(), self.on_host()
        return None if known is None else known + sum(host.held) * host.penalty_parameter

    def on_host(self) -> Equalities:
        """Return the float64 part; refuse after a JAX transformation."""
        if self.host is None:
            raise ValueError(
                "this loss went through a JAX transformation and lost its float64 part: "
                "ask the one that was bound."
            )
        return self.host
