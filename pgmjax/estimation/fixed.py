"""Marginals that are public and exact."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pgmjax.data.cliques import Clique, as_clique
from pgmjax.data.domain import Domain
from pgmjax.estimation.zeros import StructuralZeros
from pgmjax.queries import FrozenArray
from pgmjax.queries.query import attribute_names


@dataclasses.dataclass(frozen=True, init=False)
class FixedMarginal:
    """A marginal that is public and exact: a census of the same people, a quota that was sampled by.

    Never make one from private records: a fit shows it as it is.

    Args:
        clique: the attributes, in the order of the axes.
        counts: number of records of each combination [size of each attribute], >= 0. They sum to the
            number of records of the fit. Where a count is zero no record is possible.

    Raises:
        TypeError: counts that are no numbers.
        ValueError: a count below zero, all zero, an infinite sum, or another number of axes than attributes.

    Example:
        >>> sexes = FixedMarginal(("sex",), [60, 40])
        >>> sexes.total, sexes.probabilities.tolist()
        (100.0, [0.6, 0.4])
    """

    clique: Clique
    table: FrozenArray

    def __init__(self, clique: Any, counts: Any) -> None:
        clique = attribute_names(clique)
        said = f"the fixed marginal over {clique}"
        table = FrozenArray(counts, said, len(clique))
        if table.array.dtype == bool:
            raise TypeError(f"{said} must hold counts, got booleans.")
        if table.array.min() < 0:
            raise ValueError(f"{said} must hold counts >= 0, got negative ones.")
        if not table.array.any():
            raise ValueError(f"{said} must hold a count above zero, got none.")
        with np.errstate(over="ignore"):
            total = table.array.sum(dtype=np.float64)
        if not np.isfinite(total):
            raise ValueError(f"{said} must hold counts with a finite sum, got an infinite one.")
        object.__setattr__(self, "clique", clique)
        object.__setattr__(self, "table", table)

    @property
    def counts(self) -> np.ndarray:
        """The counts as given [size of each attribute], read-only."""
        return self.table.array

    @property
    def total(self) -> float:
        """The number of records that it tells (counts)."""
        return float(self.counts.sum(dtype=np.float64))

    @property
    def probabilities(self) -> np.ndarray:
        """The counts over their total, float64 [size of each attribute]."""
        return self.counts / self.total

    def validate(self, domain: Domain) -> None:
        """Check the counts against a domain.

        Raises:
            ValueError: an unknown attribute, or counts of another shape than the clique's.
        """
        expected = domain.shape_of(as_clique(domain, self.clique))
        if self.counts.shape != expected:
            raise ValueError(
                f"the fixed marginal over {self.clique} must have shape {expected}, got {self.counts.shape}."
            )

    def zeros(self, domain: Domain) -> StructuralZeros | None:
        """Return its empty cells as a mask over a domain; None where it has none."""
        self.validate(domain)
        return None if self.counts.all() else StructuralZeros(self.clique, self.counts > 0)
