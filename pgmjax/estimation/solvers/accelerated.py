"""Accelerated mirror descent with adaptive step size and restart: the default solver.

Entropic mirror descent updates the potentials of a model, which are the dual variables of its
marginals. Nesterov's extrapolation is applied to them; a point whose loss is higher is rejected and
the momentum restarts from the last accepted one (O'Donoghue and Candes 2015, function scheme), so that
the result exceeds the lowest loss seen by no more than rounding.

Near the optimum the loss cannot fall at this precision, while the certified gap, which scales with the
root of its error, still can. A rejection there may be due to rounding. It therefore never takes the step
below 1 / curvature, and a step of that size without extrapolation, which cannot raise the loss, is
accepted unless the loss rises by far more than rounding.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax

from pgmjax._internal.arrays import module_of
from pgmjax.estimation.solvers.objective import Evaluation, Objective, Solver, Vector, rounding, select


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class AcceleratedState:
    """State of accelerated mirror descent.

    Attributes:
        candidate: potentials of the next oracle call.
        previous: the last point before extrapolation.
        best: the last accepted point.
        lowest: the lowest loss seen; accepted points are within rounding of it.
        anchor: the lowest loss at its last significant decrease.
        step_size: current step size.
        age: steps since the momentum last restarted.
        searching: whether the initial step size is still being searched for.
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
        first: growth factor of the step size until the first rejected step.
        grow: growth factor with every later step.
        shrink: factor after a rejected step.
        damping: the t-th step after a restart is extrapolated by (t - 1) / (t + damping) of itself.
        patience: steps without a decrease beyond rounding after which the solver has stalled.

    References:
        McKenna et al. 2019, Algorithm 1 (the step); Nesterov (1983) and, for the
            damping, Chambolle and Dossal (2015) (the extrapolation).
    """

    runs_on_host: ClassVar[bool] = True
    moving: ClassVar[tuple[str, ...]] = ("candidate", "previous")
    copies: ClassVar[int] = 11
    first: Any = 1.3
    grow: Any = 1.0001
    shrink: Any = 0.8
    damping: Any = 4.0
    patience: Any = 100

    def start(self, problem: Objective, potentials: Vector) -> AcceleratedState:
        """Return the initial state."""
        best = Evaluation.unknown(potentials)
        xp = module_of(potentials)
        size = xp.asarray(1 / problem.smoothness, best.loss.dtype)[()]
        count, searching = xp.asarray(0)[()], xp.asarray(True)[()]
        return AcceleratedState(
            potentials, potentials, best, best.loss, best.loss, size, count, searching, count
        )

    def step(self, problem: Objective, state: AcceleratedState) -> AcceleratedState:
        """Accept the extrapolated point or restart from the last accepted one: one oracle call."""
        now = problem.evaluate(state.candidate)
        xp = module_of(state.candidate)
        # losses within their rounding error count as equal: otherwise the step size collapses
        error = rounding(state.best)
        # potentials of tens of nats cost the marginals more precision than the error estimate covers
        slight = now.loss <= state.lowest + 16 * error
        sure = 1 / xp.asarray(problem.smoothness, error.dtype)
        plain = (state.age <= 1) & (state.step_size <= sure)
        accepted = (now.loss <= state.lowest + error) | (slight & plain)
        best = select(accepted, now, state.best)
        lowest = xp.where(now.loss < state.lowest, now.loss, state.lowest)
        fallen = lowest < state.anchor - xp.where(xp.isfinite(state.anchor), error, 0)
        searching = state.searching & accepted
        # if the loss cannot distinguish steps, longer ones may be worse
        grow = xp.where(searching, xp.where(fallen, self.first, 1), self.grow)
        size = state.step_size * xp.where(accepted, grow, self.shrink)
        floor = xp.where(slight, xp.minimum(state.step_size, sure), 0)
        size = xp.maximum(size, floor).astype(state.step_size.dtype)
        age = xp.where(accepted, state.age + 1, 0)
        point = best.potentials - size * best.gradient
        momentum = xp.where(age > 0, (age - 1) / (age + self.damping), 0).astype(size.dtype)
        return AcceleratedState(
            candidate=point + momentum * (point - state.previous),
            previous=point,
            best=best,
            lowest=lowest,
            anchor=xp.where(fallen, lowest, state.anchor),
            step_size=size,
            age=age,
            searching=searching,
            since=xp.where(fallen, 0, state.since + 1),
        )
