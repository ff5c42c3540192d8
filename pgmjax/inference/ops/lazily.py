"""Work that is done only where it is needed, also under `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Tables = Any  # a tuple of arrays, or one


def computed_if(
    needed: jax.Array, compute: Callable[[Tables], jax.Array], tables: Tables, otherwise: jax.Array
) -> jax.Array:
    """`compute(tables)` where a scalar condition holds, else `otherwise`.

    Under `vmap` `lax.cond` computes both branches always; this loop of at most one turn is skipped
    when no row of the batch needs it.
    """

    def turn(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return jnp.zeros_like(state[0]), compute(held_back(tables, state[0]))

    return jax.lax.while_loop(lambda state: state[0], turn, (needed, otherwise))[1]


def held_back(tables: Tables, state: jax.Array) -> Tables:
    """The same tables, tied to a loop's state: else XLA takes work on them out of the loop."""
    return jax.lax.optimization_barrier((tables, state))[0]
