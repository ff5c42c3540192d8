"""A fixed number of accelerated mirror descent steps, differentiated step by step.

    k <- l - g(l) / (curvature + prior_weight),    l = k + t / (t + 3) (k - k before)

Between the passes only k is kept of every step: what the oracle needs going backwards it computes again.

References:
    McKenna et al. 2019, Algorithm 1 (the step); Nesterov 1983 (the extrapolation).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from pgmjax.gradients.parameters import FitParameters
from pgmjax.gradients.problem import FitProblem


def descend(problem: FitProblem, numbers: FitParameters, steps: int) -> jax.Array:
    """Return the k [rows] after some steps from the prior."""
    size = 1 / (problem.curvature(numbers) + numbers.prior_weight)

    def step(state: Any, momentum: jax.Array) -> Any:
        before, now = state
        ahead = now + momentum * (now - before)
        return (now, ahead - size * problem.residuals(numbers, ahead)), None

    counted = jnp.arange(steps, dtype=numbers.total.dtype)
    start = problem.start(numbers)
    return jax.lax.scan(step, (start, start), counted / (counted + 3))[0][1]
