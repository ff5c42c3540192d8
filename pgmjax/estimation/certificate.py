"""Final float64 evaluation of a fit: marginals, loss and certificate."""

from __future__ import annotations

import jax
import numpy as np

from pgmjax._internal.jit import jit
from pgmjax.estimation.solvers.problem import Evaluation, Problem, Vector, negligible

# Up to this many cells NumPy evaluates a point faster than XLA compiles the program for it.
HOST_CELLS = 20_000_000


def evaluate(problem: Problem, potentials: np.ndarray) -> tuple[Evaluation, float]:
    """Evaluate a point in float64, with the certified bound on its suboptimality.

    Small models are evaluated by NumPy, which avoids compiling a program used once. Call it with 64-bit
    types enabled.

    Args:
        problem: the problem, bound in float64.
        potentials: log-potentials of the measured cliques [length].
    """
    if problem.oracle.contraction_path().work <= HOST_CELLS:
        problem = problem.on_host()  # which goes over to logarithms where anything would be lost
        point = problem.evaluate(potentials)
        return point, float(problem.gap(point))
    point, gap = _on_device(problem, potentials)
    if float(point.error_bound) > negligible(point):
        point, gap = _on_device(problem.exact(), potentials)
    return point, float(gap)


@jit
def _on_device(problem: Problem, potentials: Vector) -> tuple[Evaluation, jax.Array]:
    point = problem.evaluate(potentials)
    return point, problem.gap(point)
