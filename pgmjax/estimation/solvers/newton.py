"""Implicit mirror descent by Newton's method, for small models on the host.

A step of mirror descent takes the gradient at the point it leaves. An implicit one takes it at the point it
reaches, which is stable at any step size. With F the derivative of the marginals with respect to the
potentials, H the Hessian of the loss and w the weight of a prior, the potentials move by d, where

    (1 / size + w + H F) d = -gradient.

F is exact: row i of it is p_i times what the marginals change if cell i is known to hold, one inference for
each cell. The step size grows tenfold with every accepted step, so that the method ends as Newton's. First
order methods need many thousands of steps where noise is small beside counts, or of differing scale.

References:
    Rockafellar (1976), the proximal point algorithm; Levenberg (1944), the damping.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from pgmjax.estimation.solvers.problem import Evaluation, Gauge, Problem, Solver, Vector, rounding

# It goes on for the default solver AFTER so many steps, for models of at most CELLS cells, and is certified
# after each BLOCK of steps.
AFTER, CELLS, BLOCK = 200, 400, 5
FARTHEST = 30.0  # nats that a potential moves in one step


@dataclasses.dataclass(frozen=True)
class NewtonState:
    """State of Newton's method.

    Attributes:
        candidate: potentials of the next evaluation.
        best: the last accepted point.
        curvature: the product H F there [cells, cells].
        damping: inverse of the step size.
        since: steps since the loss last fell by more than rounding.
    """

    candidate: Vector
    best: Evaluation
    curvature: Any
    damping: float
    since: int


@dataclasses.dataclass(frozen=True)
class DampedNewton(Solver):
    """Newton's method on the potentials, damped; for NumPy arrays only.

    Attributes:
        grow: factor of the step size after an accepted step.
        shrink: factor after a rejected one.
        patience: steps without a lower loss after which the solver has stalled.
    """

    runs_on_host: ClassVar[bool] = True
    grow: float = 10.0
    shrink: float = 0.2
    patience: int = 20

    @property
    def copies(self) -> int:
        """Peak memory of a step, in vectors the size of the potentials."""
        return 20

    def start(self, problem: Problem, potentials: Vector) -> NewtonState:
        """Return the initial state."""
        best = Evaluation.unknown(potentials)
        return NewtonState(potentials, best, None, float(problem.smoothness), 0)

    def step(self, problem: Problem, state: NewtonState) -> NewtonState:
        """Accept the candidate or try a shorter step."""
        now, best, curvature = problem.evaluate(state.candidate), state.best, state.curvature
        error = float(rounding(best)) if np.isfinite(best.loss) else 0.0
        fallen, damping = bool(now.loss < best.loss - error), state.damping
        # where the loss cannot tell points apart, cells of probability 0 still go there: the gap falls
        if curvature is None or now.loss <= best.loss + error:
            best, curvature = now, _curvature(problem, now)
            damping = damping / self.grow
        else:
            damping = damping / self.shrink
        weight = damping + (0.0 if problem.prior is None else float(problem.prior.weight))
        system = curvature + weight * np.eye(len(curvature))
        move = np.linalg.lstsq(system, -best.gradient, rcond=None)[0]
        candidate = best.potentials + np.clip(move, -FARTHEST, FARTHEST)
        return NewtonState(candidate, best, curvature, damping, 0 if fallen else state.since + 1)

    def recentred(self, gauge: Gauge, state: NewtonState) -> NewtonState:
        """Remove per-table constants from the state's potentials."""
        shift = gauge.tops(state.best.potentials)
        best = dataclasses.replace(state.best, potentials=state.best.potentials - shift)
        return dataclasses.replace(state, candidate=state.candidate - shift, best=best)

    def result(self, problem: Problem, state: NewtonState) -> Evaluation:
        """Return the best point so far."""
        return state.best

    def stalled(self, state: NewtonState) -> Any:
        """Return whether progress has stalled at this precision."""
        return state.since > self.patience


def _curvature(problem: Problem, point: Evaluation) -> np.ndarray:
    """Return the product of the loss's Hessian and the marginals' derivative [cells, cells]."""
    count, small = len(point.potentials), 1e-3
    _, slope = problem.loss.value_and_gradient(point.marginals)
    hessian = np.empty((count, count))
    moved = np.empty((count, count))
    tables = problem.gauge.table
    for cell in range(count):
        beside = np.array(point.marginals)
        beside[cell] += small
        hessian[cell] = (problem.loss.value_and_gradient(beside)[1] - slope) / small
        known = np.where(tables == tables[cell], -np.inf, point.potentials)
        known[cell] = point.potentials[cell]
        given = problem.oracle.infer_flat(problem.all(known))[1][:count]
        moved[cell] = point.marginals[cell] * (given - point.marginals)
    return hessian @ moved
