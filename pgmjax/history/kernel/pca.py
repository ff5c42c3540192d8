"""Kernel PCA of a history: least squares answers, with variance traded against bias.

`System` joins the inner products of a history's queries with the covariance of their noise and the answers.
`KernelSpectrum` is the decomposition of a query matrix into principal components, from its kernel alone.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from pgmjax._internal import checks, device
from pgmjax._internal.memory import available_bytes, readable_bytes
from pgmjax._internal.migration import Named
from pgmjax.history.history import History, as_history, contradiction
from pgmjax.history.kernel.inner_products import KernelProduct, kernel, squared_norms
from pgmjax.history.prior import ProductPrior
from pgmjax.history.rows import Rows, is_estimable

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
        # kept, as the rounding of what is left is relative to what was there before
        before = np.diag(result).copy()
        # block by block, without another matrix of this size
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


RANK_CUT = 1e-10
"""Eigenvalues below this share of the largest are treated as zero."""

_MATRICES = 5  # the kernel, the eigenvectors and the workspace of the decomposition
_ESTIMABLE = 1e-8  # of a squared norm: precision of the kernel, before entries are compared


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class KernelPCA(Named):
    """Eigenqueries of a history with the least squares estimates of their answers.

    Any query is answered as ``sum_i y_i c_i z_i``: c are its coordinates in the eigenqueries, z their
    uncorrelated estimates, and ``y_i = alpha^2 / (alpha^2 + variance of z_i)``. At alpha = infinity this is
    generalised least squares, unbiased for every estimable query; a smaller alpha trusts the prior more.

    Attributes:
        history: the noisy answers.
        prior: weights of the cells in inner products; None for the uniform prior.
        total: public number of records; None if unknown.
        spectrum: spectrum of the history's kernel, or of its complement to the universal query if the total
            is known.
        estimates: z (counts) [rank].

    Example:
        >>> import pgmjax as pj
        >>> domain = pj.Domain({"age": 3, "sex": 2})
        >>> measured = [pj.LinearMeasurement(("sex",), [30, 71], stddev=2.0),
        ...             pj.LinearMeasurement(("sex",), [32, 69], stddev=2.0)]
        >>> pca = KernelPCA.of(History(domain, measured))
        >>> pca.answer(pj.queries.marginal(["sex"])).values.round(6).tolist()
        [31.0, 70.0]

    References:
        Chen, Zhou and Bhowmick 2012, section 3, Theorem 3.
    """

    history: History
    prior: ProductPrior | None
    total: float | None
    spectrum: KernelSpectrum
    estimates: np.ndarray

    @classmethod
    def of(
        cls,
        history: History,
        prior: ProductPrior | None = None,
        total: float | None = None,
        *,
        rank_cut: float = RANK_CUT,
    ) -> KernelPCA:
        """Decompose the kernel of a history, with a warning of answers that their noise cannot explain.

        Args:
            history: linear answers with their noise.
            prior: weights of the cells. Default: the uniform prior.
            total: public number n of records. It adds the universal query, answered without noise: the exact
                limit, in which the residuals of all queries with respect to it are decomposed.
            rank_cut: share of the largest eigenvalue below which others count as zero.

        Raises:
            ValueError: the prior is over another domain, the total is below 0, or the kernel does not fit in
                memory.
        """
        count = as_history(history).num_rows
        need, limit = _MATRICES * 8 * count**2, available_bytes()
        if need > limit:
            raise ValueError(
                f"the decomposition of {count:,} rows needs {readable_bytes(need)}, and "
                f"{readable_bytes(limit)} are available: use Ridge.fit, which answers for one "
                "alpha with a fifth of that or less."
            )
        system = System.of(history, prior, total)
        matrix, before = system.matrix()
        # as it was before the total was taken out, since the rounding of that is still in it
        scale = float(np.max(before / system.noise.variances, initial=0.0))
        spectrum = KernelSpectrum.of(matrix, system.noise, rank_cut=rank_cut, scale=scale)
        found = cls(history, prior, system.total, spectrum, spectrum.project(system.answers))
        if rank_cut <= RANK_CUT:  # else what is cut off is what the answers miss
            fitted = found.fitted().values
            if told := contradiction(history.values, fitted, history.stddevs, system.total):
                checks.warn(told)
        return found

    @functools.cached_property
    def system(self) -> System:
        """The history's kernel and answers, as functions of what is asked."""
        return System.of(self.history, self.prior, self.total)

    @property
    def eigenvalues(self) -> np.ndarray:
        """lambda^2 (1 / counts^2) of every eigenquery, descending [rank]: z has the variances 1 / lambda^2.

        If the total is known, the universal query is a further eigenquery with infinite eigenvalue.
        """
        return self.spectrum.eigenvalues

    @property
    def weights(self) -> np.ndarray:
        """The matrix W of eigenqueries in terms of the history's rows [rank, rows].

        With a known total they combine the residuals of the rows with respect to the universal query.
        """
        return self.spectrum.weights

    def answer(self, queries: Any, alpha: float = math.inf) -> Answers:
        """Return the answers to queries, asked before or new.

        Args:
            queries: a query, several, or Rows.
            alpha: counts of bias to assume for a query at distance 1, > 0; infinity allows no bias.

        Raises:
            TypeError, ValueError: something is not a query or does not fit the domain, or alpha <= 0.
        """
        targets = Rows.of(queries, self.history.domain)
        shrinkage = self.spectrum.shrinkage(alpha)
        means = targets.mean(self.prior)
        values = self.system.prior_answers(means)
        norms, rest = self.system.squared_norms(targets, means)
        variances, missing, distances = np.empty((3, targets.num_rows))
        for low in range(0, targets.num_rows, _BLOCK):
            some = slice(low, low + _BLOCK)
            coordinates = self._coordinates(targets.take(some), means[some])
            values[some] += (shrinkage * self.estimates) @ coordinates
            squares = coordinates**2
            variances[some] = (shrinkage**2 / self.eigenvalues) @ squares
            missing[some] = np.maximum(rest[some] - squares.sum(axis=0), 0.0)
            distances[some] = missing[some] + (1 - shrinkage) ** 2 @ squares
        # a norm is a mean over all cells: what passes is then compared entry by entry
        estimable = missing <= _ESTIMABLE * norms
        which = np.flatnonzero(estimable)
        for low in range(0, len(which), _BLOCK):
            numbers = which[low : low + _BLOCK]
            estimable[numbers] = self._spans(targets.take(numbers), means[numbers])
        return Answers(values, np.sqrt(variances), estimable, np.sqrt(distances))

    def fitted(self, alpha: float = math.inf) -> Answers:
        """Return the answers to the history's own rows, as from `answer`, without computing another kernel.

        Args:
            alpha: as in `answer`.

        Raises:
            TypeError, ValueError: alpha is not a number > 0.
        """
        shrinkage = self.spectrum.shrinkage(alpha)
        noise = self.spectrum.noise
        leading = noise.colour(self.spectrum.directions[:, : self.spectrum.rank])
        values = self.system.prior_answers(self.system.means)
        values += leading @ (shrinkage * np.sqrt(self.eigenvalues) * self.estimates)
        squares = leading**2
        distances = np.sqrt(squares @ ((1 - shrinkage) ** 2 * self.eigenvalues))
        return Answers(values, np.sqrt(squares @ shrinkage**2), np.ones(len(values), bool), distances)

    def _spans(self, targets: Rows, means: np.ndarray) -> np.ndarray:
        """Return whether the queries themselves are estimated without bias, in every cell [targets]."""
        spectrum = self.spectrum
        coordinates = self._coordinates(targets, means) / np.sqrt(self.eigenvalues)[:, None]
        weights = spectrum.noise.whiten_transposed(spectrum.directions[:, : spectrum.rank] @ coordinates).T
        constants = 0.0 if self.total is None else means - weights @ self.system.means
        return is_estimable(targets, self.history.rows, weights, self.prior, constants)

    def _coordinates(self, targets: Any, means: np.ndarray) -> np.ndarray:
        """Return the coefficients c [rank, targets] of some rows."""
        return self.spectrum.project(self.system.columns(targets, means))

    def __repr__(self) -> str:
        known = "" if self.total is None else f", total={self.total:g}"
        return f"KernelPCA({self.history.rows.num_rows:,} rows, rank {self.spectrum.rank:,}{known})"


