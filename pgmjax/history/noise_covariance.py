"""The covariance of the noise on a history's answers, and whitening by it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import scipy


@dataclasses.dataclass(frozen=True, eq=False)
class NoiseCovariance:
    """A covariance Sigma = L L^T (counts^2) of the noise on some answers.

    Attributes:
        stddevs: standard deviation of every answer's noise (counts) [rows].
        factor: the lower Cholesky factor L [rows, rows]; None for independent noise.
    """

    stddevs: np.ndarray
    factor: np.ndarray | None = None

    @classmethod
    def of(cls, stddevs: Any, covariance: Any = None) -> NoiseCovariance:
        """Return the covariance of independent noise, or a full one.

        Args:
            stddevs: standard deviations [rows], positive; ignored if a covariance is given.
            covariance: covariance [rows, rows], symmetric and positive definite, as `History` has it.
        """
        if covariance is None:
            return cls(np.asarray(stddevs, np.float64))
        return cls(np.sqrt(np.diag(covariance)), scipy.linalg.cholesky(covariance, lower=True))

    @property
    def independent(self) -> bool:
        """Return whether the noise of different answers is uncorrelated."""
        return self.factor is None

    @property
    def variances(self) -> np.ndarray:
        """The variance of every answer's noise (counts^2) [rows]."""
        return self.stddevs**2

    def apply(self, array: np.ndarray) -> np.ndarray:
        """Return Sigma times an array [rows, ...]."""
        if self.factor is None:
            return _along(self.variances, array) * array
        return self.factor @ (self.factor.T @ array)

    def whiten(self, array: np.ndarray) -> np.ndarray:
        """Return L^-1 times an array [rows, ...]: noise with covariance Sigma becomes noise of variance 1."""
        if self.factor is None:
            return array / _along(self.stddevs, array)
        return scipy.linalg.solve_triangular(self.factor, array, lower=True, check_finite=False)

    def whiten_transposed(self, array: np.ndarray) -> np.ndarray:
        """Return L^-T times an array [rows, ...]."""
        if self.factor is None:
            return array / _along(self.stddevs, array)
        return scipy.linalg.solve_triangular(self.factor, array, lower=True, trans=1, check_finite=False)

    def colour(self, array: np.ndarray) -> np.ndarray:
        """Return L times an array [rows, ...], the inverse of `whiten`."""
        return _along(self.stddevs, array) * array if self.factor is None else self.factor @ array


def _along(scales: np.ndarray, array: np.ndarray) -> np.ndarray:
    return scales.reshape(-1, *[1] * (np.ndim(array) - 1))
