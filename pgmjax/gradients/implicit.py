"""The optimum as a function of the numbers, and its derivative from the conditions of optimality.

At an interior optimum D^(1/2) g (see `problem`) is one of the vectors v of answers for which Q^T v is the
same at all joint states. Which these are does not change with the numbers, so that

    S (N^2 S + prior_weight) dk = -D^(1/2) Q C Q^T d(D^(1/2) g),

where the last change is that by the numbers, k held. Conjugate gradients solve it; no matrix is formed, and
nothing of the way to the optimum is kept.

References:
    Blondel et al. 2022, "Efficient and modular implicit differentiation".
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from pgmjax.gradients import solve as newton
from pgmjax.gradients.marginals import once, symmetric
from pgmjax.gradients.parameters import FitParameters
from pgmjax.gradients.problem import FitProblem


def optimum(problem: FitProblem, numbers: FitParameters, max_steps: int) -> tuple[jax.Array, jax.Array]:
    """Return the k [rows] of the optimum and the steps; the derivative is NaN off an interior optimum."""

    @jax.custom_jvp
    def found(numbers: FitParameters) -> tuple[jax.Array, jax.Array]:
        point, steps = newton.minimise(problem, numbers, max_steps)
        return point, steps.astype(point.dtype)  # integers have no tangents

    @found.defjvp
    def _along(primals: Any, tangents: Any) -> Any:
        numbers = once(primals[0])
        point, steps = found(numbers)
        moved = jax.jvp(lambda given: problem.slopes(given, point), (numbers,), tangents)[1]
        change = _change(problem, numbers, point, moved)
        interior = problem.diagnostics(numbers, point, steps).interior
        return (point, steps), (change * jnp.where(interior, 1, jnp.nan), jnp.zeros_like(steps))

    point, steps = found(numbers)
    return point, jax.lax.stop_gradient(steps).astype(jnp.int32)


def _change(problem: FitProblem, numbers: FitParameters, point: jax.Array, moved: jax.Array) -> jax.Array:
    """Return dk for a change of the slopes [rows], as a linear map that can be transposed."""
    here = newton.Standing.at(problem, numbers, point)

    def solve(right: jax.Array) -> jax.Array:
        rounding = float(jnp.finfo(right.dtype).eps)
        solution, left = here.solve(right, 0.0, tolerance=rounding**0.6, max_steps=newton.LAST)
        return jnp.where(left <= rounding**0.3, solution, jnp.nan)  # else conjugate gradients got stuck

    # In this order the transpose ends with the covariance, which takes out what moves no marginal.
    return -symmetric(solve, here.root * symmetric(here.covariance, moved))
