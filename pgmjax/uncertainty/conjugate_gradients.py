"""Conjugate gradients on the device, for a vector with one more number beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

_MAX_STEPS = 500
_TOLERANCE = 1e-7

Step = tuple[Any, Any]
"""Scaled potentials [length] and a scaled logarithm of the total."""


def conjugate_gradients(
    apply: Callable[[Step], Step], right: Step, *, tolerance: float = _TOLERANCE, max_steps: int = _MAX_STEPS
) -> tuple[Step, jax.Array]:
    """Return x with A x = b for a symmetric matrix A >= 0 that only multiplies, and the size of b - A x.

    Args:
        apply: multiplies A with a vector.
        right: b.
        tolerance: stop when what is left is no larger than this share of b.
        max_steps: stop after so many products.

    References:
        Hestenes and Stiefel 1952, "Methods of conjugate gradients for solving linear systems".
    """
    wanted = tolerance**2 * dot(right, right)

    def going(state: Any) -> Any:
        return (state[3] > wanted) & (state[4] < max_steps)

    def step(state: Any) -> Any:
        solution, rest, along, square, number = state
        image = apply(along)
        bend = dot(along, image)
        length = jnp.where(bend > 0, square / jnp.where(bend > 0, bend, 1), 0)
        solution, rest = _plus(solution, length, along), _plus(rest, -length, image)
        after = dot(rest, rest)
        ended = jnp.where(bend > 0, number + 1, max_steps)  # no curvature is left along what is left
        return solution, rest, _plus(rest, after / square, along), after, ended

    nothing = jax.tree.map(jnp.zeros_like, right)
    start = nothing, right, right, dot(right, right), 0
    solution, _, _, square, _ = jax.lax.while_loop(going, step, start)
    return solution, jnp.sqrt(square)


def _plus(one: Step, factor: Any, other: Step) -> Step:
    return one[0] + factor * other[0], one[1] + factor * other[1]


def dot(one: Step, other: Step) -> jax.Array:
    """Return the inner product of two steps."""
    return jnp.vdot(one[0], other[0]) + one[1] * other[1]
