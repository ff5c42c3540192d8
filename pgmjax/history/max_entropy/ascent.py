"""Exact ascent of the dual: L-BFGS-B in the box, with a certificate after every step.

References:
    Byrd, Lu, Nocedal and Zhu 1995, "A limited memory algorithm for bound constrained optimization".
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from pgmjax._internal.progress import Progress
from pgmjax.estimation.solvers.stopping import Status
from pgmjax.history.max_entropy.dual import Dual, DualPoint

MEMORY = 20
RESTARTS = 5


class Converged(StopIteration):
    """Raised within the search to stop it: the certificate is small enough."""


class AscentSearch:
    """The best point so far, with its stopping test; `steps` counts evaluations of the dual."""

    def __init__(self, dual: Dual, tol: float, bar: Progress | None = None) -> None:
        self._dual, self._tol, self._bar = dual, tol, bar
        self.best: DualPoint | None = None
        self.below = -math.inf
        self.highest = np.zeros(0)
        self.steps = 0

    @property
    def gap(self) -> float:
        """A bound on the best primal objective minus the optimum (nats); infinite before the first point."""
        return math.inf if self.best is None else max(self.best.primal - self.below, 0.0)

    def see(self, weights: np.ndarray) -> DualPoint:
        """Evaluate weights, keep the best.

        Raises:
            Converged: the gap is within the tolerance.
        """
        point = self._dual.at(weights)
        self.steps += 1
        if not math.isfinite(point.value):
            return point
        if point.value > self.below:
            self.below, self.highest = point.value, weights
        if self.best is None or point.primal < self.best.primal:
            self.best = point
        if self._bar is not None:
            self._bar.advance(1, f"gap {self.gap:.3g}")
        if self.gap <= self._tol * max(1.0, abs(self.best.primal)):
            raise Converged
        return point

    def found(self) -> DualPoint:
        """Return the point of the lowest primal objective."""
        if self.best is None:
            raise FloatingPointError("the dual is not finite at its starting point")
        return self.best


def ascend(dual: Dual, start: np.ndarray, scales: np.ndarray, max_steps: int, search: AscentSearch) -> Status:
    """Maximise the dual.

    Args:
        dual: the problem.
        start: weights to start from, within the box [rows].
        scales: step size of each weight [rows].
        max_steps: maximum number of evaluations of the dual.
        search: evaluates points and keeps the best.
    """
    box = dual.penalty.box / scales

    def objective(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        if search.steps >= max_steps:
            raise StopIteration
        # clip to the box, which rounding in the division may have left
        point = search.see(np.clip(scaled * scales, -dual.penalty.box, dual.penalty.box))
        return -point.value, -point.gradient * scales

    try:
        for _ in range(RESTARTS):
            before = search.gap
            scipy.optimize.minimize(
                objective,
                start / scales,
                method="L-BFGS-B",
                jac=True,
                bounds=np.stack([-box, box], axis=1),
                options={
                    "maxcor": MEMORY,
                    "maxiter": max_steps,
                    "maxfun": max_steps,
                    "ftol": 0.0,
                    "gtol": 0.0,
                },
            )
            start = search.highest
            if not search.gap < 0.9 * before:
                break
    except Converged:
        return Status.CONVERGED
    except StopIteration:
        return Status.MAX_STEPS
    return Status.STALLED
