"""The paper's own learner: one chain, one Metropolis step an attribute, every weight moved after each sweep.

Section 4.2: start at w = 0; in each iteration draw a record by a sweep of Metropolis steps with proposals
from the uniform distribution, then ``w_i <- clip(w_i + gamma (pi_i - f_i(t)))``, for a fixed number of times.
Written for two-dimensional ranges: a step reads only the queries that the attribute matters to, and the
whole loop is compiled.
"""

from __future__ import annotations

import dataclasses
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class Ranges:
    """Two-dimensional ranges as plain arrays.

    Attributes:
        sizes: of every attribute.
        attributes: numbers of both attributes of each query [queries, 2].
        low: first code of both ranges [queries, 2].
        high: last code of both ranges [queries, 2].
    """

    sizes: tuple[int, ...]
    attributes: np.ndarray
    low: np.ndarray
    high: np.ndarray


def learn(
    asked: Ranges, targets: np.ndarray, box: float, *, iterations: int, rate: float = 1e-4, seed: int = 0
) -> tuple[np.ndarray, float]:
    """Run the learner.

    Args:
        asked: the queries.
        targets: noisy answers over the total [queries].
        box: largest magnitude of a weight.
        iterations: the paper's runs have about a million.
        rate: the paper's gamma.
        seed: of the chain.

    Returns:
        The weights [queries] and the seconds they took, without compilation.
    """
    matter = []
    for place in range(len(asked.sizes)):
        query, slot = np.nonzero(asked.attributes == place)
        low, high = asked.low[query, slot], asked.high[query, slot]
        matter.append(tuple(map(jnp.asarray, (query, slot, 1 - slot, low, high))))
    given = (jnp.asarray(asked.attributes), jnp.asarray(asked.low), jnp.asarray(asked.high))
    run = functools.partial(_run, asked.sizes, tuple(matter), given, jnp.asarray(targets, jnp.float32))
    state = (
        jnp.zeros(len(targets), jnp.float32),
        jnp.zeros(len(asked.sizes), jnp.int32),
        jax.random.key(seed),
    )
    jax.block_until_ready(run(box, rate, 1, state))
    start = time.perf_counter()
    weights = np.asarray(run(box, rate, iterations, state)[0], np.float64)
    return weights, time.perf_counter() - start


@functools.partial(jax.jit, static_argnums=0)
def _run(sizes, matter, given, targets, box, rate, iterations, state):
    attributes, low, high = given

    def one(_, state):
        weights, codes, key = state
        key, ours = jax.random.split(key)
        uniforms = jax.random.uniform(ours, (2, len(sizes)))
        for place, (query, _slot, other, lows, highs) in enumerate(matter):
            proposed = jnp.floor(uniforms[0, place] * sizes[place]).astype(jnp.int32)
            now = codes[place]
            partner = codes[attributes[query, other]]
            rest = (partner >= low[query, other]) & (partner <= high[query, other])
            gained = ((proposed >= lows) & (proposed <= highs)).astype(jnp.float32)
            lost = ((now >= lows) & (now <= highs)).astype(jnp.float32)
            change = jnp.sum(jnp.where(rest, weights[query] * (gained - lost), 0))
            codes = codes.at[place].set(jnp.where(jnp.log(uniforms[1, place]) <= change, proposed, now))
        seen = codes[attributes]
        features = jnp.all((seen >= low) & (seen <= high), axis=1)
        weights = jnp.clip(weights + rate * (targets - features), -box, box)
        return weights, codes, key

    return jax.lax.fori_loop(0, iterations, one, state)
