"""What a maximum-entropy model pays for missing the noisy answers, and the dual form of it.

With n records, answers a, fractions pi = a / n and residuals r = pi - p[f], the negative log-likelihood
times alpha is ``sum_i beta_i abs(r_i)`` for Laplace noise, beta_i = alpha n / b_i, and
``alpha n^2 r' S^-1 r / 2`` for Gaussian noise of covariance S. Their conjugates are the box
``abs(w_i) <= beta_i`` and the ridge ``w' S w / (2 alpha n^2)``.

References:
    Chen, Zhou and Bhowmick 2012, equations 26 to 30 and Theorem 6.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np

from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace

if TYPE_CHECKING:
    from pgmjax.history.history import History


class Penalty(abc.ABC):
    """A convex penalty of residuals with its conjugate, a function of the weights."""

    @property
    @abc.abstractmethod
    def box(self) -> np.ndarray:
        """The largest magnitude of every weight [rows], infinite where there is no limit."""

    @property
    @abc.abstractmethod
    def curvature(self) -> np.ndarray:
        """The conjugate's second derivative by every weight [rows]."""

    @abc.abstractmethod
    def value(self, residuals: np.ndarray) -> float:
        """Return the penalty of residuals (fractions of the total) [rows]."""

    @abc.abstractmethod
    def conjugate(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the conjugate at weights within the box, and its gradient [rows]."""


@dataclasses.dataclass(frozen=True, eq=False)
class LaplacePenalty(Penalty):
    """``sum_i beta_i abs(r_i)``; its conjugate is 0 in the box of the betas.

    Attributes:
        betas: alpha times total over the scale of the noise [rows].
    """

    betas: np.ndarray

    @property
    def box(self) -> np.ndarray:
        """The betas."""
        return self.betas

    @property
    def curvature(self) -> np.ndarray:
        """Nothing."""
        return np.zeros_like(self.betas)

    def value(self, residuals: np.ndarray) -> float:
        """Return the weighted sum of magnitudes."""
        return float(self.betas @ np.abs(residuals))

    def conjugate(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Return zeros: the weights are in the box."""
        return 0.0, np.zeros_like(weights)


@dataclasses.dataclass(frozen=True, eq=False)
class GaussianPenalty(Penalty):
    """``r' S^-1 r / 2`` for the covariance S of the fractions over alpha.

    Attributes:
        covariance: variances [rows], or a whole matrix [rows, rows], over alpha times squared total.
    """

    covariance: np.ndarray

    @property
    def box(self) -> np.ndarray:
        """No limits."""
        return np.full(len(self.covariance), math.inf)

    @property
    def curvature(self) -> np.ndarray:
        """The variances."""
        return self.covariance if self.covariance.ndim == 1 else np.diag(self.covariance)

    def value(self, residuals: np.ndarray) -> float:
        """Return half the squared residuals in standard deviations."""
        if self.covariance.ndim == 1:
            return float(0.5 * np.sum(residuals**2 / self.covariance))
        return float(0.5 * residuals @ np.linalg.solve(self.covariance, residuals))

    def conjugate(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Return half the weights' variance, and its gradient."""
        moved = self.covariance * weights if self.covariance.ndim == 1 else self.covariance @ weights
        return float(0.5 * weights @ moved), moved


def penalty_of(history: History, kind: str, alpha: float, total: float) -> Penalty:
    """Return the penalty of a history's noise.

    Args:
        history: the answers.
        kind: `laplace`, `gaussian`, or `auto`, the law of the noise.
        alpha: how much the likelihood counts against the entropy, > 0.
        total: number of records (counts).

    Raises:
        ValueError: a Laplace penalty for correlated noise, or `auto` where the answers' laws are mixed.
    """
    if kind == "auto":
        kind = _kind_of(history)
    if kind == "laplace":
        if history.covariance is not None:
            raise ValueError(
                "the Laplace penalty is for independent noise, and this history has a full covariance: use "
                "penalty='gaussian'."
            )
        scales = [
            law.scale if isinstance(law, DiscreteLaplace) else float(stddev) / math.sqrt(2)
            for law, stddev in zip(history.laws, history.stddevs, strict=True)
        ]
        return LaplacePenalty(alpha * total / np.array(scales))
    if history.covariance is not None:
        return GaussianPenalty(np.asarray(history.covariance, np.float64) / (alpha * total**2))
    stddevs = [
        law.scale if isinstance(law, DiscreteGaussian) else float(stddev)
        for law, stddev in zip(history.laws, history.stddevs, strict=True)
    ]
    return GaussianPenalty((np.array(stddevs) / total) ** 2 / alpha)


def _kind_of(history: History) -> str:
    kinds = sorted({measurement.noise for measurement in history.measurements})
    if len(kinds) == 1 and (history.covariance is None or kinds == ["gaussian"]):
        return kinds[0]
    said = "noise of a covariance" if history.covariance is not None else "independent noise"
    raise ValueError(
        f"the history has {said} of the laws {', '.join(kinds)}, which no penalty is for: name the one to "
        "take, penalty='gaussian' by its variances, or, where it is independent, penalty='laplace'."
    )
