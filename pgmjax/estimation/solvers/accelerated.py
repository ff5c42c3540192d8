"""Accelerated mirror descent with adaptive step size and restart: the default solver.

Entropic mirror descent moves the potentials of a model, which are the dual variables of its
marginals. Nesterov's extrapolation is applied to them; a point whose loss is higher is refused and
the momentum restarts from the last good one (O'Donoghue and Candes 2015, function scheme), so that
the result is never above the lowest loss seen by more than rounding.

Near the optimum the loss has no digits left to fall, while the certified gap, which goes with the root
of its error, still has. A refusal may be rounding there. So it never takes the step below 1 /
curvature, and a step of that size without extrapolation, which cannot raise the loss, is accepted
unless the loss rises by far more than rounding.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from pgmjax.estimation.solvers.problem import Evaluation, Gauge, Problem, Solver, Vector, rounding, select


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class AcceleratedState:
    """What is carried from step to step.

    Attributes:
        candidate: potentials to ask the oracle about next.
        previous: the last point before extrapolation.
        best: the last accepted point.
        lowest: the lowest loss seen; accepted points are within rounding of it.
        anchor: the lowest loss when it last counted as fallen.
        step_size: current step size.
        age: steps since the momentum last restarted.
        searching: whether the first step size is still being found.
        since: steps since the lowest loss fell by more than rounding.
    """

    candidate: Vector
    previous: Vector
    best: Evaluation
    lowest: jax.Array
    anchor: jax.Array
    step_size: jax.Array
    age: jax.Array
    searching: jax.Array
    since: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Accelerated(Solver):
    """Accelerated mirror descent with restart.

    Attributes:
        first: factor by which the step size grows until a step first fails.
        grow: factor by which it grows with every later step.
        shrink: factor by which a failed step shrinks it.
        damping: the t-th step after a restart is extrapolated by (t - 1) / (t + damping) of itself.
        patience: steps without a fall of the loss beyond rounding after which it counts as stalled.

    References:
        McKenna et al. 2019, Algorithm 1 (the step); Nesterov (1983) and, for the
            damping, Chambolle and Dossal (2015) (the extrapolation).
    """

    first: Any = 1.3
    grow: Any = 1.0001
    shrink: Any = 0.8
    damping: Any = 4.0
    patience: Any = 100

    @property
    def copies(self) -> int:
        """Tables the size of the potentials that a step holds at its peak."""
        return 11

    def start(self, problem: Problem, potentials: Vector) -> AcceleratedState:
        """State before the first step."""
        best = Evaluation.unknown(potentials)
        size = jnp.asarray(1 / problem.smoothness, best.loss.dtype)
        count, searching = jnp.asarray(0), jnp.asarray(True)
        return AcceleratedState(
            potentials, potentials, best, best.loss, best.loss, size, count, searching, count
        )

    def step(self, problem: Problem, state: AcceleratedState) -> AcceleratedState:
        """One oracle call: accept the extrapolated point, or restart from the last good one."""
        now = problem.evaluate(state.candidate)
        # losses closer than their rounding error are equal: without this the step size collapses
        error = rounding(state.best)
        # potentials of some ten nats cost marginals more digits than the error counts
        slight = now.loss <= state.lowest + 16 * error
        sure = 1 / jnp.asarray(problem.smoothness, error.dtype)
        plain = (state.age <= 1) & (state.step_size <= sure)
        accepted = (now.loss <= state.lowest + error) | (slight & plain)
        best = select(accepted, now, state.best)
        lowest = jnp.where(now.loss < state.lowest, now.loss, state.lowest)
        fallen = lowest < state.anchor - jnp.where(jnp.isfinite(state.anchor), error, 0)
        searching = state.searching & accepted
        # where the loss does not tell steps apart, longer ones may be worse
        grow = jnp.where(searching, jnp.where(fallen, self.first, 1), self.grow)
        size = state.step_size * jnp.where(accepted, grow, self.shrink)
        floor = jnp.where(slight, jnp.minimum(state.step_size, sure), 0)
        size = jnp.maximum(size, floor).astype(state.step_size.dtype)
        age = jnp.where(accepted, state.age + 1, 0)
        point = best.potentials - size * best.gradient
        momentum = jnp.where(age > 0, (age - 1) / (age + self.damping), 0).astype(size.dtype)
        return AcceleratedState(
            candidate=point + momentum * (point - state.previous),
            previous=point,
            best=best,
            lowest=lowest,
            anchor=jnp.where(fallen, lowest, state.anchor),
            step_size=size,
            age=age,
            searching=searching,
            since=jnp.where(fallen, 0, state.since + 1),
        )

    def recentred(self, gauge: Gauge, state: AcceleratedState) -> AcceleratedState:
        """The state with constants taken out of its potentials."""
        shift = gauge.tops(state.best.potentials)
        best = dataclasses.replace(state.best, potentials=state.best.potentials - shift)
        return dataclasses.replace(
            state, candidate=state.candidate - shift, previous=state.previous - shift, best=best
        )

    def result(self, problem: Problem, state: AcceleratedState) -> Evaluation:
        """The best point so far."""
        return state.best

    def stalled(self, state: AcceleratedState) -> jax.Array:
        """Whether no further progress can be made at this precision."""
        return state.since > self.patience
