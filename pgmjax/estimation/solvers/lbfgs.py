"""Direct optimisation of the potentials by L-BFGS.

The loss as a function of the potentials is smooth but not convex, so the minimum found may be
local; the certificate bounds its suboptimality.

References:
    McKenna et al. 2019, A.3.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from pgmjax.estimation.solvers.objective import Evaluation, Objective, Solver, Vector, select


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LBFGSState:
    """State of L-BFGS.

    Attributes:
        potentials: the current point.
        memory: the optax state.
        best_potentials: the best point.
        best_loss: its loss divided by the problem's smoothness.
        since: steps since the best loss last fell.
    """

    potentials: Vector
    memory: Any
    best_potentials: Vector
    best_loss: jax.Array
    since: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LBFGS(Solver):
    """L-BFGS with optax's zoom line search (several oracle calls per step).

    Attributes:
        memory: number of past steps kept.
        patience: steps without a lower loss after which the solver has stalled.
    """

    # A line search compares losses that differ in digits that float32 lacks, and the fit would end in
    # float64, by a second program that takes as long to compile.
    in_float64: ClassVar[bool] = True
    memory: int = dataclasses.field(default=10, metadata={"static": True})
    patience: Any = 20

    @property
    def copies(self) -> int:
        """Peak memory of a step, in vectors the size of the potentials."""
        return 2 * self.memory + 15

    def _method(self) -> Any:
        import optax  # which takes a twentieth of a second, and no other solver needs it

        return optax.lbfgs(memory_size=self.memory)

    def start(self, problem: Objective, potentials: Vector) -> LBFGSState:
        """Return the initial state."""
        loss = jnp.asarray(jnp.inf, potentials.dtype)
        return LBFGSState(potentials, self._method().init(potentials), potentials, loss, jnp.asarray(0))

    def step(self, problem: Objective, state: LBFGSState) -> LBFGSState:
        """Run one L-BFGS step."""
        import optax

        # scaled, since squares of the gradient of a large loss overflow float32
        scale = jnp.asarray(1 / problem.smoothness, state.best_loss.dtype)

        def objective(potentials: Vector) -> jax.Array:
            return scale * problem.value(potentials)

        method = self._method()
        value, gradient = optax.value_and_grad_from_state(objective)(state.potentials, state=state.memory)
        better = value < state.best_loss
        best = select(better, state.potentials, state.best_potentials)
        updates, memory = method.update(
            gradient, state.memory, state.potentials, value=value, grad=gradient, value_fn=objective
        )
        moved = optax.apply_updates(state.potentials, updates)
        loss = jnp.where(better, value, state.best_loss)
        return LBFGSState(moved, memory, best, loss, jnp.where(better, 0, state.since + 1))

    def result(self, problem: Objective, state: LBFGSState) -> Evaluation:
        """Return the best point so far."""
        return problem.evaluate(state.best_potentials)
