"""Exact inference in slices: for models whose largest table does not fit in memory at once.

A slice restricts some variables to a part of their values. Each slice is a separate contraction; slices run
one after another in a loop, or on several devices. The log-partitions of the slices are combined by
log-sum-exp, and the marginals are averaged with the slices' shares as weights.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from pgmjax._internal import sharding
from pgmjax.inference.oracles import base
from pgmjax.inference.oracles.contraction import Contraction
from pgmjax.inference.plan import slicing
from pgmjax.inference.plan.forecast import Forecast, ModelTooLargeError
from pgmjax.inference.plan.structure import Structure


@functools.partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["plan", "fast", "mesh"])
@dataclasses.dataclass(frozen=True)
class Sliced(base.Oracle):
    """The contraction oracle, slice by slice.

    Attributes:
        plan: the sliced variables, and the contraction of a slice.
        fast: as for `Contraction`.
        mesh: devices that share the slices; None uses one device.
    """

    plan: slicing.SlicedPath
    fast: bool = False
    mesh: Mesh | None = None

    name: ClassVar[str] = "sliced"
    shares_devices: ClassVar[bool] = True

    @classmethod
    def build(
        cls, structure: Structure, max_bytes: int = 2**30, fast: bool = False, mesh: Mesh | None = None
    ) -> Sliced:
        """Slice a structure so that a call takes at most `max_bytes` (in float32) on each device.

        Raises:
            ModelTooLargeError: no slicing fits.
        """
        least = 1 if mesh is None else mesh.size
        return cls(slicing.plan(structure, max_bytes, min_slices=least), fast, mesh)

    @classmethod
    def within(cls, structure: Structure, limits: base.Limits) -> Sliced:
        """The coarsest slices that fit next to the solver's vectors; if none fit, the finest ones tried.

        Raises:
            ModelTooLargeError: no slicing fits.
        """
        inputs = structure.length
        solver = limits.copies * inputs * limits.itemsize
        left = (limits.bytes - base.host_bytes(inputs) - solver) * 4 // limits.itemsize  # in float32
        found = cls.build(structure, max(left, 1), limits.finite, limits.mesh)
        for share in (2, 4, 8):
            if limits.allow(found.forecast):
                break
            with contextlib.suppress(ModelTooLargeError):
                found = cls.build(structure, max(left // share, 1), limits.finite, limits.mesh)
        return found

    @property
    def structure(self) -> Structure:
        """The model's sizes and cliques."""
        return self.plan.structure

    @functools.cached_property
    def forecast(self) -> Forecast:
        """The forecast cost of one call on each device."""
        inner = Contraction(self.plan.path, self.fast).forecast
        parts = ", ".join(str(n) for n in self.plan.parts)
        turns = -(-self.plan.slices // (1 if self.mesh is None else self.mesh.size))
        devices = "" if self.mesh is None else f", shared by {self.mesh.size} devices"
        return dataclasses.replace(
            inner,
            method=f"{inner.method}, in {self.plan.slices:,} slices ({parts} parts){devices}",
            inputs=self.structure.length,
            cells=inner.cells + 2 * inner.inputs,
            work=inner.work * turns,
            seconds=inner.seconds * turns,
        )

    @property
    def details(self) -> tuple[str, ...]:
        """Further lines for a summary of its plan."""
        return tuple(self.plan.lines(self.fast))

    def exact(self) -> Sliced:
        """The same oracle with every product in exact form."""
        return dataclasses.replace(self, fast=False)

    def infer(self, potentials: base.Potentials) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Log-partition (nats) and the marginal of each clique (probabilities)."""
        return self.infer_with_error(potentials)[:2]

    def infer_with_error(
        self, potentials: base.Potentials
    ) -> tuple[jax.Array, tuple[jax.Array, ...], jax.Array]:
        """Same as `infer`, with a bound on the probability misplaced by fast products."""
        tables = tuple(potentials)
        inner = Contraction(self.plan.path, self.fast)

        def one(index: jax.Array) -> tuple[jax.Array, Any]:
            starts = jnp.asarray(self._starts())[index]
            value, parts, error_bound = inner.infer_with_error(self._parts(tables, starts))
            whole = tuple(
                jax.lax.dynamic_update_slice(
                    jnp.zeros(table.shape, table.dtype), part, _place(axes, starts, part.ndim)
                )
                if axes
                else part
                for axes, table, part in zip(self.plan.axes, tables, parts, strict=True)
            )
            return value, (whole, error_bound.astype(value.dtype))

        value, (marginals, error_bound) = sharding.over_slices(self.mesh, one, self.plan.slices)
        return value, marginals, error_bound

    def maximum(self, potentials: base.Potentials) -> jax.Array:
        """Largest sum of potentials over all joint states (nats)."""
        tables = tuple(potentials)

        def step(top: jax.Array, starts: jax.Array) -> tuple[jax.Array, None]:
            value = Contraction(self.plan.path).maximum(self._parts(tables, starts))
            return jnp.maximum(top, jnp.asarray(value)), None

        lowest = jnp.full((), -jnp.inf, jnp.result_type(*tables))
        return jax.lax.scan(step, lowest, jnp.asarray(self._starts()))[0]

    def _parts(self, tables: tuple[jax.Array, ...], starts: jax.Array) -> tuple[jax.Array, ...]:
        """The part of each table in a slice."""
        shapes = self.plan.path.structure.shapes
        return tuple(
            jax.lax.dynamic_slice(table, _place(axes, starts, table.ndim), shape) if axes else table
            for axes, table, shape in zip(self.plan.axes, tables, shapes, strict=True)
        )

    def _starts(self) -> np.ndarray:
        """First values of the sliced variables in each slice [slices, sliced variables]."""
        return np.array(self.plan.starts, np.int32)


def _place(axes: tuple[tuple[int, int], ...], starts: jax.Array, dimensions: int) -> list[Any]:
    place: list[Any] = [jnp.zeros((), jnp.int32)] * dimensions
    for axis, variable in axes:
        place[axis] = starts[variable]
    return place
