"""Many Markov chains on the device, for models whose structure does not fit in memory.

A step draws one attribute given the others: its conditional log-probabilities are the sum of one row of
every table that holds it, so a step reads a few rows whatever the size of the domain. `gibbs` draws from the
conditional itself; `metropolis` proposes a random code and accepts or rejects it, which reads less and mixes
more slowly. `draw` makes synthetic rows, one from each chain.

References:
    Geman and Geman 1984. Chen, Zhou and Bhowmick 2012, section 4.2. MacKay 2003, chapter 29.
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
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.model.graphical import GraphicalModel
from pgmjax.model.region_rows import draw_codes

METHODS = ("gibbs", "metropolis")

Rows = list[tuple[Any, jax.Array]]

BATCH = 50_000


@dataclasses.dataclass(frozen=True, eq=False)
class Chains:
    """The states of many chains.

    Attributes:
        graph: the tables' attributes.
        codes: code of each attribute in each chain [attributes, chains], int32, on the device.
        key: key of the generator.
        method: `gibbs` or `metropolis`.
    """

    graph: Graph
    codes: jax.Array
    key: Any
    method: str = "gibbs"

    @classmethod
    def start(
        cls,
        domain: Domain,
        cliques: Sequence[Clique],
        probabilities: Sequence[np.ndarray],
        chains: int,
        seed: int,
        method: str = "gibbs",
    ) -> Chains:
        """Start chains at independent draws of every attribute.

        Args:
            domain: the attributes.
            cliques: the attributes of every table.
            probabilities: probabilities of every attribute's codes.
            chains: number of chains.
            seed: the same seed gives the same chains.
            method: `gibbs` or `metropolis`.
        """
        generator = random.generator(seed)
        ends = [np.cumsum(p) / np.sum(p) for p in probabilities]
        drawn = [np.searchsorted(end, generator.random(chains), side="right") for end in ends]
        last = [int(np.flatnonzero(p)[-1]) for p in probabilities]  # rounding must not pass a zero
        codes = np.stack([np.minimum(d, at) for d, at in zip(drawn, last, strict=True)]).astype(np.int32)
        return cls(Graph.of(domain, cliques), jnp.asarray(codes), random.key(seed, jax), method)

    def swept(self, tables: Sequence[Any], sweeps: int = 1) -> Chains:
        """Return the chains after some sweeps over all attributes.

        Args:
            tables: log-potentials of every clique; minus infinity marks impossible cells.
            sweeps: number of sweeps.
        """
        given = tuple(jnp.asarray(table, jnp.float32) for table in tables)
        codes, key = _sweep(self.graph, self.method, given, self.codes, self.key, sweeps)
        return dataclasses.replace(self, codes=codes, key=key)

    def shares(self) -> list[np.ndarray]:
        """Return the share of chains in every cell of every table."""
        shapes = [tuple(self.graph.sizes[v] for v in clique) for clique in self.graph.cliques]
        counts = [
            np.bincount(cells, minlength=math.prod(shape)).reshape(shape)
            for cells, shape in zip(self.cells(), shapes, strict=True)
        ]
        return [count / self.codes.shape[1] for count in counts]

    def cells(self) -> list[np.ndarray]:
        """Return the cell index of each chain in every table [chains]."""
        codes = np.asarray(self.codes)
        return [np.asarray(self.graph.cells(clique, codes)) for clique in self.graph.cliques]


def draw(model: GraphicalModel, rows: int, seed: int, sweeps: int) -> dict[str, np.ndarray]:
    """Draw rows by as many chains, in batches.

    Args:
        model: the distribution; its cliques' marginals, where known, start the chains.
        rows: number of rows.
        seed: the same seed gives the same rows.
        sweeps: number of sweeps over all attributes, starting from independent attributes.

    Returns:
        Codes [rows] of each attribute.
    """
    domain, cliques = model.domain, model.potentials.cliques
    held = {name for clique in model.known_marginals.cliques for name in clique}
    starts = [
        model.marginal((name,)) / model.total if name in held else np.full(domain[name], 1.0 / domain[name])
        for name in domain.attributes
    ]
    parts = []
    for number, first in enumerate(range(0, rows, BATCH)):
        count = min(BATCH, rows - first)
        chains = Chains.start(domain, cliques, starts, count, seed + number)
        parts.append(np.asarray(chains.swept(model.potentials.tables, sweeps).codes, np.int64))
    every = np.concatenate([np.zeros((len(domain), 0), np.int64), *parts], axis=1)
    return dict(zip(domain.attributes, every, strict=True))


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
                axis = clique.index(place)
                found.append((others, jnp.moveaxis(table, axis, -1).reshape(-1, self.sizes[place])))
        return found


@functools.partial(jit, static_argnums=(0, 1))
def _sweep(
    graph: Graph, method: str, tables: tuple[jax.Array, ...], codes: jax.Array, key: Any, sweeps: Any
) -> Any:
    """Sweep over all attributes; tables are transposed so that the attribute being drawn is the last axis."""
    held = [graph.turned(tables, place) for place in range(len(graph.sizes))]

    def one(_: Any, state: Any) -> Any:
        codes, key = state
        key, *keys = random.split(key, len(graph.sizes) + 1, jax)
        for place, mine in enumerate(held):
            rows = [(graph.cells(others, codes), table) for others, table in mine]
            if method == "gibbs":
                nothing = jnp.zeros((codes.shape[1], graph.sizes[place]), jnp.float32)
                drawn = draw_codes(sum((table[number] for number, table in rows), nothing), keys[place])
            else:
                drawn = _metropolis(rows, codes[place], graph.sizes[place], keys[place])
            codes = codes.at[place].set(drawn)
        return codes, key

    return jax.lax.fori_loop(0, sweeps, one, (codes, key))


def _metropolis(rows: Rows, now: jax.Array, size: int, key: Any) -> jax.Array:
    """Propose from the uniform distribution, accepted with Metropolis' probability."""
    ours, theirs = random.split(key, 2, jax)
    proposed = jnp.floor((1 - random.uniforms(ours, (len(now),), jax)) * size).astype(jnp.int32)
    change = jnp.zeros(len(now), jnp.float32)
    for number, table in rows:
        flat = table.reshape(-1)
        change = change + flat[number * size + proposed] - flat[number * size + now]
    return jnp.where(jnp.log(random.uniforms(theirs, (len(now),), jax)) <= change, proposed, now)
