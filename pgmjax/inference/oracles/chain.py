"""Exact inference for cliques in a row in few steps, for devices that wait for launches.

Messages that run along a row one by one take as many steps as it has cliques. The product of the cliques'
transfer matrices is associative: it is taken by pairs, in as many steps as the logarithm of their number.
Downwards, the messages at both ends of a pair give that in its middle, until every clique has the messages
from both sides. The work of the products grows with the cube of the states of a frontier, that of messages
with their square, so a CPU is slower this way.

Products are exact log-sum-exps. Matrices and messages are recentred by their maximum, and each clique's
belief is normalised by its own sum, so that float32 does not lose digits on long rows.

References:
    Särkkä and García-Fernández, Temporal parallelization of Bayesian smoothers, IEEE Transactions on
    Automatic Control 66, 299 (2021); Hassan, Särkkä and García-Fernández, Temporal parallelization of
    inference in hidden Markov models, IEEE Transactions on Signal Processing 69, 4875 (2021).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from pgmjax.inference import ops
from pgmjax.inference.ops import at, potentials_at
from pgmjax.inference.oracles.base import Limits, in_forward_mode
from pgmjax.inference.oracles.levels import Flat, registered
from pgmjax.inference.plan import chain
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.inference.plan.structure import Structure
from pgmjax.kernels import exact_product
from pgmjax.kernels.log_sum_exp import logmax, logsumexp, lowest

Product = Callable[[jax.Array, jax.Array], jax.Array]


@registered
class Chain(Flat):
    """The chain oracle."""

    name: ClassVar[str] = "chain"
    layout: ClassVar[Any] = chain

    @classmethod
    def within(cls, structure: Structure, limits: Limits) -> Chain:
        """Same as `build`, if the matrices fit.

        Raises:
            ModelTooLargeError: they do not, so that their maps are not written.
        """
        arrangement = chain.arrange(structure)
        if not limits.allow(arrangement.forecast):
            raise ModelTooLargeError(
                f"{arrangement.forecast.method}: these do not fit in {limits.bytes:,} bytes. Use another "
                "oracle, or measure fewer or smaller cliques that overlap less."
            )
        return cls.of(arrangement)

    @in_forward_mode
    def _infer(self, vector: jax.Array) -> tuple[jax.Array, jax.Array]:
        if not self.sizes.cliques:
            return jnp.full((), self.sizes.uncovered, vector.dtype), vector
        tables = potentials_at(vector, self.maps.cells)
        sums = logsumexp(tables, (2,))
        levels, middles, value = self._upwards(sums, exact_product.log_matmul_exp, logsumexp)
        messages = _downwards(levels, middles, self._ends(vector)).reshape(-1)
        received = potentials_at(messages, self.maps.before) + potentials_at(messages, self.maps.behind)
        # the messages from both sides give the distribution of what a clique shares; its private rest follows
        shared = jnp.sum(_shares(sums[:, :, None] + received, (1, 2)), axis=2, keepdims=True)
        return value, at((shared * _shares(tables, (2,))).reshape(-1), self.maps.out)

    def _maximum(self, vector: jax.Array) -> jax.Array:
        if not self.sizes.cliques:
            return jnp.zeros((), vector.dtype)
        sums = logmax(potentials_at(vector, self.maps.cells), (2,))
        return self._upwards(sums, exact_product.max_plus, logmax)[2] - self.sizes.uncovered

    def _ends(self, vector: jax.Array) -> jax.Array:
        return potentials_at(vector, self.maps.ends)[None]

    def _upwards(
        self, sums: jax.Array, product: Product, reduce: ops.Reduce
    ) -> tuple[list[jax.Array], jax.Array, jax.Array]:
        """The matrices of every level but the last, the messages to the middle of the row, and its value."""
        levels, scales = [potentials_at(sums.reshape(-1), self.maps.entries)], [jnp.zeros(1, sums.dtype)]
        while len(levels[-1]) > 2:
            made, scale = _recentred(product(levels[-1][0::2], levels[-1][1::2]), (1, 2))
            levels.append(made)
            scales.append(scale)
        middle = _middle(levels[-1], self._ends(sums.reshape(-1)), reduce)
        whole = reduce(jnp.sum(middle, axis=1), (0, 1))
        return levels, middle, whole + jnp.sum(jnp.concatenate(scales)) + self.sizes.uncovered


def _middle(matrices: jax.Array, messages: jax.Array, reduce: ops.Reduce) -> jax.Array:
    """Messages between the two matrices of each pair, from the left and from the right.

    Args:
        matrices: log values [2 n, states, states].
        messages: to each pair from the left and right [n, 2, states].
        reduce: reduction of axes.

    Returns:
        Log values [n, 2, states].
    """
    both = jnp.stack([matrices[0::2].swapaxes(1, 2), matrices[1::2]], axis=1)
    return reduce(both + messages[:, :, None, :], (3,))


def _downwards(levels: list[jax.Array], middle: jax.Array, messages: jax.Array) -> jax.Array:
    """The messages to each matrix of the first level from the left and right [matrices, 2, states].

    Args:
        levels: matrices of each level, pairs of which were multiplied to those of the next.
        middle: messages between the two matrices of the last level [1, 2, states].
        messages: to the whole row [1, 2, states].
    """
    for matrices in reversed(levels):
        if matrices is not levels[-1]:
            middle = _middle(matrices, messages, logsumexp)
        middle = _recentred(middle, (2,))[0]
        halves = [messages[:, 0], middle[:, 1], middle[:, 0], messages[:, 1]]
        messages = jnp.stack(halves, axis=1).reshape(-1, *messages.shape[1:])
    return messages


def _recentred(tables: jax.Array, axes: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """Tables minus their largest entries along some axes, and these (0 where nothing is possible), flat."""
    top = jax.lax.stop_gradient(jnp.max(tables, axis=axes, keepdims=True))
    top = jnp.where(jnp.isfinite(top), top, 0)
    return tables - top, top.reshape(-1)


def _shares(tables: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """The share of each entry in the sum of exponentials along some axes; 0 where nothing is possible."""
    top = jax.lax.stop_gradient(lowest(jnp.max(tables, axis=axes, keepdims=True)))
    weights = jnp.exp(tables - top)
    total = jnp.sum(weights, axis=axes, keepdims=True)
    return weights / jnp.where(total > 0, total, 1)
