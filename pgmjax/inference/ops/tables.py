"""Operations on log-space tables: the semirings that inference runs on, and their executor.

Tables combine by adding logarithms; a reduction says how axes go. `logsumexp` and `logmax` run on
the device and are differentiable; their NumPy twins run on the host, in float64, without compiling
anything. Minus infinity is an exact zero everywhere: it has zero gradient and never makes a NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax.inference.plan.contraction import ContractionPath

Table = Any  # a jax or numpy array
Reduce = Callable[[Table, tuple[int, ...]], Table]


def lowest(table: Table) -> Table:
    """The table with a very low number instead of minus infinity, so that differences are numbers."""
    xp = np if isinstance(table, np.ndarray | np.generic) else jnp
    return xp.maximum(table, float(jnp.finfo(table.dtype).min) / 4)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def logsumexp(table: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """Log of the sum of exponentials over some axes, safe where all entries are minus infinity.

    Args:
        table: log values, any shape.
        axes: axes to sum out; none returns the table.

    Returns:
        Log values over the other axes. Where every entry is minus infinity so is the result,
        with zero gradient (that of `jax.nn.logsumexp` is NaN there).

    Example:
        >>> print(f"{logsumexp(jnp.log(jnp.array([1.0, 3.0])), (0,)):.4f}")
        1.3863
    """
    if not axes:
        return table
    top = lowest(jnp.max(table, axis=axes, keepdims=True))
    return jnp.log(jnp.sum(jnp.exp(table - top), axis=axes)) + jnp.squeeze(top, axes)


@logsumexp.defjvp
def _logsumexp_jvp(
    axes: tuple[int, ...], primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (table,), (change,) = primals, tangents
    result = logsumexp(table, axes)
    shares = jnp.exp(table - lowest(jnp.expand_dims(result, axes)))
    return result, jnp.sum(shares * change, axis=axes)


def logmax(table: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """Maximum over some axes: the reduction that finds the most likely assignment."""
    return jnp.max(table, axis=axes) if axes else table


def host_logsumexp(table: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """As `logsumexp`, in NumPy."""
    if not axes:
        return table
    top = np.max(table, axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(table - top), axis=axes)) + np.squeeze(top, axes)


def host_max(table: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """As `logmax`, in NumPy."""
    return np.max(table, axis=axes) if axes else table


def align(table: Table, variables: Sequence[Hashable], target: Sequence[Hashable]) -> Table:
    """Transpose and reshape a table over `variables` to broadcast against one over `target`.

    Args:
        table: one axis for each of `variables`.
        variables: what the axes stand for, numbers or names; all in `target`.
        target: those of the table to broadcast to.

    Returns:
        A view with one axis for each of `target`, of size 1 where the table lacks the variable.
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
    """A table minus its maximum, and that maximum (0 where all is minus infinity).

    Messages are kept near zero so: float32 has no digits to lose there, however long the chain.
    The maximum is a constant to the gradient, which the sum of both does not depend on.
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
        A table over `path.output` (a scalar where that is empty) and a scalar to add to it: the
        scale that was taken out on the way.
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
        combined = parts[0] if len(parts) == 1 else parts[0] + parts[1]
        result, top = recentred(reduce(combined, tuple(range(len(step.kept), len(step.union)))))
        scale = scale + top
        alive[number] = (result, step.kept)
    return result, scale
