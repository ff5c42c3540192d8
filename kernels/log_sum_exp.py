"""A fused log-sum-exp over any axes of a broadcast sum of tables: an experiment, not used.

Each program computes a vector of result cells and iterates over the summed cells. Every table is read through
its own strides, so neither the sum nor a broadcast table is ever stored. The running maximum and sum take one
pass, where XLA's fused form takes two. See `docs/lab/fused-log-sum-exp.md` for why it is not used.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

CELLS = 256  # result cells per program


def log_sum_exp(tables: Sequence[jax.Array], axes: tuple[int, ...], *, interpret: bool = False) -> jax.Array:
    """Log-sum-exp over some axes of the broadcast sum of tables.

    Args:
        tables: log values of the same type and rank, with shapes that broadcast against each other.
        axes: axes of the broadcast shape to sum out, none negative.
        interpret: whether to run on any device as plain JAX operations, for tests.

    Returns:
        Log values over the remaining axes; minus infinity if no summed cell is finite.
    """
    shape = jnp.broadcast_shapes(*(table.shape for table in tables))
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    cells = math.prod(shape[axis] for axis in kept)
    kernel = functools.partial(
        _kernel,
        shape=shape,
        kept=tuple(kept),
        summed=tuple(axes),
        strides=tuple(_strides(table.shape) for table in tables),
    )
    flat = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((cells,), tables[0].dtype),
        grid=(pl.cdiv(cells, CELLS),),
        compiler_params=plgpu.CompilerParams(num_warps=4, num_stages=2),
        interpret=interpret,
        name="log_sum_exp",
    )(*(table.reshape(-1) for table in tables))
    return flat.reshape([shape[axis] for axis in kept])


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of the axes in memory; 0 along a broadcast axis."""
    return tuple(0 if size == 1 else math.prod(shape[axis + 1 :]) for axis, size in enumerate(shape))


def _offset(cell, axes, shape, strides):
    """Return the offset in a table of a cell given by a flat index over some axes."""
    offset = jnp.zeros_like(cell)
    for axis in reversed(axes):
        # operands are nonnegative, and the sign correction in `%` does not lower for CUDA
        offset = offset + jax.lax.rem(cell, jnp.int32(shape[axis])) * strides[axis]
        cell = jax.lax.div(cell, jnp.int32(shape[axis]))
    return offset


def _kernel(*refs, shape, kept, summed, strides):
    """A vector of result cells from the flat tables, one summed cell at a time."""
    *tables, out = refs
    cell = pl.program_id(0) * CELLS + jnp.arange(CELLS, dtype=jnp.int32)
    inside = cell < math.prod(shape[axis] for axis in kept)
    starts = [_offset(cell, kept, shape, stride) for stride in strides]

    def step(i, state):
        top, total = state
        term = jnp.zeros_like(top)
        for table, start, stride in zip(tables, starts, strides, strict=True):
            place = start + _offset(i, summed, shape, stride)
            term = term + plgpu.load(table.at[place], mask=inside, other=0.0)
        higher = jnp.maximum(top, term)
        return higher, total * jnp.exp(top - higher) + jnp.exp(term - higher)

    dtype = out.dtype
    # the lowest number, not minus infinity, whose difference with itself is NaN
    state = jnp.full(CELLS, float(jnp.finfo(dtype).min), dtype), jnp.zeros(CELLS, dtype)
    top, total = jax.lax.fori_loop(
        jnp.int32(0), jnp.int32(math.prod(shape[axis] for axis in summed)), step, state
    )
    plgpu.store(out.at[pl.ds(pl.program_id(0) * CELLS, CELLS)], top + jnp.log(total), mask=inside)
