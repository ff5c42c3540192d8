"""Rows whose marginals come near given tables, by chains that are steered towards them.

Every row is a chain. A sweep draws each attribute of a row given its others, from log-potentials that are
learned on the way: after each batch of rows they move by a share of log(wanted count / count of the rows),
until the rows have the wanted marginals. These are the steps of maximum likelihood with persistent chains,
with a pull beside them that makes up for what is lacking now. At last proposals are accepted that bring the
counts nearer and no others, which takes out most of the sampling error.

References:
    Geman and Geman 1984 for the draws; Tieleman 2008, "Training restricted Boltzmann machines using
    approximations to the likelihood gradient", for chains that go on while the potentials move.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax import random
from pgmjax._internal.jit import jit
from pgmjax._internal.progress import Progress
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain

LEARNING = ((2 / 3, 0.3, 1.0), (1 / 3, 0.1, 4.0))
"""Shares of the sweeps, with the step of the potentials and the strength of the pull."""
SETTLING = (0.3, 0.3, 0.1, 0.1)
"""The share of a batch that may move at once in each of the last sweeps: its rows do not see each other."""
BATCHES, LEAST_BATCHES, BATCH, WORK = 1000, 20, 50, 3e8
"""The most and least batches of a sweep; fewer for few rows or many cells, which each batch reads."""
SMALL = 0.5
IMPOSSIBLE = -1e4

Tables = tuple[jax.Array, ...]


def steered(
    domain: Domain,
    cliques: Sequence[Clique],
    counts: Sequence[np.ndarray],
    start: dict[str, np.ndarray],
    seed: int,
    sweeps: int,
    bar: Progress,
) -> dict[str, np.ndarray]:
    """Move rows until their counts come near the wanted ones.

    Args:
        domain: the attributes.
        cliques: the attributes of each table.
        counts: wanted counts of each table; cells of 0 are avoided.
        start: codes [rows] of each attribute, in random order.
        seed: the same seed gives the same rows.
        sweeps: number of sweeps that learn the potentials, 1 or more.
        bar: advanced by each sweep, `sweeps` and those of `SETTLING`.

    Returns:
        Codes [rows] of each attribute.
    """
    codes = jnp.asarray(np.stack([start[name] for name in domain.attributes]), jnp.int32)
    graph = Graph.of(domain, cliques)
    wanted = tuple(jnp.asarray(table, jnp.float32) for table in counts)
    rows, cells = codes.shape[1], sum(table.size for table in wanted)
    batch = -(-rows // max(LEAST_BATCHES, min(BATCHES, rows // BATCH, int(WORK / cells))))
    potentials = tuple(jnp.where(table > 0, 0.0, IMPOSSIBLE) for table in wanted)
    key = random.key(seed, jax)
    ends = [math.ceil(share * sweeps) for share in np.cumsum([part[0] for part in LEARNING]) - 1e-9]
    for sweep in range(sweeps):
        _, rate, pull = next(part for part, end in zip(LEARNING, ends, strict=True) if sweep < end)
        codes, potentials, key = _learn(graph, batch, wanted, codes, potentials, key, (rate, pull))
        bar.advance(1)
    for share in SETTLING:
        codes, key = _settle(graph, batch, wanted, codes, potentials, key, share)
        bar.advance(1)
    return dict(zip(domain.attributes, np.asarray(codes, np.int64), strict=True))


@dataclasses.dataclass(frozen=True)
class Graph:
    """The attributes of each table: the static part of a sweep.

    Attributes:
        sizes: size of every attribute.
        cliques: the attributes of every table, by number.
    """

    sizes: tuple[int, ...]
    cliques: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, domain: Domain, cliques: Sequence[Clique]) -> Graph:
        """Number the attributes of cliques."""
        places = {name: place for place, name in enumerate(domain.attributes)}
        return cls(tuple(domain.shape), tuple(tuple(places[name] for name in clique) for clique in cliques))

    def cells(self, clique: tuple[int, ...], codes: Any) -> Any:
        """Return the cell index of each chain in a table of the given attributes [chains]."""
        number: Any = 0
        for place in clique:
            number = number * self.sizes[place] + codes[place]
        return number

    def turned(self, tables: Sequence[jax.Array], place: int) -> list[tuple[tuple[int, ...], jax.Array]]:
        """Return the tables that hold an attribute, with their other attributes' cells as rows."""
        found = []
        for clique, table in zip(self.cliques, tables, strict=True):
            if place in clique:
                others = tuple(v for v in clique if v != place)
                found.append(
                    (others, jnp.moveaxis(table, clique.index(place), -1).reshape(-1, self.sizes[place]))
                )
        return found

    def logs(self, tables: Sequence[jax.Array], codes: jax.Array, place: int) -> jax.Array:
        """Return the conditional log-weights of an attribute's codes [chains, size]."""
        logs = jnp.zeros((codes.shape[1], self.sizes[place]), jnp.float32)
        for others, table in self.turned(tables, place):
            logs = logs + table[self.cells(others, codes)]
        return logs


