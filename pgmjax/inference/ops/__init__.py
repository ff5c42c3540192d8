"""Operations on log-space tables: the semirings that inference runs on, and their executors.

Tables are combined by adding logarithms; a reduction removes axes. `logsumexp` and `logmax` run on
the device and are differentiable; their NumPy versions run on the host, in float64, without compilation.
Minus infinity is an exact zero everywhere: it has zero gradient and never produces a NaN.

Tables of several shapes can be stored in one vector, each in row-major order (`split`, `join`).

- `sweep`: the forward pass of a contraction, and the backward pass for all marginals.
- `host_sweep`: the same in NumPy.

The sums themselves are those of `pgmjax.kernels`.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax.inference.plan.contraction import ContractionPath
from pgmjax.inference.plan.structure import IMPOSSIBLE

Table = Any  # a jax or numpy array
Reduce = Callable[[Table, tuple[int, ...]], Table]

PIECE = 1 << 20  # cells that the host combines at a time


def align(table: Table, variables: Sequence[Hashable], target: Sequence[Hashable]) -> Table:
    """Transpose and reshape a table over `variables` to broadcast against one over `target`.

    Args:
        table: one axis for each of `variables`.
        variables: variables of the axes, numbers or names; all in `target`.
        target: variables of the table to broadcast to.

    Returns:
        A view with one axis for each of `target`, of size 1 if the table does not have the variable.
    """
    place = {v: i for i, v in enumerate(target)}
    order = sorted(range(len(variables)), key=lambda i: place[variables[i]])
    if order != list(range(len(order))):
        table = table.transpose(order)
    shape = [1] * len(target)
    for axis, i in enumerate(order):
        shape[place[variables[i]]] = table.shape[axis]
    return table.reshape(shape)


def project(table: Table, variables: Sequence[int], target: Sequence[int], reduce: Reduce) -> Table:
    """Reduce a table over `variables` to one over `target`, axes in the order of `target`."""
    axes = tuple(i for i, v in enumerate(variables) if v not in set(target))
    kept = [v for v in variables if v in set(target)]
    return align(reduce(table, axes), kept, target)


def recentred(table: Table) -> tuple[Table, Table]:
    """A table minus its maximum, and that maximum (0 if the table is all minus infinity).

    This keeps messages near zero, so that float32 does not lose digits on long chains. The maximum is
    treated as a constant by the gradient, which is correct because it cancels in the sum of both results.
    """
    if isinstance(table, np.ndarray | np.generic):
        top = np.max(table)
        top = top if np.isfinite(top) else 0.0
    else:
        top = jax.lax.stop_gradient(jnp.max(table))
        top = jnp.where(jnp.isfinite(top), top, 0)
    return table - top, top


def contract(path: ContractionPath, tables: Sequence[Table], reduce: Reduce) -> tuple[Table, Table]:
    """Run a contraction path in log space.

    Args:
        path: the plan.
        tables: one table of log values for each clique of the path's structure.
        reduce: `logsumexp`, `logmax` or their host twins.

    Returns:
        A table over `path.output` (a scalar if that is empty), and the scale that was taken out of it
        and has to be added.
    """
    cliques = path.structure.cliques
    # operands are dropped once used, so that their memory is freed
    alive: dict[int, tuple[Table, Sequence[int]]] = {
        i: (table, clique) for i, (table, clique) in enumerate(zip(tables, cliques, strict=True))
    }
    result: Table = np.zeros(())
    scale: Table = 0.0
    for number, step in enumerate(path.steps, start=len(cliques)):
        parts = [align(*alive.pop(i), step.union) for i in step.operands]
        result, top = recentred(reduced_sum(parts, len(step.kept), reduce))
        scale = scale + top
        alive[number] = (result, step.kept)
    return result, scale


def reduced_sum(tables: Sequence[Table], kept: int, reduce: Reduce) -> Table:
    """The sum of aligned tables, reduced to its first axes; on the host in pieces, so that little is stored.

    Args:
        tables: log values, which broadcast against each other.
        kept: number of axes to keep.
        reduce: reduction of the other axes.
    """
    axis = None
    if isinstance(tables[0], np.ndarray) and math.prod(table.size for table in tables) > PIECE:
        shape = np.broadcast_shapes(*(table.shape for table in tables))
        cells = math.prod(shape)
        if cells > PIECE:
            axis = next((i for i in range(kept) if shape[i] > 1), None)
    if axis is None:
        combined = functools.reduce(operator.add, tables)
        return reduce(combined, tuple(range(kept, combined.ndim)))
    step = max(PIECE * shape[axis] // cells, 1)
    pieces = []
    for start in range(0, shape[axis], step):
        part = (slice(None),) * axis + (slice(start, start + step),)
        narrower = [table if table.shape[axis] == 1 else table[part] for table in tables]
        pieces.append(reduced_sum(narrower, kept, reduce))
    return np.concatenate(pieces, axis)


def split(vector: Any, shapes: Sequence[tuple[int, ...]]) -> tuple[Any, ...]:
    """Split a vector into tables; any remaining entries are ignored.

    Example:
        >>> [table.shape for table in split(np.arange(9), [(2, 3), (2,)])]
        [(2, 3), (2,)]
    """
    ends = list(itertools.accumulate(map(math.prod, shapes)))
    if isinstance(vector, np.ndarray):
        starts = [0, *ends]
        return tuple(
            vector[start:end].reshape(shape) for start, end, shape in zip(starts, ends, shapes, strict=False)
        )
    return tuple(
        jax.lax.slice(vector, (end - math.prod(shape),), (end,)).reshape(shape)
        for end, shape in zip(ends, shapes, strict=True)
    )


def join(tables: Sequence[jax.Array], length: int | None = None) -> jax.Array:
    """Concatenate tables into one vector, padded with zeros to a length."""
    parts = [jnp.ravel(table) for table in tables]
    rest = 0 if length is None else length - sum(part.size for part in parts)
    if rest or not parts:
        parts.append(jnp.zeros(rest, parts[0].dtype if parts else None))
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts)


def host_join(tables: Sequence[Any], dtype: Any, length: int | None = None) -> np.ndarray:
    """Same as `join`, in NumPy, cast to a dtype."""
    parts = [np.asarray(table).reshape(-1) for table in tables]
    size = sum(map(len, parts))
    vector = np.zeros(size if length is None else length, dtype)
    if parts:
        np.concatenate(parts, out=vector[:size], casting="unsafe")
    return vector


def at(vector: jax.Array, positions: jax.Array) -> jax.Array:
    """Entries of a vector, all of which exist."""
    return vector.at[positions].get(mode="promise_in_bounds")


def potentials_at(vector: jax.Array, positions: jax.Array) -> jax.Array:
    """Entries of a vector of log values: minus infinity where IMPOSSIBLE, 0 where NEUTRAL."""
    constant = jnp.where(positions == IMPOSSIBLE, -jnp.inf, 0).astype(vector.dtype)
    return jnp.where(positions >= 0, at(vector, jnp.maximum(positions, 0)), constant)
