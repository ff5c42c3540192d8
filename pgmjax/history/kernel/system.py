"""Shared by estimators: inner products of a history's queries, the covariance of the noise, and answers."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import scipy

from pgmjax._internal import checks
from pgmjax.history.history import History
from pgmjax.history.kernel.inner_products import KernelProduct, kernel, squared_norms
from pgmjax.history.prior import ProductPrior
from pgmjax.history.rows import Rows

_BLOCK = 1024


@dataclasses.dataclass(frozen=True, eq=False)
class Answers:
    """Answers to some queries, one per row.

    Attributes:
        values: the answers (counts) [rows].
        stddevs: standard deviation (counts) of the noise left in every answer [rows]; a bias comes on top
            if alpha is finite or a query is not estimable. None if not requested.
        estimable: whether an unbiased answer exists [rows]; None if that would require a factorisation.
        distances: the norm |q - q'| between the requested query and the query q' whose answer `values`
            estimates without bias [rows]: alpha times it is the bias that alpha assumes. None as above.
    """

    values: np.ndarray
    stddevs: np.ndarray | None
    estimable: np.ndarray | None = None
    distances: np.ndarray | None = None


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


@dataclasses.dataclass(frozen=True, eq=False)
class System:
    """The inner products K of a history's rows, the covariance of their noise, and the answers.

    Attributes:
        history: the noisy answers.
        prior: weights of the cells; None for the uniform prior.
        total: public number of records; None if unknown. If known, the universal query is taken out of K, and
            what the prior says out of the answers.
        noise: the covariance Sigma of the noise.
        means: every row's mean under the prior [rows].
    """

    history: History
    prior: ProductPrior | None
    total: float | None
    noise: NoiseCovariance
    means: np.ndarray

    @classmethod
    def of(cls, history: History, prior: ProductPrior | None, total: Any) -> System:
        """Return the system of a history.

        Raises:
            TypeError, ValueError: the prior is over another domain, or the total is no number >= 0.
        """
        if total is not None and checks.number("total", total, at_least=0) > 0:
            total = checks.total(total)
        noise = NoiseCovariance.of(history.stddevs, history.covariance)
        return cls(history, prior, total, noise, history.rows.mean(prior))

    @property
    def answers(self) -> np.ndarray:
        """The noisy answers, minus those of the prior if the total is known [rows]."""
        return self.history.values - self.prior_answers(self.means)

    def prior_answers(self, means: np.ndarray) -> np.ndarray:
        """Return what the total and the prior say of queries of some means [targets]; 0 without a total."""
        return (0.0 if self.total is None else self.total) * means

    def matrix(self) -> tuple[np.ndarray, np.ndarray]:
        """Return K [rows, rows], and its diagonal before the universal query was taken out of it."""
        result = kernel(self.history.rows, None, self.prior)
        before = np.diag(result).copy()
        for at in range(0, len(result) if self.total is not None else 0, _BLOCK):
            result[at : at + _BLOCK] -= self.means[at : at + _BLOCK, None] * self.means
        return result, before

    def columns(self, targets: Rows, means: np.ndarray) -> np.ndarray:
        """Return the inner products of the history's rows with others of some means [rows, targets]."""
        result = kernel(self.history.rows, targets, self.prior)
        if self.total is not None:
            result -= self.means[:, None] * means
        return result

    def apply(self, array: np.ndarray) -> np.ndarray:
        """Return K times an array [rows, columns], without computing entries of K."""
        result = np.stack([self._product.apply(column) for column in array.T], axis=1)
        if self.total is not None:
            result -= self.means[:, None] * (self.means @ array)
        return result

    @functools.cached_property
    def _product(self) -> KernelProduct:
        return KernelProduct(self.history.rows, None, self.prior)

    def squared_norms(self, targets: Rows, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the squared norms of queries [targets], and those of what K holds of them."""
        norms = squared_norms(targets, self.prior)
        return norms, norms if self.total is None else norms - means**2
