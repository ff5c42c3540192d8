"""Continuous attributes in the unit cube, discretised: the grid with the smallest error, and answers from it.

The error has two parts: the noise of the discretised table and the discretisation error.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.local.answers import UnbiasedAnswers
from pgmjax.local.channel import Channel
from pgmjax.local.statistical import GroupHistograms
from pgmjax.privacy.response import LARGEST_SIZE

NORMS = ("max", "euclidean")
MAX_CELLS = 1 << 22
"""Largest number of cells for which midpoints are computed."""

_BITS = LARGEST_SIZE.bit_length() - 1


@dataclasses.dataclass(frozen=True)
class Grid:
    """The unit cube cut into equal cells: `bits` binary digits of each coordinate.

    Attributes:
        dimension: number d of continuous attributes with values in 0..1.
        bits: binary digits per coordinate, at least 1; bits * dimension is at most 31.

    Example:
        >>> grid = Grid(dimension=2, bits=1)
        >>> grid.encode([[0.1, 0.9], [1.0, 0.5]]).tolist(), grid.midpoints()[1].tolist()
        ([1, 3], [0.25, 0.75])
    """

    dimension: int
    bits: int

    def __post_init__(self) -> None:
        checks.set_integers(self, "dimension", low=1, high=_BITS)
        checks.set_integers(self, "bits", low=1, high=_BITS // self.dimension)

    @property
    def size(self) -> int:
        """The number of cells, 2^(bits * dimension)."""
        return 1 << self.bits * self.dimension

    @property
    def domain(self) -> Domain:
        """The domain of the discretised attributes, x0, x1, ..., with their bins."""
        edges = np.linspace(0, 1, (1 << self.bits) + 1).tolist()
        return Domain({f"x{k}": {"bins": edges} for k in range(self.dimension)})

    def encode(self, points: Any) -> np.ndarray:
        """Return the cell of each point, int64 [rows].

        Args:
            points: coordinates in 0..1, [rows, dimension], or [rows] in one dimension.

        Raises:
            ValueError: wrong shape, or coordinates outside 0..1; the message counts but does not show them.
        """
        array = np.asarray(points, dtype=np.float64)
        array = array[:, None] if array.ndim == 1 and self.dimension == 1 else array
        if array.ndim != 2 or array.shape[1] != self.dimension:
            raise ValueError(f"points must have the shape [rows, {self.dimension}], got {array.shape}.")
        outside = ~((array >= 0) & (array <= 1))
        if outside.any():
            raise ValueError(
                f"{np.count_nonzero(outside.any(axis=1)):,} of {len(array):,} points lie outside the unit "
                "cube: scale attributes by public bounds first. Nothing was encoded."
            )
        # 1 itself belongs to the last cell
        cells = np.minimum((array * (1 << self.bits)).astype(np.int64), (1 << self.bits) - 1)
        return np.ravel_multi_index(tuple(cells.T), (1 << self.bits,) * self.dimension)

    def midpoints(self) -> np.ndarray:
        """Return the middle of every cell, float64 [size, dimension].

        Raises:
            ValueError: more than `MAX_CELLS` cells.
        """
        if self.size > MAX_CELLS:
            raise ValueError(
                f"a grid of {self.size:,} cells is above the limit of {MAX_CELLS:,}: fewer bits."
            )
        axis = (np.arange(1 << self.bits) + 0.5) / (1 << self.bits)
        return np.stack(np.meshgrid(*[axis] * self.dimension, indexing="ij"), axis=-1).reshape(
            -1, self.dimension
        )

    def bias_bound(self, lipschitz: float, norm: str = "max") -> float:
        """Return the largest difference of a value from that at its cell's middle: L times half the cell.

        Args:
            lipschitz: L with abs(f(x) - f(y)) <= L * distance(x, y).
            norm: norm of the distance, "max" or "euclidean".
        """
        lipschitz = checks.number("lipschitz", lipschitz, at_least=0)
        return lipschitz * _reach(self.dimension, norm) / (1 << self.bits + 1)


@dataclasses.dataclass(frozen=True)
class Discretisation:
    """The grid with the smallest bound on the error, and the two parts of that bound.

    Attributes:
        grid: cells of the unit cube.
        bias_bound: bound on the bias, due to the width of the cells.
        stddev_bound: bound on the standard deviation of the noise, for the worst function and table.
        range_bound: bound on the difference between two values of the function.
    """

    grid: Grid
    bias_bound: float
    stddev_bound: float
    range_bound: float

    @property
    def useful(self) -> bool:
        """True if bias plus noise is at most half the range, the error of a guess without data."""
        return self.bias_bound + self.stddev_bound <= self.range_bound / 2


def best_grid(
    *,
    rows: int,
    epsilon: float,
    lipschitz: float,
    dimension: int = 1,
    norm: str = "max",
    value_range: float | None = None,
) -> Discretisation:
    """Return the grid with the smallest bias bound plus noise bound; it uses no data.

    More bits reduce the bias like 2^-bits and increase the noise like 2^(bits * dimension) / sqrt(rows).

    Args:
        rows: number of records.
        epsilon: budget per record.
        lipschitz: Lipschitz constant of the row functions, > 0.
        dimension: number of continuous attributes.
        norm: norm of the distance in the Lipschitz condition, "max" or "euclidean".
        value_range: bound on the range of a function's values. Default: the bound implied by `lipschitz`.

    References:
        Wang, Ying and Zhang 2016, Proposition 1, with the exact factor instead of its order.

    Example:
        >>> best = best_grid(rows=1_000_000, epsilon=1.0, lipschitz=1.0)
        >>> best.grid.bits, round(best.bias_bound, 4), round(best.stddev_bound, 4)
        (5, 0.0156, 0.0098)
    """
    rows = checks.integer("rows", rows, low=1)
    lipschitz = checks.number("lipschitz", lipschitz, above=0)
    dimension = checks.integer("dimension", dimension, low=1, high=_BITS)
    spread = lipschitz * _reach(dimension, norm)
    if value_range is not None:
        spread = min(spread, checks.number("value_range", value_range, above=0))
    found = []
    for bits in range(1, _BITS // dimension + 1):
        grid = Grid(dimension, bits)
        variance = Channel.at(grid.size, epsilon).largest_variance() / rows
        found.append(
            Discretisation(grid, grid.bias_bound(lipschitz, norm), spread * math.sqrt(variance), spread)
        )
    return min(found, key=lambda each: each.bias_bound + each.stddev_bound)


def _reach(dimension: int, norm: str) -> float:
    """Return the diameter of the unit cube."""
    return math.sqrt(dimension) if checks.choice("norm", norm, NORMS) == "euclidean" else 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class ContinuousAnswers:
    """Answers about continuous attributes, unbiased for the discretised table.

    Attributes:
        answers: answers for the functions at the cells' midpoints, with the noise's variances and bounds.
        bias_bound: bound on the absolute difference between the discretised table's answer and the table's.
    """

    answers: UnbiasedAnswers
    bias_bound: float

    def half_width(self, level: float) -> np.ndarray:
        """Return a w [queries] with P(abs(value - truth) <= w) >= level, including the discretisation."""
        return self.bias_bound + self.answers.half_width(level)


def answer_lipschitz(
    seen: GroupHistograms,
    grid: Grid,
    functions: Any,
    *,
    lipschitz: float,
    norm: str = "max",
    useless: str = "refuse",
) -> ContinuousAnswers:
    """Answer mean values of Lipschitz functions of continuous attributes from a discretised, perturbed table.

    Args:
        seen: histograms of the perturbed cells, by group.
        grid: the grid that discretised the points.
        functions: a function of points [cells, dimension] that returns values [queries, cells], or one
            such function for each group.
        lipschitz: Lipschitz constant of all row functions.
        norm: norm of the distance in the Lipschitz condition, "max" or "euclidean".
        useless: "refuse" answers that are too noisy, or "answer" them anyway.

    Raises:
        ValueError: a table of another size, or functions of the wrong number, shape or slope.
        UselessAnswerError: some answers are too noisy.
    """
    if seen.distribution.size != grid.size:
        raise ValueError(
            f"the histograms are of {seen.distribution.size:,} categories and the grid has {grid.size:,} "
            "cells."
        )
    points = grid.midpoints()
    each = [functions] if callable(functions) else list(functions)
    if len(each) not in (1, seen.groups):
        raise ValueError(f"expected one function or one for each of {seen.groups} groups, got {len(each)}.")
    values = np.stack([np.atleast_2d(np.asarray(made(points), dtype=np.float64)) for made in each], axis=1)
    if values.shape[-1] != grid.size:
        raise ValueError(f"functions must return [queries, {grid.size} cells], got {values[:, 0].shape}.")
    _check_slopes(values, grid, lipschitz)
    if len(each) == 1:
        values = values[:, 0]
    return ContinuousAnswers(seen.answer(values, useless=useless), grid.bias_bound(lipschitz, norm))


def _check_slopes(values: np.ndarray, grid: Grid, lipschitz: float) -> None:
    cells = values.reshape(*values.shape[:-1], *[1 << grid.bits] * grid.dimension)
    axes = range(values.ndim - 1, cells.ndim)
    steepest = max(float(np.abs(np.diff(cells, axis=axis)).max()) for axis in axes)
    if steepest * (1 << grid.bits) > lipschitz * (1 + 1e-9) + 1e-12:
        raise ValueError(
            f"a function's slope between neighbouring cells is {steepest * (1 << grid.bits):.6g}, above "
            f"lipschitz = {lipschitz:g}: the bound on the bias would be wrong."
        )
