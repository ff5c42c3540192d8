"""The guarded form: the fast product, and the exact one for the blocks of rows where it is not enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from pgmjax.ops import exact_product, fast_product
from pgmjax.ops.lazily import held_back

BLOCK_CELLS = 1 << 16  # cells of (m, n) recomputed together


class Place(NamedTuple):
    """Where a block of rows starts: its entry of the batch and its first row."""

    entry: jax.Array
    row: jax.Array


def guarded_forward(left: jax.Array, right: jax.Array) -> jax.Array:
    """Log-sum-exp over k, as fast as a matrix product where no entry underflows, and always exact.

    Args:
        left: log values [b, m, k].
        right: log values [b, k, n].

    Returns:
        Log values [b, m, n]: those of the exact form, to rounding.
    """
    out, clipped = fast_product.fast_forward(left, right)
    rows, columns = out.shape[1:]
    block = _block_rows(rows, columns)

    def recompute(place: Place, tables: tuple[jax.Array, jax.Array], out: jax.Array) -> jax.Array:
        exact = exact_product.exact_forward(*_rows_of(tables, place, block))
        start = (place.entry, place.row, 0)
        fast = jax.lax.dynamic_slice(out, start, exact.shape)
        wrong = jax.lax.dynamic_slice(clipped, start, exact.shape)
        return jax.lax.dynamic_update_slice(out, jnp.where(wrong, exact, fast), start)

    return _over_blocks(clipped, block, recompute, (left, right), out)


def guarded_backward(
    left: jax.Array, right: jax.Array, out: jax.Array, weight: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Sums of `weight * exp(left + right - out)` over n and over m, exact wherever weight is not negligible.

    Args:
        left: log values [b, m, k].
        right: log values [b, k, n].
        out: the exact forward result [b, m, n].
        weight: what every entry of `out` counts, of any sign and scale [b, m, n].

    Returns:
        The gradients by left [b, m, k] and right [b, k, n]. What is lost of the weight of an entry is
        below 2e-14 (float32) of the largest one, in the same b.
    """
    weight, scale = weight_scale(weight)
    tables = fast_product.scaled(left, right)
    gap = tables.row_top[:, :, None] + tables.column_top[:, None, :] - out
    negligible = float(jnp.finfo(left.dtype).eps) ** 2 / max(out.shape[1:])
    limit = fast_product.clip_gap(left.shape[2], left.dtype)
    wrong = (gap > limit) & (jnp.abs(weight) > negligible) & (out > -jnp.inf)
    by_left, by_right = fast_product.fast_backward(left, right, out, jnp.where(gap > limit, 0, weight))
    rows, columns = out.shape[1:]
    block = _block_rows(rows, columns)
    left_over = jnp.where(wrong, weight, 0)

    def recompute(
        place: Place, tables: tuple[jax.Array, jax.Array], state: tuple[jax.Array, jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        by_left, by_right, left_over = state
        start, shape = (place.entry, place.row, 0), (1, block, columns)
        weights = jax.lax.dynamic_slice(left_over, start, shape)
        more_left, more_right = exact_product.exact_backward(
            *_rows_of(tables, place, block), jax.lax.dynamic_slice(out, start, shape), weights
        )
        # the last block overlaps its neighbour: what is done must not count twice
        return (
            _add(by_left, more_left, start),
            _add(by_right, more_right, (place.entry, 0, 0)),
            jax.lax.dynamic_update_slice(left_over, jnp.zeros_like(weights), start),
        )

    state = (by_left, by_right, left_over)
    by_left, by_right, _ = _over_blocks(wrong, block, recompute, (left, right), state)
    return by_left * scale, by_right * scale


def weight_scale(weight: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Weights [b, m, n] scaled so that rows and columns sum to at most 1, and the scale [b, 1, 1]."""
    scale = jnp.max(jnp.abs(weight), axis=(1, 2), keepdims=True) * max(weight.shape[1:])
    scale = jnp.where((scale > 0) & jnp.isfinite(scale), scale, 1)
    return weight / scale, scale


def _block_rows(rows: int, columns: int) -> int:
    return max(1, min(rows, BLOCK_CELLS // max(1, columns)))


def _rows_of(tables: tuple[jax.Array, jax.Array], place: Place, block: int) -> tuple[jax.Array, jax.Array]:
    """A block of rows of left, and the whole of right, of one entry of the batch."""
    left, right = tables
    rows = jax.lax.dynamic_slice(left, (place.entry, place.row, 0), (1, block, left.shape[2]))
    return rows, jax.lax.dynamic_slice(right, (place.entry, 0, 0), (1, *right.shape[1:]))


def _over_blocks(
    wrong: jax.Array,
    block: int,
    recompute: Callable[..., Any],
    tables: tuple[jax.Array, jax.Array],
    state: Any,
) -> Any:
    """Run `state = recompute(place, tables, state)` for each block of rows with a wrong entry.

    A loop over their number, so that nothing runs where nothing is wrong, also under `vmap`.
    """
    batch, rows, _ = wrong.shape
    count = -(-rows // block)
    by_row = jnp.pad(wrong.any(2), ((0, 0), (0, count * block - rows)))
    affected = by_row.reshape(batch * count, block).any(1)
    order = jnp.argsort(~affected, stable=True)

    def step(i: jax.Array, state: Any) -> Any:
        place = Place(order[i] // count, jnp.minimum(order[i] % count * block, rows - block))
        return recompute(place, held_back(tables, i), state)

    return jax.lax.fori_loop(0, affected.sum(), step, state)


def _add(table: jax.Array, more: jax.Array, start: tuple[jax.Array | int, ...]) -> jax.Array:
    there = jax.lax.dynamic_slice(table, start, more.shape)
    return jax.lax.dynamic_update_slice(table, there + more, start)
