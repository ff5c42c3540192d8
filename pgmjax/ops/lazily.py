"""Work that is done only where it is needed, also under `vmap`."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp


def computed_if(needed: jax.Array, compute: Callable[[], jax.Array], otherwise: jax.Array) -> jax.Array:
    """`compute()` where a scalar condition holds, else `otherwise`.

    Under `vmap` `lax.cond` computes both branches always; this loop of at most one turn is skipped
    when no row of the batch needs it.
    """

    def turn(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return jnp.zeros_like(state[0]), compute()

    return jax.lax.while_loop(lambda state: state[0], turn, (needed, otherwise))[1]
