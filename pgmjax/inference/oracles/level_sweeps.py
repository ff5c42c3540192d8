"""The two sweeps of message passing by levels, each one scan over padded tables.

A step handles some nodes of every class at once. Tables are [width, above, both, below, neither] after
what the variables of an axis are shared with; see `pgmjax.inference.plan.level_classes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax

from pgmjax.inference.plan.levels import IMPOSSIBLE, LevelSizes

Maps = Sequence[jax.Array]
# Of tables of one class: the recentred log messages [width, above * both], what was taken off them
# [width, 1], and what is kept of the tables.
Summary = tuple[jax.Array, jax.Array, jax.Array | None]


def collect(
    sizes: LevelSizes, tables: Maps, up: Maps, vector: jax.Array
) -> tuple[tuple[jax.Array, ...], jax.Array]:
    """Leaves to roots.

    Args:
        sizes: the static part.
        tables: for each class the map from the flat vector into its tables [steps, width, cells].
        up: for each class the map from messages [steps, width, fan-in, both * below].
        vector: log-potentials [length].

    Returns:
        For each class the probabilities of every node given its separator [steps, width, cells], and
        the log-partition, whose derivative is not that of this function.
    """
    return _sweep_up(sizes, tables, up, vector, _log_sum)


def collect_maximum(sizes: LevelSizes, tables: Maps, up: Maps, vector: jax.Array) -> jax.Array:
    """As `collect` with the maximum for the sum: the value of the most likely state."""
    return _sweep_up(sizes, tables, up, vector, _log_max)[1]


def _log_sum(table: jax.Array) -> Summary:
    lowest = jnp.finfo(table.dtype).min  # finite, so that a row of minus infinities makes no NaN
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


def _sweep_up(
    sizes: LevelSizes, tables: Maps, up: Maps, vector: jax.Array, reduce: Callable[[jax.Array], Summary]
) -> tuple[tuple[jax.Array, ...], jax.Array]:
    if not sizes.shapes:
        return (), jnp.zeros((), vector.dtype)

    def step(sent: jax.Array, scanned: tuple) -> tuple[jax.Array, tuple]:
        start, potentials, sources = scanned
        messages, scales, kept = [], [], []
        for shape, table, source in zip(sizes.shapes, potentials, sources, strict=True):
            _, both, below, _ = shape
            received = jnp.sum(_at(sent, source), axis=1).reshape(-1, 1, both, below, 1)
            message, scale, rest = reduce(table.reshape(-1, *shape) + received)
            messages.append(message.reshape(-1))
            scales.append(scale)
            kept.append(rest)
        return _write(sent, messages, start), (tuple(kept), tuple(scales))

    starts = sizes.sent_up * jnp.arange(sizes.steps, dtype=jnp.int32)
    sent = jnp.zeros(sizes.steps * sizes.sent_up + 1, vector.dtype)  # the last one stays 0: no message
    potentials = tuple(_potentials(vector, positions) for positions in tables)
    _, (kept, scales) = lax.scan(step, sent, (starts, potentials, tuple(up)))
    return kept, jnp.sum(jnp.stack([jnp.sum(scale) for scale in scales]))


def distribute(sizes: LevelSizes, down: Maps, conditionals: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """Roots to leaves.

    Args:
        sizes: the static part.
        down: for each class the map from messages [steps, width, above * both].
        conditionals: probabilities of every node given its separator [steps, width, cells].

    Returns:
        For each class the probabilities of every node [steps, width, cells].
    """
    if not conditionals:
        return ()

    def step(sent: jax.Array, scanned: tuple) -> tuple[jax.Array, tuple]:
        start, tables, sources = scanned
        messages, beliefs = [], []
        for shape, table, source in zip(sizes.shapes, tables, sources, strict=True):
            above, both, _, _ = shape
            separator = _at(sent, source)
            total = jnp.sum(separator, axis=1, keepdims=True)
            # as a factor, so that the sum over a table is formed once and not once more for its total
            separator = separator * (1 / jnp.where(total > 0, total, 1))
            belief = table.reshape(-1, *shape) * separator.reshape(-1, above, both, 1, 1)
            messages.append(jnp.sum(belief, axis=(1, 4)).reshape(-1))
            beliefs.append(belief.reshape(len(table), -1))
        return _write(sent, messages, start), tuple(beliefs)

    starts = sizes.sent_down * jnp.arange(sizes.steps, dtype=jnp.int32)
    # the last two stay as they are: what roots get, and what padding gets
    sent = jnp.ones(sizes.steps * sizes.sent_down + 2, conditionals[0].dtype).at[-1].set(0)
    return lax.scan(step, sent, (starts, conditionals, tuple(down)), reverse=True)[1]


def _potentials(vector: jax.Array, positions: jax.Array) -> jax.Array:
    constant = jnp.where(positions == IMPOSSIBLE, -jnp.inf, 0).astype(vector.dtype)
    return jnp.where(positions >= 0, _at(vector, jnp.maximum(positions, 0)), constant)


def _at(vector: jax.Array, positions: jax.Array) -> jax.Array:
    return vector.at[positions].get(mode="promise_in_bounds")


def _write(sent: jax.Array, messages: list[jax.Array], start: jax.Array) -> jax.Array:
    joined = jnp.concatenate(messages) if len(messages) > 1 else messages[0]
    return lax.dynamic_update_slice(sent, joined, (start,))
