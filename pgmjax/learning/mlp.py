"""A multilayer perceptron, many of which are trained at once on the device, in one compiled program."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax

from pgmjax._internal import checks, device
from pgmjax._internal.jit import jit
from pgmjax.learning.base import Examples, Learner, Scale
from pgmjax.random import generator

ORDER_SEED = 0
"""Seed of the orders of examples, the same for all, so that a row of a batch learns as it would alone."""

Layers = list[tuple[np.ndarray, np.ndarray]]
"""Weights [batch, in, out] and constants [batch, out] of each layer."""

CPU_NETWORKS = 32
"""Number of networks trained at once on a CPU, so that their weights and moments stay in its cache."""

CPU_THREADS = 2


@dataclasses.dataclass(frozen=True)
class MLP(Learner):
    """A network of rectified linear layers, trained by Adam on small batches of examples.

    Encodings and answers are standardised to mean 0 and standard deviation 1. All rows of a batch (draws of
    the noise, epsilons, starts) are trained by one compiled program; up to rounding, each row gives the same
    result as alone.

    Args:
        hidden: number of units of each hidden layer.
        epochs: number of passes through the examples.
        batch_size: examples per step.
        learning_rate: learning rate of Adam.
        penalty: factor of half the sum of squared weights (without constants), divided by the number of
            examples of a step.

    Raises:
        TypeError: a setting that is not a number.
        ValueError: a setting out of range.

    References:
        Kingma and Ba 2015, "Adam"; the loss is that of scikit-learn's MLPRegressor.

    Example:
        >>> rows = np.linspace(-1, 1, 40)[:, None]
        >>> learner = MLP(hidden=(16,), epochs=200, batch_size=8, learning_rate=0.01)
        >>> fitted = learner.fit(rows, abs(rows[:, 0]))
        >>> bool(abs(fitted.predict([[0.5]])[0] - 0.5) < 0.1)
        True
    """

    hidden: tuple[int, ...] = (64, 64)
    epochs: int = 200
    batch_size: int = 32
    learning_rate: float = 1e-3
    penalty: float = 1e-4

    name: ClassVar[str] = "mlp"

    def __post_init__(self) -> None:
        sizes = checks.several("hidden", self.hidden, "numbers of units")
        if not sizes:
            raise ValueError("hidden must name at least one layer; for none use the learner 'ridge'.")
        object.__setattr__(self, "hidden", tuple(checks.integer("hidden", size, low=1) for size in sizes))
        checks.set_integers(self, "epochs", "batch_size", low=1)
        checks.number("learning_rate", self.learning_rate, above=0)
        checks.number("penalty", self.penalty, at_least=0)

    def _learn(self, given: Examples, seed: Any) -> dict[str, Any]:
        """Train the networks.

        Args:
            given: the examples.
            seed: seed of the initial weights, one for all rows of a batch or one per row.
        """
        count = len(given.answers)
        one = isinstance(seed, int | np.integer)
        seeds = [int(seed)] * count if one else checks.several("seed", seed, "integers")
        if len(seeds) != count:
            raise ValueError(
                f"seed must be one integer or one for each of {count} rows of answers, got {len(seeds)}."
            )
        inputs, outputs = Scale.of(given.encodings), Scale.of(given.answers.T)
        layers = train(
            start((given.dimensions, *self.hidden, 1), seeds),
            inputs.apply(given.encodings),
            outputs.apply(given.answers.T).T,
            given.weights / given.weights.mean(),
            epochs=self.epochs,
            batch_size=min(self.batch_size, len(given.encodings)),
            learning_rate=self.learning_rate,
            penalty=self.penalty,
        )
        learned: dict[str, Any] = {}
        for depth, (weights, constants) in enumerate(layers):
            learned |= {f"weights_{depth}": weights, f"constants_{depth}": constants}
        for name, scale in (("inputs", inputs), ("outputs", outputs)):
            learned |= {f"{name}_mean": scale.mean, f"{name}_deviation": scale.deviation}
        return learned

    def _predict(self, learned: Mapping[str, Any], rows: np.ndarray) -> np.ndarray:
        inputs, outputs = (
            Scale(learned[f"{name}_mean"], learned[f"{name}_deviation"]) for name in ("inputs", "outputs")
        )
        layers = [
            (learned[f"weights_{depth}"], learned[f"constants_{depth}"][:, None, :])
            for depth in range(len(self.hidden) + 1)
        ]
        return np.asarray(outputs.undo(_outputs(layers, inputs.apply(rows), np.maximum).T).T)

    def _shapes(self, dimensions: int) -> dict[str, tuple[int | str, ...]]:
        shapes: dict[str, tuple[int | str, ...]] = {}
        for depth, (low, high) in enumerate(itertools.pairwise((dimensions, *self.hidden, 1))):
            shapes |= {f"weights_{depth}": ("batch", low, high), f"constants_{depth}": ("batch", high)}
        for name, length in (("inputs", dimensions), ("outputs", "batch")):
            shapes |= {f"{name}_mean": (length,), f"{name}_deviation": (length,)}
        return shapes


def start(sizes: Sequence[int], seeds: Sequence[int]) -> Layers:
    """Return initial weights and constants, uniform between plus and minus sqrt(6 / (in + out)).

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
) -> Layers:
    """Return trained layers.

    Args:
        layers: initial layers.
        inputs: [examples, dimensions].
        targets: [batch, examples].
        weights: [examples].
        epochs: number of passes through the examples, each in a new order, which all networks share.
        batch_size: examples per step; the last step of an epoch takes the remaining ones.
        learning_rate: learning rate of Adam.
        penalty: factor of half the sum of squared weights, divided by the number of examples of a step.
    """
    order = _orders(len(inputs), epochs, batch_size)
    shared = [np.asarray(array, np.float32) for array in (inputs, weights)]
    rates = (np.float32(learning_rate), np.float32(penalty))
    rows = len(targets)
    on_cpu = device.is_cpu()
    step = min(rows, CPU_NETWORKS) if on_cpu else rows

    def part(first: int) -> Any:
        # the last part is filled up with its last network, so that one program serves all parts
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


def _outputs(layers: Any, values: Any, maximum: Callable[[Any, float], Any]) -> Any:
    *hidden, (last, shift) = layers
    for weights, constants in hidden:
        values = maximum(values @ weights + constants, 0.0)
    return (values @ last + shift)[..., 0]


def _orders(examples: int, epochs: int, batch_size: int) -> np.ndarray:
    """Return the examples of each step [steps, batch_size]; the last step of an epoch is padded with -1."""
    drawn = generator(ORDER_SEED)
    steps = -(-examples // batch_size)
    order = np.full((epochs, steps * batch_size), -1, np.int32)
    for row in order:
        row[:examples] = drawn.permutation(examples)
    return order.reshape(epochs * steps, batch_size)


def _loss(layers: Any, rows: Any, targets: Any, weights: Any, penalty: Any) -> Any:
    """Half the mean weighted squared residual plus the penalty, for one network; weight 0 is padding."""
    values = _outputs(layers, rows, jnp.maximum)
    count = jnp.sum(weights > 0)
    squares = sum(jnp.sum(slopes**2) for slopes, _ in layers)
    return (0.5 * jnp.sum(weights * (values - targets) ** 2) + 0.5 * penalty * squares) / count


# XLA's default options: those of `jit` compile a second faster but train 1.5 times as long.
@functools.partial(jit, compiler_options=None)
def _trained(
    layers: Any, inputs: Any, targets: Any, weights: Any, order: Any, learning_rate: Any, penalty: Any
) -> Any:
    """Train every network of a batch; the learning rate and the penalty are traced arguments."""
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
