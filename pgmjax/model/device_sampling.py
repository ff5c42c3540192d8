"""Synthetic rows drawn on JAX's device, distributed as in `model.sampling`, by one program for any structure.

Structure is data here: which variables a table has, where it lies and how far its search goes are integers
that a loop over the variables reads. So nothing is compiled again for another model, unless the numbers of
variables, of parents, or of cells together are others. Positions and cumulated probabilities are float64, as
on the host: a cell of probability zero is never drawn.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax import random
from pgmjax._internal.jit import jit
from pgmjax._internal.memory import readable_bytes
from pgmjax.inference.oracles.host import HostModel
from pgmjax.model import sampling
from pgmjax.model.sampling import BLOCK_ROWS, Conditional

MOST_CELLS = 1 << 27  # of all tables together: a gigabyte
SMALLEST = 1 << 10  # rows of a program: fewer are cut from it


class Tables(NamedTuple):
    """The tables of a model in the order of drawing, behind one another.

    Attributes:
        cumulated: cumulated probabilities [cells], each group's rising to 1.
        first: where each variable's table begins [variables].
        size: number of codes [variables].
        variable: which column is drawn [variables].
        parents: number of parents [variables].
        parent: their columns [variables, most parents].
        parent_size: their numbers of codes [variables, most parents].
    """

    cumulated: Any
    first: Any
    size: Any
    variable: Any
    parents: Any
    parent: Any
    parent_size: Any


def blocks(
    model: HostModel, rows: int, seed: int, block_rows: int = BLOCK_ROWS
) -> Iterator[list[np.ndarray]]:
    """Draw independent rows of a model, a block at a time; the next one is drawn while one is used.

    Args:
        model: the distribution.
        rows: how many.
        seed: below 2**63; the same seed gives the same rows, other ones than those of the host.
        block_rows: of one block.

    Returns:
        An iterator over blocks: for each variable the codes [at most block_rows], int32.

    Raises:
        ValueError: tables that are too large together, said at once.
    """
    key = random.key(seed, jax)
    order = sampling.conditionals(model.buckets(), model.structure.sizes)
    cells = sum(conditional.groups * conditional.size for conditional in order)
    if cells > MOST_CELLS:
        raise ValueError(
            f"the tables of this model take {readable_bytes(8 * cells)}, and the device is given at most "
            f"{readable_bytes(8 * MOST_CELLS)}: leave device=False; the host makes large tables in pieces."
        )
    return _blocks(order, key, rows, block_rows)


def _blocks(order: Sequence[Conditional], key: Any, rows: int, block_rows: int) -> Iterator[list[np.ndarray]]:
    with jax.enable_x64(True):
        tables = Tables(*map(jnp.asarray, _tables(order)))
    # a power of two, so that a few programs serve every number of rows
    width = min(block_rows, max(SMALLEST, 1 << max(rows - 1, 0).bit_length()))
    ahead = None
    for number, start in enumerate(itertools.count(0, block_rows)):
        drawn = None
        if start < rows:
            with jax.enable_x64(True):  # not while the caller has its turn
                drawn = _draw(tables, random.fold(key, number, jax), width)
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


def _block(tables: Tables, key: Any, rows: int) -> Any:
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
    return jax.lax.fori_loop(0, number, one, jnp.zeros((number, rows), jnp.int32))


def _inverse(cumulated: Any, base: Any, size: Any, position: Any) -> Any:
    """Same as `model.sampling.inverse`, by one binary search of all rows together."""
    steps = 32 - jax.lax.clz(size - 1)

    def halve(n: Any, found: Any) -> Any:
        step = jnp.int32(1) << (steps - 1 - n)
        probe = jnp.minimum(found + (step - 1), size - 1)
        return found + step * (cumulated[base + probe] <= position)

    return jax.lax.fori_loop(0, steps, halve, jnp.zeros_like(base))


_draw = jit(_block, static_argnums=2)
