"""The interface of oracles: inference in the distribution defined by log-potentials.

An oracle is planned once for a structure. It is a pytree: what determines the compiled program is
static, and index maps (if an oracle has any) are leaves. Programs that take an oracle as an argument
are therefore shared by all oracles with the same shapes.

Solvers store all potentials in one flat vector, since an operation on a vector is compiled once, but an
operation on each of a thousand tables a thousand times. `infer_flat` and `maximum_flat` are for solvers; the
methods on tuples of tables are for all other callers. `Flat` is the base of oracles that read all potentials
from one vector, by index maps that are arguments of their programs: a thousand tables would be a thousand
arguments.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from pgmjax._internal import device
from pgmjax._internal.arrays import precision
from pgmjax._internal.jit import jit
from pgmjax.inference.ops.tables import host_join, join, split
from pgmjax.inference.plan import contraction
from pgmjax.inference.plan.forecast import Forecast
from pgmjax.inference.plan.structure import Structure

Potentials = Sequence[jax.Array]

# Per measured cell, in addition to the solver: values, standard deviations, potentials and marginals in
# float64, and the result of a float32 fit evaluated in float64 (measured: 96 on one clique of 200^3 cells).
HOST_BYTES = 112


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits under which an oracle is planned.

    Attributes:
        max_bytes: memory that may be used.
        itemsize: bytes per cell, 4 or 8.
        copies: number of copies of the potentials in memory at the same time.
        finite: whether no potential will be minus infinity, which fast matrix products do not support.
        mesh: devices that share one call; None uses one device.
        calls: number of calls that a plan is for: the more, the longer it is searched.
    """

    max_bytes: int
    itemsize: int
    copies: int
    finite: bool
    mesh: Mesh | None = None
    calls: float = 1

    def allow(self, cost: Forecast) -> bool:
        """Return whether a forecast fits in memory."""
        return peak_bytes(cost, self.itemsize, self.copies) <= self.max_bytes


def peak_bytes(cost: Forecast, itemsize: int, copies: int) -> int:
    """Bytes of the oracle's and the solver's tables, plus the host's copies if the device is the host."""
    return cost.peak_bytes(itemsize, copies) + host_bytes(cost.inputs)


def host_bytes(inputs: int) -> int:
    """Return the bytes that the host uses for measured cells; 0 if the device has separate memory."""
    return HOST_BYTES * inputs if device.is_cpu() else 0


