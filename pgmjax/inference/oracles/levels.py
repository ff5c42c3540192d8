"""Exact inference for many small cliques by a program whose size does not grow with their number.

This is message passing in log space on a junction tree. Nodes are padded to a few shapes, and the structure
is stored in index maps that are arguments of the compiled program, not part of it. A first scan, from the
leaves to the root, stores each node's conditional distribution given its separator. A second scan, from the
root to the leaves, multiplies it by the separator's marginal. Messages are recentred by their maximum,
marginals of separators are normalised, and no table is divided by another, so float32 does not lose digits
on long chains.

A step of a scan processes some nodes of every class at once. The axes of tables are [width, above, both,
below, neither], named after the nodes that share their variables; see `inference.plan.levels`.

References:
    Koller and Friedman, Probabilistic Graphical Models (2009), chapter 10.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax

from pgmjax.inference.ops.tables import at, potentials_at
from pgmjax.inference.oracles.base import Flat, in_forward_mode, registered
from pgmjax.inference.plan import levels
from pgmjax.inference.plan.levels import LevelMaps, LevelSizes

# For tables of one class: the recentred log messages [width, above * both], the scale subtracted from
# them [width, 1], and the conditional distributions, if needed.
Summary = tuple[jax.Array, jax.Array, jax.Array | None]


@registered
class Levels(Flat):
    """The level oracle."""

    name: ClassVar[str] = "levels"
    layout: ClassVar[Any] = levels

    def _infer(self, vector: jax.Array) -> tuple[jax.Array, jax.Array]:
        found: tuple[jax.Array, jax.Array] = _both_sweeps(self, vector)
        return found

    def _maximum(self, vector: jax.Array) -> jax.Array:
        return collect(self.sizes, self.maps, vector, _log_max)[1]


@in_forward_mode
def _both_sweeps(oracle: Levels, vector: jax.Array) -> tuple[jax.Array, jax.Array]:
    maps = oracle.maps
    conditionals, log_partition = collect(oracle.sizes, maps, vector, _log_sum)
    beliefs = distribute(oracle.sizes, maps.down, conditionals)
    return log_partition, jnp.where(maps.out >= 0, _take(beliefs, maps.out), 0)


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
