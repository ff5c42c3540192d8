"""Pallas kernels for the log-space matrix product: online log-sum-exp, forward and backward.

Each program keeps one block of the result in registers and iterates over the summed index: it loads a vector
of each table, forms their outer sum, exponentiates it and accumulates. No array over (m, k, n) is formed, and
memory is read a few times at most, so the exponential units limit the speed. The forward kernel processes k
in tiles and rescales its sum once per tile, by the change of the running maximum.

Both gradients use the same kernel with the roles of the tables exchanged. Tables are passed in the layout
that makes loads contiguous, which requires transposing the smaller operands.

These kernels have been interpreted on the CPU and lowered for CUDA, but not yet measured on a GPU.
`inference.ops` uses them only inside `kernels.switch.using_kernels()`.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

TILE = 8  # entries of the summed index between updates of the running maximum
BLOCK = 32  # rows and columns of a program's block; 16 if there would be too few programs
PROGRAMS = 256  # about two per multiprocessor
WARPS = 4


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
    )(left.swapaxes(1, 2), right)


def log_matmul_exp_backward(
    left: jax.Array,
    right: jax.Array,
    out: jax.Array,
    weight: jax.Array,
    *,
    block: int | None = None,
    warps: int = WARPS,
    interpret: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """Sums of `weight * exp(left + right - out)` over n and over m.

    Args:
        left: log values [b, m, k].
        right: log values [b, k, n].
        out: the forward result [b, m, n].
        weight: weight of every entry of `out` [b, m, n].
        block: as in `log_matmul_exp`.
        warps: as in `log_matmul_exp`.
        interpret: as in `log_matmul_exp`.

    Returns:
        The gradients with respect to left [b, m, k] and right [b, k, n]; zero for terms of minus infinity.
    """
    # entries without any finite term contribute 0; this avoids NaN from minus infinity minus itself
    out = jnp.where(out == -jnp.inf, jnp.inf, out)
    transposed = left.swapaxes(1, 2), right.swapaxes(1, 2), out.swapaxes(1, 2), weight.swapaxes(1, 2)
    run = functools.partial(_weighted, block=block, warps=warps, interpret=interpret)
    by_left, by_right = run(*transposed), run(right, left, out, weight)
    return by_left, by_right.swapaxes(1, 2)


def block_size(batch: int, rows: int, columns: int) -> int:
    """Rows and columns of a block: large for reuse, unless that leaves too few programs for the device."""
    return BLOCK if batch * pl.cdiv(rows, BLOCK) * pl.cdiv(columns, BLOCK) >= PROGRAMS else BLOCK // 2


def _weighted(
    kept: jax.Array,
    other: jax.Array,
    out: jax.Array,
    weight: jax.Array,
    *,
    block: int | None,
    warps: int,
    interpret: bool,
) -> jax.Array:
    """`sum over y of weight[y, x] exp(kept[k, x] + other[y, k] - out[y, x])` as [b, x, k]."""
    batch, inner, rows = kept.shape
    summed = other.shape[1]
    block = block or block_size(batch, rows, inner)
    return pl.pallas_call(
        functools.partial(_backward_kernel, block=block, rows=rows, inner=inner, summed=summed),
        out_shape=jax.ShapeDtypeStruct((batch, rows, inner), kept.dtype),
        grid=(batch, pl.cdiv(rows, block), pl.cdiv(inner, block)),
        in_specs=[_entry(inner, rows), _entry(summed, inner), _entry(summed, rows), _entry(summed, rows)],
        out_specs=_entry(rows, inner),
        compiler_params=plgpu.CompilerParams(num_warps=warps, num_stages=2),
        interpret=interpret,
        name="log_matmul_exp_backward",
    )(kept, other, out, weight)


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
        total = total * jnp.exp(top - higher)
        for term in tile:
            total = total + jnp.exp(term - higher)
        return higher, total

    state = jnp.full((block, block), lowest, dtype), jnp.zeros((block, block), dtype)
    top, total = jax.lax.fori_loop(0, pl.cdiv(inner, min(TILE, inner)), step, state)
    _store(out_ref, top + jnp.log(total), row, column, block, rows, columns)


def _backward_kernel(kept_ref, other_ref, out_ref, weight_ref, result_ref, *, block, rows, inner, summed):
    """A block of the result [x, k] from kept [k, x], other [y, k], out and weight [y, x]."""
    row, column = pl.program_id(1) * block, pl.program_id(2) * block
    ks = column + jnp.arange(block)
    xs = row + jnp.arange(block)
    kept = plgpu.load(
        kept_ref.at[pl.ds(column, block), pl.ds(row, block)],
        mask=(ks < inner)[:, None] & (xs < rows)[None, :],
        other=-jnp.inf,
    )

    def step(y, total):
        other = _vector(other_ref, y, column, block, inner, True, -jnp.inf)
        out = _vector(out_ref, y, row, block, rows, True, jnp.inf)
        weight = _vector(weight_ref, y, row, block, rows, True, 0.0)
        return total + jnp.exp(kept + other[:, None] - out[None, :]) * weight[None, :]

    total = jax.lax.fori_loop(0, summed, step, jnp.zeros((block, block), kept.dtype))
    _store(result_ref, total.T, row, column, block, rows, inner)


def _vector(ref, index, start, block, size, inside, fill):
    """A part of row `index` of a table, padded with `fill` beyond its end."""
    mask = (start + jnp.arange(block) < size) & inside
    return plgpu.load(ref.at[index, pl.ds(start, block)], mask=mask, other=fill)


def _store(ref, values, row, column, block, rows, columns):
    mask = (row + jnp.arange(block) < rows)[:, None] & (column + jnp.arange(block) < columns)[None, :]
    plgpu.store(ref.at[pl.ds(row, block), pl.ds(column, block)], values, mask=mask)
