"""Principal components of a query matrix, from its kernel alone."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from pgmjax.history.noise_covariance import NoiseCovariance

RANK_CUT = 1e-10
"""Eigenvalues below this share of the largest are taken for zero."""


@dataclasses.dataclass(frozen=True, eq=False)
class Spectrum:
    """The eigendecomposition L^-1 K L^-T = U diag(eigenvalues) U^T of a whitened kernel.

    The eigenqueries are V = W Q with W = eigenvalues^(-1/2) U^T L^-1: orthonormal queries whose least squares
    estimates W a have uncorrelated errors of variance 1 / eigenvalues.

    Attributes:
        noise: the covariance Sigma = L L^T of the answers' noise.
        eigenvalues: the squares lambda^2 of the singular values (1 / counts^2), descending [rank].
        directions: all columns of U, those of the eigenvalues first [rows, rows].

    References:
        Chen, Zhou and Bhowmick 2012, sections 3.1 and 3.2.
    """

    noise: NoiseCovariance
    eigenvalues: np.ndarray
    directions: np.ndarray

    @classmethod
    def of(
        cls, kernel: np.ndarray, noise: NoiseCovariance, *, rank_cut: float = RANK_CUT, scale: float = 0.0
    ) -> Spectrum:
        """Decompose a kernel.

        Args:
            kernel: the inner products K of the rows [rows, rows]; its memory is used and its content lost.
            noise: of the answers.
            rank_cut: share of the largest eigenvalue below which others count as zero.
            scale: size (1 / counts^2) of the whitened numbers that `kernel` is a difference of: what is
                below their rounding is zero too.
        """
        whitened = noise.whiten(noise.whiten(kernel).T) if noise.factor is not None else kernel
        if noise.factor is None:
            whitened /= noise.stddevs[:, None]
            whitened /= noise.stddevs[None, :]
        rows = len(whitened)
        scale = max(scale, float(np.max(np.diag(whitened), initial=0.0)))
        eigenvalues, directions = symmetric_eigen(whitened)
        eigenvalues, directions = eigenvalues[::-1], directions[:, ::-1]
        floor = max(rank_cut * float(eigenvalues.max(initial=0.0)), 8 * rows * np.finfo(float).eps * scale)
        rank = int((eigenvalues > floor).sum())
        return cls(noise, np.ascontiguousarray(eigenvalues[:rank]), directions)

    @property
    def rank(self) -> int:
        """The number of eigenqueries: the dimension of what can be estimated."""
        return len(self.eigenvalues)

    @property
    def weights(self) -> np.ndarray:
        """The matrix W of the eigenqueries in terms of the rows [rank, rows]."""
        leading = self.directions[:, : self.rank]
        return self.noise.whiten_transposed(leading).T / np.sqrt(self.eigenvalues)[:, None]

    def project(self, array: np.ndarray) -> np.ndarray:
        """Return W times an array [rows, ...]: coordinates c of kernel columns, estimates z of answers."""
        projected = self.directions[:, : self.rank].T @ self.noise.whiten(array)
        return projected / np.sqrt(self.eigenvalues).reshape(-1, *[1] * (array.ndim - 1))

    def shrinkage(self, alpha: float) -> np.ndarray:
        """Return the weight y of every eigenquery [rank]: alpha^2 / (alpha^2 + its variance)."""
        if math.isinf(alpha):
            return np.ones(self.rank)
        return 1.0 / (1.0 + 1.0 / (alpha * alpha * self.eigenvalues))

    def left_over(self, alpha: float) -> np.ndarray:
        """Return 1 - y for every direction [rows], 1 beyond the rank, without loss by cancellation."""
        result = np.ones(len(self.directions))
        result[: self.rank] = 1.0 / (1.0 + alpha * alpha * self.eigenvalues)
        return result

    def kernel(self) -> np.ndarray:
        """Return the kernel again [rows, rows]."""
        leading = self.noise.colour(self.directions[:, : self.rank])
        return (leading * self.eigenvalues) @ leading.T


def symmetric_eigen(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues, ascending, and eigenvectors of a symmetric float64 matrix, which may be lost.

    Where JAX's default device is not the CPU, it computes there, in float64.
    """
    if not matrix.size:
        return np.zeros(0), np.zeros((0, 0))
    if jax.default_backend() == "cpu":
        values, vectors = scipy.linalg.eigh(matrix, overwrite_a=True, check_finite=False, driver="evd")
        return values, vectors
    with jax.enable_x64(True):
        on_device = jnp.linalg.eigh(jnp.asarray(matrix), symmetrize_input=False)
        return np.asarray(on_device[0]), np.asarray(on_device[1])
