"""The engine as a learner: a distribution over cells, fitted to the training answers."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.estimation.estimator import Estimator
from pgmjax.learning.linear import LinearLearner, least_squares
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.queries import DenseMatrix

PRECISION = 1e-3
"""Residuals are measured in units of this share of the largest answer, but at least one count."""


@dataclasses.dataclass(frozen=True)
class EngineLearner(LinearLearner):
    """Nonnegative cell counts that fit the answers best; among several fits, the most spread out.

    Encodings are the queries' weights for all cells of a small domain. Unlike least squares, this learner
    uses that counts are not negative, and it spreads the remaining total evenly over undetermined cells.

    Args:
        total: the number of records, if public. Default: the least-squares estimate of the total, at least 1.
        max_steps: maximum number of solver steps.
        tolerance: relative gap at which the solver stops.

    Raises:
        ValueError: a total that is not > 0, or settings outside their range.

    References:
        McKenna et al. 2019, section 3.

    Example:
        >>> fitted = EngineLearner(total=10).fit([[1, 0, 0]], [4])
        >>> fitted.predict([[0, 1, 0], [0, 0, 1]]).round(2).tolist()
        [3.0, 3.0]
    """

    total: float | None = None
    max_steps: int = 1000
    tolerance: float = 1e-4

    name: ClassVar[str] = "engine"
    intercept = False

    def __post_init__(self) -> None:
        if self.total is not None:
            checks.total(self.total)
        checks.set_integers(self, "max_steps", low=1)
        checks.number("tolerance", self.tolerance, above=0)

    def _solve(self, rows: np.ndarray, answers: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return counts of cells [batch, cells]; all rows of the batch are fitted together."""
        domain, query = Domain({"cell": rows.shape[1]}), DenseMatrix(("cell",), rows)
        if self.total is None:
            found = least_squares(rows, answers, weights)
            totals = np.maximum(1.0, found.sum(axis=1)).tolist()
        else:
            totals = [self.total] * len(answers)
        spread = np.sqrt(weights.max() / weights)
        # Weights are relative, so residuals are scaled by the size of the answers.
        scales = np.maximum(1.0, PRECISION * np.abs(answers).max(axis=1))
        measured = [
            [LinearMeasurement(("cell",), row, scale * spread, query)]
            for row, scale in zip(answers, scales, strict=True)
        ]
        estimator = Estimator(max_steps=self.max_steps, tol=self.tolerance, progress=False)
        fits = estimator.fit_batch(domain, measured, totals)
        return np.stack([np.asarray(fit.model.marginal(("cell",)), np.float64) for fit in fits])
