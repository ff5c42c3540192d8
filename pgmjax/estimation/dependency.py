"""Attributes that determine another one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from pgmjax.data.attribute import codes_of
from pgmjax.data.cliques import Clique, as_clique
from pgmjax.data.domain import Domain
from pgmjax.estimation.constraints import combination
from pgmjax.estimation.zeros import StructuralZeros
from pgmjax.queries import FrozenArray
from pgmjax.queries.query import attribute_names


@dataclasses.dataclass(frozen=True, init=False, eq=False)
class FunctionalDependency:
    """One attribute is a function of others: a zip code determines its state.

    Args:
        determining: the attributes that determine.
        determined: the attribute that they determine.
        mapping: the function: a mapping from a value, or a tuple of values in the order of `determining`, to
            the value determined (labels, or codes where the labels are no numbers); or an array of
            codes [size of each determining attribute]. Every combination needs a value: one that cannot
            occur gets any, and a `StructuralZeros` beside it.

    Raises:
        TypeError: neither a mapping nor an array of integers.
        ValueError: an attribute that is to determine itself, or an empty mapping.

    Example:
        >>> domain = Domain({"zip": 3, "state": {"labels": ["MA", "NY"]}})
        >>> state_of = FunctionalDependency(("zip",), "state", {0: "MA", 1: "NY", 2: "MA"})
        >>> state_of.zeros(domain).allowed.tolist()
        [[True, False], [False, True], [True, False]]
    """

    determining: Clique
    determined: str
    mapping: FrozenArray | tuple[tuple[tuple[Any, ...], Any], ...]

    def __init__(self, determining: Any, determined: str, mapping: Any) -> None:
        determining = attribute_names(determining)
        if not isinstance(determined, str):
            raise TypeError(f"determined must be one attribute's name, got {type(determined).__name__}.")
        if determined in determining:
            raise ValueError(f"{determined!r} cannot be among the attributes that determine it.")
        said = f"the dependency of {determined!r} on {determining}"
        if isinstance(mapping, Mapping):
            if not mapping:
                raise ValueError(f"{said} needs a value for every combination, got an empty mapping.")
            items = mapping.items()
            pairs = tuple((combination(key, len(determining), said), value) for key, value in items)
            object.__setattr__(self, "mapping", pairs)
        else:
            codes = FrozenArray(mapping, said, len(determining))
            if codes.array.dtype != np.int64:
                raise TypeError(f"{said} must be a mapping or an array of integer codes.")
            object.__setattr__(self, "mapping", codes)
        object.__setattr__(self, "determining", determining)
        object.__setattr__(self, "determined", determined)

    @property
    def clique(self) -> Clique:
        """The attributes that determine, and the one determined."""
        return (*self.determining, self.determined)

    def codes(self, domain: Domain) -> np.ndarray:
        """Return the code determined by each combination [size of each determining attribute].

        Raises:
            ValueError: an unknown attribute or value, a combination without a value or with two,
                another shape.
        """
        clique = as_clique(domain, self.clique)
        shape, said = domain.shape_of(clique[:-1]), f"the dependency of {self.determined!r}"
        if isinstance(self.mapping, FrozenArray):
            array = self.mapping.array
            if array.shape != shape:
                raise ValueError(f"{said} must be an array of shape {shape}, got {array.shape}.")
            if array.min() < 0 or array.max() >= domain[self.determined]:
                raise ValueError(f"{said} must hold codes in 0..{domain[self.determined] - 1}.")
            return array
        columns = zip(*(key for key, _ in self.mapping), strict=True)
        index = tuple(
            codes_of(domain.attribute(name), column, said)
            for name, column in zip(clique[:-1], columns, strict=True)
        )
        if len(set(zip(*index, strict=True))) < len(self.mapping):
            raise ValueError(
                f"{said} on {self.determining} names a combination twice, as labels and as codes: keep one."
            )
        table = np.full(shape, -1)
        table[index] = codes_of(domain.attribute(self.determined), [value for _, value in self.mapping], said)
        left_out = int((table < 0).sum())
        if left_out:
            raise ValueError(
                f"{said} on {self.determining} leaves out {left_out} of {table.size} combinations: give each "
                "a value, and make those that cannot occur impossible with StructuralZeros."
            )
        return table

    def zeros(self, domain: Domain) -> StructuralZeros:
        """Return the constraint as a mask over the determining attributes and the determined one.

        Raises:
            ValueError: as `codes`.
        """
        values = np.arange(domain.attribute(self.determined).size)
        return StructuralZeros(self.clique, self.codes(domain)[..., None] == values)
