"""A loss with a pull towards the product of the model's own one-way marginals, for fits without an entropy."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.estimation.losses.base import BoundLoss
from pgmjax.estimation.region_divergence import RegionDivergence


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["inner", "divergence", "place", "weight", "least"],
    meta_fields=[],
)
@dataclasses.dataclass(frozen=True, eq=False)
class Pulled(BoundLoss):
    """``L(mu) + weight * D(mu)``, with D the relative entropy to the product of mu's own one-way marginals.

    D is not convex in mu, since the product moves with it.

    Attributes:
        inner: the loss L.
        divergence: D over the regions of the loss's cliques.
        place: for each cell of the outer regions its position in the vector of all marginals.
        weight: of D (records).
        least: least probability of a value in the product.
    """

    inner: BoundLoss
    divergence: RegionDivergence
    place: Any
    weight: Any
    least: Any

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques of the measurements."""
        return self.inner.cliques

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each clique's table."""
        return self.inner.shapes

    def __call__(self, marginals: Sequence[Any]) -> Any:
        """Return the pulled loss of marginals in probabilities, a scalar."""
        return self.flat(jax.numpy.concatenate([jax.numpy.ravel(table) for table in marginals]))

    def flat(self, marginals: Any) -> Any:
        """Return the pulled loss of all tables in one vector."""
        return self.inner.flat(marginals) + self.weight * self.distance(marginals)

    def distance(self, marginals: Any) -> Any:
        """Return D of all tables in one vector (nats)."""
        outer = marginals[self.place]
        logarithms = self.divergence.floored(outer, self.least)
        return self.divergence.cross_entropy(outer, logarithms) - self.divergence.entropy(outer)

    def cast(self, dtype: Any) -> Pulled:
        """Return the loss with device arrays of another type."""
        kind = np.dtype(dtype).type
        return dataclasses.replace(
            self, inner=self.inner.cast(dtype), weight=kind(self.weight), least=kind(self.least)
        )

    def exact(self, marginals: Sequence[np.ndarray]) -> float:
        """Return the loss of the measurements alone, in float64."""
        return self.inner.exact(marginals)
