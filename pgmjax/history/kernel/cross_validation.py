"""Cross-validation: the expected error of answers to new queries, and the alpha that minimises it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from pgmjax import random
from pgmjax._internal import checks
from pgmjax.history.kernel.pca import KernelPCA, KernelSpectrum, positive_alpha

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
        alpha = positive_alpha(alpha, finite=True)
        if not self.pca.spectrum.noise.independent:
            return self._with_correlated_noise(alpha)[0]
        spectrum = self.pca.spectrum
        left = spectrum.unestimable_part(alpha)
        whitened = self._whitened_answers
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
        residuals, shared = self._with_correlated_noise(positive_alpha(alpha, finite=True))
        return float(np.mean(residuals**2) - np.mean(noise.variances) + 2 * np.mean(shared))

    def choose(
        self, low: float | None = None, high: float | None = None, *, ratio: float = 1.2
    ) -> AlphaChoice:
        """Return the alpha of least estimated error: a coarse grid, then ternary search on its logarithm.

        The inner points of the search divide the bracket by the golden section, so that one of them is
        reused.

        Args:
            low: least alpha. Default: a tenth of the smallest standard deviation of an eigenquery.
            high: largest alpha. Default: ten times the largest standard deviation of an eigenquery.
            ratio: the search ends when the bracket's ends are within this factor, > 1.

        Raises:
            ValueError: the range is empty, or the ratio is not above 1.
        """
        eigenvalues = self.pca.eigenvalues
        if low is None:
            low = 0.1 / math.sqrt(float(eigenvalues.max(initial=0.0)) or 1.0)
        if high is None:
            high = 10.0 / math.sqrt(float(eigenvalues.min(initial=1e300)) if len(eigenvalues) else 1.0)
        low, high = positive_alpha(low, finite=True), positive_alpha(high, finite=True)
        if not low < high:
            raise ValueError(f"the least alpha must be below the largest, got {low:g} and {high:g}.")
        ratio = checks.number("ratio", ratio, above=1)
        grid = np.geomspace(low, high, _GRID)
        tried = {float(alpha): self.error(float(alpha)) for alpha in grid}
        best = int(np.argmin(list(tried.values())))
        _narrow(
            self.error, tried, float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _GRID - 1)]), ratio
        )
        alphas = np.array(sorted(tried))
        errors = np.array([tried[alpha] for alpha in alphas])
        at = int(np.argmin(errors))
        return AlphaChoice(float(alphas[at]), float(errors[at]), alphas, errors)

    @property
    def _answers(self) -> np.ndarray:
        """The answers, minus those of the prior if the total is known [rows]."""
        history = self.pca.history
        if self.pca.total is None:
            return history.values
        return history.values - self.pca.total * history.rows.mean(self.pca.prior)

    @property
    def _whitened_answers(self) -> np.ndarray:
        return self.pca.spectrum.noise.whiten(self._answers)

    def _with_correlated_noise(self, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the residuals and the covariance of each prediction with its own answer's noise [rows]."""
        spectrum, answers = self.pca.spectrum, self._answers
        kernel, covariance = spectrum.kernel(), _dense(spectrum)
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


def _narrow(
    error: Callable[[float], float], tried: dict[float, float], low: float, high: float, ratio: float
) -> None:
    """Search between two alphas for the least error, adding each trial to `tried`."""
    golden = (math.sqrt(5) - 1) / 2
    first, second = low * (high / low) ** (1 - golden), low * (high / low) ** golden
    tried[first], tried[second] = error(first), error(second)
    while high > ratio * low:
        if tried[first] <= tried[second]:
            high, second = second, first
            first = low * (high / low) ** (1 - golden)
            tried[first] = error(first)
        else:
            low, first = first, second
            second = low * (high / low) ** golden
            tried[second] = error(second)


def _dense(spectrum: KernelSpectrum) -> np.ndarray:
    every = slice(0, len(spectrum.noise.stddevs))
    return spectrum.noise.block(every, every)


def _with_rows(pca: Any) -> KernelPCA:
    checks.kind(pca, KernelPCA, "cross-validation is of a KernelPCA", "make it with KernelPCA.of")
    if pca.history.num_rows < 2:
        raise ValueError(f"cross-validation needs two answers or more, got {pca.history.num_rows}.")
    return pca
