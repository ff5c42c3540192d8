"""Synthetic rows drawn on JAX's device, distributed as in `model.sampling`, by one program for any structure.

The structure is passed as data: the variables of a table, its offset and the depth of its binary search are
integers read by a loop over the variables. A new model is only compiled if the number of variables, the
largest number of parents or the total number of cells differs. Positions and cumulated probabilities are
float64, as on the host, so a cell of probability zero is never drawn.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from pgmjax import random
from pgmjax._internal import sharding
from pgmjax._internal.jit import jit
from pgmjax._internal.memory import readable_bytes
from pgmjax.inference.oracles.host import HostModel
from pgmjax.model import sampling
from pgmjax.model.sampling import BLOCK_ROWS, Conditional

MOST_CELLS = 1 << 27  # of all tables together: a gigabyte
SMALLEST = 1 << 10  # rows of a program; fewer rows are sliced from it


class Tables(NamedTuple):
    """The tables of a model, concatenated in the order of drawing.

    Attributes:
        cumulated: cumulated probabilities [cells], increasing to 1 in each group.
        first: offset of each variable's table [variables].
        size: number of codes [variables].
        variable: column to be drawn [variables].
        parents: number of parents [variables].
        parent: columns of the parents [variables, most parents].
        parent_size: numbers of codes of the parents [variables, most parents].
    """

    cumulated: Any
    first: Any
    size: Any
    variable: Any
    parents: Any
    parent: Any
    parent_size: Any


def blocks(
    model: HostModel, rows: int, seed: int, block_rows: int = BLOCK_ROWS, mesh: Mesh | None = None
) -> Iterator[list[np.ndarray]]:
    """Draw independent rows of a model in blocks; the next block is drawn while the current one is used.

    Args:
        model: the distribution.
        rows: number of rows.
        seed: below 2**63. The same seed gives the same rows, but not the rows that the host draws.
        block_rows: rows per block.
        mesh: devices of this process that share each block; the rows are those of one device.

    Returns:
        An iterator over blocks: the codes of each variable [at most block_rows], int32.

    Raises:
        ValueError: the tables are too large in total; raised at the call, before iteration.
    """
    key, mesh = random.key(seed, jax), sharding.check(mesh)
    order = sampling.conditionals(model.buckets(), model.structure.sizes)
    cells = sum(conditional.groups * conditional.size for conditional in order)
    if cells > MOST_CELLS:
        raise ValueError(
            f"the tables of this model take {readable_bytes(8 * cells)}, and the device is given at most "
            f"{readable_bytes(8 * MOST_CELLS)}: leave device=False; the host makes large tables in pieces."
        )
    return _blocks(order, key, rows, block_rows, mesh)


def _blocks(
    order: Sequence[Conditional], key: Any, rows: int, block_rows: int, mesh: Mesh | None
) -> Iterator[list[np.ndarray]]:
    with jax.enable_x64(True):
        tables = Tables(*map(jnp.asarray, _tables(order)))
    # a power of two, so that few programs are compiled for all numbers of rows
    width = min(block_rows, max(SMALLEST, 1 << max(rows - 1, 0).bit_length()))
    ahead = None
    for number, start in enumerate(itertools.count(0, block_rows)):
        drawn = None
        if start < rows:
            with jax.enable_x64(True):  # not across the yield
                drawn = _draw(tables, random.fold(key, number, jax), sharding.padded(width, mesh), mesh)
        if ahead is not None:
            yield list(np.asarray(ahead)[:, : rows - (start - block_rows)])
        if drawn is None:
            return
        ahead = drawn


def _tables(order: Sequence[Conditional]) -> tuple[np.ndarray, ...]:
    """Return the contents of `Tables`, on the host."""
    most = max(1, *(len(conditional.parents) for conditional in order))
    sizes = [conditional.groups * conditional.size for conditional in order]
    parent, parent_size = (np.zeros((len(order), most), np.int32) for _ in range(2))
    for i, conditional in enumerate(order):
        parent[i, : len(conditional.parents)] = conditional.parents
        parent_size[i, : len(conditional.parents)] = conditional.parent_sizes
    return (
        np.concatenate([conditional.cumulated.reshape(-1) for conditional in order]),
        np.cumsum([0, *sizes[:-1]], dtype=np.int32),
        np.array([conditional.size for conditional in order], np.int32),
        np.array([conditional.variable for conditional in order], np.int32),
        np.array([len(conditional.parents) for conditional in order], np.int32),
        parent,
        parent_size,
    )


def _block(tables: Tables, key: Any, rows: int, mesh: Mesh | None) -> Any:
    """Codes of a block [variables, rows]: each variable given those drawn before it."""

    def one(i: Any, columns: Any) -> Any:
        def add(p: Any, group: Any) -> Any:
            return group * tables.parent_size[i, p] + columns[tables.parent[i, p]]

        group = jax.lax.fori_loop(0, tables.parents[i], add, jnp.zeros(rows, jnp.int32))
        base = tables.first[i] + group * tables.size[i]
        position = random.positions(random.fold(key, i, jax), rows, jax)
        codes = _inverse(tables.cumulated, base, tables.size[i], position)
        return columns.at[tables.variable[i]].set(codes)

    number = len(tables.size)
    columns = jnp.zeros((number, rows), jnp.int32)
    if mesh is not None:  # the compiler shares the loop as it shares what the loop begins with
        shared = NamedSharding(mesh, PartitionSpec(None, mesh.axis_names))
        columns = jax.lax.with_sharding_constraint(columns, shared)
    return jax.lax.fori_loop(0, number, one, columns)


def _inverse(cumulated: Any, base: Any, size: Any, position: Any) -> Any:
    """Same as `model.sampling.inverse`, by one binary search over all rows at once."""
    # as many halvings as size - 1 has bits
    steps = 32 - jax.lax.clz(size - 1)

    def halve(n: Any, found: Any) -> Any:
        step = jnp.int32(1) << (steps - 1 - n)
        probe = jnp.minimum(found + (step - 1), size - 1)
        return found + step * (cumulated[base + probe] <= position)

    return jax.lax.fori_loop(0, steps, halve, jnp.zeros_like(base))


_draw = jit(_block, static_argnums=(2, 3))