def draw_codes(logs: jax.Array, key: Any) -> jax.Array:
    """Draw a code of each chain from conditional log-weights, by cumulative weights [chains]."""
    tops = jnp.max(logs, axis=1, keepdims=True)
    weights = jnp.exp(logs - jnp.where(jnp.isfinite(tops), tops, 0))
    ends = jnp.cumsum(weights, axis=1)
    at = random.uniforms(key, (len(logs),), jax) * ends[:, -1]  # in (0, end]: no cell of weight 0
    drawn = jnp.sum(ends < at[:, None], axis=1).astype(jnp.int32)
    return jnp.minimum(drawn, logs.shape[1] - 1)


def _counted(graph: Graph, codes: jax.Array, tables: Tables, sign: float | jax.Array = 1.0) -> Tables:
    """Add chains to the counts of every table."""
    return tuple(
        table.reshape(-1).at[graph.cells(clique, codes)].add(sign).reshape(table.shape)
        for clique, table in zip(graph.cliques, tables, strict=True)
    )


def _blocks(codes: jax.Array, batch: int) -> tuple[int, Any, Any]:
    """Return the number of batches, and functions that read and write one; the last may overlap another."""
    attributes, rows = codes.shape

    def read(codes: jax.Array, number: Any) -> jax.Array:
        return jax.lax.dynamic_slice(
            codes, (0, jnp.minimum(number * batch, rows - batch)), (attributes, batch)
        )

    def write(codes: jax.Array, block: jax.Array, number: Any) -> jax.Array:
        return jax.lax.dynamic_update_slice(codes, block, (0, jnp.minimum(number * batch, rows - batch)))

    return -(-rows // batch), read, write


@functools.partial(jit, static_argnums=(0, 1))
def _learn(
    graph: Graph, batch: int, wanted: Tables, codes: jax.Array, potentials: Tables, key: Any, how: Any
) -> tuple[jax.Array, Tables, Any]:
    """One sweep that moves the potentials towards the wanted counts."""
    rate, pull = how
    number, read, write = _blocks(codes, batch)

    def one(turn: Any, state: Any) -> Any:
        codes, potentials, counts, key = state
        lack = [jnp.log((w + SMALL) / (c + SMALL)) for w, c in zip(wanted, counts, strict=True)]
        potentials = tuple(p + rate / number * r for p, r in zip(potentials, lack, strict=True))
        steered = [p + pull * r for p, r in zip(potentials, lack, strict=True)]
        key, *keys = random.split(key, len(graph.sizes) + 1, jax)
        old = block = read(codes, turn)
        for place in range(len(graph.sizes)):
            block = block.at[place].set(draw_codes(graph.logs(steered, block, place), keys[place]))
        counts = _counted(graph, block, _counted(graph, old, counts, -1.0))
        return write(codes, block, turn), potentials, counts, key

    nothing = tuple(jnp.zeros_like(table) for table in wanted)
    state = (codes, potentials, _counted(graph, codes, nothing), key)
    codes, potentials, _, key = jax.lax.fori_loop(0, number, one, state)
    return codes, potentials, key


@functools.partial(jit, static_argnums=(0, 1))
def _settle(
    graph: Graph, batch: int, wanted: Tables, codes: jax.Array, potentials: Tables, key: Any, share: Any
) -> tuple[jax.Array, Any]:
    """One sweep whose draws are proposals: a share of those that lower the squared misses is accepted."""
    number, read, write = _blocks(codes, batch)

    def one(turn: Any, state: Any) -> Any:
        codes, misses, key = state
        key, *keys = random.split(key, 2 * len(graph.sizes) + 1, jax)
        block = read(codes, turn)
        for place in range(len(graph.sizes)):
            proposed = draw_codes(graph.logs(potentials, block, place), keys[2 * place])
            moved = block.at[place].set(proposed)
            change = _change(graph, misses, block, moved, place)
            may = random.uniforms(keys[2 * place + 1], proposed.shape, jax) <= share
            taken = (change < 0) & (proposed != block[place]) & may
            new = jnp.where(taken, moved, block)
            misses = _counted(graph, new, _counted(graph, block, misses, -1.0))
            block = new
        return write(codes, block, turn), misses, key

    start = _counted(graph, codes, tuple(-table for table in wanted))
    codes, _, key = jax.lax.fori_loop(0, number, one, (codes, start, key))
    return codes, key


def _change(graph: Graph, misses: Tables, old: jax.Array, new: jax.Array, place: int) -> jax.Array:
    """Return by how much each chain's move would change the sum of squared misses [chains]."""
    change = jnp.zeros(old.shape[1], jnp.float32)
    for clique, table in zip(graph.cliques, misses, strict=True):
        if place in clique:
            flat = table.reshape(-1)
            change = change + 2 * (flat[graph.cells(clique, new)] - flat[graph.cells(clique, old)] + 1)
    return change
