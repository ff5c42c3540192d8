"""Operations on log-space tables: the semirings that inference runs on, and their executor.

Tables are combined by adding logarithms; a reduction removes axes. `logsumexp` and `logmax` run on
the device and are differentiable; their NumPy versions run on the host, in float64, without compilation.
Minus infinity is an exact zero everywhere: it has zero gradient and never produces a NaN.

Tables of several shapes can be stored in one vector, each in row-major order (`split`, `join`).
`computed_if` and `held_back` avoid work on tables that is not needed, also under `vmap`.
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

from pgmjax._internal import device
from pgmjax.inference.plan.contraction import ContractionPath
from pgmjax.inference.plan.levels import IMPOSSIBLE

Table = Any  # a jax or numpy array
Tables = Any  # a tuple of arrays, or one
Reduce = Callable[[Table, tuple[int, ...]], Table]

SMALLER = 8  # times as few cells as a product has a product of some of its factors
PIECE = 1 << 20  # cells that the host combines at a time
ONE_PASS = 1 << 20  # off a CPU, cells up to which a launch less is worth twice as many exponentials


def module_of(table: Table) -> Any:
    """NumPy for its arrays and scalars, `jax.numpy` for others."""
    return np if isinstance(table, np.ndarray | np.generic) else jnp


def lowest(table: Table) -> Table:
    """The table with a very low number instead of minus infinity, so that differences are never NaN."""
    return module_of(table).maximum(table, float(jnp.finfo(table.dtype).min) / 4)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def logsumexp(table: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """Log of the sum of exponentials over some axes, safe where all entries are minus infinity.

    Args:
        table: log values, any shape.
        axes: axes to sum out; if empty, the table is returned.

    Returns:
        Log values over the other axes. Where every entry is minus infinity, the result is minus infinity
        with zero gradient (the gradient of `jax.nn.logsumexp` is NaN there).

    Example:
        >>> print(f"{logsumexp(jnp.log(jnp.array([1.0, 3.0])), (0,)):.4f}")
        1.3863
    """
    if not axes:
        return table
    top, total = largest_and_sum(table, axes)
    return jnp.log(total) + jnp.squeeze(top, axes)


@logsumexp.defjvp
def _logsumexp_jvp(
    axes: tuple[int, ...], primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (table,), (change,) = primals, tangents
    result = logsumexp(table, axes)
    shares = jnp.exp(table - lowest(jnp.expand_dims(result, axes)))
    return result, jnp.sum(shares * change, axis=axes)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def largest_and_sum(table: jax.Array, axes: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """The largest entry along some axes, and the sum of exponentials relative to it.

    Args:
        table: log values, any shape.
        axes: axes to sum out, at least one.

    Returns:
        The largest entries, with size 1 along these axes, a very low number where all are minus infinity;
        they are constant for derivatives. The sums over the other axes, 0 where all are minus infinity.
    """
    if device.is_cpu() or table.size > ONE_PASS:
        top = lowest(jnp.max(table, axis=axes, keepdims=True))
        return top, jnp.sum(jnp.exp(table - top), axis=axes)
    bounded = lowest(table)
    zero = jnp.zeros((), table.dtype)
    entries = (bounded, (table == bounded).astype(table.dtype))
    top, total = jax.lax.reduce(entries, (lowest(zero - jnp.inf), zero), _added, axes)
    return jnp.expand_dims(top, axes), total


@largest_and_sum.defjvp
def _largest_and_sum_jvp(
    axes: tuple[int, ...], primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
    (table,), (change,) = primals, tangents
    top, total = largest_and_sum(table, axes)
    return (top, total), (jnp.zeros_like(top), jnp.sum(jnp.exp(table - top) * change, axis=axes))


def _added(left: tuple[jax.Array, jax.Array], right: tuple[jax.Array, jax.Array]) -> Any:
    """Two sums of exponentials relative to a number each, as one relative to the larger."""
    top = jnp.maximum(left[0], right[0])
    return top, left[1] * jnp.exp(left[0] - top) + right[1] * jnp.exp(right[0] - top)


def dot(left: Any, right: Any) -> Any:
    """Dot product of two arrays of one shape, as vectors; in NumPy without BLAS.

    BLAS divides ten thousand products among threads. Where other programs keep the cores busy, waiting for
    them takes a thousand times as long as the products.
    """
    if isinstance(left, np.ndarray):
        return np.einsum("i,i->", left.reshape(-1), right.reshape(-1))
    return jnp.vdot(left, right)


def logmax(table: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """Maximum over some axes: the reduction that finds the most likely assignment."""
    return jnp.max(table, axis=axes) if axes else table


def host_logsumexp(table: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Same as `logsumexp`, in NumPy."""
    if not axes:
        return table
    top = np.max(table, axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(table - top), axis=axes)) + np.squeeze(top, axes)


def host_max(table: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Same as `logmax`, in NumPy."""
    return np.max(table, axis=axes) if axes else table


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


def host_product(
    factors: Sequence[tuple[np.ndarray, Sequence[int]]], variables: Sequence[int], shape: tuple[int, ...]
) -> np.ndarray:
    """The product of tables [shape], of axes `variables`; small ones are multiplied with each other first.

    Args:
        factors: tables with their variables, some of `variables`.
        variables: variables of the result.
        shape: its shape.
    """
    size = dict(zip(variables, shape, strict=True))
    cells = math.prod(shape)
    small = sorted(factors, key=lambda factor: factor[0].size)
    large: list[tuple[np.ndarray, Sequence[int]]] = []
    while len(small) > 1:
        (left, first), (right, second) = small[:2]
        both = tuple(v for v in variables if v in first or v in second)
        if SMALLER * math.prod(size[v] for v in both) > cells:
            large.append(small.pop(0))
            continue
        made = align(left, first, both) * align(right, second, both)
        small = sorted([(made, both), *small[2:]], key=lambda factor: factor[0].size)
    if not factors:
        return np.ones(shape)
    first, *others = (align(table, own, variables) for table, own in (*large, *small))
    result = np.multiply(first, others[0] if others else 1.0, out=np.empty(shape))
    for table in others[1:]:
        result *= table
    return result


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


def computed_if(
    needed: jax.Array, compute: Callable[[Tables], jax.Array], tables: Tables, otherwise: jax.Array
) -> jax.Array:
    """`compute(tables)` if a scalar condition holds, else `otherwise`.

    Under `vmap`, `lax.cond` always computes both branches. This loop of at most one iteration is skipped
    if no batch entry needs it.
    """

    def turn(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return jnp.zeros_like(state[0]), compute(held_back(tables, state[0]))

    return jax.lax.while_loop(lambda state: state[0], turn, (needed, otherwise))[1]


def held_back(tables: Tables, state: jax.Array) -> Tables:
    """The same tables, tied to a loop's state, so that XLA does not hoist work on them out of the loop."""
    return jax.lax.optimization_barrier((tables, state))[0]


def at(vector: jax.Array, positions: jax.Array) -> jax.Array:
    """Entries of a vector, all of which exist."""
    return vector.at[positions].get(mode="promise_in_bounds")


def potentials_at(vector: jax.Array, positions: jax.Array) -> jax.Array:
    """Entries of a vector of log values: minus infinity where IMPOSSIBLE, 0 where NEUTRAL."""
    constant = jnp.where(positions == IMPOSSIBLE, -jnp.inf, 0).astype(vector.dtype)
    return jnp.where(positions >= 0, at(vector, jnp.maximum(positions, 0)), constant)
