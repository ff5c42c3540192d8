"""Implicit mirror descent by Newton's method, for small models on the host.

A step of mirror descent takes the gradient at the point it leaves. An implicit one takes it at the point it
reaches, which is stable at any step size. With F the derivative of the marginals with respect to the
potentials, H the Hessian of the loss and w the weight of a prior, the potentials move by d, where

    (1 / size + w + H F) d = -gradient.

F is exact: row i of it is p_i times what the marginals change if cell i is known to hold, one inference for
each cell. The step size grows tenfold with every accepted step, so that the method ends as Newton's. First
order methods need many thousands of steps where noise is small beside counts, or of differing scale.

Where weights differ by decades, a linearised step misses the sharpest of them by far. Then the weights are
capped, and the cap rises by decades from the least to the largest, each time from the last solution, which
has nearly met the sharp ones.

References:
    Rockafellar (1976), the proximal point algorithm; Levenberg (1944), the damping; Allgower and Georg
        (1990), numerical continuation methods.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from pgmjax.estimation.solvers.mirror_descent import MirrorDescent
from pgmjax.estimation.solvers.problem import Evaluation, Problem, Vector, rounding

# It goes on for the default solver AFTER so many steps, for models of at most CELLS cells, takes so many
# steps that they need INFERENCES inferences (seconds) at most, and is certified after each BLOCK of them.
AFTER, CELLS, INFERENCES, BLOCK = 200, 400, 24_000, 5
SLIGHT = 1e-7  # of the loss: a smaller fall does not count
NEAR = 10.0  # nats of a step while caps rise: a cell that is lost returns slowly
DECADE, STAGE = 10.0, 10  # by so much the square of a cap rises, after so many steps


@dataclasses.dataclass(frozen=True)
class NewtonState:
    """State of Newton's method.

    Attributes:
        candidate: potentials of the next evaluation.
        best: the last accepted point.
        curvature: the product H F there [cells, cells].
        step_size: current step size.
        since: steps since the loss last fell by more than rounding, and by more than a trifle.
    """

    candidate: Vector
    best: Evaluation
    curvature: Any
    step_size: float
    since: int


@dataclasses.dataclass(frozen=True)
class DampedNewton(MirrorDescent):
    """Mirror descent with implicit steps; for NumPy arrays only.

    Attributes:
        grow: factor on the step size after an accepted step.
        shrink: factor after a rejected one.
        patience: steps without a lower loss after which the solver has stalled.
        farthest: nats that a potential moves in one step.
    """

    grow: float = 10.0
    shrink: float = 0.2
    patience: int = 40
    farthest: float = 300.0

    @property
    def copies(self) -> int:
        """Peak memory of a step, in vectors the size of the potentials."""
        return 20

    def start(self, problem: Problem, potentials: Vector) -> Any:
        """Return the initial state."""
        best = Evaluation.unknown(potentials)
        return NewtonState(potentials, best, None, 1 / float(problem.smoothness), 0)

    def step(self, problem: Problem, state: Any) -> Any:
        """Accept the candidate or try a shorter step."""
        now, best, curvature = problem.evaluate(state.candidate), state.best, state.curvature
        error = float(rounding(best)) if np.isfinite(best.loss) else 0.0
        slight = max(error, SLIGHT * float(abs(best.loss))) if np.isfinite(best.loss) else 0.0
        fallen, size = bool(now.loss < best.loss - slight), state.step_size
        # where the loss cannot tell points apart, cells of probability 0 still go there: the gap falls
        if curvature is None or now.loss <= best.loss + error:
            best, curvature, size = now, _curvature(problem, now), size * self.grow
        else:
            size *= self.shrink
        weight = 1 / size + (0.0 if problem.prior is None else float(problem.prior.weight))
        move = np.clip(_move(curvature, weight, best.gradient), -self.farthest, self.farthest)
        candidate = best.potentials + move
        return NewtonState(candidate, best, curvature, size, 0 if fallen else state.since + 1)


def _move(curvature: np.ndarray, weight: float, gradient: np.ndarray) -> np.ndarray:
    """Return the solution d of (weight + curvature) d = -gradient; none, if there is no finite one."""
    weight = max(weight, np.finfo(float).eps * np.abs(curvature).max())  # else the system may be singular
    try:
        # least squares move nothing that the system does not determine to working precision
        found = np.linalg.lstsq(curvature + weight * np.eye(len(curvature)), -gradient, rcond=None)[0]
    except np.linalg.LinAlgError:
        return np.zeros_like(gradient)
    return np.nan_to_num(found, nan=0.0)


def takes_over(solver: Any, cells: int) -> bool:
    """Return whether it goes on for a solver by name, if that has not converged on the host.

    Args:
        solver: the solver or its name.
        cells: number of cells of the measured cliques.
    """
    return isinstance(solver, str) and solver == "auto" and cells <= CELLS


def caps(least: float, largest: float, steps: int) -> list[float]:
    """Return the caps of a loss's weights before the largest; none if they take more than half the steps."""
    count = math.ceil(2 * math.log(largest / least, DECADE))
    if 2 * count * STAGE > steps:
        return []
    return [least * DECADE ** (number / 2) for number in range(count)]


def most_steps(cells: int) -> int:
    """Return the number of steps that it takes at most."""
    return INFERENCES // cells


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
