"""Terms of an objective beside its loss: relative entropy, a linear one, and equality constraints.

Their numbers stay in float64 and are cast to the type of the marginals where they are used.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import jax
import numpy as np

from pgmjax._internal.arrays import dot, module_of
from pgmjax.data.cliques import Clique
from pgmjax.estimation.losses.base import BoundResiduals
from pgmjax.inference.ops.tables import host_join, split


def _like(numbers: Any, marginals: Any) -> Any:
    return module_of(marginals).asarray(numbers, marginals.dtype)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Prior:
    """Relative entropy to a prior as a term of the objective.

    Attributes:
        weight: weight per nat, > 0.
        log_partition: log-partition function of the prior's factors in `Objective.fixed` (nats).
    """

    weight: Any
    log_partition: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class LinearTerm:
    """``<slope, mu>``: with a `Prior` the cross-entropy to a reference of the form of the model.

    Attributes:
        slope: in one vector of all tables (loss per unit of probability).
    """

    least: ClassVar[float] = 0.0  # with the prior's part
    slope: Any

    def value(self, marginals: Any) -> Any:
        """Return the term at a vector of all tables, perhaps padded."""
        return dot(marginals[: len(self.slope)], _like(self.slope, marginals))

    def gradient(self, marginals: np.ndarray) -> np.ndarray:
        """Return its gradient, without padding."""
        return self.slope

    def with_residuals(self, found: BoundResiduals, marginals: np.ndarray) -> BoundResiduals:
        """Return a loss's residuals at a vector of marginals without padding, with the term."""
        more = len(marginals) - len(self.slope)
        return dataclasses.replace(found, slope=found.slope + np.pad(self.slope, (0, more)))


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["targets", "multipliers", "penalty"],
    meta_fields=["shapes"],
)
@dataclasses.dataclass(frozen=True, eq=False)
class Equalities:
    """``<lambda, mu - t> + rho / 2 |mu - t|**2`` over the cells with a target t.

    With the loss this is an augmented Lagrangian. For any multipliers lambda its minimum is at most the least
    loss over the mu that meet t, so a lower bound on the former is one on the latter.

    Attributes:
        targets: t in one vector (probabilities); arbitrary for other cells.
        multipliers: lambda in one vector (loss per unit of probability); 0 for cells without a target.
        penalty: rho in one vector, one number for all cells with a target and 0 for others.
        shapes: shapes of all tables (static).

    References:
        Hestenes (1969) and Powell (1969), the method of multipliers; Nocedal and Wright (2006), 17.3.
    """

    least: ClassVar[float] = -math.inf  # multipliers lower the loss without a bound
    targets: Any
    multipliers: Any
    penalty: Any
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(
        cls,
        cliques: Sequence[Clique],
        shapes: Sequence[tuple[int, ...]],
        wanted: Sequence[tuple[Clique, np.ndarray]],
        penalty: float,
    ) -> Self:
        """Return equality constraints with multipliers of zero.

        Args:
            cliques: of all tables, each set of attributes once.
            shapes: of these tables.
            wanted: some of the cliques, with their marginals (probabilities).
            penalty: that of a cell with a target.
        """
        targets, rho = ([np.zeros(shape) for shape in shapes] for _ in range(2))
        for clique, target in wanted:
            at = next(i for i, own in enumerate(cliques) if set(own) == set(clique))
            targets[at] = target.transpose([clique.index(name) for name in cliques[at]])
            rho[at] = np.full(shapes[at], penalty)
        found = host_join(targets, np.float64)
        return cls(found, np.zeros_like(found), host_join(rho, np.float64), tuple(shapes))

    @property
    def held(self) -> list[int]:
        """The places of the tables with targets."""
        return [place for place, table in enumerate(split(self.penalty, self.shapes)) if table.any()]

    @property
    def curvature(self) -> float:
        """The term's part of the Lipschitz constant of the gradient: its penalty for each table."""
        return len(self.held) * float(self.penalty.max())

    def value(self, marginals: Any) -> Any:
        """Return the term at a vector of all tables, perhaps padded."""
        missed = marginals[: len(self.targets)] - _like(self.targets, marginals)
        pressed = _like(self.multipliers, marginals) + 0.5 * _like(self.penalty, marginals) * missed
        return dot(missed, pressed)

    def gradient(self, marginals: np.ndarray) -> np.ndarray:
        """Return its gradient, without padding."""
        return self.multipliers + self.penalty * (marginals[: len(self.targets)] - self.targets)

    def with_residuals(self, found: BoundResiduals, marginals: np.ndarray) -> BoundResiduals:
        """Return a loss's residuals at a vector of marginals without padding, with those of the targets."""
        cells = len(marginals)
        held = np.flatnonzero(self.penalty > 0)
        root = np.sqrt(self.penalty[held])
        rows, ones = np.zeros((len(held), cells)), np.ones(len(held))
        rows[np.arange(len(held)), held] = root
        return dataclasses.replace(
            found,
            rows=np.vstack([found.rows, rows]),
            values=np.append(found.values, root * (marginals[held] - self.targets[held])),
            sharpness=np.append(found.sharpness, ones),
            largest=np.append(found.largest, ones * np.inf),
            slope=found.slope + self.multipliers,
        )
