"""Beliefs about a record before any answer: attributes independent of one another."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from pgmjax.domain import Domain


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class ProductPrior:
    """A distribution of one record in which attributes are independent.

    Args:
        domain: the attributes.
        marginals: probabilities [size] by attribute, summing to 1 up to rounding; attributes left
            out are uniform.

    Raises:
        TypeError: not a mapping.
        ValueError: an unknown attribute, another number of probabilities, negative or not finite
            ones, or a sum that is not 1.

    Example:
        >>> prior = ProductPrior(Domain({"age": 2, "sex": 2}), {"age": [0.25, 0.75]})
        >>> prior.marginal("age").tolist(), prior.marginal("sex").tolist()
        ([0.25, 0.75], [0.5, 0.5])
    """

    domain: Domain
    probabilities: tuple[np.ndarray, ...]

    def __init__(self, domain: Domain, marginals: Mapping[str, Any]) -> None:
        if not isinstance(marginals, Mapping):
            raise TypeError(
                f"the marginals of a prior must map attribute names to probabilities, got "
                f"{type(marginals).__name__}."
            )
        for name in marginals:
            domain.attribute(name)
        tables = [_probabilities(name, marginals.get(name), domain[name]) for name in domain]
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "probabilities", tuple(tables))

    @classmethod
    def uniform(cls, domain: Domain) -> ProductPrior:
        """Return the prior under which all cells are as likely."""
        return cls(domain, {})

    def marginal(self, name: str) -> np.ndarray:
        """Return the probabilities [size] of one attribute."""
        self.domain.attribute(name)
        return self.probabilities[self.domain.attributes.index(name)]

    def __repr__(self) -> str:
        return f"ProductPrior({self.domain!r})"


def _probabilities(name: str, values: Any, size: int) -> np.ndarray:
    array = np.full(size, 1.0 / size) if values is None else np.array(values, np.float64)
    if array.shape != (size,):
        raise ValueError(
            f"the prior of attribute {name!r} must have {size} probabilities, got shape {array.shape}."
        )
    if not np.isfinite(array).all() or (array < 0).any():
        raise ValueError(f"the prior of attribute {name!r} must be finite probabilities >= 0.")
    total = array.sum()
    if abs(total - 1) > 1e-6:
        raise ValueError(
            f"the prior of attribute {name!r} must sum to 1, got {total:.6g}: divide counts by their sum."
        )
    array /= total
    array.flags.writeable = False
    return array
