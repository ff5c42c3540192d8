"""Many Markov chains on the device, for models whose structure does not fit in memory.

A step draws one attribute given the others: its conditional log-probabilities are the sum of one row of
every table that holds it, so a step reads a few rows whatever the size of the domain. `draw` makes synthetic
rows, one from each chain.

References:
    Geman and Geman 1984. Chen, Zhou and Bhowmick 2012, section 4.2. MacKay 2003, chapter 29.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax import random
from pgmjax._internal.jit import jit
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.model import region_rows
from pgmjax.model.graphical import GraphicalModel

BATCH = 50_000


@dataclasses.dataclass(frozen=True, eq=False)
class Chains:
    """The states of many chains.

    Attributes:
        domain: the attributes.
        cliques: the attributes of every table.
        layout: the same, for a sweep.
        codes: code of each attribute in each chain [attributes, chains], int32, on the device.
        key: key of the generator.
    """

    domain: Domain
    cliques: tuple[Clique, ...]
    layout: region_rows.Layout
    codes: jax.Array
    key: Any

    @classmethod
    def start(
        cls,
        domain: Domain,
        cliques: Sequence[Clique],
        probabilities: Sequence[np.ndarray],
        chains: int,
        seed: int,
    ) -> Chains:
        """Start chains at independent draws of every attribute.

        Args:
            domain: the attributes.
            cliques: the attributes of every table.
            probabilities: probabilities of every attribute's codes; those in no table keep their draws.
            chains: number of chains.
            seed: the same seed gives the same chains.
        """
        generator = random.generator(seed)
        ends = [np.cumsum(p) / np.sum(p) for p in probabilities]
        drawn = [np.searchsorted(end, generator.random(chains), side="right") for end in ends]
        last = [int(np.flatnonzero(p)[-1]) for p in probabilities]  # rounding must not pass a zero
        codes = np.stack([np.minimum(d, at) for d, at in zip(drawn, last, strict=True)]).astype(np.int32)
        layout = region_rows.layout_of(domain, cliques)
        return cls(domain, tuple(cliques), layout, jnp.asarray(codes), random.key(seed, jax))

    def swept(self, tables: Sequence[Any], sweeps: int = 1) -> Chains:
        """Return the chains after some sweeps over all attributes.

        Args:
            tables: log-potentials of every clique; minus infinity marks impossible cells.
            sweeps: number of sweeps.
        """
        potentials = np.concatenate([*(np.ravel(table) for table in tables), [0.0]]).astype(np.float32)
        codes, key = _sweep(self.layout, potentials, self.codes, self.key, sweeps)
        return dataclasses.replace(self, codes=codes, key=key)

    def shares(self) -> list[np.ndarray]:
        """Return the share of chains in every cell of every table."""
        sizes, number = map(self.domain.size, self.cliques), self.codes.shape[1]
        counts = [np.bincount(cells, minlength=n) for cells, n in zip(self.cells(), sizes, strict=True)]
        return [
            count.reshape(self.domain.shape_of(clique)) / number
            for count, clique in zip(counts, self.cliques, strict=True)
        ]

    def cells(self) -> list[np.ndarray]:
        """Return the cell index of each chain in every table [chains]."""
        codes = dict(zip(self.domain, np.asarray(self.codes), strict=True))
        return [
            np.ravel_multi_index([codes[name] for name in clique], self.domain.shape_of(clique))
            for clique in self.cliques
        ]


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


@jit
def _sweep(
    layout: region_rows.Layout, potentials: jax.Array, codes: jax.Array, key: Any, sweeps: Any
) -> tuple[jax.Array, Any]:
    layout = jax.tree.map(jnp.asarray, layout)
    turned = [potentials[bucket.cells] for bucket in layout.buckets]

    def one(_: Any, state: Any) -> Any:
        codes, key = state
        key, own = random.split(key, 2, jax)
        return region_rows.swept(layout, turned, codes, own), key

    return jax.lax.fori_loop(0, sweeps, one, (codes, key))