@dataclasses.dataclass(frozen=True, eq=False)
class KernelSpectrum:
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
    ) -> KernelSpectrum:
        """Decompose a kernel.

        Args:
            kernel: inner products K of the rows [rows, rows]; overwritten.
            noise: covariance of the noise of the answers.
            rank_cut: share of the largest eigenvalue below which others count as zero.
            scale: magnitude (1 / counts^2) of the whitened numbers whose difference `kernel` is; eigenvalues
                below their rounding error count as zero too.
        """
        whitened = noise.whiten(noise.whiten(kernel).T) if noise.factor is not None else kernel
        # in place, as the kernel may fill the memory
        if noise.factor is None:
            whitened /= noise.stddevs[:, None]
            whitened /= noise.stddevs[None, :]
        rows = len(whitened)
        scale = max(scale, float(np.max(np.diag(whitened), initial=0.0)))
        eigenvalues, directions = symmetric_eigen(whitened)
        eigenvalues, directions = eigenvalues[::-1], directions[:, ::-1]
        # below the rounding of the entries nothing can be told from zero
        floor = max(rank_cut * float(eigenvalues.max(initial=0.0)), 8 * rows * np.finfo(float).eps * scale)
        rank = int((eigenvalues > floor).sum())
        return cls(noise, np.ascontiguousarray(eigenvalues[:rank]), directions)

    @property
    def rank(self) -> int:
        """The number of eigenqueries: the dimension of the estimable space."""
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
        if alpha == math.inf:
            return np.ones(self.rank)
        alpha = checks.number("alpha", alpha, above=0)
        return 1.0 / (1.0 + 1.0 / (alpha * alpha * self.eigenvalues))

    def unestimable_part(self, alpha: float) -> np.ndarray:
        """Return 1 - y for every direction [rows], 1 beyond the rank, without cancellation error."""
        result = np.ones(len(self.directions))
        result[: self.rank] = 1.0 / (1.0 + alpha * alpha * self.eigenvalues)
        return result

    def kernel(self) -> np.ndarray:
        """Reconstruct the kernel [rows, rows]."""
        leading = self.noise.colour(self.directions[:, : self.rank])
        return (leading * self.eigenvalues) @ leading.T


def symmetric_eigen(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ascending eigenvalues, and eigenvectors, of a float64 matrix, which may be overwritten.

    If JAX's default device is not the CPU, they are computed there, in float64.
    """
    if not matrix.size:
        return np.zeros(0), np.zeros((0, 0))
    if device.is_cpu():
        values, vectors = scipy.linalg.eigh(matrix, overwrite_a=True, check_finite=False, driver="evd")
        return values, vectors
    with jax.enable_x64(True):
        on_device = jnp.linalg.eigh(jnp.asarray(matrix), symmetrize_input=False)
        return np.asarray(on_device[0]), np.asarray(on_device[1])
