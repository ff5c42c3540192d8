"""Log of a sum of exponentials over some axes of a table, and the maximum; on the device and in NumPy.

`logsumexp` and `logmax` run on the device and are differentiable; their twins run on the host, in the type of
their tables, without compilation. Minus infinity is an exact zero everywhere: it has zero gradient and never
produces a NaN.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal import device
from pgmjax._internal.device import module_of

Table = Any  # a jax or numpy array
ONE_PASS = 1 << 20  # off a CPU, cells up to which a launch less is worth twice as many exponentials


def lowest(table: Table) -> Table:
    """The table with a very low number instead of minus infinity, so that differences are never NaN."""
    return module_of(table).maximum(table, float(jnp.finfo(table.dtype).min) / 4)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def logsumexp(table: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """Log of the sum of exponentials over some axes, safe where all entries are minus infinity.

    Args:
        table: log values, any shape.
        axes: axes to sum out; if empty, the table is returned.

    Returns:
        Log values over the other axes. Where every entry is minus infinity, the result is minus infinity
        with zero gradient (the gradient of `jax.nn.logsumexp` is NaN there).

    Example:
        >>> print(f"{logsumexp(jnp.log(jnp.array([1.0, 3.0])), (0,)):.4f}")
        1.3863
    """
    if not axes:
        return table
    top, total = largest_and_sum(table, axes)
    return jnp.log(total) + jnp.squeeze(top, axes)


@logsumexp.defjvp
def _logsumexp_jvp(
    axes: tuple[int, ...], primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (table,), (change,) = primals, tangents
    result = logsumexp(table, axes)
    shares = jnp.exp(table - lowest(jnp.expand_dims(result, axes)))
    return result, jnp.sum(shares * change, axis=axes)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def largest_and_sum(table: jax.Array, axes: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """The largest entry along some axes, and the sum of exponentials relative to it.

    Args:
        table: log values, any shape.
        axes: axes to sum out, at least one.

    Returns:
        The largest entries, with size 1 along these axes, a very low number where all are minus infinity;
        they are constant for derivatives. The sums over the other axes, 0 where all are minus infinity.
    """
    if device.is_cpu() or table.size > ONE_PASS:
        top = lowest(jnp.max(table, axis=axes, keepdims=True))
        return top, jnp.sum(jnp.exp(table - top), axis=axes)
    bounded = lowest(table)
    zero = jnp.zeros((), table.dtype)
    entries = (bounded, (table == bounded).astype(table.dtype))
    top, total = jax.lax.reduce(entries, (lowest(zero - jnp.inf), zero), _added, axes)
    return jnp.expand_dims(top, axes), total


@largest_and_sum.defjvp
def _largest_and_sum_jvp(
    axes: tuple[int, ...], primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
    (table,), (change,) = primals, tangents
    top, total = largest_and_sum(table, axes)
    return (top, total), (jnp.zeros_like(top), jnp.sum(jnp.exp(table - top) * change, axis=axes))


def _added(left: tuple[jax.Array, jax.Array], right: tuple[jax.Array, jax.Array]) -> Any:
    """Two sums of exponentials relative to a number each, as one relative to the larger."""
    top = jnp.maximum(left[0], right[0])
    return top, left[1] * jnp.exp(left[0] - top) + right[1] * jnp.exp(right[0] - top)


def logmax(table: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """Maximum over some axes: the reduction that finds the most likely assignment."""
    return jnp.max(table, axis=axes) if axes else table


def host_logsumexp(table: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Same as `logsumexp`, in NumPy."""
    if not axes:
        return table
    top = np.max(table, axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(table - top), axis=axes)) + np.squeeze(top, axes)


def host_max(table: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Same as `logmax`, in NumPy."""
    return np.max(table, axis=axes) if axes else table
