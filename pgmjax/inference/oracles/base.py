"""The interface of oracles: inference in the distribution defined by log-potentials; and a `Plan` of one.

An oracle is planned once for a structure. It is a pytree: what determines the compiled program is
static, and index maps (if an oracle has any) are leaves. Programs that take an oracle as an argument
are therefore shared by all oracles with the same shapes.

Solvers store all potentials in one flat vector, since an operation on a vector is compiled once, but an
operation on each of a thousand tables a thousand times. `infer_flat` and `maximum_flat` are for solvers; the
methods on tuples of tables are for all other callers.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from pgmjax._internal import device
from pgmjax._internal.device import precision
from pgmjax._internal.jit import jit
from pgmjax.inference.ops import join, split
from pgmjax.inference.plan import contraction, forecast
from pgmjax.inference.plan.forecast import SMALL, Forecast, HostRates, Rates, device_rates
from pgmjax.inference.plan.structure import Structure

Potentials = Sequence[jax.Array]
Infer = TypeVar("Infer", bound=Callable[..., Any])

# Per measured cell, in addition to the solver: values, standard deviations, potentials and marginals in
# float64, and the result of a float32 fit evaluated in float64 (measured: 96 on one clique of 200^3 cells).
HOST_BYTES = 112
VECTOR_PASSES = 2  # cells whose time a step of a solver takes for each measured cell, beside its call
LINE = 90  # characters of a list of names in a summary


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits under which an oracle is planned.

    Attributes:
        max_bytes: memory that may be used; None for the free memory of the device.
        itemsize: bytes per cell, 4 or 8.
        copies: number of copies of the potentials in memory at the same time.
        finite: whether no potential will be minus infinity, which fast matrix products do not support.
        mesh: devices that share one call; None uses one device.
        calls: number of calls that a plan is for: the more, the longer it is searched.
    """

    max_bytes: int | None
    itemsize: int
    copies: int
    finite: bool
    mesh: Mesh | None = None
    calls: float = 1

    @functools.cached_property
    def bytes(self) -> int:
        """Memory that may be used, in bytes."""
        return forecast.device_bytes() if self.max_bytes is None else self.max_bytes

    def allow(self, cost: Forecast) -> bool:
        """Return whether a forecast fits in memory."""
        need = peak_bytes(cost, self.itemsize, self.copies)
        return (need <= SMALL and self.max_bytes is None) or need <= self.bytes


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


def in_forward_mode(infer: Infer) -> Infer:
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

    @functools.wraps(infer)
    def call(oracle: Any, potentials: Any) -> Any:  # a function, which may be a method
        return found(oracle, potentials)

    return cast(Infer, call)


def require_registered(made: Oracle) -> None:
    """Refuse an oracle that cannot be an argument of a compiled program.

    Raises:
        TypeError: its class is not registered with JAX.
    """
    if not made.runs_on_host and any(leaf is made for leaf in jax.tree.leaves(made)):
        raise TypeError(
            f"{type(made).__name__} is not registered with JAX: write @functools.partial("
            'jax.tree_util.register_dataclass, data_fields=[], meta_fields=["structure"]) above '
            "@dataclasses.dataclass (docs/own.md)."
        )


