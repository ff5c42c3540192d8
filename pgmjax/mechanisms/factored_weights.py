"""Multiplicative weights over independent factors, which are merged where measured queries overlap.

The distribution is a product of tables over disjoint sets of attributes. An answer about attributes of
several tables first merges these into one, their product, on which the update is that of
`multiplicative_weights`: the estimate is the same as with the whole domain written out. How much memory
it takes depends on the overlaps alone, and on data with many it ends at the whole domain soon.

References:
    Hardt, Ligett and McSherry 2012, section 3.1 ("Scalability").
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.mechanisms.multiplicative_weights import MultiplicativeWeights, Vector


class FactoredWeights(MultiplicativeWeights):
    """Tables over disjoint sets of attributes; attributes that nothing was asked about have none.

    Example:
        >>> from pgmjax.measurements.linear import LinearMeasurement
        >>> estimate = FactoredWeights(Domain({"a": 2, "b": 2, "c": 5}))
        >>> asked = [LinearMeasurement((name,), [6, 2], stddev=1.0) for name in "ab"]
        >>> steps = estimate.sweep(asked, total=8, sweeps=100)
        >>> estimate.cells, estimate.cells_with(("b", "c")), estimate.cells_with(("a", "b", "c"))
        (4, 12, 20)
        >>> estimate.model(total=8).marginal(("a", "b")).round(3).tolist()
        [[4.5, 1.5], [1.5, 0.5]]
    """

    def __init__(self, domain: Domain, max_bytes: int | None = None):
        super().__init__(domain, max_bytes)
        self._vectors: list[Vector] = []

    @property
    def cells(self) -> int:
        """The cells of all tables."""
        return sum(int(vector.log_weights.size) for vector in self._vectors)

    def cells_with(self, clique: Clique) -> int:
        """Return how many cells there would be once answers about a clique have been used."""
        met, names = self._met(clique)
        others = sum(vector.log_weights.size for vector in self._vectors if vector not in met)
        return int(others) + math.prod(self.domain[name] for name in names)

    def vector(self, clique: Clique) -> Vector:
        """Return the table that holds a clique's attributes, merged from those that hold some of them.

        Raises:
            ModelTooLargeError: the merged table does not fit in the memory; nothing was changed.
        """
        met, names = self._met(clique)
        if len(met) == 1 and names == met[0].attributes:
            return met[0]
        self.require(self.cells_with(clique), f"the factor of {names}, merged for {clique},")
        merged = Vector(names, np.zeros(self.domain.shape_of(names)))
        for vector in met:
            merged.multiply(vector.attributes, vector.log_weights)
        self._vectors = [vector for vector in self._vectors if vector not in met] + [merged]
        return merged

    def vectors(self) -> Sequence[Vector]:
        """Return the tables."""
        return list(self._vectors)

    def _met(self, clique: Clique) -> tuple[list[Vector], Clique]:
        """The tables that hold some of a clique's attributes, and the attributes of their union with it."""
        met = [vector for vector in self._vectors if set(vector.attributes) & set(clique)]
        wanted = set(clique).union(*(vector.attributes for vector in met))
        return met, tuple(name for name in self.domain.attributes if name in wanted)
