"""Pallas kernels for the log-space matrix product: online log-sum-exp, forward and backward.

Tables are scaled by log2(e) before, so that each exponential is the device's own `exp2`; XLA does this in the
copy that transposes a table anyway, or in one pass. No array over (m, k, n) is formed.

Forward, each program keeps one block of the result in registers and iterates over the summed index in tiles:
it loads a vector of each table, forms their outer sum, exponentiates it and accumulates. It rescales its sum
once per tile, by the change of the running maximum.

Backward, each program keeps a block of the sums over m in registers and iterates over m. The same terms,
summed over the block's columns, are stored apart for every block of columns, and XLA adds these.
Each term is exponentiated once for both gradients, and no order of additions depends on timing.

On an H200 (`bench/device.py`) the forward kernel was faster than XLA at every shape tried, the backward one
at the largest alone. `inference.ops` uses them where `kernels.switch.kernels_in_use()` says so.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

TILE = 8  # entries of the summed index between updates of the running maximum
BLOCK = 32  # rows and columns of a program's block; 16 if there would be too few programs
PROGRAMS = 256  # about two per multiprocessor
WARPS = 4
BACK = 16  # columns of a program's block backward
WIDE = 64  # entries of k there, for each warp: 32 terms a thread
PARTIAL_CELLS = 1 << 28  # sums over blocks of columns that are stored at a time


def log_matmul_exp(
    left: jax.Array,
    right: jax.Array,
    *,
    block: int | None = None,
    warps: int = WARPS,
    interpret: bool = False,
) -> jax.Array:
    """Log-sum-exp over k of `left[b, m, k] + right[b, k, n]`, exact.

    Args:
        left: log values [b, m, k]; finite or minus infinity.
        right: log values [b, k, n] of the same type.
        block: rows and columns of a program's block, a power of two >= 16. Default: chosen by size.
        warps: number of warps (of 32 threads) per block.
        interpret: whether to run on any device as plain JAX operations, for tests.

    Returns:
        Log values [b, m, n]; minus infinity if no k has a finite term.
    """
    batch, rows, inner = left.shape
    columns = right.shape[2]
    block = block or block_size(batch, rows, columns)
    return pl.pallas_call(
        functools.partial(_forward_kernel, block=block, rows=rows, inner=inner, columns=columns),
        out_shape=jax.ShapeDtypeStruct((batch, rows, columns), left.dtype),
        grid=(batch, pl.cdiv(rows, block), pl.cdiv(columns, block)),
        in_specs=[_entry(inner, rows), _entry(inner, columns)],
        out_specs=_entry(rows, columns),
        compiler_params=plgpu.CompilerParams(num_warps=warps, num_stages=2),
        interpret=interpret,
        name="log_matmul_exp",
    )(_base2(left.swapaxes(1, 2)), _base2(right))


def log_matmul_exp_backward(
    left: jax.Array,
    right: jax.Array,
    out: jax.Array,
    weight: jax.Array,
    *,
    block: int = BACK,
    warps: int = 1,
    interpret: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """Sums of `weight * exp(left + right - out)` over n and over m.

    Args:
        left: log values [b, m, k].
        right: log values [b, k, n].
        out: the forward result [b, m, n].
        weight: weight of every entry of `out` [b, m, n].
        block: columns of a program's block, a power of two; the sums over each block are stored for a while.
        warps: number of warps per block; more of them share larger parts of k.
        interpret: as in `log_matmul_exp`.

    Returns:
        The gradients with respect to left [b, m, k] and right [b, k, n]; zero for terms of minus infinity.
    """
    # entries without any finite term contribute 0; this avoids NaN from minus infinity minus itself
    out = _base2(jnp.where(out == -jnp.inf, jnp.inf, out))
    left, turned = _base2(left), _base2(right.swapaxes(1, 2))
    batch, rows, inner = left.shape
    columns = right.shape[2]
    run = functools.partial(_weighted, block=block, warps=warps, interpret=interpret)
    slab = block * max(1, PARTIAL_CELLS // max(1, batch * rows * inner))  # columns at a time
    by_left, by_right = jnp.zeros_like(left), []
    for start in range(0, columns, slab):
        part = slice(start, start + slab)
        sums, more = run(left, turned[:, part], out[:, :, part], weight[:, :, part])
        by_left += sums.sum(1)
        by_right.append(more)
    return by_left, jnp.concatenate(by_right, axis=1).swapaxes(1, 2)


def block_size(batch: int, rows: int, columns: int) -> int:
    """Rows and columns of a block: large for reuse, unless that leaves too few programs for the device."""
    return BLOCK if batch * pl.cdiv(rows, BLOCK) * pl.cdiv(columns, BLOCK) >= PROGRAMS else BLOCK // 2


def _weighted(
    left: jax.Array,
    right: jax.Array,
    out: jax.Array,
    weight: jax.Array,
    *,
    block: int,
    warps: int,
    interpret: bool,
) -> tuple[jax.Array, jax.Array]:
    """Both sums of `weight[m, n] 2^(left[m, k] + right[n, k] - out[m, n])`: over n in blocks, and over m.

    Returns:
        The sums over each block of n [b, blocks, m, k], and the sums over m [b, n, k].
    """
    batch, rows, inner = left.shape
    columns = right.shape[1]
    width = min(WIDE * warps, max(16, pl.next_power_of_2(inner)))
    blocks = pl.cdiv(columns, block)
    return pl.pallas_call(
        functools.partial(_backward_kernel, block=(block, width), rows=rows, inner=inner, columns=columns),
        out_shape=(
            jax.ShapeDtypeStruct((batch, blocks, rows, inner), left.dtype),
            jax.ShapeDtypeStruct((batch, columns, inner), left.dtype),
        ),
        grid=(batch, blocks, pl.cdiv(inner, width)),
        in_specs=[_entry(rows, inner), _entry(columns, inner), _entry(rows, columns), _entry(rows, columns)],
        out_specs=(
            pl.BlockSpec((None, None, rows, inner), lambda b, i, j: (b, i, 0, 0)),
            _entry(columns, inner),
        ),
        compiler_params=plgpu.CompilerParams(num_warps=warps, num_stages=2),
        interpret=interpret,
        name="log_matmul_exp_backward",
    )(left, right, out, weight)


def _base2(table: jax.Array) -> jax.Array:
    """Logarithms in base 2, whose exponential is a single instruction."""
    return table * math.log2(math.e)


def _entry(*shape: int) -> pl.BlockSpec:
    """Block spec for one whole entry of the batch; programs load the parts they need."""
    return pl.BlockSpec((None, *shape), lambda b, i, j: (b, 0, 0))


def _forward_kernel(left_ref, right_ref, out_ref, *, block, rows, inner, columns):
    """A block of out [m, n] from left [k, m] and right [k, n]."""
    row, column = pl.program_id(1) * block, pl.program_id(2) * block
    dtype = out_ref.dtype
    lowest = float(jnp.finfo(dtype).min)  # not minus infinity, whose difference with itself is NaN

    def terms(k):
        of_left = _vector(left_ref, k, row, block, rows, k < inner, -jnp.inf)
        of_right = _vector(right_ref, k, column, block, columns, k < inner, -jnp.inf)
        return of_left[:, None] + of_right[None, :]

    def step(i, state):
        top, total = state
        tile = [terms(i * TILE + j) for j in range(min(TILE, inner))]
        higher = functools.reduce(jnp.maximum, tile, top)
        total = total * jnp.exp2(top - higher)
        for term in tile:
            total = total + jnp.exp2(term - higher)
        return higher, total

    state = jnp.full((block, block), lowest, dtype), jnp.zeros((block, block), dtype)
    top, total = jax.lax.fori_loop(0, pl.cdiv(inner, min(TILE, inner)), step, state)
    out = (top + jnp.log2(total)) * math.log(2)
    _store(out_ref, out, row, column, (block, block), rows, columns)


def _backward_kernel(
    left_ref, right_ref, out_ref, weight_ref, by_left_ref, by_right_ref, *, block, rows, inner, columns
):
    """A block of both results [n, k] from left [m, k], right [n, k], out and weight [m, n]."""
    high, width = block
    column, k = pl.program_id(1) * high, pl.program_id(2) * width
    inside = k + jnp.arange(width) < inner
    right = plgpu.load(
        right_ref.at[pl.ds(column, high), pl.ds(k, width)],
        mask=(column + jnp.arange(high) < columns)[:, None] & inside[None, :],
        other=-jnp.inf,
    )

    def step(m, total):
        left = _vector(left_ref, m, k, width, inner, True, -jnp.inf)
        out = _vector(out_ref, m, column, high, columns, True, jnp.inf)
        weight = _vector(weight_ref, m, column, high, columns, True, 0.0)
        terms = jnp.exp2(left[None, :] + right - out[:, None]) * weight[:, None]
        plgpu.store(by_left_ref.at[m, pl.ds(k, width)], terms.sum(0), mask=inside)
        return total + terms

    total = jax.lax.fori_loop(jnp.int32(0), jnp.int32(rows), step, jnp.zeros_like(right))
    _store(by_right_ref, total, column, k, block, columns, inner)


def _vector(ref, index, start, block, size, inside, fill):
    """A part of row `index` of a table, padded with `fill` beyond its end."""
    mask = (start + jnp.arange(block) < size) & inside
    return plgpu.load(ref.at[index, pl.ds(start, block)], mask=mask, other=fill)


def _store(ref, values, row, column, block, rows, columns):
    high, wide = block
    mask = (row + jnp.arange(high) < rows)[:, None] & (column + jnp.arange(wide) < columns)[None, :]
    plgpu.store(ref.at[pl.ds(row, high), pl.ds(column, wide)], values, mask=mask)
