"""Ways of computing the large products of a contraction."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from pgmjax.ops import exact_product, fast_product


class Exact:
    """Log-sum-exp products in exact form, in tiles."""

    def forward(self, left: jax.Array, right: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        """The product, all of it right."""
        return exact_product.exact_forward(left, right), None

    def backward(
        self, left: jax.Array, right: jax.Array, result: jax.Array, weight: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Marginals of both tables."""
        return exact_product.exact_backward(left, right, result, weight)


class Fast:
    """Log-sum-exp products of finite tables as matrix products; what underflows holds an upper bound."""

    def forward(self, left: jax.Array, right: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        """The product, and which entries hold an upper bound."""
        return fast_product.fast_forward(left, right, finite=True)

    def backward(
        self, left: jax.Array, right: jax.Array, result: jax.Array, weight: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Marginals of both tables."""
        return fast_product.fast_backward(left, right, result, weight)


class Maximum:
    """Max-plus products."""

    def forward(self, left: jax.Array, right: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        """The largest sum over k, one k at a time: no table over (m, k, n) is formed."""
        shape = (left.shape[0], left.shape[1], right.shape[2])
        lefts, rights = jnp.moveaxis(left, 2, 0), jnp.moveaxis(right, 1, 0)

        def step(i: jax.Array, top: jax.Array) -> jax.Array:
            return jnp.maximum(top, lefts[i][:, :, None] + rights[i][:, None, :])

        start = jnp.full(shape, -jnp.inf, left.dtype)
        return jax.lax.fori_loop(0, left.shape[2], step, start), None

    def backward(
        self, left: jax.Array, right: jax.Array, result: jax.Array, weight: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """There is none: only values of maxima are asked for."""
        raise NotImplementedError
