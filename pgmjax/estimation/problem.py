"""Minimising a loss over locally consistent tables, as a problem that the solvers know.

The vector of potentials holds the outer regions' tables. Messages that are added to one region's table and
taken from another's change no solution, so that those which settle one point are kept in its potentials:
the next point starts from them and takes few sweeps more. Solvers that go on from `Evaluation.potentials`
need know nothing of it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax.estimation.losses.base import BoundLoss
from pgmjax.estimation.solvers.problem import Evaluation, Gauge, Problem, Vector, rounding
from pgmjax.inference.ops.tables import host_join
from pgmjax.inference.oracles import belief_propagation as sweeps
from pgmjax.inference.oracles.belief_propagation import CoverBP

# For the certificate: each temperature is the last over 10 ** 0.5.
TEMPERATURES, COOLING_SWEEPS = 17, 10


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HeldLoss:
    """A loss of the cliques' marginals as one of the outer regions' tables.

    Attributes:
        loss: of the marginals of its cliques, in one vector.
        source: position in that vector of each term.
        target: position in the vector of outer tables of the same.
    """

    loss: BoundLoss
    source: Any
    target: Any

    def flat(self, beliefs: Vector) -> Any:
        """The loss of the outer tables (probabilities), in one vector."""
        length = sum(int(np.prod(shape)) for shape in self.loss.shapes)
        marginals = jnp.zeros(length, beliefs.dtype).at[self.source].add(beliefs[self.target])
        return self.loss.flat(marginals)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LocalProblem(Problem):
    """Minimise a loss over tables of the outer regions that agree on the inner ones.

    `fixed` is 0 for possible cells of the outer tables and minus infinity for others.
    """

    @classmethod
    def over(cls, oracle: CoverBP, loss: BoundLoss, curvature: Any, masks: list[np.ndarray]) -> LocalProblem:
        """Lay everything out in vectors.

        Args:
            oracle: for the loss's cliques followed by those of the masks.
            loss: what is minimised.
            curvature: Lipschitz constant of its gradient for an outer table, over the table's weight.
            masks: log-tables of impossible cells.
        """
        maps, structure = oracle.maps, oracle.structure
        measured = sum(map(structure.cells, structure.cliques[: len(loss.shapes)]))
        within = maps.source < measured
        held: Any = HeldLoss(loss, maps.source[within], maps.target[within])
        nothing = [np.zeros(measured), *masks]
        fixed = np.zeros(maps.length)
        np.add.at(fixed, maps.target, host_join(nothing, np.float64)[maps.source])
        sizes = np.bincount(maps.table, minlength=len(maps.weight)).tolist()
        return cls(oracle, held, curvature, Gauge.of(sizes, maps.length), fixed)

    def settled(self, potentials: Vector) -> tuple[Vector, jax.Array]:
        """Log-beliefs of the outer regions [length] and their residual (probability)."""
        maps = self.oracle.maps  # type: ignore[attr-defined]
        weight = jnp.asarray(maps.weight, potentials.dtype)[maps.table]
        start = sweeps.normalised(maps, (potentials + self.fixed) / weight)
        x, _, residual, _ = self.oracle.settle(start)  # type: ignore[attr-defined]
        return sweeps.normalised(maps, x), residual

    def marginals(self, potentials: Vector) -> Vector:
        """Pseudo-marginals of the outer regions (probabilities)."""
        return jnp.exp(self.settled(potentials)[0])

    def evaluate(self, potentials: Vector) -> Evaluation:
        """Pseudo-marginals, loss and gradient; the potentials of the result hold the messages too."""
        maps = self.oracle.maps  # type: ignore[attr-defined]
        x, _ = self.settled(potentials)
        weight = jnp.asarray(maps.weight, potentials.dtype)[maps.table]
        beliefs = jnp.exp(x)
        loss, gradient = jax.value_and_grad(self.loss.flat)(beliefs)
        kept = jnp.where(jnp.isfinite(x), weight * x, potentials)
        return Evaluation(kept, beliefs, loss, gradient, jnp.zeros_like(loss))

    def gap(self, point: Evaluation) -> jax.Array:
        """Certified bound on `loss - optimum` over locally consistent tables, and so on all tables.

        The bound of `Problem.gap`, whose maximum is bounded from above by messages that start at the point.
        It holds whether or not they have converged, and whether or not the point is consistent.
        """
        maps = self.oracle.maps  # type: ignore[attr-defined]
        weight = jnp.asarray(maps.weight, point.loss.dtype)[maps.table]
        centred = self.gauge.centred(point.gradient, point.marginals)
        base = sweeps.normalised(maps, point.potentials / weight)
        best = sweeps.assignment_bound(maps, self.fixed - centred, TEMPERATURES, COOLING_SWEEPS, base)
        return jnp.maximum(jnp.vdot(centred, point.marginals) + best, 0) + rounding(point)
