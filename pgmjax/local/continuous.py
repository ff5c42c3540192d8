"""Continuous attributes in the unit cube, discretised: the grid of least error, and answers from it.

The error has two parts: the noise of the discretised table, and what discretising costs.
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
from pgmjax.local.grouped import GroupHistograms
from pgmjax.privacy.response import LARGEST_SIZE

NORMS = ("max", "euclidean")
MAX_CELLS = 1 << 22
"""The most cells whose midpoints are written out."""

_BITS = LARGEST_SIZE.bit_length() - 1


@dataclasses.dataclass(frozen=True)
class Grid:
    """The unit cube cut into equal cells: `bits` binary digits of each coordinate.

    Attributes:
        dimension: number d of continuous attributes with values in 0..1.
        bits: digits kept of each, at least 1; bits * dimension at most 31.

    Example:
        >>> grid = Grid(dimension=2, bits=1)
        >>> grid.encode([[0.1, 0.9], [1.0, 0.5]]).tolist(), grid.midpoints()[1].tolist()
        ([1, 3], [0.25, 0.75])
    """

    dimension: int
    bits: int

    def __post_init__(self) -> None:
        dimension = checks.integer("dimension", self.dimension, low=1, high=_BITS)
        checks.integer("bits", self.bits, low=1, high=_BITS // dimension)

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
            points: coordinates in 0..1, [rows, dimension], or [rows] where there is one.

        Raises:
            ValueError: another shape, or coordinates outside 0..1; they are counted and not shown.
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
        cells = np.minimum((array * (1 << self.bits)).astype(np.int64), (1 << self.bits) - 1)
        result = np.zeros(len(array), dtype=np.int64)
        for place in range(self.dimension):
            result = (result << self.bits) + cells[:, place]
        return result

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
        """Return how far a value can be from that at the middle of its cell: L times half the cell.

        Args:
            lipschitz: L with abs(f(x) - f(y)) <= L * distance(x, y).
            norm: of the distance, "max" or "euclidean".
        """
        lipschitz = checks.number("lipschitz", lipschitz, at_least=0)
        return lipschitz * _reach(self.dimension, norm) / (1 << self.bits + 1)


@dataclasses.dataclass(frozen=True)
class Discretisation:
    """The grid whose bound on the error is least, and the two parts of that bound.

    Attributes:
        grid: cells of the unit cube.
        bias_bound: of the part that comes from cells having a width.
        stddev_bound: of the part that comes from the noise, for the worst function and table.
        range_bound: how far apart two values of the function can be.
    """

    grid: Grid
    bias_bound: float
    stddev_bound: float
    range_bound: float

    @property
    def error_bound(self) -> float:
        """Bound on the root of the mean squared error: the bias is constant, the noise centred."""
        return math.hypot(self.bias_bound, self.stddev_bound)

    @property
    def useful(self) -> bool:
        """True if the bound is below half the range, which a guess reaches without data."""
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
    """Return the grid of least bias bound plus noise bound; it looks at no data.

    More bits shrink the bias like 2^-bits and swell the noise like 2^(bits * dimension) / sqrt(rows).

    Args:
        rows: number of records.
        epsilon: budget of a record's answer.
        lipschitz: of the row functions, > 0.
        dimension: number of continuous attributes.
        norm: of the distance that `lipschitz` speaks of.
        value_range: how far apart a function's values are at most; None takes what `lipschitz` implies.

    References:
        Wang, Ying and Zhang 2016, Proposition 1, with the exact factor in place of its order.

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
    """The diameter of the unit cube."""
    return math.sqrt(dimension) if checks.choice("norm", norm, NORMS) == "euclidean" else 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class ContinuousAnswers:
    """Answers about continuous attributes: unbiased for the discretised table, which may be off itself.

    Attributes:
        answers: to the functions at the cells' midpoints, with the noise's variances and bounds.
        bias_bound: how far the discretised table's answer can be from the table's, in either direction.
    """

    answers: UnbiasedAnswers
    bias_bound: float

    @property
    def error_bound(self) -> np.ndarray:
        """Bound on the root of the mean squared error, for every table, float64 [queries]."""
        return np.hypot(self.bias_bound, self.answers.worst_stddev)

    def half_width(self, level: float) -> np.ndarray:
        """Return a w [queries] with P(abs(value - truth) <= w) >= level, the discretisation included."""
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
        grid: what the points were discretised by.
        functions: a function of points [cells, dimension] that returns values [queries, cells], or one
            such function for each group.
        lipschitz: of all row functions.
        norm: of the distance that `lipschitz` speaks of.
        useless: "refuse" answers whose noise exceeds any use, or "answer" them too.

    Raises:
        ValueError: a table of another size, or a function that moves faster from cell to cell than it may.
        UselessAnswerError: the noise exceeds any use.
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
