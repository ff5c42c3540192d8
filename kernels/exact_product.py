"""The exact form of the log-space matrix product and of its gradient, in tiles that stay in cache.

`out[b, m, n]` is the log-sum-exp over k of `left[b, m, k] + right[b, k, n]`. The terms of all (m, n)
pairs are formed for one tile of k at a time; large sizes never form an array over (m, k, n). On the
CPU, one entry of k at a time is fastest: an elementwise loop over (m, n) is vectorised, whereas a fused
reduction over k is not. On other devices XLA's fused reduction is used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from pgmjax._internal import device

BROADCAST_CELLS = 1 << 15  # below this, one fused broadcast compiles and runs faster than a loop
TILE_CELLS = 1 << 15  # cells of (m, tile of k, n) in one step of a loop
BLOCK_CELLS = 1 << 18  # cells of (m, n) processed at a time: a few such float32 tables fit in cache


def exact_forward(left: jax.Array, right: jax.Array) -> jax.Array:
    """Log-sum-exp over k of `left[b, m, k] + right[b, k, n]`, exact for any spread of values.

    Args:
        left: log values [b, m, k].
        right: log values [b, k, n].

    Returns:
        Log values [b, m, n]; minus infinity where no k has a finite term.
    """
    batch, rows, inner = left.shape
    columns = right.shape[2]
    small = batch * rows * inner * columns <= BROADCAST_CELLS
    if small or not device.is_cpu():
        return _broadcast(left, right)
    return _in_blocks(left, right, _forward_block)


@jax.custom_jvp
def log_matmul_exp(left: jax.Array, right: jax.Array) -> jax.Array:
    """Same as `exact_forward`, differentiable.

    Example:
        >>> left, right = jnp.log(jnp.array([[[1.0, 2.0]]])), jnp.log(jnp.array([[[3.0], [4.0]]]))
        >>> print(f"{jnp.exp(log_matmul_exp(left, right)).item():.4f}")
        11.0000
    """
    return exact_forward(left, right)


@log_matmul_exp.defjvp
def _log_matmul_exp_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    result = log_matmul_exp(*primals)
    out = jnp.where(result == -jnp.inf, jnp.inf, result)  # such entries contribute zero instead of NaN

    @jax.checkpoint
    def add(total: jax.Array, tables: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
        left, change, right, other = tables
        shares = jnp.exp(left[:, :, None] + right[:, None, :] - out)
        return total + shares * (change[:, :, None] + other[:, None, :]), None

    both = zip(primals, tangents, strict=True)
    entries = [
        jnp.moveaxis(table, axis, 0) for axis, pair in zip((2, 1), both, strict=True) for table in pair
    ]
    return result, jax.lax.scan(add, jnp.zeros_like(out), tuple(entries))[0]


def max_plus(left: jax.Array, right: jax.Array) -> jax.Array:
    """The largest `left[b, m, k] + right[b, k, n]` over k: the product of the most likely assignment.

    Args:
        left: log values [b, m, k].
        right: log values [b, k, n].

    Returns:
        Log values [b, m, n]; minus infinity where no k has a finite term.
    """
    if left.size * right.shape[2] <= BROADCAST_CELLS or not device.is_cpu():
        return jnp.max(left[:, :, :, None] + right[:, None, :, :], axis=2)
    return _in_blocks(left, right, _maximum_block)


def _in_blocks(left: jax.Array, right: jax.Array, block: Callable[..., jax.Array]) -> jax.Array:
    """The forward product, in blocks that fit in cache."""
    batch, rows, _ = left.shape
    columns = right.shape[2]
    if columns < rows and columns < 16:
        return _in_blocks(right.swapaxes(1, 2), left.swapaxes(1, 2), block).swapaxes(1, 2)
    if batch * rows * columns < 2 * BLOCK_CELLS:
        return block(left, right)
    one = functools.partial(_forward_rows, product=block)
    if batch > 1 and rows * columns >= BLOCK_CELLS // 16:
        return jax.lax.map(lambda tables: one(*tables), (left, right))
    return jax.vmap(one)(left, right)


def exact_backward(
    left: jax.Array, right: jax.Array, out: jax.Array, weight: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Sums of `weight * exp(left + right - out)` over n and over m, exact for any spread of values.

    Args:
        left: log values [b, m, k].
        right: log values [b, k, n].
        out: the result of the forward product [b, m, n].
        weight: weights of the entries of `out`, of any sign [b, m, n].

    Returns:
        The gradients with respect to left [b, m, k] and right [b, k, n]. Terms of minus infinity get
        exactly zero.
    """
    batch, rows, inner = left.shape
    columns = right.shape[2]
    small = batch * rows * inner * columns <= BROADCAST_CELLS
    out = jnp.where(out == -jnp.inf, jnp.inf, out)  # such entries contribute zero instead of NaN
    if small or not device.is_cpu():
        # the barrier makes each sum compute its own terms; shared terms would be stored
        again = jax.lax.optimization_barrier((left, right, out, weight))
        return _broadcast_terms(left, right, out, weight).sum(3), _broadcast_terms(*again).sum(1)
    if columns < rows and columns < 16:
        flipped = (right, left, out, weight)
        by_right, by_left = exact_backward(*(table.swapaxes(1, 2) for table in flipped))
        return by_left.swapaxes(1, 2), by_right.swapaxes(1, 2)
    if batch > 1 and rows * columns >= BLOCK_CELLS // 16:
        return jax.lax.map(lambda tables: _backward_rows(*tables), (left, right, out, weight))
    return jax.vmap(_backward_rows)(left, right, out, weight)


