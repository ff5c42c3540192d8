"""Constraints: what is public and exact about a table, beside the noisy measurements.

- `StructuralZeros`: cells that no record can be in, as a mask.
- `AllowedSet`: the cells that a record can be in, as a list.
- `FunctionalDependency`: attributes that determine another one.
- `FixedMarginal`: a marginal that is known exactly.

Whether some table meets all of them is decided in `estimation.feasibility`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.attribute import codes_of
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
