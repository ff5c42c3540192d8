"""Work that is skipped where no entry needs it, also under `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Tables = Any  # a tuple of arrays, or one


def computed_if(
    needed: jax.Array, compute: Callable[[Tables], jax.Array], tables: Tables, otherwise: jax.Array
) -> jax.Array:
    """`compute(tables)` if a scalar condition holds, else `otherwise`.

    Under `vmap`, `lax.cond` always computes both branches. This loop of at most one iteration is skipped
    if no batch entry needs it.
    """

    def turn(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return jnp.zeros_like(state[0]), compute(held_back(tables, state[0]))

    return jax.lax.while_loop(lambda state: state[0], turn, (needed, otherwise))[1]


def held_back(tables: Tables, state: jax.Array) -> Tables:
    """The same tables, tied to a loop's state, so that XLA does not hoist work on them out of the loop."""
    return jax.lax.optimization_barrier((tables, state))[0]
