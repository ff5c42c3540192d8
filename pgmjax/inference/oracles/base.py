"""The interface of oracles: inference in the distribution that log-potentials define.

An oracle is planned once for a structure. It is a pytree: what shapes the compiled program is
static, index maps (where an oracle has any) are leaves, so that programs which take it as an
argument are shared by everything that has the same shapes.

Solvers keep all potentials in one flat vector, since an operation on a vector is compiled once and
one on each of a thousand tables a thousand times. `infer_flat` and `maximum_flat` serve them; the
forms on tuples of tables are for everyone else.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from pgmjax._internal.jit import jit, precision
from pgmjax._internal.moved import renamed
from pgmjax.inference import ops
from pgmjax.inference.ops.tables import join, split
from pgmjax.inference.plan import contraction
from pgmjax.inference.plan.forecast import Forecast
from pgmjax.inference.plan.structure import Structure, Variables

Potentials = Sequence[jax.Array]

# For each measured cell, beside the solver: values, standard deviations, potentials and marginals in
# float64, and the end of a float32 fit evaluated in float64 (measured: 96 on one clique of 200^3 cells).
HOST_BYTES = 112


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits that an oracle is planned for.

    Attributes:
        max_bytes: memory that may be used.
        itemsize: bytes of a cell, 4 or 8.
        copies: tables the size of the potentials that will live at once.
        finite: whether no potential will be minus infinity, which matrix products cannot hold.
        mesh: devices that share one call; None uses one.
    """

    max_bytes: int
    itemsize: int
    copies: int
    finite: bool
    mesh: Mesh | None = None

    def allow(self, cost: Forecast) -> bool:
        """Return whether what a forecast says fits in memory."""
        return peak_bytes(cost, self.itemsize, self.copies) <= self.max_bytes


def peak_bytes(cost: Forecast, itemsize: int, copies: int) -> int:
    """The oracle's and the solver's tables and, where the device is the host, the host's own copies."""
    return cost.peak_bytes(itemsize, copies) + host_bytes(cost.inputs)


def host_bytes(inputs: int) -> int:
    """Return the bytes that the host keeps for measured cells; 0 if it has a memory of its own."""
    return HOST_BYTES * inputs if jax.default_backend() == "cpu" else 0


