"""Distribution of work over the devices of a mesh: rows of a batch, or slices of one contraction.

Any mesh works, of one process or many; all its axes are treated as one. Every process of the mesh must call
the same functions in the same order with the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from pgmjax._internal import checks


def check(mesh: Any) -> Mesh | None:
    """Return a mesh with automatic axes (the compiler chooses the sharding), or None.

    Raises:
        TypeError: `mesh` is neither a mesh nor None.
    """
    checks.kind(
        mesh,
        Mesh | None,
        "mesh must be a jax.sharding.Mesh or None",
        "write jax.make_mesh((jax.device_count(),), ('rows',))",
    )
    return None if mesh is None else Mesh(mesh.devices, mesh.axis_names)


def of_devices(count: int) -> Mesh | None:
    """Return the mesh of the first devices of this process; None for one, which needs no mesh.

    Raises:
        ValueError: there are fewer devices.
    """
    if count == 1:
        return None
    found = jax.local_devices()
    if count > len(found):
        raise ValueError(
            f"devices={count} is more than JAX finds here, {len(found)} ({found[0].platform}): ask for at "
            "most that many."
        )
    return Mesh(np.array(found[:count]), ("devices",))


def row_sharding(mesh: Mesh) -> NamedSharding:
    """Sharding for arrays with a leading axis of rows, split along it over the mesh."""
    return NamedSharding(mesh, PartitionSpec(mesh.axis_names))


def replicated(mesh: Mesh) -> NamedSharding:
    """Sharding for arrays that every device of a mesh holds in full."""
    return NamedSharding(mesh, PartitionSpec())


def padded(count: int, mesh: Mesh | None) -> int:
    """The smallest number of rows >= `count` that divides evenly among the devices of a mesh.

    Example:
        >>> padded(5, None)
        5
    """
    devices = 1 if mesh is None else mesh.size
    return -(-count // devices) * devices


def over_rows(
    mesh: Mesh, function: Callable[..., Any], rows_in: Sequence[bool], rows_out: Sequence[bool]
) -> Callable[..., Any]:
    """Map a function over the rows of a batch, each device working on its own rows.

    Args:
        mesh: the devices.
        function: function of any number of rows, which treats each row independently.
        rows_in: for each argument, whether its arrays have a leading axis of rows; other arguments are
            replicated on every device.
        rows_out: the same for each result.

    Returns:
        A function of the whole arrays, whose number of rows must be a multiple of the number of devices.
    """
    rows, whole = PartitionSpec(mesh.axis_names), PartitionSpec()
    return jax.shard_map(
        function,
        mesh=mesh,
        in_specs=tuple(rows if cut else whole for cut in rows_in),
        out_specs=tuple(rows if cut else whole for cut in rows_out),
        check_vma=False,
    )


def over_slices(
    mesh: Mesh | None, run_one_slice: Callable[[jax.Array], tuple[jax.Array, Any]], count: int
) -> tuple[jax.Array, Any]:
    """Sum over slices of one model, distributed over the devices of a mesh.

    With Z the sum of `exp(value)` over the slices, the result is log Z and the sum of
    `exp(value) / Z * tables`. If each slice returns its own log-partition and marginals, these are the
    log-partition and marginals of the whole model. Call it inside `jit`. If a slice covers only part of a
    table, `run_one_slice` returns that part within a table of zeros. Differentiation keeps the sums after
    every slice and recomputes the slices.

    Args:
        mesh: the devices; None runs all slices on one device.
        run_one_slice: maps the index of a slice (an int32 scalar on the device) to its value, a scalar (minus
            infinity for an impossible slice), and a tree of tables.
        count: number of slices.

    Returns:
        The value of all slices together, and the weighted sum of the trees, on every device.
    """
    kinds = jax.eval_shape(run_one_slice, jax.ShapeDtypeStruct((), jnp.int32))
    again = jax.checkpoint(run_one_slice)

    def some(first: jax.Array | int, number: int) -> tuple[jax.Array, jax.Array, Any]:
        def add(k: jax.Array, held: tuple[jax.Array, jax.Array, Any]) -> tuple[jax.Array, jax.Array, Any]:
            top, total, sums = held
            i = first + k
            value, tables = again(jnp.minimum(i, count - 1))
            value = jnp.where(i < count, value, -jnp.inf)  # past the last slice: adds nothing
            higher = jnp.maximum(top, value)
            safe = jnp.where(jnp.isfinite(higher), higher, 0)
            old, new = jnp.exp(top - safe), jnp.exp(value - safe)
            return higher, total * old + new, jax.tree.map(lambda s, t: s * old + new * t, sums, tables)

        zero = jnp.zeros(kinds[0].shape, kinds[0].dtype)
        sums = jax.tree.map(lambda kind: jnp.zeros(kind.shape, kind.dtype), kinds[1])
        # the number of iterations must be static for reverse-mode differentiation
        return jax.lax.fori_loop(0, number, add, (zero - jnp.inf, zero, sums))

    def whole(top: jax.Array, total: jax.Array, sums: Any) -> tuple[jax.Array, Any]:
        share = jnp.where(total > 0, total, 1)
        value = jnp.log(total) + jnp.where(jnp.isfinite(top), top, 0)
        return value, jax.tree.map(lambda s: s / share, sums)

    if mesh is None:
        return whole(*some(0, count))
    names, each = mesh.axis_names, -(-count // mesh.size)

    def share_of_device() -> tuple[jax.Array, Any]:
        first = jax.lax.axis_index(names).astype(jnp.int32) * each
        top, total, sums = some(first, each)
        highest = jax.lax.pmax(jax.lax.stop_gradient(top), names)  # a shift that cancels in the result
        scale = jnp.exp(top - jnp.where(jnp.isfinite(highest), highest, 0))
        total, sums = jax.lax.psum(jax.tree.map(lambda x: x * scale, (total, sums)), names)
        return whole(highest, total, sums)

    found: tuple[jax.Array, Any] = jax.shard_map(
        share_of_device, mesh=mesh, in_specs=(), out_specs=PartitionSpec(), check_vma=False
    )()
    return found
