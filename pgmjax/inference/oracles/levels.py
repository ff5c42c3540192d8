"""Exact inference for many small cliques by a program whose size does not grow with their number.

This is message passing in log space on a junction tree. Nodes are padded to a few shapes, and the structure
is stored in index maps that are arguments of the compiled program, not part of it. A first scan, from the
leaves to the root, stores each node's conditional distribution given its separator. A second scan, from the
root to the leaves, multiplies it by the separator's marginal. Messages are recentred by their maximum,
marginals of separators are normalised, and no table is divided by another, so float32 does not lose digits
on long chains.

`Flat` is the base of oracles that read all potentials from one vector, by index maps that are arguments of
their programs: a thousand tables would be a thousand arguments.

A step of a scan processes some nodes of every class at once. The axes of tables are [width, above, both,
below, neither], named after the nodes that share their variables; see `inference.plan.levels`.

References:
    Koller and Friedman, Probabilistic Graphical Models (2009), chapter 10.
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
from jax import lax

from pgmjax._internal.device import precision
from pgmjax._internal.jit import jit
from pgmjax.inference.ops import at, host_join, join, potentials_at, split
from pgmjax.inference.oracles.base import Oracle, Potentials, in_forward_mode
from pgmjax.inference.plan import levels
from pgmjax.inference.plan.forecast import Forecast
from pgmjax.inference.plan.levels import LevelMaps, LevelSizes
from pgmjax.inference.plan.structure import Structure


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


# For tables of one class: the recentred log messages [width, above * both], the scale subtracted from
# them [width, 1], and the conditional distributions, if needed.
Summary = tuple[jax.Array, jax.Array, jax.Array | None]


@registered
class Levels(Flat):
    """The level oracle."""

    name: ClassVar[str] = "levels"
    layout: ClassVar[Any] = levels

    @in_forward_mode
    def _infer(self, vector: jax.Array) -> tuple[jax.Array, jax.Array]:
        conditionals, log_partition = collect(self.sizes, self.maps, vector, _log_sum)
        beliefs = distribute(self.sizes, self.maps.down, conditionals)
        return log_partition, jnp.where(self.maps.out >= 0, _take(beliefs, self.maps.out), 0)

    def _maximum(self, vector: jax.Array) -> jax.Array:
        return collect(self.sizes, self.maps, vector, _log_max)[1]


def _take(tables: tuple[jax.Array, ...], positions: jax.Array) -> jax.Array:
    flat = [table.reshape(-1) for table in tables] or [jnp.zeros(1)]
    joined = jnp.concatenate(flat) if len(flat) > 1 else flat[0]
    return joined.at[jnp.maximum(positions, 0)].get(mode="promise_in_bounds")


def _log_sum(table: jax.Array) -> Summary:
    lowest = jnp.finfo(table.dtype).min  # finite, so that a row of minus infinities gives no NaN
    top = lax.stop_gradient(jnp.max(table, axis=(3, 4), keepdims=True, initial=lowest))
    weights = jnp.exp(table - top)
    total = jnp.sum(weights, axis=(3, 4), keepdims=True)
    possible = total > 0
    safe = jnp.where(possible, total, 1)
    message = jnp.where(possible, jnp.log(safe) + top, -jnp.inf).reshape(len(table), -1)
    scale = lax.stop_gradient(jnp.max(message, axis=1, keepdims=True))
    return _recentred(message, scale), scale, (weights / safe).reshape(len(table), -1)


def _log_max(table: jax.Array) -> Summary:
    message = jnp.max(table, axis=(3, 4)).reshape(len(table), -1)
    scale = jnp.max(message, axis=1, keepdims=True)
    return _recentred(message, scale), scale, None


def _recentred(message: jax.Array, scale: jax.Array) -> jax.Array:
    return message - jnp.where(jnp.isfinite(scale), scale, 0)


def collect(
    sizes: LevelSizes, maps: LevelMaps, vector: jax.Array, reduce: Callable[[jax.Array], Summary]
) -> tuple[tuple[jax.Array, ...], jax.Array]:
    """Upward pass, from the leaves to the roots.

    Args:
        sizes: the static part.
        maps: the index maps.
        vector: log-potentials [length].
        reduce: `_log_sum`, or `_log_max` for the value of the most likely state.

    Returns:
        For each class, the probabilities of every node given its separator [steps, width, cells], and
        the log-partition. Do not differentiate this function: its derivative is not the log-partition's.
    """
    if not sizes.shapes:
        return (), jnp.zeros((), vector.dtype)

    def step(sent: jax.Array, scanned: tuple) -> tuple[jax.Array, tuple]:
        start, potentials, sources = scanned
        messages, scales, kept = [], [], []
        for shape, table, source in zip(sizes.shapes, potentials, sources, strict=True):
            _, both, below, _ = shape
            received = jnp.sum(at(sent, source), axis=1).reshape(-1, 1, both, below, 1)
            message, scale, rest = reduce(table.reshape(-1, *shape) + received)
            messages.append(message.reshape(-1))
            scales.append(scale)
            kept.append(rest)
        return _write(sent, messages, start), (tuple(kept), tuple(scales))

    starts = sizes.sent_up * jnp.arange(sizes.steps, dtype=jnp.int32)
    sent = jnp.zeros(sizes.steps * sizes.sent_up + 1, vector.dtype)  # the last entry stays 0: no message
    potentials = tuple(potentials_at(vector, positions) for positions in maps.tables)
    _, (kept, scales) = lax.scan(step, sent, (starts, potentials, maps.up))
    return kept, jnp.sum(jnp.stack([jnp.sum(scale) for scale in scales]))


def distribute(
    sizes: LevelSizes, down: tuple[jax.Array, ...], conditionals: tuple[jax.Array, ...]
) -> tuple[jax.Array, ...]:
    """Downward pass, from the roots to the leaves.

    Args:
        sizes: the static part.
        down: for each class, the map from messages [steps, width, above * both].
        conditionals: probabilities of every node given its separator [steps, width, cells].

    Returns:
        For each class, the probabilities of every node [steps, width, cells].
    """
    if not conditionals:
        return ()

    def step(sent: jax.Array, scanned: tuple) -> tuple[jax.Array, tuple]:
        start, tables, sources = scanned
        messages, beliefs = [], []
        for shape, table, source in zip(sizes.shapes, tables, sources, strict=True):
            above, both, _, _ = shape
            separator = at(sent, source)
            total = jnp.sum(separator, axis=1, keepdims=True)
            # normalised before the product, so that the table is summed only once
            separator = separator * (1 / jnp.where(total > 0, total, 1))
            belief = table.reshape(-1, *shape) * separator.reshape(-1, above, both, 1, 1)
            messages.append(jnp.sum(belief, axis=(1, 4)).reshape(-1))
            beliefs.append(belief.reshape(len(table), -1))
        return _write(sent, messages, start), tuple(beliefs)

    starts = sizes.sent_down * jnp.arange(sizes.steps, dtype=jnp.int32)
    # the last two entries are constant: messages to roots (1) and to padding (0)
    sent = jnp.ones(sizes.steps * sizes.sent_down + 2, conditionals[0].dtype).at[-1].set(0)
    return lax.scan(step, sent, (starts, conditionals, down), reverse=True)[1]


def _write(sent: jax.Array, messages: list[jax.Array], start: jax.Array) -> jax.Array:
    joined = jnp.concatenate(messages) if len(messages) > 1 else messages[0]
    return lax.dynamic_update_slice(sent, joined, (start,))
