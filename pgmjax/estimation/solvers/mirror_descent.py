"""Entropic mirror descent with line search, for any convex loss.

References:
    McKenna et al. 2019, Algorithm 1 and A.1; Beck and Teboulle (2003).
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax

from pgmjax._internal.arrays import dot, module_of
from pgmjax.estimation.solvers.objective import Evaluation, Objective, Solver, Vector, rounding, select


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MirrorDescentState:
    """State of mirror descent.

    Attributes:
        candidate: potentials of the next oracle call.
        best: the last accepted point; accepted losses decrease up to rounding.
        lowest: the lowest loss seen.
        step_size: current step size.
        since: steps since the lowest loss last fell.
    """

    candidate: Vector
    best: Evaluation
    lowest: jax.Array
    step_size: jax.Array
    since: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MirrorDescent(Solver):
    """Mirror descent on potentials: theta <- theta - eta * grad L(mu(theta)).

    A step is accepted if the loss falls by half of the predicted linear decrease (Armijo); otherwise
    the step size shrinks. Rejected steps count, so the number of steps is that of oracle calls.

    Attributes:
        grow: factor on the step size after an accepted step.
        shrink: factor after a rejected one.
        patience: steps without a lower loss after which the solver has stalled.
    """

    runs_on_host: ClassVar[bool] = True
    moving: ClassVar[tuple[str, ...]] = ("candidate",)
    copies: ClassVar[int] = 10
    grow: Any = 1.1
    shrink: Any = 0.5
    patience: Any = 300

    def start(self, problem: Objective, potentials: Vector) -> MirrorDescentState:
        """Return the initial state."""
        xp = module_of(potentials)
        best = Evaluation.unknown(potentials)
        size = xp.asarray(1 / problem.smoothness, best.loss.dtype)[()]
        return MirrorDescentState(potentials, best, best.loss, size, xp.asarray(0)[()])

    def step(self, problem: Objective, state: MirrorDescentState) -> MirrorDescentState:
        """Accept the candidate or try a shorter step: one oracle call."""
        xp = module_of(state.candidate)
        now, best = problem.evaluate(state.candidate), state.best
        predicted = 0.5 * dot(best.gradient, now.marginals - best.marginals)
        fallen = now.loss <= best.loss + xp.minimum(predicted, 0)
        # a predicted decrease below rounding cannot be checked: then no increase suffices
        error = rounding(best)
        level = (xp.abs(predicted) <= error) & (now.loss <= state.lowest + error)
        accepted = xp.isinf(best.loss) & xp.isfinite(now.loss) | fallen | level
        best = select(accepted, now, best)
        size = state.step_size * xp.where(accepted, self.grow, self.shrink)
        size = size.astype(state.step_size.dtype)
        candidate = best.potentials - size * best.gradient
        since = xp.where(now.loss < state.lowest, 0, state.since + 1)
        return MirrorDescentState(candidate, best, xp.fmin(state.lowest, now.loss), size, since)
