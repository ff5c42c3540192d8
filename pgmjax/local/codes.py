"""What estimates are made from: perturbed codes in the order of the rows, and the law that drew them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np

from pgmjax.privacy.response import RandomizedResponse

BLOCK_ROWS = 1 << 20


class Perturbed(Protocol):
    """A released table of perturbed codes: anything with these two attributes."""

    @property
    def law(self) -> RandomizedResponse:
        """The law that drew the codes."""
        ...

    @property
    def codes(self) -> Any:
        """The codes in the order of the rows: an integer array [rows], in memory or mapped from a file."""
        ...


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PerturbedCodes:
    """Perturbed codes with their law.

    Attributes:
        law: size of the universe and probability of a lie.
        codes: integers in 0..size-1, in the order of the rows [rows]; or a function without arguments
            that returns an iterable of blocks of them, anew at every call.

    Example:
        >>> PerturbedCodes(RandomizedResponse(4, 0.25), np.array([0, 3, 3, 1]))
        PerturbedCodes(4 categories, lie 0.25)
    """

    law: RandomizedResponse
    codes: Any

    def __post_init__(self) -> None:
        if not isinstance(self.law, RandomizedResponse):
            raise TypeError(f"law must be a RandomizedResponse, got {type(self.law).__name__}.")

    def __repr__(self) -> str:
        return f"PerturbedCodes({self.law.size:,} categories, lie {self.law.lie:.6g})"


def law_of(table: Perturbed) -> RandomizedResponse:
    """Return the law of a perturbed table, checked.

    Raises:
        TypeError: something that is no perturbed table.
    """
    law, codes = getattr(table, "law", None), getattr(table, "codes", None)
    if not isinstance(law, RandomizedResponse) or codes is None:
        raise TypeError(
            f"expected a perturbed table with the attributes law and codes, got {type(table).__name__}: "
            "companion.PerturbedCodes(law, codes) makes one."
        )
    return law


def blocks(table: Perturbed) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (number of the first row, codes [rows]) of blocks of a perturbed table, checked.

    Raises:
        TypeError: no law or codes, or codes that are not integers.
        ValueError: codes with several axes or outside the universe.
    """
    law, codes = law_of(table), table.codes
    start = 0
    for block in codes() if callable(codes) else _cut(codes):
        array = np.asarray(block)
        if array.dtype.kind not in "iu" or array.ndim != 1:
            raise TypeError(
                f"perturbed codes must be integers with one axis, got {array.dtype} with {array.ndim}."
            )
        if array.size and not 0 <= int(array.min()) <= int(array.max()) < law.size:
            raise ValueError(
                f"perturbed codes must lie in 0..{law.size - 1}: this is no table of {law.size} categories."
            )
        yield start, array
        start += array.size


def _cut(codes: Any) -> Iterable[Any]:
    if np.ndim(codes) != 1:
        raise ValueError(f"perturbed codes must have one axis, the rows, got {np.ndim(codes)} axes.")
    return (codes[start : start + BLOCK_ROWS] for start in range(0, len(codes), BLOCK_ROWS))
