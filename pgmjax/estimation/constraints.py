"""Cells that a record can be in, as a list."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.attribute import codes_of
from pgmjax.data.cliques import Clique, as_clique
from pgmjax.data.domain import Domain
from pgmjax.estimation.zeros import StructuralZeros
from pgmjax.queries.query import attribute_names


@dataclasses.dataclass(frozen=True, init=False)
class AllowedSet:
    """The combinations of values that are possible; all others are not.

    Args:
        clique: the attributes.
        combinations: for each possible combination a value of each attribute, in the clique's order (of one
            attribute alone the bare value will do): labels, or codes where its labels are no numbers.

    Raises:
        TypeError: no list of combinations.
        ValueError: no combination, or one that has not a value for each attribute.

    Example:
        >>> allowed = AllowedSet(("age", "driver"), [(0, "no"), (1, "no"), (1, "yes")])
        >>> allowed.zeros(Domain({"age": 2, "driver": {"labels": ["no", "yes"]}})).allowed.tolist()
        [[True, False], [True, True]]
    """

    clique: Clique
    combinations: tuple[tuple[Any, ...], ...]

    def __init__(self, clique: Any, combinations: Any) -> None:
        clique = attribute_names(clique)
        said = f"the allowed set over {clique}"
        rows = checks.several(said, combinations, "combinations")
        rows = tuple(combination(row, len(clique), said) for row in rows)
        if not rows:
            raise ValueError(f"{said} allows no combination: name at least one.")
        object.__setattr__(self, "clique", clique)
        object.__setattr__(self, "combinations", rows)

    def zeros(self, domain: Domain) -> StructuralZeros:
        """Return the constraint as a mask over a domain.

        Raises:
            ValueError: an unknown attribute, or a value that it does not have.
        """
        clique = as_clique(domain, self.clique)
        columns = zip(*self.combinations, strict=True)
        codes = [
            codes_of(domain.attribute(name), column, "the allowed set")
            for name, column in zip(clique, columns, strict=True)
        ]
        mask = np.zeros(domain.shape_of(clique), bool)
        mask[tuple(codes)] = True
        return StructuralZeros(clique, mask)


def combination(row: Any, length: int, said: str) -> tuple[Any, ...]:
    """Return a combination of values as a tuple; a bare value is one of one attribute.

    Raises:
        ValueError: another number of values than attributes.
    """
    bare = isinstance(row, str | bytes | Mapping) or not hasattr(row, "__len__")
    values = (row,) if bare else tuple(row)
    if len(values) != length:
        raise ValueError(f"{said} needs {length} values in each combination, got one of {len(values)}.")
    return values
