"""Marginals of flat potentials, with one derivative in forward and in reverse mode.

The derivative of the marginals is the Fisher information of the potentials, which is symmetric. Oracles
give products with it in reverse mode only (they have their own rules there); symmetry makes forward mode of
the same product, and keeps nothing but the potentials between the two passes.

References:
    Wainwright and Jordan 2008, proposition 3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from pgmjax.inference.oracles.base import Oracle


@jax.custom_jvp
def once(value: Any) -> Any:
    """Return the value; refuse to be differentiated."""
    return value


@once.defjvp
def _refused(primals: Any, tangents: Any) -> Any:
    raise NotImplementedError(
        "a fit can be differentiated once: second derivatives through it are not implemented. Take "
        "differences of first ones."
    )


def symmetric(apply: Callable[[Any], Any], vector: jax.Array) -> jax.Array:
    """Return `apply(vector)` for a symmetric linear map that cannot be transposed or is not to be."""
    # A linear system with the identity, whose solution is what we say: JAX has no other linear map with a
    # rule of its own for transposes that also goes through vmap.
    return jax.lax.custom_linear_solve(lambda x: x, vector, lambda _, b: apply(b), symmetric=True)


def curved(oracle: Oracle, potentials: jax.Array) -> tuple[jax.Array, jax.Array, Callable[[jax.Array], Any]]:
    """Return log-partition, marginals, and what multiplies the Fisher information with a vector [length]."""
    (log_partition, marginals), pull = jax.vjp(oracle.infer_flat, once(potentials))
    nothing = jnp.zeros_like(log_partition)
    return log_partition, marginals, lambda vector: pull((nothing, vector))[0]


def infer(oracle: Oracle, potentials: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the log-partition (nats) and the marginals [length] (probabilities), differentiable once.

    Args:
        oracle: inference.
        potentials: in one vector [length], finite.
    """

    @jax.custom_jvp
    def both(point: jax.Array) -> tuple[jax.Array, jax.Array]:
        return oracle.infer_flat(point)

    @both.defjvp
    def _along(primals: Any, tangents: Any) -> Any:
        (point,), (change,) = primals, tangents
        log_partition, marginals = oracle.infer_flat(once(point))
        # made inside, so that between the passes only the potentials are kept
        moved = symmetric(lambda vector: curved(oracle, point)[2](vector), change)
        return (log_partition, marginals), (jnp.vdot(marginals, change), moved)

    return both(potentials)