def _forward_rows(left: jax.Array, right: jax.Array, product: Callable[..., jax.Array]) -> jax.Array:
    """The product of one batch entry, in blocks of rows."""
    rows, columns = left.shape[0], right.shape[1]
    count = -(-rows * columns // BLOCK_CELLS)
    block = -(-rows // count)
    blocks = jnp.pad(left, ((0, count * block - rows), (0, 0)), constant_values=-jnp.inf)
    out = jax.lax.map(lambda rows: product(rows[None], right[None])[0], blocks.reshape(count, block, -1))
    return out.reshape(count * block, columns)[:rows]


def _forward_block(left: jax.Array, right: jax.Array) -> jax.Array:
    """The product of a block that fits in cache: the maximum over k, then the sum of exponentials."""
    steps, terms = _terms_of_block(left, right)
    top = _maximum_block(left, right)
    top = jnp.where(jnp.isfinite(top), top, 0)
    total = jax.lax.fori_loop(
        0,
        steps,
        lambda i, total: total + _over_tile(jnp.sum, jnp.exp(terms(i) - top[:, :, None, :])),
        jnp.zeros_like(top),
    )
    return jnp.log(total) + top


def _maximum_block(left: jax.Array, right: jax.Array) -> jax.Array:
    """The largest term over k of a block that fits in cache."""
    steps, terms = _terms_of_block(left, right)
    return jax.lax.fori_loop(
        0,
        steps,
        lambda i, top: jnp.maximum(top, _over_tile(jnp.max, terms(i))),
        jnp.full((*left.shape[:2], right.shape[2]), -jnp.inf, left.dtype),
    )


def _terms_of_block(left: jax.Array, right: jax.Array) -> tuple[int, Callable[[jax.Array], jax.Array]]:
    """Number of tiles of k, and a function that gives the terms [b, m, tile, n] of one tile."""
    cells = left.shape[0] * left.shape[1] * right.shape[2]
    tile = max(1, min(left.shape[2], TILE_CELLS // max(1, cells)))
    lefts, rights = _tiles(left, tile, 2), _tiles(right, tile, 1)
    return lefts.shape[0], lambda i: lefts[i][:, :, :, None] + rights[i][:, None, :, :]


def _backward_rows(
    left: jax.Array, right: jax.Array, out: jax.Array, weight: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The backward product of one batch entry, in blocks of rows."""
    rows, inner = left.shape
    columns = right.shape[1]
    count = -(-rows * columns // BLOCK_CELLS)
    if count == 1:
        return _backward_block(left, right, out, weight)
    block = -(-rows // count)
    padding = ((0, count * block - rows), (0, 0))
    blocks = [
        jnp.pad(table, padding, constant_values=fill).reshape(count, block, -1)
        for table, fill in ((left, -jnp.inf), (out, jnp.inf), (weight, 0))
    ]

    def step(by_right: jax.Array, tables: list[jax.Array]) -> tuple[jax.Array, jax.Array]:
        by_left, more = _backward_block(tables[0], right, tables[1], tables[2])
        return by_right + more, by_left

    by_right, by_left = jax.lax.scan(step, jnp.zeros_like(right), blocks)
    return by_left.reshape(count * block, inner)[:rows], by_right


def _backward_block(
    left: jax.Array, right: jax.Array, out: jax.Array, weight: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The backward product of a block of rows, in tiles of k; each is stored as [tile, m, n] and summed."""
    rows, inner = left.shape
    columns = right.shape[1]
    tile = max(1, min(inner, TILE_CELLS // max(1, rows * columns)))
    lefts, rights = _tiles(left[None], tile, 2)[:, 0], _tiles(right[None], tile, 1)[:, 0]
    across, down = jnp.ones(columns, left.dtype), jnp.ones(rows, left.dtype)

    def step(_: None, tables: tuple[jax.Array, jax.Array]) -> tuple[None, tuple[jax.Array, jax.Array]]:
        terms = jnp.exp(tables[0].T[:, :, None] + tables[1][:, None, :] - out) * weight
        terms = jax.lax.optimization_barrier(terms)
        # sums as products with ones, which are vectorised on the CPU; reductions are not
        by_left = jnp.einsum("kmn,n->km", terms, across, precision="highest")
        return None, (by_left, jnp.einsum("kmn,m->kn", terms, down, precision="highest"))

    _, (by_left, by_right) = jax.lax.scan(step, None, (lefts, rights))
    return by_left.reshape(-1, rows)[:inner].T, by_right.reshape(-1, columns)[:inner]


def _tiles(table: jax.Array, tile: int, axis: int) -> jax.Array:
    """Split an axis of [b, x, y] into tiles, padded with minus infinity, with the tiles as leading axis."""
    size = table.shape[axis]
    count = -(-size // tile)
    padding = [(0, count * tile - size if i == axis else 0) for i in range(3)]
    table = jnp.pad(table, padding, constant_values=-jnp.inf)
    shape = (*table.shape[:axis], count, tile, *table.shape[axis + 1 :])
    return jnp.moveaxis(table.reshape(shape), axis, 0)


def _over_tile(reduce: Callable[..., jax.Array], terms: jax.Array) -> jax.Array:
    """Reduce [b, m, tile, n] over the tile; a tile of one needs no reduction."""
    return terms[:, :, 0] if terms.shape[2] == 1 else reduce(terms, axis=2)


def _broadcast(left: jax.Array, right: jax.Array) -> jax.Array:
    terms = left[:, :, :, None] + right[:, None, :, :]
    top = jnp.max(terms, axis=2)
    top = jnp.where(jnp.isfinite(top), top, 0)
    return jnp.log(jnp.sum(jnp.exp(terms - top[:, :, None, :]), axis=2)) + top


def _broadcast_terms(left: jax.Array, right: jax.Array, out: jax.Array, weight: jax.Array) -> jax.Array:
    """Terms [b, m, k, n] of the backward product."""
    exponents = left[:, :, :, None] + right[:, None, :, :] - out[:, :, None, :]
    return jnp.exp(exponents) * weight[:, :, None, :]