@renamed(infer_with_doubt="infer_with_error", infer_flat_with_doubt="infer_flat_with_error", exactly="exact")
class Oracle(abc.ABC):
    """Inference for one structure. All tables are in the order of `structure.cliques`.

    Potentials are natural logarithms and may be minus infinity (structural zeros). Where every joint
    state is impossible the log-partition is minus infinity; marginals mean nothing then, but are
    finite. A new oracle gives `structure`, `forecast`, `infer`, `log_partition` and `maximum`, and to be
    asked for also `build` and its `name`.

    Attributes:
        name: what `Estimator(oracle=...)` calls it; those of belief propagation, which are not asked for by
            name, have none.
        shares_devices: whether one call can be shared by the devices of a mesh.
        structure: sizes and cliques, as a field or a property.
        fast: whether its error bound may be above rounding, to which `exact()` is the remedy; potentials
            must then be finite.
    """

    name: ClassVar[str]
    shares_devices: ClassVar[bool] = False
    structure: Any
    fast: bool = False

    @classmethod
    def build(cls, structure: Structure) -> Oracle:
        """Plan the oracle of a structure.

        Raises:
            NotImplementedError: one that is made in another way only.
        """
        raise NotImplementedError(f"{cls.__name__} does not say how it is planned: give it a method build.")

    @classmethod
    def within(cls, structure: Structure, limits: Limits) -> Oracle:
        """Plan the oracle of a structure as limits allow; whether it fits in memory is asked afterwards."""
        return cls.build(structure)

    @property
    @abc.abstractmethod
    def forecast(self) -> Forecast:
        """The forecast cost of one call."""

    @abc.abstractmethod
    def infer(self, potentials: Potentials) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Log-partition (nats) and the marginal of each clique (probabilities)."""

    @abc.abstractmethod
    def log_partition(self, potentials: Potentials) -> jax.Array:
        """Log of the sum over all joint states (nats)."""

    @abc.abstractmethod
    def maximum(self, potentials: Potentials) -> jax.Array:
        """Largest sum of potentials that any joint state reaches (MAP value, nats)."""

    @property
    def length(self) -> int:
        """Numbers in a flat vector: the cells of all cliques, and padding where there is any."""
        return sum(self.structure.cells(c) for c in self.structure.cliques)

    def infer_with_error(self, potentials: Potentials) -> tuple[jax.Array, tuple[jax.Array, ...], jax.Array]:
        """Same as `infer`, with a bound on the probability misplaced beyond rounding.

        An oracle that leaves no error bound returns 0; to another one `exact()` is the remedy.
        """
        log_partition, marginals = self.infer(potentials)
        return log_partition, marginals, jnp.zeros((), log_partition.dtype)

    def exact(self) -> Oracle:
        """The oracle to ask where the error bound is more than rounding: itself, for an exact one."""
        return self

    def infer_flat(self, potentials: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Same as `infer`, for all tables in one vector [length], each in row-major order."""
        log_partition, marginals = self.infer(split(potentials, self.structure.shapes))
        return log_partition, join(marginals, self.length)

    def infer_flat_with_error(self, potentials: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Same as `infer_with_error`, for all tables in one vector [length]."""
        log_partition, marginals = self.infer_flat(potentials)
        return log_partition, marginals, jnp.zeros((), log_partition.dtype)

    def maximum_flat(self, potentials: jax.Array) -> jax.Array:
        """Same as `maximum`, for all tables in one vector [length]."""
        return self.maximum(split(potentials, self.structure.shapes))

    def run(self, tables: Sequence[Any], dtype: Any) -> tuple[float, list[Any]]:
        """Log-partition and marginals of plain arrays, compiled; in exact form where an error bound matters.

        Args:
            tables: log-potentials of each clique; NumPy arrays, or arrays of the dtype on the device.
            dtype: of the tables on the device, `float32` or `float64`.

        Returns:
            The log-partition (nats) and the marginal of each clique (probabilities): arrays on the device
            if all tables were, NumPy arrays otherwise, and always from `Levels`.
        """
        dtype = np.dtype(dtype)
        on_device = all(isinstance(table, jax.Array) and table.dtype == dtype for table in tables)
        xp = jnp if on_device else np
        with precision(dtype.name):
            given = tuple(tables) if on_device else tuple(np.asarray(table, dtype) for table in tables)
            finite = not self.fast or all(bool(xp.min(table) > -np.inf) for table in given)
            log_partition, found, error_bound = _infer(self if finite else self.exact(), given)
            if self.fast and float(error_bound) > np.finfo(dtype).eps:
                log_partition, found, _ = _infer(self.exact(), given)
            return float(log_partition), list(found) if on_device else list(map(np.asarray, found))

    def contraction_path(self) -> contraction.ContractionPath:
        """A contraction of the structure, for the host to work on in float64."""
        return contraction.plan(self.structure)

    def log_marginal(self, potentials: Potentials, variables: Variables) -> jax.Array:
        """Log-probabilities of any variables, inside a clique or not [sizes of variables]."""
        path = contraction.plan(self.structure, variables)
        return normalised(ops.contract(path, potentials, ops.logsumexp)[0])


@jit
def _infer(oracle: Oracle, tables: Any) -> Any:
    return oracle.infer_with_error(tables)


def normalised(log_table: jax.Array) -> jax.Array:
    """A table minus its own log-sum-exp: probabilities that sum to 1 whatever was rounded before."""
    total = ops.logsumexp(log_table, tuple(range(log_table.ndim)))
    return log_table - jnp.where(jnp.isfinite(total), total, 0)
