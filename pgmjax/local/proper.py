"""Proper answers: the achievable value nearest to an unbiased one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks

MAX_STEPS = 1 << 25
"""Largest number of steps between the smallest and the largest sum that are enumerated."""
_TOLERANCE = 1e-6  # of a value on the grid of steps, in steps


@dataclasses.dataclass(frozen=True)
class ProperEstimator:
    """The achievable sums of a statistical query: each row contributes one of its function's values.

    A function's values must be its smallest value plus multiples of a step, so that sums can be numbered.

    Args:
        values: the values of each group's function over the categories: a sequence of numbers, or one
            such sequence for each group.
        rows: number of rows of each group; an integer if there is one group.
        step: common divisor of the differences between values, > 0.

    Raises:
        ValueError: differences that are not multiples of the step, or too many sums to enumerate.

    References:
        Wang, Ying and Zhang 2016, equation 21 and Lemma 3.

    Example:
        >>> votes = ProperEstimator([0, 2, 5], rows=3)
        >>> votes.sums().tolist()
        [0.0, 2.0, 4.0, 5.0, 6.0, 7.0, 9.0, 10.0, 12.0, 15.0]
        >>> votes.nearest([2.7, -1.0]).tolist()  # means
        [3.0, 0.0]
    """

    values: tuple[tuple[float, ...], ...]
    rows: tuple[int, ...]
    step: float = 1.0

    def __init__(self, values: Any, rows: int | Sequence[int], step: float = 1.0):
        each = checks.several("values", values, "numbers, or one list of them a group")
        one = all(np.ndim(entry) == 0 for entry in each)
        groups = tuple(tuple(sorted({float(v) for v in group})) for group in ((each,) if one else each))
        counts = (rows,) if one else checks.several("rows", rows, "numbers of rows")
        numbers = tuple(checks.integer("rows", count, low=0) for count in counts)
        if len(numbers) != len(groups) or not all(groups) or not sum(numbers):
            raise ValueError(
                f"expected values and a number of rows for each group and at least one row, got "
                f"{len(groups)} groups of values and {len(numbers)} numbers for {sum(numbers)} rows."
            )
        checks.set_fields(self, values=groups, rows=numbers, step=checks.number("step", step, above=0))
        checks.set_fields(self, _reached=_reached(self._shapes()))

    @property
    def least(self) -> float:
        """The smallest sum over the rows."""
        return float(sum(group[0] * count for group, count in zip(self.values, self.rows, strict=True)))

    def sums(self) -> np.ndarray:
        """Return all achievable sums, ascending, float64."""
        unit, last, reached = self._reached  # type: ignore[attr-defined]
        if reached is None and last >= MAX_STEPS:
            raise ValueError(f"there are {last + 1:,} sums, all multiples of one number: not listed.")
        numbers = np.arange(last + 1) if reached is None else np.flatnonzero(reached)
        return self.least + self.step * unit * numbers

    def nearest(self, means: Any) -> np.ndarray:
        """Return the achievable mean over the rows nearest to each given mean, float64 [queries].

        Guarantees:
            The squared error is at most four times that of the given mean, since the truth is achievable.
        """
        rows = sum(self.rows)
        unit, last, reached = self._reached  # type: ignore[attr-defined]
        places = (np.asarray(means, dtype=np.float64) * rows - self.least) / (self.step * unit)
        if reached is None:
            found = np.clip(np.rint(places), 0, last)
        else:
            there = np.flatnonzero(reached)
            found = there[np.searchsorted((there[1:] + there[:-1]) / 2, places)]
        return (self.least + self.step * unit * found) / rows

    def _shapes(self) -> dict[tuple[int, ...], int]:
        """Return the number of rows for each set of values, in steps above its smallest value."""
        shapes: dict[tuple[int, ...], int] = {}
        for group, count in zip(self.values, self.rows, strict=True):
            steps = (np.array(group) - group[0]) / self.step
            whole = np.rint(steps)
            if np.abs(steps - whole).max() > _TOLERANCE:
                raise ValueError(
                    f"the values of a row function must differ by multiples of step = {self.step:g}: give a "
                    "smaller step, or use the unbiased answer as it is."
                )
            shape = tuple(int(number) for number in whole)
            if len(shape) > 1 and count:
                shapes[shape] = shapes.get(shape, 0) + count
        return shapes


def _reached(shapes: dict[tuple[int, ...], int]) -> tuple[int, int, np.ndarray | None]:
    """Return the unit of all sums, the largest sum in that unit, and which are reached (None if all are)."""
    if not shapes:
        return 1, 0, None
    unit = int(np.gcd.reduce([number for shape in shapes for number in shape]))
    # in units of the common divisor there are fewer sums to look through
    reduced = {tuple(number // unit for number in shape): count for shape, count in shapes.items()}
    last = sum(shape[-1] * count for shape, count in reduced.items())
    if all(shape == tuple(range(len(shape))) for shape in reduced):
        return unit, last, None
    if last >= MAX_STEPS:
        raise ValueError(
            f"there are {last + 1:,} sums to look through, above the limit of {MAX_STEPS:,}: use the "
            "unbiased answer, or a coarser step."
        )
    result = np.ones(1, dtype=bool)
    for shape, count in reduced.items():
        base = np.zeros(shape[-1] + 1, dtype=bool)
        base[list(shape)] = True
        result = _sum_of(result, _power(base, count))
    return unit, last, result


def _power(base: np.ndarray, count: int) -> np.ndarray:
    """Return which sums of `count` members of a set exist."""
    result = np.ones(1, dtype=bool)
    # by doubling, so that there are as many convolutions as the count has bits
    for bit in bin(count)[2:]:
        result = _sum_of(result, result)
        if bit == "1":
            result = _sum_of(result, base)
    return result


def _sum_of(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return which sums of one member of each set exist."""
    from scipy.signal import fftconvolve

    # numbers of pairs are integers far below 2^53, so a threshold of one half separates them from 0
    return fftconvolve(first.astype(np.float64), second.astype(np.float64)) > 0.5
