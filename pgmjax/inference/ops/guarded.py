"""The guarded form: the fast product, and the exact one for the rows where it is not enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from pgmjax.inference.ops import exact_product, fast_product
from pgmjax.inference.ops.lazily import held_back

Tables = tuple[jax.Array, jax.Array]
CHUNK_CELLS = 1 << 14  # cells of (m, n) recomputed together: few, since one wrong entry costs its chunk


def guarded_forward(left: jax.Array, right: jax.Array) -> jax.Array:
    """Log-sum-exp over k, as fast as a matrix product where no entry underflows, and always exact.

    Args:
        left: log values [b, m, k].
        right: log values [b, k, n].

    Returns:
        Log values [b, m, n]: those of the exact form, to rounding.
    """
    out, clipped = fast_product.fast_forward(left, right)

    def recompute(tables: Tables, entry: jax.Array, rows: jax.Array, out: jax.Array) -> jax.Array:
        exact = exact_product.exact_forward(_taken(tables[0], entry, rows, -jnp.inf), tables[1][entry][None])
        kept = jnp.where(_taken(clipped, entry, rows, False), exact, _taken(out, entry, rows, 0))
        return out.at[entry, rows].set(kept[0], mode="drop")

    return _over_wrong_rows(clipped, recompute, (left, right), out)


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

    def recompute(tables: Tables, entry: jax.Array, rows: jax.Array, state: Tables) -> Tables:
        weights = jnp.where(_taken(wrong, entry, rows, False), _taken(weight, entry, rows, 0), 0)
        by_left, by_right = exact_product.exact_backward(
            _taken(tables[0], entry, rows, -jnp.inf),
            tables[1][entry][None],
            _taken(out, entry, rows, 0),
            weights,
        )
        return state[0].at[entry, rows].add(by_left[0], mode="drop"), state[1].at[entry].add(by_right[0])

    by_left, by_right = _over_wrong_rows(wrong, recompute, (left, right), (by_left, by_right))
    return by_left * scale, by_right * scale


def weight_scale(weight: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Weights [b, m, n] scaled so that rows and columns sum to at most 1, and the scale [b, 1, 1]."""
    scale = jnp.max(jnp.abs(weight), axis=(1, 2), keepdims=True) * max(weight.shape[1:])
    scale = jnp.where((scale > 0) & jnp.isfinite(scale), scale, 1)
    return weight / scale, scale


def _taken(table: jax.Array, entry: jax.Array, rows: jax.Array, fill: float | bool) -> jax.Array:
    """Some rows of one entry of the batch, [1, rows, ...]; a fill for rows past the end."""
    return table.at[entry, rows].get(mode="fill", fill_value=fill)[None]


def _over_wrong_rows(wrong: jax.Array, recompute: Callable[..., Any], tables: Tables, state: Any) -> Any:
    """Run `state = recompute(tables, entry, rows, state)` over all rows with a wrong entry, in chunks.

    Loops over their number, so that nothing runs where nothing is wrong, also under `vmap`.
    """
    batch, size, columns = wrong.shape
    chunk = max(1, min(size, CHUNK_CELLS // max(1, columns)))
    affected = wrong.any(2)
    counts = affected.sum(1)
    # wrong rows first; the end of the last chunk lies past the table and is dropped
    order = jnp.where(jnp.arange(size) < counts[:, None], jnp.argsort(~affected, axis=1, stable=True), size)
    order = jnp.pad(order, ((0, 0), (0, -size % chunk)), constant_values=size)

    def entry_step(entry: jax.Array, state: Any) -> Any:
        def chunk_step(i: jax.Array, state: Any) -> Any:
            rows = jax.lax.dynamic_slice(order, (entry, i * chunk), (1, chunk))[0]
            return recompute(held_back(tables, i), entry, rows, state)

        return jax.lax.fori_loop(0, -(-counts[entry] // chunk), chunk_step, state)

    # entries after the last one with a wrong row are not visited
    last = jnp.max(jnp.where(counts > 0, jnp.arange(batch) + 1, 0))
    return jax.lax.fori_loop(0, last, entry_step, state)
