"""The guarded form: the fast product, and the exact one for the blocks of rows where it is not enough."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from pgmjax.ops import exact_product, fast_product

BLOCK_CELLS = 1 << 16  # cells of (m, n) recomputed together


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

    def recompute(place: tuple[jax.Array, jax.Array], out: jax.Array) -> jax.Array:
        entry, row = place
        exact = exact_product.exact_forward(
            jax.lax.dynamic_slice(left, (entry, row, 0), (1, block, left.shape[2])),
            jax.lax.dynamic_slice(right, (entry, 0, 0), (1, *right.shape[1:])),
        )
        window = ((entry, row, 0), (1, block, columns))
        fast = jax.lax.dynamic_slice(out, *window)
        wrong = jax.lax.dynamic_slice(clipped, *window)
        return jax.lax.dynamic_update_slice(out, jnp.where(wrong, exact, fast), window[0])

    return _over_blocks(clipped, block, recompute, out)


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
        place: tuple[jax.Array, jax.Array], state: tuple[jax.Array, jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        by_left, by_right, left_over = state
        entry, row = place
        window = ((entry, row, 0), (1, block, columns))
        weights = jax.lax.dynamic_slice(left_over, *window)
        more_left, more_right = exact_product.exact_backward(
            jax.lax.dynamic_slice(left, (entry, row, 0), (1, block, left.shape[2])),
            jax.lax.dynamic_slice(right, (entry, 0, 0), (1, *right.shape[1:])),
            jax.lax.dynamic_slice(out, *window),
            weights,
        )
        # the last block overlaps its neighbour: what is done must not count twice
        return (
            _add(by_left, more_left, (entry, row, 0)),
            _add(by_right, more_right, (entry, 0, 0)),
            jax.lax.dynamic_update_slice(left_over, jnp.zeros_like(weights), window[0]),
        )

    by_left, by_right, _ = _over_blocks(wrong, block, recompute, (by_left, by_right, left_over))
    return by_left * scale, by_right * scale


def weight_scale(weight: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Weights [b, m, n] scaled so that rows and columns sum to at most 1, and the scale [b, 1, 1]."""
    scale = jnp.max(jnp.abs(weight), axis=(1, 2), keepdims=True) * max(weight.shape[1:])
    scale = jnp.where((scale > 0) & jnp.isfinite(scale), scale, 1)
    return weight / scale, scale


def _block_rows(rows: int, columns: int) -> int:
    return max(1, min(rows, BLOCK_CELLS // max(1, columns)))


def _over_blocks(wrong, block, recompute, state):  # type: ignore[no-untyped-def]
    """Run `recompute((entry, first row), state)` for each block of rows with a wrong entry.

    A loop over their number, so that nothing runs where nothing is wrong, also under `vmap`.
    """
    batch, rows, _ = wrong.shape
    count = -(-rows // block)
    by_row = jnp.pad(wrong.any(2), ((0, 0), (0, count * block - rows)))
    affected = by_row.reshape(batch * count, block).any(1)
    order = jnp.argsort(~affected, stable=True)

    def step(i: jax.Array, state):  # type: ignore[no-untyped-def]
        entry, row = order[i] // count, order[i] % count * block
        return recompute((entry, jnp.minimum(row, rows - block)), state)

    return jax.lax.fori_loop(0, affected.sum(), step, state)


def _add(table: jax.Array, more: jax.Array, start: tuple[jax.Array | int, ...]) -> jax.Array:
    there = jax.lax.dynamic_slice(table, start, more.shape)
    return jax.lax.dynamic_update_slice(table, there + more, start)
