"""Cells that no record can be in, as a mask."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pgmjax.data.cliques import Clique, as_clique
from pgmjax.data.domain import Domain
from pgmjax.queries import FrozenArray
from pgmjax.queries.query import attribute_names


@dataclasses.dataclass(frozen=True, init=False)
class StructuralZeros:
    """Which combinations of values are possible, known without looking at the records.

    Args:
        clique: the attributes, in the order of the mask's axes.
        allowed: booleans [size of each attribute]; True where a record may be.

    Raises:
        TypeError: the mask is not boolean.
        ValueError: as many axes as attributes are needed, and one possible combination at least.

    Example:
        >>> zeros = StructuralZeros(("age", "driver"), [[True, False], [True, True]])
        >>> zeros.log_mask().tolist()
        [[0.0, -inf], [0.0, 0.0]]
    """

    clique: Clique
    mask: FrozenArray

    def __init__(self, clique: Any, allowed: Any) -> None:
        clique = attribute_names(clique)
        mask = FrozenArray(allowed, f"the mask over {clique}", len(clique))
        if mask.array.dtype != bool:
            raise TypeError(
                f"the mask over {clique} must be boolean (True where possible), got {mask.array.dtype}."
            )
        if not mask.array.any():
            raise ValueError(f"the mask over {clique} allows no combination: True must mean possible.")
        object.__setattr__(self, "clique", clique)
        object.__setattr__(self, "mask", mask)

    @property
    def allowed(self) -> np.ndarray:
        """Where a record may be, booleans [size of each attribute], read-only."""
        return self.mask.array

    def validate(self, domain: Domain) -> None:
        """Check the mask against a domain.

        Raises:
            ValueError: an unknown attribute, or a mask of another shape than the clique's.
        """
        expected = domain.shape_of(as_clique(domain, self.clique))
        if self.allowed.shape != expected:
            raise ValueError(
                f"the mask over {self.clique} must have shape {expected}, got {self.allowed.shape}."
            )

    def zeros(self, domain: Domain) -> StructuralZeros:
        """Return the constraint as a mask over a domain: itself, checked."""
        self.validate(domain)
        return self

    def log_mask(self) -> np.ndarray:
        """Return 0 where a record may be and minus infinity elsewhere, float64 (nats)."""
        return np.where(self.allowed, 0.0, -np.inf)
