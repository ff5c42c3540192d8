"""Training of many networks of one shape in one compiled program."""

from __future__ import annotations

import concurrent.futures
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from pgmjax.random import generator

Layers = list[tuple[np.ndarray, np.ndarray]]
"""Weights [batch, in, out] and constants [batch, out] of each layer."""

CPU_NETWORKS = 32
"""So many networks are trained at once on a CPU: their weights and moments stay in its cache."""
CPU_THREADS = 2


def start(sizes: Sequence[int], seeds: Sequence[int]) -> Layers:
    """Return starting weights and constants, uniform within the square root of 6 / (in + out) around 0.

    References:
        Glorot and Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks".
    """
    drawn = [generator(seed) for seed in seeds]
    layers = []
    for low, high in itertools.pairwise(sizes):
        bound = np.sqrt(6.0 / (low + high))
        both = [
            (each.uniform(-bound, bound, (low, high)), each.uniform(-bound, bound, high)) for each in drawn
        ]
        weights, constants = zip(*both, strict=True)
        layers.append((np.stack(weights).astype(np.float32), np.stack(constants).astype(np.float32)))
    return layers


def train(
    layers: Layers,
    inputs: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    penalty: float,
    order_seed: int,
) -> Layers:
    """Return trained layers.

    Args:
        layers: to start from.
        inputs: [examples, dimensions].
        targets: [batch, examples].
        weights: [examples].
        epochs: passes through the examples, each in a new order.
        batch_size: examples a step; the last step of an epoch takes what is left.
        learning_rate: of Adam.
        penalty: on half the squares of weights, over the number of examples of a step.
        order_seed: of the orders, which all networks share.
    """
    order = _orders(len(inputs), epochs, batch_size, order_seed)
    shared = [np.asarray(array, np.float32) for array in (inputs, weights)]
    rates = (np.float32(learning_rate), np.float32(penalty))
    rows = len(targets)
    on_cpu = jax.default_backend() == "cpu"
    step = min(rows, CPU_NETWORKS) if on_cpu else rows

    def part(first: int) -> Any:
        chosen = np.minimum(np.arange(first, first + step), rows - 1)
        own = [(slopes[chosen], constants[chosen]) for slopes, constants in layers]
        found = _trained(own, shared[0], targets[chosen].astype(np.float32), shared[1], order, *rates)
        return jax.tree.map(lambda array: np.asarray(array)[: rows - first], found)

    with concurrent.futures.ThreadPoolExecutor(CPU_THREADS if on_cpu else 1) as pool:
        parts = list(pool.map(part, range(0, rows, step)))
    return [
        (
            np.concatenate([weights for weights, _ in same]),
            np.concatenate([constants for _, constants in same]),
        )
        for same in zip(*parts, strict=True)
    ]


def predicted(layers: Layers, inputs: np.ndarray) -> np.ndarray:
    """Return outputs [batch, examples] in float64."""
    values = np.broadcast_to(inputs, (len(layers[0][0]), *inputs.shape))
    for depth, (weights, constants) in enumerate(layers):
        values = values @ weights + constants[:, None, :]
        if depth < len(layers) - 1:
            values = np.maximum(values, 0.0)
    return values[..., 0]


def _orders(examples: int, epochs: int, batch_size: int, seed: int) -> np.ndarray:
    """Return the examples of each step [steps, batch_size]; -1 fills up the last step of an epoch."""
    drawn = generator(seed)
    steps = -(-examples // batch_size)
    order = np.full((epochs, steps * batch_size), -1, np.int32)
    for row in order:
        row[:examples] = drawn.permutation(examples)
    return order.reshape(epochs * steps, batch_size)


def _loss(layers: Any, rows: Any, targets: Any, weights: Any, penalty: Any) -> Any:
    """Half the mean weighted square of residuals, and the penalty, of one network; weight 0 is no example."""
    values = rows
    for depth, (slopes, constants) in enumerate(layers):
        values = values @ slopes + constants
        if depth < len(layers) - 1:
            values = jnp.maximum(values, 0.0)
    count = jnp.sum(weights > 0)
    squares = sum(jnp.sum(slopes**2) for slopes, _ in layers)
    return (0.5 * jnp.sum(weights * (values[:, 0] - targets) ** 2) + 0.5 * penalty * squares) / count


# XLA's own options: those of `compiling.jit` compile a second sooner and train half as long again.
@jax.jit
def _trained(
    layers: Any, inputs: Any, targets: Any, weights: Any, order: Any, learning_rate: Any, penalty: Any
) -> Any:
    """Train every network of a batch; the learning rate and the penalty are leaves."""
    optimiser = optax.adam(learning_rate)
    gradients = jax.vmap(jax.grad(_loss), in_axes=(0, None, 0, None, None))

    def step(carried: Any, chosen: Any) -> Any:
        layers, state = carried
        used = jnp.where(chosen >= 0, weights[chosen], 0.0)
        slopes = gradients(layers, inputs[chosen], targets[:, chosen], used, penalty)
        updates, state = optimiser.update(slopes, state)
        return (optax.apply_updates(layers, updates), state), None

    (layers, _), _ = jax.lax.scan(step, (layers, optimiser.init(layers)), order)
    return layers


def trained_programs() -> int:
    """Return how many programs of `train` have been compiled."""
    return int(getattr(_trained, "_cache_size")())  # noqa: B009  JAX's types do not tell of it  # type: ignore[attr-defined]
