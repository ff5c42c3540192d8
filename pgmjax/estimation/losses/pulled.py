"""A loss with a pull towards the product of the model's own one-way marginals, for mixtures."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax.data.domain import Domain
from pgmjax.estimation import regularisation
from pgmjax.estimation.losses.base import BoundLoss, WrappedLoss
from pgmjax.estimation.losses.build import noise_level
from pgmjax.estimation.region_divergence import RegionDivergence, counting_numbers
from pgmjax.inference.plan.regions import region_graph
from pgmjax.inference.plan.structure import Structure
from pgmjax.measurements.linear import LinearMeasurement


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["inner", "divergence", "place", "weight", "least"],
    meta_fields=[],
    drop_fields=["attributes", "noise_level"],
)
@dataclasses.dataclass(frozen=True, eq=False)
class Pulled(WrappedLoss):
    """``L(mu) + weight * D(mu)``, with D the relative entropy to the product of mu's own one-way marginals.

    D is not convex in mu, since the product moves with it.

    Attributes:
        inner: the loss L.
        divergence: D over the regions of the loss's cliques.
        place: for each cell of the outer regions its position in the vector of all marginals.
        weight: of D (records).
        least: least probability of a value in the product.
        attributes: with their sizes, in the order of the divergence's variables; empty after a JAX
            transformation.
        noise_level: expected loss L under the noise alone.
    """

    divergence: RegionDivergence
    place: Any
    weight: Any
    least: Any
    attributes: tuple[tuple[str, int], ...] = ()
    noise_level: float = -math.inf

    @classmethod
    def of(
        cls,
        inner: BoundLoss,
        domain: Domain,
        measurements: Sequence[LinearMeasurement],
        weight: float,
        total: float,
    ) -> Pulled:
        """Pull the l2 loss of some measurements.

        Args:
            inner: the loss.
            domain: the attributes.
            measurements: noisy answers.
            weight: weight of the relative entropy (records).
            total: number of records (counts).
        """
        structure, names = Structure.named(domain.sizes, inner.cliques)
        graph = region_graph(structure)
        starts = np.cumsum([0, *map(structure.cells, structure.cliques)])
        place = [
            starts[structure.cliques.index(region)] + np.arange(structure.cells(region))
            for region in graph.outer
        ]
        divergence = RegionDivergence.of(graph, counting_numbers(graph))
        attributes = tuple(zip(names, structure.sizes, strict=True))
        at = np.concatenate(place).astype(np.int32)
        least = regularisation.LEAST * regularisation.noise_of(domain, measurements)[0] / total
        level = noise_level("l2", measurements)
        return cls(inner, divergence, at, np.float64(weight), np.float64(least), attributes, level)

    def flat(self, marginals: Any) -> Any:
        """Return the pulled loss of all tables in one vector."""
        weight = jnp.asarray(self.weight, marginals.dtype)
        return self.inner.flat(marginals) + weight * self.distance(marginals)

    def distance(self, marginals: Any) -> Any:
        """Return D of all tables in one vector (nats)."""
        outer = marginals[self.place]
        logarithms = self.divergence.floored(outer, jnp.asarray(self.least, outer.dtype))
        return self.divergence.cross_entropy(outer, logarithms) - self.divergence.entropy(outer)

    def towards(self, marginals: Sequence[np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
        """Return D of some tables, and the logarithms of the product's probabilities by attribute."""
        vector = jnp.concatenate([jnp.ravel(table) for table in marginals])
        logs = np.asarray(self.divergence.floored(vector[self.place], self.least))
        sizes = [size for _, size in self.attributes]
        parts = np.split(logs, np.cumsum(sizes)[:-1])
        names = [name for name, _ in self.attributes]
        return float(self.distance(vector)), dict(zip(names, parts, strict=True))

    def cast(self, dtype: Any) -> Pulled:
        """Return the loss with device arrays of another type."""
        return dataclasses.replace(self, inner=self.inner.cast(dtype))
