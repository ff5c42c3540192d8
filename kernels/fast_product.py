"""The fast form of the log-space matrix product: one matrix product of scaled exponentials, with its guard.

Both tables are shifted by a gauge over k (half the difference of their maxima for that k, so that
neither is small where the other is large) and by row and column maxima, and multiplied by `2**s`:

    P[m, n] = sum over k of L[m, k] R[k, n],  L = 2**s exp(left - gauge - row maximum) <= 2**s, R alike.

A factor that underflows is below the smallest normal number `tiny`, so its term is below
`tiny * 2**s`, and K of them lose less than `K * tiny * 2**s`. If P is at least
`limit = K * tiny * 2**s / eps`, the loss is below one rounding error; smaller entries are clipped. In
float32 (s = 30) the limit is 92 - log K nats below the sum of the row's and column's maxima. The
backward products do not overflow and lose at most `tiny * 4**s` (1e-20 in float32) of the weight of
one entry.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

RAISED_BITS = {"float32": 30, "float64": 300}


class ProductFactors(NamedTuple):
    """The tables of a product and its inverse, kept for the backward pass: no exponential is taken twice.

    Attributes:
        left: `2**s exp(left - gauge - row maximum)` [b, m, k].
        right: `2**s exp(right + gauge - column maximum)` [b, k, n].
        inverse: 1 over their matrix product, 0 where it is clipped [b, m, n].
    """

    left: jax.Array
    right: jax.Array
    inverse: jax.Array


def raised_bits(dtype: np.dtype) -> int:
    """The exponent s of the factor `2**s` of scaled exponentials."""
    return RAISED_BITS[np.dtype(dtype).name]


def clip_limit(inner: int, dtype: np.dtype) -> float:
    """The value of the product below which lost terms may matter, in the product's scale `4**s`."""
    numbers = np.finfo(dtype)
    return inner * float(numbers.tiny) * 2.0 ** raised_bits(dtype) / float(numbers.eps)


def _scaled(left: jax.Array, right: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Exponentials of both tables, as `ProductFactors` has them, and the scale of their product [b, m, n]."""
    of_left, of_right = jnp.max(left, axis=1), jnp.max(right, axis=2)
    both = jnp.isfinite(of_left) & jnp.isfinite(of_right)
    gauge = jnp.where(both, (of_left - of_right) / 2, 0)
    left, right = left - gauge[:, None, :], right + gauge[:, :, None]
    row, column = jnp.max(left, axis=2), jnp.max(right, axis=1)
    row_top, column_top = jnp.where(row == -jnp.inf, 0, row), jnp.where(column == -jnp.inf, 0, column)
    exponentials = _raised_exp(left - row_top[:, :, None]), _raised_exp(right - column_top[:, None, :])
    return *exponentials, row_top[:, :, None] + column_top[:, None, :]


def fast_forward(left: jax.Array, right: jax.Array) -> tuple[jax.Array, jax.Array, ProductFactors]:
    """Log-sum-exp over k as one matrix product, with a mask of the entries it does not resolve.

    Args:
        left: log values [b, m, k].
        right: log values [b, k, n].

    Returns:
        Log values [b, m, n], a boolean mask of the same shape, and what `fast_backward` takes. Unmasked
        entries are exact up to rounding. A masked entry holds an upper bound of its value, within a factor
        of two of the clip limit, also where no term is finite. So if the marginal weight on masked entries
        computed from these values is negligible, the true weight is too.
    """
    dtype = left.dtype
    limit, bits = clip_limit(left.shape[2], dtype), raised_bits(dtype)
    left, right, scale = _scaled(left, right)
    product = _product("bmk,bkn->bmn", left, right)
    clipped = product < limit
    inverse = jnp.where(clipped, 0, 1 / product)
    product = jnp.where(clipped, 2 * limit, product)
    # two branches, so that the scale costs no digits near 1 or far below it
    large = product > 1
    log_product = jnp.log(jnp.where(large, product * 0.25**bits, product))
    log_product = log_product - jnp.where(large, 0, 2 * bits * np.log(2)).astype(dtype)
    # kept as they are: XLA would take the exponentials again where they are read
    factors = jax.lax.optimization_barrier(ProductFactors(left, right, inverse))
    return log_product + scale, clipped, factors


def fast_backward(factors: ProductFactors, weight: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sums of `weight * exp(left + right - out)` over n and over m as two matrix products.

    Args:
        factors: of the forward product.
        weight: weights of the entries of `out` [b, m, n]. No row or column of absolute values may sum to more
            than about 1, since losses by underflow (below 1e-19 per entry in float32) are absolute.

    Returns:
        The gradients with respect to left [b, m, k] and right [b, k, n]. Clipped entries contribute nothing.
    """
    left, right, inverse = factors
    ratio = inverse * weight
    by_left = _product("bmn,bkn->bmk", ratio, right)
    by_right = _product("bmk,bmn->bkn", left, ratio)
    # where a factor underflowed the other side may be infinite
    return jnp.where(left == 0, 0, by_left * left), jnp.where(right == 0, 0, by_right * right)


def _raised_exp(exponents: jax.Array) -> jax.Array:
    """`2**s exp(x)` for x <= 0 as a square: full precision, and `2**s` further down before underflow."""
    root = jnp.exp(exponents / 2)
    return (root * 2.0 ** raised_bits(exponents.dtype)) * root


def _product(formula: str, left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.einsum(formula, left, right, precision="highest")