class Oracle(abc.ABC):
    """Inference for one structure. All tables are in the order of `structure.cliques`.

    Potentials are natural logarithms and may be minus infinity (structural zeros). If every joint state is
    impossible, the log-partition is minus infinity, and marginals are meaningless but finite. A new oracle
    must define `structure`, `forecast`, `infer` and `maximum`, and also `build` and `name` if it can be
    selected by name.

    Attributes:
        name: name for `Estimator(oracle=...)`. Oracles of belief propagation cannot be selected by name and
            have none.
        shares_devices: whether one call can be shared by the devices of a mesh.
        runs_on_host: whether its calls take NumPy arrays and run on the host, in float64 and never compiled.
        structure: sizes and cliques, as a field or a property.
        fast: whether the error bound may exceed rounding error, in which case `exact()` should be used.
            Potentials must then be finite.
    """

    name: ClassVar[str]
    shares_devices: ClassVar[bool] = False
    runs_on_host: ClassVar[bool] = False
    structure: Any
    fast: bool = False

    @classmethod
    def build(cls, structure: Structure) -> Oracle:
        """Plan the oracle of a structure.

        Raises:
            NotImplementedError: the oracle can only be created in another way.
        """
        raise NotImplementedError(f"{cls.__name__} does not say how it is planned: give it a method build.")

    @classmethod
    def within(cls, structure: Structure, limits: Limits) -> Oracle:
        """Plan the oracle of a structure within limits; whether it fits in memory is not checked here."""
        return cls.build(structure)

    @property
    @abc.abstractmethod
    def forecast(self) -> Forecast:
        """The forecast cost of one call."""

    @property
    def details(self) -> tuple[str, ...]:
        """Further lines for a summary of its plan."""
        return ()

    @abc.abstractmethod
    def infer(self, potentials: Potentials) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Log-partition (nats) and the marginal of each clique (probabilities)."""

    def log_partition(self, potentials: Potentials) -> jax.Array:
        """Log of the sum over all joint states (nats)."""
        return self.infer(potentials)[0]

    @abc.abstractmethod
    def maximum(self, potentials: Potentials) -> jax.Array:
        """Largest sum of potentials over all joint states (MAP value, nats)."""

    @property
    def length(self) -> int:
        """Length of a flat vector: the cells of all cliques, plus padding, if any."""
        return self.structure.length

    def infer_with_error(self, potentials: Potentials) -> tuple[jax.Array, tuple[jax.Array, ...], jax.Array]:
        """Same as `infer`, with a bound on the probability misplaced beyond rounding.

        The bound is 0 for oracles without such an error. For others, use `exact()` if it is too large.
        """
        log_partition, marginals = self.infer(potentials)
        return log_partition, marginals, jnp.zeros((), log_partition.dtype)

    def exact(self) -> Oracle:
        """The oracle to use if the error bound exceeds rounding error; an exact oracle returns itself."""
        return self

    def infer_flat(self, potentials: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Same as `infer`, for all tables in one vector [length], each in row-major order."""
        return self.infer_flat_with_error(potentials)[:2]

    def infer_flat_with_error(self, potentials: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Same as `infer_with_error`, for all tables in one vector [length]."""
        tables = split(potentials, self.structure.shapes)
        log_partition, marginals, error_bound = self.infer_with_error(tables)
        return log_partition, join(marginals, self.length), error_bound

    def maximum_flat(self, potentials: jax.Array) -> jax.Array:
        """Same as `maximum`, for all tables in one vector [length]."""
        return self.maximum(split(potentials, self.structure.shapes))

    def run(self, tables: Sequence[Any], dtype: Any) -> tuple[float, list[Any]]:
        """Log-partition and marginals of plain arrays, compiled; exact if the error bound exceeds rounding.

        Args:
            tables: log-potentials of each clique; NumPy arrays, or arrays of the dtype on the device.
            dtype: of the tables on the device, `float32` or `float64`.

        Returns:
            The log-partition (nats) and the marginal of each clique (probabilities). Marginals are arrays on
            the device if all tables are, NumPy arrays otherwise; `Levels` and `Chain` always
            return NumPy arrays.
        """
        dtype = np.dtype(dtype)
        on_device = all(isinstance(table, jax.Array) and table.dtype == dtype for table in tables)
        with precision(dtype.name):
            given = tuple(tables) if on_device else tuple(np.asarray(table, dtype) for table in tables)
            finite = not self.fast or bool(_all_finite(given) if on_device else _least(given, np) > -np.inf)
            log_partition, found, error_bound = _infer(self if finite else self.exact(), given)
            if self.fast and float(error_bound) > np.finfo(dtype).eps:
                log_partition, found, _ = _infer(self.exact(), given)
            # through NumPy, which takes a tenth of the time that `float` takes for an array of JAX
            value = float(np.asarray(log_partition))
            return value, list(found) if on_device else list(map(np.asarray, found))

    def contraction_path(self) -> contraction.ContractionPath:
        """A contraction of the structure, for use on the host in float64."""
        return contraction.plan(self.structure)


@jit
def _infer(oracle: Oracle, tables: Any) -> Any:
    return oracle.infer_with_error(tables)


@jit
def _all_finite(tables: Any) -> jax.Array:
    return _least(tables, jnp) > -jnp.inf


def _least(tables: Any, xp: Any) -> Any:
    return functools.reduce(xp.minimum, map(xp.min, tables))


def in_forward_mode(infer: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Take the derivative of marginals in forward mode, which stores nothing.

    Reverse mode through a large product would store its whole union. The derivative is the Hessian of the
    log-partition, which is symmetric, so both modes give the same.

    Args:
        infer: maps an oracle and potentials to the log-partition, the marginals, and any other results, which
            are constant for derivatives.
    """

    def forward(oracle: Any, potentials: Any) -> tuple[Any, Any]:
        found = infer(oracle, potentials)
        return found, (oracle, potentials, found[1])

    def backward(saved: Any, weights: Any) -> tuple[None, Any]:
        oracle, potentials, marginals = saved
        changes = jax.jvp(lambda given: infer(oracle.exact(), given)[1], (potentials,), (weights[1],))[1]
        return None, jax.tree.map(lambda own, change: weights[0] * own + change, marginals, changes)

    found = jax.custom_vjp(infer)
    found.defvjp(forward, backward)
    return found


@dataclasses.dataclass(frozen=True, eq=False)
class Flat(Oracle):
    """An oracle on one vector; it is a pytree of its maps and sizes, without the plan.

    Pass it to compiled functions as an argument, not as a constant.

    Attributes:
        sizes: the sizes that determine the compiled program (static), with the vector's `length`.
        maps: the index maps.
        arrangement: the plan; None after a JAX transformation.
        layout: the module that plans: its `arrange` and `index_maps`.
    """

    sizes: Any
    maps: Any
    arrangement: Any = None

    layout: ClassVar[Any]

    @classmethod
    def build(cls, structure: Structure) -> Self:
        """Plan the oracle of a structure.

        Raises:
            ModelTooLargeError: too many cells to number with int32.
        """
        return cls.of(cls.layout.arrange(structure))

    @classmethod
    def of(cls, arrangement: Any) -> Self:
        """The oracle of an existing plan."""
        maps = jax.tree.map(jnp.asarray, cls.layout.index_maps(arrangement))
        return cls(arrangement.sizes, maps, arrangement)

    @abc.abstractmethod
    def _infer(self, vector: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Log-partition and marginals [length]."""

    @abc.abstractmethod
    def _maximum(self, vector: jax.Array) -> jax.Array:
        """Largest sum of potentials over all joint states (nats)."""

    def _plan(self) -> Any:
        if self.arrangement is None:
            raise ValueError(
                "this oracle went through a JAX transformation and lost its structure: ask the one that "
                f"{type(self).__name__}.build returned, or use the flat form."
            )
        return self.arrangement

    @property
    def structure(self) -> Structure:
        """The model's sizes and cliques."""
        structure: Structure = self._plan().structure
        return structure

    @property
    def forecast(self) -> Forecast:
        """The forecast cost of one call."""
        forecast: Forecast = self._plan().forecast
        return forecast

    @property
    def length(self) -> int:
        """Length of a flat vector: the cells of all cliques in order, each row-major, then padding."""
        return int(self.sizes.length)

    @functools.partial(jit, compiler_options=None)
    def infer_flat_with_error(self, potentials: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Same as `infer_with_error`, for all tables in one vector [length]: 0 in the padding, no error."""
        log_partition, marginals = self._infer(potentials)
        return log_partition, marginals, jnp.zeros((), log_partition.dtype)

    @functools.partial(jit, compiler_options=None)
    def maximum_flat(self, potentials: jax.Array) -> jax.Array:
        """Same as `maximum`, for all tables in one vector [length]."""
        return self._maximum(potentials)

    def run(self, tables: Sequence[Any], dtype: Any) -> tuple[float, list[Any]]:
        """Same as `Oracle.run`, with all tables in one vector, as thousands of arguments compile slowly.

        The marginals are always NumPy arrays.
        """
        with precision(np.dtype(dtype).name):
            log_partition, found = _infer_flat(self, host_join(tables, dtype, self.length))
            return float(log_partition), list(split(np.asarray(found), self.structure.shapes))

    def infer(self, potentials: Potentials) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Log-partition (nats) and the marginal of each clique (probabilities)."""
        log_partition, marginals = self.infer_flat(join(potentials, self.length))
        return log_partition, split(marginals, [table.shape for table in potentials])

    def maximum(self, potentials: Potentials) -> jax.Array:
        """Largest sum of potentials over all joint states (MAP value, nats)."""
        return self.maximum_flat(join(potentials, self.length))


def registered(kind: type[Flat]) -> type[Flat]:
    """Register a class of oracles on one vector with JAX."""
    fields = {"data_fields": ["maps"], "meta_fields": ["sizes"], "drop_fields": ["arrangement"]}
    return jax.tree_util.register_dataclass(kind, **fields)


@jit
def _infer_flat(oracle: Flat, vector: jax.Array) -> Any:
    return oracle.infer_flat(vector)