@dataclasses.dataclass
class Beginning:
    """First calls of a plan in NumPy: as long as they take less time than compiling would.

    Attributes:
        oracle: the host's oracle.
        calls: number of calls left. It counts calls, not seconds, so that equal programs give equal numbers.
    """

    oracle: Oracle
    calls: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """An oracle for named attributes, with its forecast cost.

    Attributes:
        oracle: the chosen oracle.
        attributes: name of each of its variables.
        itemsize: bytes per cell.
        copies: number of copies of the potentials in memory at the same time (see `Forecast.peak_bytes`).
        max_bytes: memory that it may use; None for the free memory of the device.
        beginning: what answers the first calls of `infer`; None if the oracle answers all.
        calls: number of calls that it was planned for; None if it is not known.
    """

    oracle: Oracle
    attributes: tuple[str, ...]
    itemsize: int
    copies: int
    max_bytes: int | None
    beginning: Beginning | None = dataclasses.field(default=None, compare=False, repr=False)
    calls: int | None = dataclasses.field(default=None, compare=False)

    @property
    def peak_bytes(self) -> int:
        """Forecast of the peak memory of a fit, in bytes."""
        return peak_bytes(self.oracle.forecast, self.itemsize, self.copies)

    @property
    def seconds(self) -> float:
        """Forecast of the time of its calls (one if their number is not known) and of compiling (s)."""
        cost = self.oracle.forecast
        return cost.compile_seconds + (self.calls or 1) * cost.seconds

    @property
    def step_seconds(self) -> float:
        """Forecast of a step of a fit: a call, and the solver's own passes over its vectors (s)."""
        cost = self.oracle.forecast
        return cost.seconds + VECTOR_PASSES * self.rates.cell * cost.inputs

    @property
    def rates(self) -> Rates | HostRates:
        """The rates that its forecasts of time follow."""
        return forecast.HOST_RATES if self.oracle.runs_on_host else device_rates()

    def infer(self, tables: Sequence[Any]) -> tuple[float, list[Any]]:
        """Log-partition and marginals of a model given by plain arrays, on the device.

        The first call compiles, later ones with the same shapes do not, even from another plan. If "auto"
        chose the oracle, calls run in NumPy until as much time is spent as compiling is forecast to take.
        Both agree up to rounding.

        Args:
            tables: log-potentials of each clique, in the order of the structure; finite or minus infinity.
                NumPy arrays, or arrays of the plan's type already on the device.

        Returns:
            The log-partition (nats) and the marginal of each clique (probabilities, shape of its table).
            Marginals are arrays on the device if all tables are, NumPy arrays otherwise; `Levels` and
            `Chain` always return NumPy arrays.

        Raises:
            ValueError: a wrong number of tables, or a wrong shape.

        Example:
            >>> from pgmjax.inference.oracles import plan
            >>> from pgmjax.inference.plan.structure import Structure
            >>> structure, names = Structure.named({"a": 2, "b": 2}, [("a", "b")])
            >>> value, (marginal,) = plan(structure, names).infer([np.zeros((2, 2))])
            >>> round(value, 4), marginal.tolist()
            (1.3863, [[0.25, 0.25], [0.25, 0.25]])
        """
        shapes = self.oracle.structure.shapes
        if tuple([getattr(table, "shape", None) or np.shape(table) for table in tables]) != shapes:
            raise ValueError(
                f"expected {len(shapes)} tables of the shapes of the structure's cliques, got {len(tables)} "
                f"tables of which some differ: give one for each clique, in its own axis order."
            )
        oracle, begun = self.oracle, self.beginning
        if begun and begun.calls > 0 and not all(isinstance(table, jax.Array) for table in tables):
            begun.calls -= 1
            oracle = begun.oracle
        return oracle.run(tables, np.float32 if self.itemsize == 4 else np.float64)

    def summary(self) -> str:
        """The plan in a few lines of text: totals, forecasts, the largest steps and tables.

        Long lists of attributes end with the number of those left out.

        Example:
            >>> from pgmjax.inference.oracles import plan
            >>> from pgmjax.inference.plan.structure import Structure
            >>> structure, names = Structure.named({"a": 2, "b": 3}, [("a", "b")])
            >>> print(plan(structure, names, "message_passing").summary().splitlines()[0])
            message passing: junction tree of 1 cliques, 6 cells
        """
        cost = self.oracle.forecast
        need = forecast.readable_bytes(self.peak_bytes)
        limit = forecast.device_bytes() if self.max_bytes is None else self.max_bytes
        lines = [
            f"{_words(type(self.oracle).__name__)}: {cost.method}",
            f"about {need} of {forecast.readable_bytes(limit)} available; {cost.work:,} exponentials a step",
            f"about {cost.seconds:.2g} s a call, {cost.compile_seconds:.2g} s to compile "
            f"{cost.operations:,} operations; rates: {self.rates.source}",
            *(f"  {self._named(line)}" for line in self.oracle.details),
        ]
        structure = self.oracle.structure
        given = f"{len(structure.sizes):,} attributes, {len(structure.cliques):,} cliques"
        lines.insert(1, f"{given}, {forecast.readable_cells(cost.inputs)} cells in all")
        if self.calls:
            lines.insert(4, f"{self.calls:,} calls, compiling included, about {self.seconds:.2g} s")
        if self.beginning and self.beginning.calls:
            lines.append(
                f"the next {self.beginning.calls:,} calls of infer run in NumPy, before it is compiled"
            )
        for variables, cells in cost.largest_tables:
            names = _listed([self.attributes[v] for v in variables])
            lines.append(f"  {cells:>15,} cells over ({names})")
        return "\n".join(lines)

    def _named(self, line: str) -> str:
        """A line of an oracle, which knows variables by their numbers only, with the attributes' names."""
        return re.sub(r"variable (\d+)\b", lambda found: repr(self.attributes[int(found[1])]), line)


def _listed(names: Sequence[str]) -> str:
    """Names with commas, as many as fit on a line, but at least one."""
    text = ", ".join(names)
    for shown in range(len(names) - 1, 0, -1):
        if len(text) <= LINE:
            break
        text = f"{', '.join(names[:shown])} and {len(names) - shown:,} more"
    return text


def _words(name: str) -> str:
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()
