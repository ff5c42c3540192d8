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
            covariance: covariance [rows, rows], symmetric and positive definite.

        Raises:
            ValueError: a standard deviation is not finite and positive, or the covariance is not positive
                definite.
        """
        if covariance is None:
            scales = np.asarray(stddevs, np.float64).reshape(-1)
            wrong = int((~(np.isfinite(scales) & (scales > 0))).sum())
            if wrong:
                raise ValueError(
                    f"the standard deviations must be finite and > 0; {wrong} of {scales.size} are not."
                )
            return cls(scales)
        whole = np.asarray(covariance, np.float64)
        try:
            factor = scipy.linalg.cholesky(whole, lower=True)
        except (np.linalg.LinAlgError, ValueError) as error:
            raise ValueError(
                f"the noise's covariance, shape {whole.shape}, must be finite, square and positive definite."
            ) from error
        return cls(np.sqrt(np.diag(whole)), factor)

    @property
    def independent(self) -> bool:
        """Return whether the noise of different answers is uncorrelated."""
        return self.factor is None

    @property
    def variances(self) -> np.ndarray:
        """The variance of every answer's noise (counts^2) [rows]."""
        return self.stddevs**2

    def block(self, rows: Any, columns: Any) -> np.ndarray:
        """Return a block of Sigma [rows, columns], selected by two slices or index arrays."""
        if self.factor is None:
            numbers = np.arange(len(self.stddevs))
            same = numbers[rows][:, None] == numbers[columns][None, :]
            return np.where(same, self.variances[rows][:, None], 0.0)
        return self.factor[rows] @ self.factor[columns].T

    def add_to(self, block: np.ndarray, rows: slice, columns: slice, scale: float) -> None:
        """Add `scale` times entries of Sigma to a block [rows, columns], in place."""
        if self.factor is not None:
            block += scale * self.block(rows, columns)
            return
        low, high = max(rows.start, columns.start), min(rows.stop, columns.stop)
        shared = np.arange(low, high)
        block[shared - rows.start, shared - columns.start] += scale * self.variances[low:high]

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
