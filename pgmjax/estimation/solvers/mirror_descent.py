"""Entropic mirror descent with line search, for any convex loss.

References:
    McKenna et al. 2019, Algorithm 1 and A.1; Beck and Teboulle (2003).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from pgmjax.estimation.solvers.problem import Evaluation, Gauge, Problem, Solver, Vector, rounding, select


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MirrorDescentState:
    """What is carried from step to step.

    Attributes:
        candidate: potentials to ask the oracle about next.
        best: the last accepted point; the loss falls from one to the next, up to rounding.
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

    A step is accepted when the loss falls by half of what its linear model promises (Armijo);
    otherwise the step size shrinks. Trying a step counts as one, so the number of steps is the
    number of oracle calls.

    Attributes:
        grow: factor on the step size after an accepted step.
        shrink: factor after a rejected one.
        patience: steps without a lower loss after which the solver counts as stalled.
    """

    grow: Any = 1.1
    shrink: Any = 0.5
    patience: Any = 300

    @property
    def copies(self) -> int:
        """Tables the size of the potentials that a step holds at its peak."""
        return 10

    def start(self, problem: Problem, potentials: Vector) -> MirrorDescentState:
        """State before the first step."""
        best = Evaluation.unknown(potentials)
        size = jnp.asarray(1 / problem.smoothness, best.loss.dtype)
        return MirrorDescentState(potentials, best, best.loss, size, jnp.asarray(0))

    def step(self, problem: Problem, state: MirrorDescentState) -> MirrorDescentState:
        """One oracle call at the candidate: accept it or try a shorter step."""
        now, best = problem.evaluate(state.candidate), state.best
        promised = 0.5 * jnp.vdot(best.gradient, now.marginals - best.marginals)
        fallen = now.loss <= best.loss + jnp.minimum(promised, 0)
        # a promise below the rounding error cannot be checked: then no rise is enough
        error = rounding(best)
        level = (jnp.abs(promised) <= error) & (now.loss <= state.lowest + error)
        accepted = jnp.isinf(best.loss) & jnp.isfinite(now.loss) | fallen | level
        best = select(accepted, now, best)
        size = state.step_size * jnp.where(accepted, self.grow, self.shrink)
        size = size.astype(state.step_size.dtype)
        candidate = best.potentials - size * best.gradient
        since = jnp.where(now.loss < state.lowest, 0, state.since + 1)
        return MirrorDescentState(candidate, best, jnp.fmin(state.lowest, now.loss), size, since)

    def recentred(self, gauge: Gauge, state: MirrorDescentState) -> MirrorDescentState:
        """The state with constants taken out of its potentials."""
        shift = gauge.tops(state.best.potentials)
        best = dataclasses.replace(state.best, potentials=state.best.potentials - shift)
        return dataclasses.replace(state, candidate=state.candidate - shift, best=best)

    def result(self, problem: Problem, state: MirrorDescentState) -> Evaluation:
        """The best point so far."""
        return state.best

    def stalled(self, state: MirrorDescentState) -> jax.Array:
        """Whether no further progress can be made at this precision."""
        return state.since > self.patience
