"""Estimates of true answers: values, their standard deviations, and Gaussian intervals around them.

Error bars, least squares and noisy marginals are subclasses of `Estimates`. Other answers are not, since a
Gaussian interval would be invalid for them: those of `local` have bounds for every table, `history.Inference`
has the distribution of its error, and `history.Answers` and `history.ConsistentAnswers` may be biased.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks, html


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Estimates:
    """Estimates of true answers with the standard deviations of their noise.

    Attributes:
        values: the estimates (counts times the query's unit), of any shape.
        stddevs: standard deviation of the noise in each, same shape and unit; NaN if undefined.

    Example:
        >>> estimates = Estimates(np.array([10.0, 20.0]), np.array([2.0, np.nan]))
        >>> estimates.interval(0.95).round(2).tolist()
        [[6.08, 13.92], [nan, nan]]
    """

    values: np.ndarray
    stddevs: np.ndarray

    def half_width(self, level: float) -> np.ndarray:
        """Return a w with P(abs(value - truth) <= w) = level for Gaussian noise, in the shape of the values.

        It is NaN where the standard deviation is NaN or does not describe the error of the estimate.

        Raises:
            ValueError: `level` is not in (0, 1).
        """
        return normal_quantile(level) * self.stddevs

    def interval(self, level: float = 0.95) -> np.ndarray:
        """Return both ends of the interval of each estimate [..., 2]; see `half_width`.

        Raises:
            ValueError: `level` is not in (0, 1).
        """
        width = self.half_width(level)
        return np.stack([self.values - width, self.values + width], axis=-1)

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={html.text(value)}" for name, value in self._facts().items())
        return f"{type(self).__name__}({said})"

    def _repr_html_(self) -> str:
        columns = self._columns()
        rows = zip(*columns.values(), strict=True)
        return html.card(type(self).__name__, self._facts(), html.table([*columns], rows, self.values.size))

    def _facts(self) -> dict[str, Any]:
        """Return summary facts about the estimates."""
        return {"answers": self.values.size}

    def _columns(self) -> dict[str, Sequence[Any]]:
        """Return the columns of the table shown in a notebook, with one row per estimate."""
        return {
            "answer": range(self.values.size),
            "estimate": self.values.ravel().tolist(),
            "standard deviation": self.stddevs.ravel().tolist(),
        }


def normal_quantile(level: float) -> float:
    """Return z with P(abs(Z) <= z) = level for a standard Gaussian Z.

    Example:
        >>> round(normal_quantile(0.95), 3)
        1.96
    """
    level = checks.number("level", level, above=0, below=1)
    return statistics.NormalDist().inv_cdf(0.5 + 0.5 * level)
