"""Nesterov's accelerated dual averaging.

References:
    McKenna et al. 2019, Algorithm 2 and A.2; Xiao (2010), Algorithm 3. The paper's step is for marginals that
    sum to the number of records; here they sum to 1, so the constant K is that of the scaled loss.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax

from pgmjax._internal.arrays import module_of
from pgmjax.estimation.solvers.objective import Evaluation, Objective, Solver, Vector, select


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
