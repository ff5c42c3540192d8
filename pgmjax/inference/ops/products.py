"""Ways of computing the large products of a contraction, for `ops.sweep`."""

from __future__ import annotations

import functools

import jax

from pgmjax.inference.ops import exact_product, fast_product
from pgmjax.inference.ops.sweep import Products


def _exact(left: jax.Array, right: jax.Array) -> tuple[jax.Array, None]:
    return exact_product.exact_forward(left, right), None


def _maximum(left: jax.Array, right: jax.Array) -> tuple[jax.Array, None]:
    return exact_product.max_plus(left, right), None


EXACT = Products(_exact, exact_product.exact_backward)
# of finite tables, as matrix products: what underflows holds an upper bound
FAST = Products(functools.partial(fast_product.fast_forward, finite=True), fast_product.fast_backward)
MAXIMUM = Products(_maximum)  # only values of maxima are asked for, so that nothing goes backwards
