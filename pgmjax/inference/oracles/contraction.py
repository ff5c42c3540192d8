"""Exact inference by contracting the measured cliques; reverse mode gives their marginals.

The log-partition function is one tensor contraction over the cliques themselves, so no table of a
triangulated super-clique is stored. Its gradient with respect to a potential is that clique's
marginal (Wainwright and Jordan 2008, proposition 3.1), computed by the backward pass of
`inference.ops.sweep`.

`HostContraction` follows the same path in NumPy: nothing is compiled, so it suits a fit of few steps and a
structure met once. It works in float64, with probabilities instead of logarithms (see
`inference.ops.host_sweep`), and in logarithms where probabilities would be lost. In a program compiled by
JAX, which passes no NumPy arrays, it is `Contraction`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax.inference.ops import host_join, host_sweep, split
from pgmjax.inference.oracles import base
from pgmjax.inference.plan import contraction, forecast
from pgmjax.inference.plan.contraction import ContractionPath, large, of_path
from pgmjax.inference.plan.forecast import (
    Forecast,
    HostRates,
    Rates,
    device_rates,
    readable_cells,
    seconds_of,
)
from pgmjax.inference.plan.structure import Structure

SEARCH_SHARE = 0.1  # of the time of a call on the host: that of a compiled one, for the search for a path
BUFFER_CELLS = 4096  # cells of small buffers
SOLVER_VECTORS = 11  # vectors of a solver on the host, in float64 even where float32 is asked for
CALL_STEPS = 5  # steps, whose time a call on the host takes beside its own, with a step of a solver
ROUNDING = float(np.finfo(np.float64).eps)
SCALED_SLOWDOWN = 2  # times as long a call on the host takes if the scales of tables are kept apart


@functools.partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["path", "fast"])
@dataclasses.dataclass(frozen=True)
class Contraction(base.Oracle):
    """The contraction oracle.

    Attributes:
        path: the plan.
        fast: compute large log-space products as matrix products. Entries that underflow are replaced by an
            upper bound, so that `error_bound` bounds the error. Potentials must be finite. Callers have to
            check the error bound and use `exact()` if it exceeds rounding error.
    """

    path: ContractionPath
    fast: bool = False

    name: ClassVar[str] = "contraction"

    @classmethod
    def build(cls, structure: Structure, fast: bool = False) -> Self:
        """Plan the path of a structure."""
        path = contraction.plan(structure)
        return cls(path, fast and bool(large(path)))

    @classmethod
    def within(cls, structure: Structure, limits: base.Limits) -> Self:
        """Plan the path of a structure; large products are fast if potentials are finite."""
        path = contraction.plan(structure, calls=SEARCH_SHARE * limits.calls)
        return cls(path, limits.finite and bool(large(path)))

    def exact(self) -> Contraction:
        """The same oracle with every product in exact form."""
        return dataclasses.replace(self, fast=False)

    @functools.cached_property
    def structure(self) -> Structure:
        """The model's sizes and cliques."""
        return self.path.structure

    @functools.cached_property
    def forecast(self) -> Forecast:
        """The forecast cost of one call."""
        return _forecast(self.path, self.fast, device_rates())

    @property
    def details(self) -> tuple[str, ...]:
        """Further lines for a summary of its plan."""
        return tuple(of_path(self.path).lines(self.fast))

    def contraction_path(self) -> ContractionPath:
        """The path already planned."""
        return self.path

    def infer(self, potentials: base.Potentials) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Log-partition (nats) and the marginal of each clique (probabilities)."""
        return self.infer_with_error(potentials)[:2]

    def infer_with_error(
        self, potentials: base.Potentials
    ) -> tuple[jax.Array, tuple[jax.Array, ...], jax.Array]:
        """Same as `infer`, with a bound on the probability misplaced by fast products."""
        swept = _swept_in_forward_mode if large(self.path) else _swept
        return swept(self, tuple(potentials))

    def maximum(self, potentials: base.Potentials) -> jax.Array:
        """Largest sum of potentials over all joint states (nats)."""
        from pgmjax.inference.ops import sweep  # with the kernels of compiled programs

        return jnp.asarray(sweep.forward(self.path, potentials, sweep.MAXIMUM).total)


@functools.lru_cache(maxsize=256)
def _forecast(path: ContractionPath, fast: bool, by: Rates) -> Forecast:
    """The forecast of a compiled call: kept, as fits of one structure ask for it many times."""
    spent, structure, known = of_path(path), path.structure, large(path)
    largest = structure.largest([*(s.kept for s in path.steps), *structure.cliques])
    # the backward pass forms the unions of all steps except large products
    unions = [structure.cells(s.union) for n, s in enumerate(path.steps) if n not in known]
    return Forecast(
        method=f"contraction ({path.method}), largest stored table {readable_cells(largest[0][1])} cells",
        largest=largest[0][1],
        inputs=structure.length,
        cells=max(spent.peak - 2 * structure.length, 0)
        + spent.stored // 2
        + max(unions, default=1)
        + BUFFER_CELLS,
        work=3 * path.work,
        largest_tables=largest,
        operations=spent.operations,
        seconds=spent.seconds(by, exact=not fast),
    )


def _swept(
    oracle: Contraction, tables: tuple[jax.Array, ...]
) -> tuple[jax.Array, tuple[jax.Array, ...], jax.Array]:
    from pgmjax.inference.ops import sweep  # with the kernels of compiled programs

    products = sweep.FAST if oracle.fast else sweep.EXACT
    forward = sweep.forward(oracle.path, tables, products)
    marginals, error_bound = sweep.backward(oracle.path, forward, products)
    log_partition = forward.total + oracle.structure.uncovered
    return jnp.asarray(log_partition), marginals, jnp.asarray(error_bound)


_swept_in_forward_mode = base.in_forward_mode(_swept)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=[],
    meta_fields=["path", "fast", "padded_length"],
)
@dataclasses.dataclass(frozen=True)
class HostContraction(Contraction):
    """The contraction oracle on the host.

    Attributes:
        padded_length: length of a flat vector; None for the cells of all cliques.
    """

    padded_length: int | None = None

    name: ClassVar[str] = "host"
    runs_on_host: ClassVar[bool] = True

    @functools.cached_property
    def length(self) -> int:
        """Length of a flat vector: the cells of all cliques, then padding."""
        return self.path.structure.length if self.padded_length is None else self.padded_length

    @functools.cached_property
    def _program(self) -> host_sweep.Program:
        return host_sweep.program(self.path)

    @functools.cached_property
    def forecast(self) -> Forecast:
        """The forecast cost of one call, on one core."""
        compiled = super().forecast
        # twice as wide as those that are planned for
        cells = 2 * compiled.cells + SOLVER_VECTORS * compiled.inputs
        seconds = _host_seconds(self.path, forecast.HOST_RATES)
        return dataclasses.replace(compiled, cells=cells, operations=0, seconds=seconds)

    def infer_flat_with_error(self, potentials: Any) -> tuple[Any, Any, Any]:
        """Same as `infer_with_error`, for all tables in one vector [length]; the host makes no error."""
        if not isinstance(potentials, np.ndarray):
            return super().infer_flat_with_error(potentials)
        vector = np.asarray(potentials[: self.structure.length], np.float64)
        made = self._program.marginals(vector)
        if made.error > ROUNDING:
            made = self._program.log_marginals(vector)
        log_partition, padding = made.log_partition + self.structure.uncovered, self.length - len(vector)
        found = np.pad(made.vector, (0, padding)) if padding else made.vector
        return np.asarray(log_partition), found, np.zeros(())

    def maximum_flat(self, potentials: Any) -> Any:
        """Same as `maximum`, for all tables in one vector [length]."""
        if not isinstance(potentials, np.ndarray):
            return super().maximum_flat(potentials)
        vector = np.asarray(potentials[: self.structure.length], np.float64)
        return np.asarray(self._program.maximum(vector))

    def run(self, tables: Sequence[Any], dtype: Any) -> tuple[float, list[Any]]:
        """Same as `Oracle.run`, on the host in float64; the marginals are NumPy arrays of the dtype."""
        log_partition, found, _ = self.infer_flat_with_error(host_join(tables, np.float64))
        return float(log_partition), list(split(found.astype(dtype), self.structure.shapes))


@functools.lru_cache(maxsize=256)
def _host_seconds(path: ContractionPath, by: HostRates) -> float:
    return seconds_of(host_units(path), by)


def host_units(path: ContractionPath) -> dict[str, int]:
    """The units of work of one call on one core, by the name of their rate in `HostRates`."""
    # by how many nats potentials differ, roughly
    nats = sum(math.log(path.structure.cells(clique)) for clique in path.structure.cliques)
    scaled = SCALED_SLOWDOWN if nats > host_sweep.RANGE else 1
    return {
        "step": scaled * (CALL_STEPS + len(path.steps)),
        "cell": scaled * (path.structure.length + path.touched),
        "flop": 3 * path.work,
    }
