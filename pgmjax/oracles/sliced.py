"""Exact inference in slices: for models whose largest table does not fit in memory at once.

A slice fixes some variables to a part of their values; it is a contraction of its own, run after the
others in one loop. The log-partitions of the slices add up in log space, and so do, weighted by their
slice's share, the marginals.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax import ops
from pgmjax.ops import sweep
from pgmjax.ops.flat import join, split
from pgmjax.ops.products import Maximum
from pgmjax.oracles import base
from pgmjax.oracles.contraction import Contraction
from pgmjax.plan import slicing
from pgmjax.plan.forecast import Forecast
from pgmjax.plan.structure import Structure


@functools.partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["plan", "fast"])
@dataclasses.dataclass(frozen=True)
class Sliced(base.Oracle):
    """The contraction oracle, slice by slice.

    Attributes:
        plan: which variables are sliced, and the contraction of a slice.
        fast: as for `Contraction`.
    """

    plan: slicing.SlicedPath
    fast: bool = False

    @classmethod
    def build(cls, structure: Structure, max_bytes: int = 2**30, fast: bool = False) -> Sliced:
        """Slice a structure so that a call takes so many bytes (in float32).

        Raises:
            ModelTooLargeError: no slicing does.
        """
        return cls(slicing.plan(structure, max_bytes), fast)

    @property
    def structure(self) -> Structure:
        """The model's sizes and cliques."""
        return self.plan.structure

    @property
    def forecast(self) -> Forecast:
        """What one call costs."""
        inner = Contraction(self.plan.path).forecast
        names = ", ".join(str(n) for n in self.plan.parts)
        return dataclasses.replace(
            inner,
            method=f"{inner.method}, in {self.plan.slices:,} slices ({names} parts)",
            inputs=sum(self.structure.cells(c) for c in self.structure.cliques),
            cells=inner.cells + 2 * inner.inputs,
            work=inner.work * self.plan.slices,
            seconds=inner.seconds * self.plan.slices,
            details=tuple(self.plan.lines()[1:]),
        )

    def exactly(self) -> Sliced:
        """The same oracle with every product in exact form."""
        return dataclasses.replace(self, fast=False)

    def infer(self, potentials: base.Potentials) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Log-partition (nats) and the marginal of each clique (probabilities)."""
        return self.infer_with_doubt(potentials)[:2]

    def infer_flat_with_doubt(self, potentials: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """As `infer_flat`, and how much of the probability fast products may have got wrong."""
        log_partition, marginals, doubt = self.infer_with_doubt(split(potentials, self.structure.shapes))
        return log_partition, join(marginals, self.length), doubt

    def log_partition(self, potentials: base.Potentials) -> jax.Array:
        """Log of the sum over all joint states (nats)."""
        return self.infer(potentials)[0]

    def maximum(self, potentials: base.Potentials) -> jax.Array:
        """Largest sum of potentials that any joint state reaches (nats)."""
        tables = tuple(potentials)

        def step(top: jax.Array, starts: jax.Array) -> tuple[jax.Array, None]:
            parts = self._parts(tables, starts)
            value = sweep.forward(self.plan.path, parts, ops.logmax, Maximum(), with_shares=False).total
            return jnp.maximum(top, jnp.asarray(value)), None

        lowest = jnp.full((), -jnp.inf, jnp.result_type(*tables))
        return jax.lax.scan(step, lowest, self._starts())[0]

    def infer_with_doubt(
        self, potentials: base.Potentials
    ) -> tuple[jax.Array, tuple[jax.Array, ...], jax.Array]:
        """As `infer`, and how much of the probability fast products may have got wrong."""
        tables = tuple(potentials)
        zero = jnp.zeros((), jnp.result_type(*tables))
        state = State(zero - jnp.inf, zero, tuple(jnp.zeros_like(t) for t in tables), zero)
        state = jax.lax.scan(lambda s, starts: (self._add(s, tables, starts), None), state, self._starts())[0]
        share = jnp.where(state.sum > 0, state.sum, 1)
        log_partition = jnp.log(state.sum) + jnp.where(jnp.isfinite(state.top), state.top, 0)
        return log_partition, tuple(m / share for m in state.marginals), state.doubt / share

    def _add(self, state: State, tables: tuple[jax.Array, ...], starts: jax.Array) -> State:
        """One more slice: everything before counts relative to the largest log-partition so far."""
        inner = Contraction(self.plan.path, self.fast)
        value, marginals, doubt = inner.infer_with_doubt(self._parts(tables, starts))
        top = jnp.maximum(state.top, value)
        safe = jnp.where(jnp.isfinite(top), top, 0)
        old, new = jnp.exp(state.top - safe), jnp.exp(value - safe)
        sums = []
        for axes, whole, part in zip(self.plan.axes, state.marginals, marginals, strict=True):
            whole = whole * old
            if not axes:
                sums.append(whole + new * part)
                continue
            place = _place(axes, starts, part.ndim)
            there = jax.lax.dynamic_slice(whole, place, part.shape)
            sums.append(jax.lax.dynamic_update_slice(whole, there + new * part, place))
        return State(top, state.sum * old + new, tuple(sums), state.doubt * old + new * doubt)

    def _parts(self, tables: tuple[jax.Array, ...], starts: jax.Array) -> tuple[jax.Array, ...]:
        return tuple(
            jax.lax.dynamic_slice(table, _place(axes, starts, table.ndim), shape) if axes else table
            for axes, table, shape in zip(
                self.plan.axes, tables, self.plan.path.structure.shapes, strict=True
            )
        )

    def _starts(self) -> np.ndarray:
        """First values of the sliced variables in each slice [slices, sliced variables]."""
        starts = [self.plan.starts(i) for i in range(self.plan.slices)]
        return np.asarray(starts, np.int32).reshape(self.plan.slices, len(self.plan.variables))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    """Sums over the slices so far, relative to the largest log-partition among them.

    Attributes:
        top: that largest log-partition (nats).
        sum: of the slices' partitions.
        marginals: of each clique, weighted by partition.
        doubt: of the slices, weighted by partition.
    """

    top: jax.Array
    sum: jax.Array
    marginals: tuple[jax.Array, ...]
    doubt: jax.Array


def _place(axes: tuple[tuple[int, int], ...], starts: jax.Array, dimensions: int) -> list[Any]:
    place: list[Any] = [jnp.zeros((), jnp.int32)] * dimensions
    for axis, variable in axes:
        place[axis] = starts[variable]
    return place
