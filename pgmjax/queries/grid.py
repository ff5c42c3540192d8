"""Matrices rounded to multiples of a power of two, in exact arithmetic."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax.queries import columns

_LARGEST = 2.0**53


@dataclasses.dataclass(frozen=True, eq=False)
class Grid:
    """A matrix times `2**bits`, rounded to integers.

    Attributes:
        name: what its rows are, for messages.
        integers: int64 [rows, columns].
        error: how far the farthest entry was moved, before it was multiplied.
        largest: the largest magnitude of an entry before rounding.
        lost: how many rows were not zero and are now.
    """

    name: str
    integers: np.ndarray
    error: Fraction
    largest: Fraction
    lost: int


def round_to(name: str, matrix: np.ndarray, bits: int) -> Grid | None:
    """Round a finite matrix [rows, columns] times `2**bits`, halves to even; None if beyond 2**53."""
    with np.errstate(over="ignore"):
        scaled = np.ldexp(matrix, bits)
    if not np.abs(scaled).max() < _LARGEST:
        return None
    whole = np.rint(scaled)
    error = Fraction(float(np.abs(scaled - whole).max())) / 2**bits  # a difference without rounding
    lost = int((matrix.any(axis=1) & ~whole.any(axis=1)).sum())
    return Grid(name, whole.astype(np.int64), error, Fraction(float(np.abs(matrix).max())), lost)


def share(matrices: Sequence[np.ndarray], bits: int) -> list[int]:
    """Divide bits between the factors of a product: each goes to the one that is coarsest for its size.

    Example:
        >>> share([np.array([[0.5, 1.0]]), np.array([[0.1, 0.3]])], 6)
        [1, 5]
    """
    needed = [columns.scaled(matrix)[1] for matrix in matrices]
    largest = [float(np.abs(matrix).max()) or 1.0 for matrix in matrices]
    result = [0] * len(matrices)
    for _ in range(bits):
        coarseness = [
            0.0 if have >= need else 2.0**-have / size
            for have, need, size in zip(result, needed, largest, strict=True)
        ]
        result[coarseness.index(max(coarseness))] += 1
    return result


def finite(name: str, values: Any) -> np.ndarray:
    """Return numbers in float64; refuse those that are not finite.

    Raises:
        ValueError: how many are not.
    """
    array = np.asarray(values, dtype=np.float64)
    wrong = int((~np.isfinite(array)).sum())
    if wrong:
        raise ValueError(f"{name} must have finite entries; {wrong} of {array.size} are not.")
    return array
