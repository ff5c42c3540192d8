"""The kernel matrix, computed on the device tile by tile in double precision, and left there."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.jit import jit
from pgmjax.history.kernel.inner_products import same_domain
from pgmjax.history.prior import ProductPrior
from pgmjax.history.rows import Rows

_MAX_TERMS = 8192

Side = tuple[jax.Array, jax.Array, jax.Array]
"""Coefficients [blocks, terms], numbers of vectors [blocks, terms, attributes], rows [blocks, terms]."""


def device_kernel(
    rows: Rows, others: Rows | None = None, prior: ProductPrior | None = None, *, block: int = 4096
) -> jax.Array:
    """Return the inner products of all pairs of rows as an array on the default device.

    All terms are multiplied attribute by attribute (equation 12) in tiles of the same shape, so that one
    program serves any history. Intended for GPUs; on a CPU `kernel` is faster.

    Args:
        rows: queries.
        others: other queries over the same domain. Default: `rows`.
        prior: weights of the cells. Default: the uniform prior.
        block: largest number of rows in a tile; fewer if rows have many terms.

    Returns:
        float64 [rows, others].

    Raises:
        ValueError: the domains differ, or the block is below 1.

    References:
        Chen, Zhou and Bhowmick 2012, equations 12 and 20.
    """
    block = checks.integer("block", block, low=1)
    prior = same_domain(rows, others, prior)
    others = rows if others is None else others
    with jax.enable_x64(True):
        named = tuple(
            int(k) for k in range(len(rows.domain)) if rows.index[:, k].any() or others.index[:, k].any()
        )
        left, high = _side(rows, named, block)
        right, wide = (left, high) if others is rows else _side(others, named, block)
        weighted = tuple(jnp.asarray(rows.vectors[k] * prior.probabilities[k]) for k in named)
        vectors = tuple(jnp.asarray(others.vectors[k]) for k in named)
        tile = functools.partial(_tile, rows=high, columns=wide)
        blocks, across = len(left[0]), len(right[0])
        result = jnp.zeros((blocks * high, across * wide), jnp.float64)
        for i in range(blocks):
            for j in range(across):
                one, other = tuple(x[i] for x in left), tuple(x[j] for x in right)
                result = _place(result, tile(one, other, weighted, vectors), i * high, j * wide)
        return result[: rows.num_rows, : others.num_rows]


def _side(rows: Rows, named: tuple[int, ...], block: int) -> tuple[Side, int]:
    """Return the terms in blocks of `block` rows, padded with terms of coefficient zero."""
    per_row = max(1.0, rows.num_terms / max(1, rows.num_rows))
    height = int(max(1, min(block, rows.num_rows, _MAX_TERMS / per_row)))
    starts = np.arange(0, max(1, rows.num_rows), height)
    ends = np.searchsorted(rows.owner, np.append(starts, rows.num_rows))
    width = max(1, int(np.diff(ends).max()))
    coefficients = np.zeros((len(starts), width))
    index = np.zeros((len(starts), width, len(named)), np.int32)
    owner = np.zeros((len(starts), width), np.int32)
    for at, start in enumerate(starts):
        some = slice(ends[at], ends[at + 1])
        count = some.stop - some.start
        coefficients[at, :count] = rows.coefficients[some]
        index[at, :count] = rows.index[some][:, list(named)]
        owner[at, :count] = rows.owner[some] - start
    return (jnp.asarray(coefficients), jnp.asarray(index), jnp.asarray(owner)), height


@functools.partial(jit, static_argnames=("rows", "columns"))
def _tile(
    one: Side,
    other: Side,
    weighted: tuple[jax.Array, ...],
    vectors: tuple[jax.Array, ...],
    rows: int,
    columns: int,
) -> jax.Array:
    table = one[0][:, None] * other[0][None, :]
    for k, (left, right) in enumerate(zip(weighted, vectors, strict=True)):
        across = right[other[1][:, k]]
        table = table * jnp.matmul(left[one[1][:, k]], across.T, precision="highest")
    table = jax.ops.segment_sum(table, one[2], num_segments=rows)
    return jax.ops.segment_sum(table.T, other[2], num_segments=columns).T


@functools.partial(jit, donate_argnums=0)
def _place(result: jax.Array, tile: jax.Array, row: int, column: int) -> jax.Array:
    return jax.lax.dynamic_update_slice(result, tile, (row, column))
