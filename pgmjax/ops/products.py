"""Ways of computing the large products of a contraction."""

from __future__ import annotations

import jax

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
        """The largest sum over k."""
        return exact_product.max_plus(left, right), None

    def backward(
        self, left: jax.Array, right: jax.Array, result: jax.Array, weight: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """There is none: only values of maxima are asked for."""
        raise NotImplementedError
