"""Answers about continuous attributes: the noise of a discretised table, and what discretising costs."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pgmjax.local.answers import Answers
from pgmjax.local.continuous import Grid
from pgmjax.local.grouped import GroupHistograms


@dataclasses.dataclass(frozen=True, eq=False)
class ContinuousAnswers:
    """Answers about continuous attributes: unbiased for the discretised table, which may be off itself.

    Attributes:
        answers: to the functions at the cells' midpoints, with the noise's variances and bounds.
        bias_bound: how far the discretised table's answer can be from the table's, in either direction.
    """

    answers: Answers
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
    if seen.law.size != grid.size:
        raise ValueError(
            f"the histograms are of {seen.law.size:,} categories and the grid has {grid.size:,} cells."
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
