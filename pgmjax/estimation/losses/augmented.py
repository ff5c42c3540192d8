"""A loss that also asks for exact marginals: the augmented Lagrangian of a fit under equality constraints."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.estimation.losses.base import BoundLoss
from pgmjax.inference.ops.tables import host_join


@dataclasses.dataclass(frozen=True, eq=False)
class Equalities:
    """Marginals that must be met, and what it costs to miss them; float64, on the host.

    Attributes:
        cliques: over all tables of the loss, those of the measurements first.
        shapes: of these tables.
        targets: in one vector the marginals wanted (probabilities); anything where none is.
        held: of each table whether it must be met.
        multipliers: prices of missing a cell (loss a unit of probability), zero where none must be met.
        penalty_parameter: what a miss d costs beside is `penalty_parameter * d**2 / 2`.
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
        """Lay out marginals beside those that a loss takes, with multipliers of zero.

        Args:
            loss: of the measurements.
            wanted: cliques with their marginals (probabilities), each set of attributes once.
            penalty_parameter: what missing them costs.
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
        """In one vector which cells must be met."""
        return np.repeat(self.held, [int(np.prod(shape)) for shape in self.shapes])


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["inner", "targets", "multipliers", "penalty_parameter"],
    meta_fields=["table_shapes"],
    drop_fields=["host"],
)
@dataclasses.dataclass(frozen=True, eq=False)
class Augmented(BoundLoss):
    """``L(mu) + <lambda, mu - t> + rho / 2 |mu - t|**2`` over the cells with a target t.

    Whatever the multipliers lambda are, its minimum lies below the least L(mu) of those mu that meet t: a
    lower bound on the one bounds the other.

    Attributes:
        inner: the loss L of the measurements.
        targets: in one vector t (probabilities).
        multipliers: in one vector lambda, zero where there is no target.
        penalty_parameter: in one vector rho, zero where there is no target.
        table_shapes: of all tables (static).
        host: the same in float64, absent after a JAX transformation.

    References:
        Hestenes (1969) and Powell (1969), the method of multipliers; Nocedal and Wright (2006), 17.3.
    """

    inner: BoundLoss
    targets: Any
    multipliers: Any
    penalty_parameter: Any
    table_shapes: tuple[tuple[int, ...], ...]
    host: Equalities | None = None

    @classmethod
    def of(cls, inner: BoundLoss, host: Equalities, dtype: Any) -> Augmented:
        """The loss of measurements with equalities beside it, with device arrays of a type."""
        penalty_parameter = np.where(host.cells, host.penalty_parameter, 0.0)
        arrays = (host.targets.astype(dtype), host.multipliers.astype(dtype), penalty_parameter.astype(dtype))
        return cls(inner, *arrays, host.shapes, host)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques of the measurements, then those that only equalities have."""
        return self.on_host().cliques

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each clique's table."""
        return self.table_shapes

    def __call__(self, marginals: Sequence[Any]) -> jax.Array:
        """Return the augmented loss of marginals in probabilities, a scalar."""
        return self.flat(jax.numpy.concatenate([jax.numpy.ravel(table) for table in marginals]))

    def flat(self, marginals: Any) -> jax.Array:
        """Return the augmented loss of all tables in one vector."""
        missed = marginals[: len(self.targets)] - self.targets
        return self.inner.flat(marginals) + missed @ (
            self.multipliers + 0.5 * self.penalty_parameter * missed
        )

    def cast(self, dtype: Any) -> Augmented:
        """Return the loss with device arrays of another type."""
        return Augmented.of(self.inner.cast(dtype), self.on_host(), dtype)

    def exact(self, marginals: Sequence[np.ndarray]) -> float:
        """Return the loss of the measurements alone, in float64."""
        return self.inner.exact(marginals[: len(self.inner.shapes)])

    def lipschitz(self) -> float | None:
        """Return the constant of the measurements' loss and that of each equality added, None if unknown."""
        known, host = self.inner.lipschitz(), self.on_host()
        return None if known is None else known + sum(host.held) * host.penalty_parameter

    @property
    def smoothing(self) -> Any:
        """How far the measurements' loss is smoothed."""
        return self.inner.smoothing

    def with_smoothing(self, delta: Any) -> Augmented:
        """Return the loss smoothed otherwise."""
        return dataclasses.replace(self, inner=self.inner.with_smoothing(delta))

    def slack(self) -> Any:
        """Return how much the measurements' loss may lie above its smoothed form."""
        return self.inner.slack()

    def on_host(self) -> Equalities:
        """Return the float64 part, or say where it is."""
        if self.host is None:
            raise ValueError(
                "this loss went through a JAX transformation and lost its float64 part: "
                "ask the one that was bound."
            )
        return self.host
