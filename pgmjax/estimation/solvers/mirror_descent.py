"""Entropic mirror descent, for any convex loss: with line search, accelerated (the default), and averaged.

Entropic mirror descent updates the potentials of a model, which are the dual variables of its marginals.
`MirrorDescent` searches for its step size. `Accelerated` applies Nesterov's extrapolation; a point whose loss
is higher is rejected and the momentum restarts from the last accepted one (O'Donoghue and Candes 2015,
function scheme), so that the result exceeds the lowest loss seen by no more than rounding. `DualAveraging` is
Nesterov's accelerated dual averaging.

Near the optimum the loss cannot fall at this precision, while the certified gap, which scales with the
root of its error, still can. A rejection by `Accelerated` there may be due to rounding. It therefore never
takes the step below 1 / curvature, and a step of that size without extrapolation, which cannot raise the
loss, is accepted unless the loss rises by far more than rounding.

References:
    McKenna et al. 2019, Algorithm 1 and A.1, and Beck and Teboulle (2003), for mirror descent; Algorithm 2
    and A.2, and Xiao (2010), Algorithm 3, for dual averaging. The paper's step is for marginals that sum to
    the number of records; here they sum to 1, so the constant K is that of the scaled loss.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax

from pgmjax._internal.device import dot, module_of
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
        lowest = select(now.loss < state.lowest, now.loss, state.lowest)
        fallen = lowest < state.anchor - select(xp.isfinite(state.anchor), error, 0)
        searching = state.searching & accepted
        # if the loss cannot distinguish steps, longer ones may be worse
        grow = select(searching, select(fallen, self.first, 1), self.grow)
        size = state.step_size * select(accepted, grow, self.shrink)
        floor = select(slight, xp.minimum(state.step_size, sure), 0)
        size = xp.maximum(size, floor).astype(state.step_size.dtype)
        age = select(accepted, state.age + 1, 0)
        point = best.potentials - size * best.gradient
        momentum = xp.asarray(select(age > 0, (age - 1) / (age + self.damping), 0), size.dtype)
        return AcceleratedState(
            candidate=point + momentum * (point - state.previous),
            previous=point,
            best=best,
            lowest=lowest,
            anchor=select(fallen, lowest, state.anchor),
            step_size=size,
            age=age,
            searching=searching,
            since=select(fallen, 0, state.since + 1),
        )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class DualAveragingState:
    """State of dual averaging.

    Attributes:
        center: potentials of the starting point, the reference of the relative entropy.
        count: steps done.
        average: averaged marginals (mu in the paper).
        last: marginals of the last potentials (nu).
        mean_gradient: weighted mean of all gradients (g-bar).
        best: the best evaluated point (not an average).
        since: steps since the best loss last fell.
    """

    center: Vector
    count: jax.Array
    average: Vector
    last: Vector
    mean_gradient: Vector
    best: Evaluation
    since: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class DualAveraging(Solver):
    """Accelerated dual averaging for losses with a Lipschitz gradient.

    Instead of a step size it needs the Lipschitz constant K of the gradient in the L1 norm of the
    joint distribution. The averaged marginals converge as O(1/t^2); the model returned is the best of
    the evaluated points, which have potentials.

    Attributes:
        lipschitz: K. Default: the problem's constant, which must not be a guess.
        patience: steps without a lower loss after which the solver has stalled.
    """

    runs_on_host: ClassVar[bool] = True
    copies: ClassVar[int] = 13
    lipschitz: Any = None
    patience: Any = 2000

    def start(self, problem: Objective, potentials: Vector) -> DualAveragingState:
        """Return the initial state."""
        xp = module_of(potentials)
        best, count = Evaluation.unknown(potentials), xp.asarray(0)[()]
        zeros = best.marginals
        return DualAveragingState(potentials, count, zeros, zeros, zeros, best, count)

    def step(self, problem: Objective, state: DualAveragingState) -> DualAveragingState:
        """Run one step with one oracle call; step 0 only evaluates the starting point."""
        xp, dtype = module_of(state.center), state.best.loss.dtype
        t = state.count.astype(dtype)
        c = 2 / (t + 1)
        mixed = _mix(c, state.average, state.last)
        mean = _mix(c, state.mean_gradient, problem.value_and_gradient(mixed)[1])
        constant = problem.curvature if self.lipschitz is None else self.lipschitz
        size = t * (t + 1) / (4 * xp.asarray(constant, dtype))
        moved = state.center - size * mean
        if problem.prior is not None:
            # relative entropy is not linearised: each step includes it exactly (Xiao's Psi)
            moved = moved / (1 + size * xp.asarray(problem.prior.weight, dtype))
        potentials = xp.where(t > 0, moved, state.center)
        # per-table constants grow with the weight of the average and would exhaust the precision
        now = problem.evaluate(potentials - problem.gauge.tops(potentials))
        better = now.loss < state.best.loss
        average = select(t > 0, _mix(c, state.average, now.marginals), now.marginals)
        mean = select(t > 0, mean, state.mean_gradient)
        return DualAveragingState(
            state.center,
            state.count + 1,
            average,
            now.marginals,
            mean,
            select(better, now, state.best),
            xp.where(better, 0, state.since + 1),
        )


def _mix(weight: jax.Array, old: Vector, new: Vector) -> Vector:
    return (1 - weight) * old + weight * new
