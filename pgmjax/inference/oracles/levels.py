"""Exact inference for many small cliques by a program whose size does not grow with their number.

Message passing in log space on a junction tree, with its nodes padded to a few shapes and its structure
held in index maps that are arguments of the compiled program, not part of it. One scan goes from the
leaves to the root and keeps each node's conditional distribution given its separator; one goes back
and multiplies it by the separator's marginal. Messages are recentred by their maximum, marginals of
separators are normalised, and no table is divided by another: float32 keeps its digits on long chains.

References:
    Koller and Friedman, Probabilistic Graphical Models (2009), chapter 10.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from pgmjax.inference.ops.flat import join, split
from pgmjax.inference.oracles import base
from pgmjax.inference.oracles import level_sweeps as sweeps
from pgmjax.inference.plan import levels as layout
from pgmjax.inference.plan.forecast import Forecast
from pgmjax.inference.plan.structure import Structure


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["tables", "up", "down", "out"],
    meta_fields=["sizes"],
    drop_fields=["arrangement"],
)
@dataclasses.dataclass(frozen=True, eq=False)
class Levels(base.Oracle):
    """The level oracle; an argument of compiled functions, not a constant of theirs.

    Attributes:
        sizes: what a compiled program depends on (static).
        tables: for each class the position in the flat vector of each cell [steps, width, cells].
        up: for each class where its nodes find messages from below [steps, width, fan-in, separator].
        down: for each class where its nodes find the one from above [steps, width, separator].
        out: for each number of the flat vector its position among the beliefs [length].
        arrangement: the plan, absent after a JAX transformation.
    """

    sizes: layout.LevelSizes
    tables: tuple[Any, ...]
    up: tuple[Any, ...]
    down: tuple[Any, ...]
    out: Any
    arrangement: layout.Arrangement | None = None

    @classmethod
    def build(cls, structure: Structure) -> Levels:
        """Plan the levels of a structure.

        Raises:
            ValueError: more cells than can be numbered.
        """
        return cls.of(layout.arrange(structure))

    @classmethod
    def of(cls, arrangement: layout.Arrangement) -> Levels:
        """The oracle of a plan that is already made."""
        maps, out = layout.index_maps(arrangement)
        return cls(
            arrangement.sizes,
            tuple(jnp.asarray(one.tables) for one in maps),
            tuple(jnp.asarray(one.up) for one in maps),
            tuple(jnp.asarray(one.down) for one in maps),
            jnp.asarray(out),
            arrangement,
        )

    def _plan(self) -> layout.Arrangement:
        if self.arrangement is None:
            raise ValueError(
                "this oracle went through a JAX transformation and lost its structure: ask the one that "
                "Levels.build returned, or use the flat form."
            )
        return self.arrangement

    @property
    def structure(self) -> Structure:
        """The model's sizes and cliques."""
        return self._plan().tree.structure

    @property
    def forecast(self) -> Forecast:
        """What one call costs."""
        return self._plan().forecast

    @property
    def length(self) -> int:
        """Numbers in a flat vector: the cells of all cliques in order, each row-major, then padding."""
        return self.sizes.length

    @jax.jit
    def infer_flat(self, potentials: jax.Array) -> tuple[jax.Array, jax.Array]:
        """As `infer`, for all tables in one vector [length], each in row-major order; 0 in the padding."""
        return _infer(self, potentials)

    @jax.jit
    def log_partition_flat(self, potentials: jax.Array) -> jax.Array:
        """As `log_partition`, for all tables in one vector [length]."""
        return _log_partition(self, potentials)

    @jax.jit
    def maximum_flat(self, potentials: jax.Array) -> jax.Array:
        """As `maximum`, for all tables in one vector [length]."""
        return sweeps.collect_maximum(self.sizes, self.tables, self.up, potentials)

    def infer(self, potentials: base.Potentials) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Log-partition (nats) and the marginal of each clique (probabilities)."""
        log_partition, marginals = self.infer_flat(join(potentials, self.length))
        return log_partition, split(marginals, [table.shape for table in potentials])

    def log_partition(self, potentials: base.Potentials) -> jax.Array:
        """Log of the sum over all joint states (nats)."""
        return self.log_partition_flat(join(potentials, self.length))

    def maximum(self, potentials: base.Potentials) -> jax.Array:
        """Largest sum of potentials that any joint state reaches (MAP value, nats)."""
        return self.maximum_flat(join(potentials, self.length))


def _both_sweeps(oracle: Levels, vector: jax.Array) -> tuple[jax.Array, jax.Array]:
    conditionals, log_partition = sweeps.collect(oracle.sizes, oracle.tables, oracle.up, vector)
    beliefs = sweeps.distribute(oracle.sizes, oracle.down, conditionals)
    return log_partition, jnp.where(oracle.out >= 0, _take(beliefs, oracle.out), 0)


@jax.custom_vjp
def _infer(oracle: Levels, vector: jax.Array) -> tuple[jax.Array, jax.Array]:
    return _both_sweeps(oracle, vector)


def _infer_forward(oracle: Levels, vector: jax.Array) -> tuple[Any, Any]:
    found = _both_sweeps(oracle, vector)
    return found, (oracle, vector, found[1])


def _infer_backward(kept: Any, weights: tuple[jax.Array, jax.Array]) -> tuple[None, jax.Array]:
    """The marginals' derivative is the log-partition's second one, so symmetric: forward mode gives it."""
    oracle, vector, marginals = kept
    _, turned = jax.jvp(lambda v: _both_sweeps(oracle, v)[1], (vector,), (weights[1],))
    return None, weights[0] * marginals + turned


_infer.defvjp(_infer_forward, _infer_backward)


@jax.custom_jvp
def _log_partition(oracle: Levels, vector: jax.Array) -> jax.Array:
    return sweeps.collect(oracle.sizes, oracle.tables, oracle.up, vector)[1]


@_log_partition.defjvp
def _log_partition_derivative(
    at: tuple[Levels, jax.Array], along: tuple[Any, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    value, marginals = _infer(*at)
    return value, jnp.vdot(marginals, along[1])


def _take(tables: tuple[jax.Array, ...], positions: jax.Array) -> jax.Array:
    flat = [table.reshape(-1) for table in tables] or [jnp.zeros(1)]
    joined = jnp.concatenate(flat) if len(flat) > 1 else flat[0]
    return joined.at[jnp.maximum(positions, 0)].get(mode="promise_in_bounds")
