"""Cross-validation: the expected error of answers to new queries, and the alpha that minimises it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import scipy

from pgmjax import random
from pgmjax._internal import checks
from pgmjax.history.kernel.pca import KernelPCA

_GRID = 8  # values of alpha on the initial grid


@dataclasses.dataclass(frozen=True, eq=False)
class AlphaChoice:
    """A selected alpha, with the errors estimated at all alphas tried.

    Attributes:
        alpha: the best value tried.
        error: estimated mean squared error (counts^2) of an answer there; it may be negative by chance.
        alphas: values tried, ascending [tried].
        errors: the estimate at each [tried].
    """

    alpha: float
    error: float
    alphas: np.ndarray
    errors: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class CrossValidation:
    """Cross-validation of a history: each answer predicted from those of the other folds.

    The prediction errors at any alpha follow from the decomposition of the whole history: with the hat matrix
    H in whitened coordinates they are ``(I - H_FF)^-1 (I - H)_F a`` for fold F, exactly those of a history
    without F. Nothing is centred. Noise correlated between a fold and the others is accounted for.

    Attributes:
        pca: the decomposition of all answers.
        folds: row indices of each fold.

    References:
        Chen, Zhou and Bhowmick 2012, section 3.5, Theorem 4.
    """

    pca: KernelPCA
    folds: tuple[np.ndarray, ...]

    @classmethod
    def k_fold(cls, pca: KernelPCA, folds: int = 5, *, seed: int = 0) -> CrossValidation:
        """Return the validation that splits rows into k folds at random.

        Args:
            pca: kernel PCA of the history.
            folds: k, from 2 to the number of rows.
            seed: seed of the partition.

        Raises:
            ValueError: k is out of range.
        """
        count = _with_rows(pca).history.num_rows
        folds = checks.integer("folds", folds, low=2, high=count)
        order = random.generator(seed).permutation(count)
        return cls(pca, tuple(np.sort(part) for part in np.array_split(order, folds)))

    @classmethod
    def leave_one_out(cls, pca: KernelPCA) -> CrossValidation:
        """Return the validation in which every row is a fold, by the closed form r_i / (1 - h_ii)."""
        return cls(pca, tuple(np.arange(_with_rows(pca).history.num_rows)[:, None]))

    def residuals(self, alpha: float) -> np.ndarray:
        """Return noisy answers minus predictions from the other folds (counts) [rows].

        Raises:
            ValueError: alpha not finite and > 0.
        """
        alpha = checks.number("alpha", alpha, above=0)
        spectrum = self.pca.spectrum
        if not spectrum.noise.independent:
            return self._with_correlated_noise(alpha)[0]
        left = spectrum.unestimable_part(alpha)
        whitened = spectrum.noise.whiten(self.pca.system.answers)
        rest = spectrum.directions @ (left * (spectrum.directions.T @ whitened))
        if len(self.folds) == len(rest):
            return spectrum.noise.stddevs * rest / ((spectrum.directions**2) @ left)
        root = np.sqrt(left)
        for fold in self.folds:
            half = spectrum.directions[fold] * root
            rest[fold] = scipy.linalg.solve(half @ half.T, rest[fold], assume_a="pos", check_finite=False)
        return spectrum.noise.stddevs * rest

    def error(self, alpha: float) -> float:
        """Return the estimated mean squared error (counts^2) of predictions at an alpha.

        It is the mean squared residual minus the mean noise variance. It is unbiased for histories of the
        size of the other folds, and may be negative by chance.

        Raises:
            ValueError: alpha not finite and > 0.
        """
        noise = self.pca.spectrum.noise
        if noise.independent:
            return float(np.mean(self.residuals(alpha) ** 2) - np.mean(noise.variances))
        residuals, shared = self._with_correlated_noise(checks.number("alpha", alpha, above=0))
        return float(np.mean(residuals**2) - np.mean(noise.variances) + 2 * np.mean(shared))

    def choose(
        self, low: float | None = None, high: float | None = None, *, ratio: float = 1.2
    ) -> AlphaChoice:
        """Return the alpha of least estimated error: a coarse grid, then a search on its logarithm.

        Args:
            low: least alpha. Default: a tenth of the smallest standard deviation of an eigenquery.
            high: largest alpha. Default: ten times the largest standard deviation of an eigenquery.
            ratio: the search ends when alpha is known to within this factor, > 1.

        Raises:
            ValueError: the range is empty, or the ratio is not above 1.
        """
        eigenvalues = self.pca.eigenvalues
        if low is None:
            low = 0.1 / math.sqrt(float(eigenvalues.max(initial=0.0)) or 1.0)
        if high is None:
            high = 10.0 / math.sqrt(float(eigenvalues.min(initial=1e300)) if len(eigenvalues) else 1.0)
        low, high = (checks.number("alpha", end, above=0) for end in (low, high))
        if not low < high:
            raise ValueError(f"the least alpha must be below the largest, got {low:g} and {high:g}.")
        ratio = checks.number("ratio", ratio, above=1)
        tried: dict[float, float] = {}

        def error(logarithm: float) -> float:
            alpha = math.exp(logarithm)
            tried[alpha] = self.error(alpha)
            return tried[alpha]

        grid = np.linspace(math.log(low), math.log(high), _GRID)
        best = int(np.argmin([error(logarithm) for logarithm in grid]))
        scipy.optimize.minimize_scalar(
            error,
            bounds=(grid[max(best - 1, 0)], grid[min(best + 1, _GRID - 1)]),
            method="bounded",
            options={"xatol": math.log(ratio)},
        )
        alphas = np.array(sorted(tried))
        errors = np.array([tried[alpha] for alpha in alphas])
        at = int(np.argmin(errors))
        return AlphaChoice(float(alphas[at]), float(errors[at]), alphas, errors)

    def _with_correlated_noise(self, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the residuals and the covariance of each prediction with its own answer's noise [rows]."""
        answers, covariance = self.pca.system.answers, self.pca.history.full_covariance()
        kernel = self.pca.spectrum.kernel()
        residuals, shared = np.empty(len(answers)), np.empty(len(answers))
        for fold in self.folds:
            others = np.setdiff1d(np.arange(len(answers)), fold)
            inner = kernel[np.ix_(others, others)] + covariance[np.ix_(others, others)] / alpha**2
            combination = scipy.linalg.solve(inner, kernel[np.ix_(others, fold)], assume_a="pos").T
            residuals[fold] = answers[fold] - combination @ answers[others]
            shared[fold] = (combination * covariance[np.ix_(fold, others)]).sum(axis=1)
        return residuals, shared

    def __repr__(self) -> str:
        return f"CrossValidation({len(self.folds):,} folds of {self.pca.history.num_rows:,} rows)"


def _with_rows(pca: Any) -> KernelPCA:
    checks.kind(pca, KernelPCA, "cross-validation is of a KernelPCA", "make it with KernelPCA.of")
    if pca.history.num_rows < 2:
        raise ValueError(f"cross-validation needs two answers or more, got {pca.history.num_rows}.")
    return pca
