"""Perturbed codes in the order of the rows, the distribution they were drawn from, and their universe.

A universe treats the cells of several attributes as the categories of one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Clique, Domain, as_clique
from pgmjax.local.channel import Channel
from pgmjax.privacy.response import LARGEST_SIZE, KaryResponse

BLOCK_ROWS = 1 << 20


def whole_numbers(name: str, values: Any, below: int, axes: int = 1) -> np.ndarray:
    """Return an array of integers in 0..below-1, such as codes.

    Raises:
        TypeError: values that are not integers.
        ValueError: another number of axes, or values out of range.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got {array.dtype}.")
    checks.refuse(
        (
            array.ndim != axes,
            f"{name} must have {'one axis' if axes == 1 else f'{axes} axes'}, got {array.ndim}.",
        ),
        (
            array.size and not 0 <= int(array.min()) <= int(array.max()) < below,
            f"{name} must lie in 0..{below - 1}.",
        ),
    )
    return array


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PerturbedCodes:
    """Perturbed codes with their distribution.

    Attributes:
        distribution: size of the universe and probability of a lie.
        codes: integers in 0..size-1, in the order of the rows [rows]; or a function without arguments
            that returns a new iterable of blocks of codes at every call.

    Example:
        >>> PerturbedCodes(KaryResponse(4, 0.25), np.array([0, 3, 3, 1]))
        PerturbedCodes(4 categories, lie 0.25)
    """

    distribution: KaryResponse
    codes: Any

    def __post_init__(self) -> None:
        such = "such as privacy.KaryResponse(3, 0.25), of three values and lies in a quarter of the answers"
        checks.kind(self.distribution, KaryResponse, "distribution must be a KaryResponse", such)

    @classmethod
    def of(cls, table: Any) -> PerturbedCodes:
        """Return the codes of a perturbed table, a stream of responses, or any other object like it.

        Raises:
            TypeError: an object without a distribution or codes.
            ValueError: a table or stream of several groups of attributes, or of bits.
        """
        distribution, codes = getattr(table, "distribution", None), getattr(table, "codes", None)
        if not isinstance(distribution, KaryResponse) or codes is None:
            raise TypeError(
                "expected a perturbed table with the attributes distribution and codes, got "
                f"{type(table).__name__}: mechanisms.RandomizedResponse(...).perturb(data) makes one of a "
                "table."
            )
        return cls(distribution, codes)

    @classmethod
    def in_row_order(cls, table: Any) -> PerturbedCodes:
        """Return the codes as `of` does, for an estimate that applies a function to a row by its place.

        Raises:
            TypeError: as for `of`.
            ValueError: as for `of`; or a perturbed table whose rows are sorted.
        """
        if getattr(table, "row_order", "table") != "table":
            raise ValueError(
                "The rows of this perturbed table are sorted, so that a row's place says nothing of its "
                "record. Ask one function of all rows, or perturb the table in its own order, which must be "
                "public (row_order_is_public=True)."
            )
        return cls.of(table)

    @property
    def channel(self) -> Channel:
        """The channel of the answers."""
        return Channel.of(self.distribution)

    def blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (number of the first row, codes [rows]) block by block, checked.

        Raises:
            TypeError: codes that are not integers.
            ValueError: codes with several axes or outside the universe.
        """
        size, start = self.distribution.size, 0
        for block in self.codes() if callable(self.codes) else _cut(self.codes):
            array = whole_numbers("perturbed codes", block, size)
            yield start, array
            start += array.size

    def __repr__(self) -> str:
        return f"PerturbedCodes({self.distribution.size:,} categories, lie {self.distribution.lie:.6g})"


def _cut(codes: Any) -> Iterable[Any]:
    if np.ndim(codes) != 1:
        raise ValueError(f"perturbed codes must have one axis, the rows, got {np.ndim(codes)} axes.")
    return (codes[start : start + BLOCK_ROWS] for start in range(0, len(codes), BLOCK_ROWS))


@dataclasses.dataclass(frozen=True, init=False)
class Universe:
    """The cells of some attributes, numbered row-major in their order: the possible records.

    Args:
        domain: the domain.
        clique: the attributes, in order. Default: all.

    Raises:
        ValueError: an unknown attribute, or fewer than 2 or more than 2^31 cells.

    Example:
        >>> universe = Universe(Domain({"sex": 2, "age": 3}))
        >>> universe.encode({"sex": [1, 0], "age": [2, 1]}).tolist()
        [5, 1]
        >>> universe.column(np.array([5, 1]), "age").tolist()
        [2, 1]
    """

    domain: Domain

    def __init__(self, domain: Domain, clique: Iterable[str] | None = None):
        checks.kind(domain, Domain, "domain must be a Domain")
        names: Clique = domain.attributes if clique is None else as_clique(domain, tuple(clique))
        chosen = domain.project(names)
        cells = chosen.size()
        if not 2 <= cells <= LARGEST_SIZE:
            raise ValueError(
                f"a universe must have 2 to 2^31 cells, got {cells:,} over {len(names)} attributes: "
                "choose other attributes."
            )
        object.__setattr__(self, "domain", chosen)

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.domain.size()

    def encode(self, columns: Mapping[str, Any]) -> np.ndarray:
        """Return one code for each row, int64 [rows].

        Args:
            columns: attribute name to codes [rows].

        Raises:
            TypeError: codes that are not integers.
            ValueError: a column is missing, lengths differ, or a code is out of range.
        """
        if absent := [name for name in self.domain if name not in columns]:
            raise ValueError(f"there is no column for the attribute {absent[0]!r} of the universe.")
        sizes = self.domain.sizes.items()  # records may be private, so no value of theirs is read or quoted
        codes = [whole_numbers(f"the codes of {name!r}", columns[name], size) for name, size in sizes]
        if len(set(map(len, codes))) > 1:
            raise ValueError(f"columns must have equal length, got {[*map(len, codes)]} rows.")
        return np.ravel_multi_index(codes, self.domain.shape)

    def column(self, codes: Any, name: str) -> np.ndarray:
        """Return the codes of one attribute [rows] from cells [rows]."""
        return self.decode(codes)[self.domain.attribute(name).name]

    def decode(self, codes: Any) -> dict[str, np.ndarray]:
        """Return the codes of every attribute [rows] from cells [rows]."""
        places = np.unravel_index(np.asarray(codes, np.int64), self.domain.shape)
        return dict(zip(self.domain, places, strict=True))
