"""Ridge regression of answers from a history at one alpha: the closed form of kernel PCA.

The linear system is solved by a Cholesky factor, in a fifth of the memory of a decomposition, or by conjugate
gradients, which only need products.

`CrossValidation` estimates the error of answers to new queries, and finds the alpha that minimises it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from pgmjax import random
from pgmjax._internal import checks
from pgmjax._internal.memory import available_bytes
from pgmjax.history.history import History, as_history
from pgmjax.history.kernel.pca import Answers, KernelPCA, System
from pgmjax.history.prior import ProductPrior
from pgmjax.history.rows import Rows

METHODS = ("auto", "cholesky", "conjugate-gradients")
_BLOCK = 1024
_FACTORISED = 10_000  # rows; beyond, products with the kernel are seconds where a factor is minutes
_CHOSEN = 1000  # columns of the approximation that preconditions

Map = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class KernelRidge:
    """Answers ``k(q)^T (K + Sigma / alpha^2)^-1 a``: those of `KernelPCA` at one finite alpha.

    Attributes:
        system: the inner products and answers of a history, for a prior and a total.
        alpha: counts of bias assumed for a query at distance 1.
        weights: the solution [rows]; an answer is their combination of the query's inner products.
        residual: relative residual of the solution; 0 for a factorisation.
        steps: products with the matrix that conjugate gradients took; 0 for a factorisation.

    Example:
        >>> import pgmjax as pj
        >>> domain = pj.Domain({"age": 3, "sex": 2})
        >>> history = History(domain, [pj.LinearMeasurement(("sex",), [30, 71], stddev=2.0)])
        >>> KernelRidge.fit(history, alpha=1e6).answer(pj.queries.marginal(["sex"])).values.round(6).tolist()
        [30.0, 71.0]

    References:
        Chen, Zhou and Bhowmick 2012, Theorem 3; its closed form is that of kernel ridge regression.
    """

    system: System
    alpha: float
    weights: np.ndarray
    residual: float
    steps: int
    _solve: Map

    @classmethod
    def fit(
        cls,
        history: History,
        alpha: float,
        prior: ProductPrior | None = None,
        total: float | None = None,
        *,
        method: str = "auto",
        tolerance: float = 1e-10,
        max_steps: int = 1000,
    ) -> KernelRidge:
        """Solve for one alpha.

        Args:
            history: linear answers with their noise.
            alpha: counts of bias to assume for a query at distance 1, finite and > 0.
            prior: weights of the cells. Default: the uniform prior.
            total: public number of records, as in `KernelPCA.of`.
            method: `cholesky` (8 bytes times the square of the rows), `conjugate-gradients` (little memory,
                products with the kernel but no kernel), or `auto`: the first up to 10,000 rows, where it
                fits in memory.
            tolerance: relative residual at which conjugate gradients stop.
            max_steps: maximum number of steps of conjugate gradients.

        Raises:
            ValueError: alpha is not finite and > 0, the method is unknown, the prior is over another domain,
                the noise is lost in rounding relative to the kernel at this alpha, or there is no
                convergence.
        """
        alpha = checks.number("alpha", alpha, above=0)
        method = checks.choice("method", method, METHODS)
        count = as_history(history).num_rows
        if method == "auto":
            fits = count <= _FACTORISED and 8 * count**2 <= 0.8 * available_bytes()
            method = "cholesky" if fits else "conjugate-gradients"
        system = System.of(history, prior, total)
        if method == "cholesky":
            solve = _factorised(system, alpha)
            return cls(system, alpha, solve(system.answers), 0.0, 0, solve)
        tolerance = checks.number("tolerance", tolerance, above=0)
        run = _iteration(system, alpha, tolerance, checks.integer("max_steps", max_steps, low=1))
        solved = run(system.answers[:, None])
        return cls(
            system, alpha, solved.solution[:, 0], solved.residual, solved.steps, lambda a: run(a).solution
        )

    def fitted(self) -> np.ndarray:
        """Return the answers to the history's own rows (counts) [rows], at no further cost."""
        return self.system.history.values - self.system.noise.apply(self.weights) / self.alpha**2

    def answer(self, queries: Any, *, stddevs: bool = True) -> Answers:
        """Return the answers to queries, asked before or new.

        Args:
            queries: a query, several, or Rows.
            stddevs: whether to compute standard deviations and distances, at one solve per query.

        Raises:
            TypeError, ValueError: something is not a query, or does not fit the domain.
        """
        system = self.system
        targets = Rows.of(queries, system.history.domain)
        means = targets.mean(system.prior)
        values = system.prior_answers(means)
        spread, distances = np.empty((2, targets.num_rows))
        for low in range(0, targets.num_rows, _BLOCK):
            some = slice(low, low + _BLOCK)
            columns = system.columns(targets.take(some), means[some])
            values[some] += self.weights @ columns
            if stddevs:
                combination = self._solve(columns)
                variances = (combination * system.noise.apply(combination)).sum(axis=0)
                spread[some] = np.sqrt(variances)
                distances[some] = -(combination * columns).sum(axis=0) - variances / self.alpha**2
        if not stddevs:
            return Answers(values, None)
        distances += system.squared_norms(targets, means)[1]
        return Answers(values, spread, None, np.sqrt(np.maximum(distances, 0.0)))

    def __repr__(self) -> str:
        return f"KernelRidge({self.system.history.num_rows:,} rows, alpha={self.alpha:g})"


def _factorised(system: System, alpha: float) -> Map:
    """Return the inverse of K + Sigma / alpha^2, by its Cholesky factor."""
    matrix, covariance = system.matrix()[0], system.history.covariance
    if covariance is None:
        matrix[np.diag_indices_from(matrix)] += system.noise.variances / alpha**2
    else:
        matrix += covariance / alpha**2
    try:
        # the transpose is the same matrix in Fortran's order, and is overwritten without a copy
        factor = scipy.linalg.cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"at alpha = {alpha:g} the noise is lost in the rounding of the kernel: use a smaller "
            "alpha, or KernelPCA, which takes any."
        ) from None
    return lambda right: scipy.linalg.cho_solve(factor, right, check_finite=False)


def _iteration(
    system: System, alpha: float, tolerance: float, max_steps: int
) -> Callable[[np.ndarray], Solved]:
    """Return conjugate gradients in whitened coordinates, where the noise is a multiple of the identity.

    They are preconditioned by some of K's columns, chosen at random with a fixed seed.

    Args:
        system: the inner products and their noise.
        alpha: as in `KernelRidge`.
        tolerance: relative residual, in units of the noise, at which a solve ends.
        max_steps: maximum number of products with the matrix.

    Returns:
        A function of right-hand sides [rows, columns], which raises ValueError without convergence.
    """
    noise, shift = system.noise, alpha**-2
    chosen = np.sort(random.generator(0).permutation(system.history.num_rows)[:_CHOSEN])
    columns = system.columns(system.history.rows.take(chosen), system.means[chosen])
    inverse = low_rank_inverse(noise.whiten(columns), columns[chosen], shift)

    def apply(array: np.ndarray) -> np.ndarray:
        return noise.whiten(system.apply(noise.whiten_transposed(array))) + shift * array

    def run(right: np.ndarray) -> Solved:
        solved = solve(apply, noise.whiten(right), inverse, tolerance=tolerance, max_steps=max_steps)
        if not solved.residual <= tolerance:
            raise ValueError(
                f"conjugate gradients stand at a relative residual of {solved.residual:.1e} after "
                f"{solved.steps} steps, above the tolerance of {tolerance:g}: allow more steps, more "
                "tolerance or a smaller alpha, or use method='cholesky'."
            )
        return dataclasses.replace(solved, solution=noise.whiten_transposed(solved.solution))

    return run


@dataclasses.dataclass(frozen=True, eq=False)
class Solved:
    """The result of conjugate gradients.

    Attributes:
        solution: [rows, columns].
        residual: largest relative residual |b - A x| / |b| of a column, recomputed from the solution.
        steps: products with the matrix, not counting the one that computes the residual.
    """

    solution: np.ndarray
    residual: float
    steps: int


def solve(apply: Map, right: np.ndarray, precondition: Map, *, tolerance: float, max_steps: int) -> Solved:
    """Solve A x = b for several right-hand sides, each with its own steps but in common products.

    `scipy.sparse.linalg.cg` takes one right-hand side at a time: the whitening by a dense factor and the
    preconditioner would read their matrices once for every column. It returns no residual of the solution.

    Args:
        apply: multiplies A with an array [rows, columns].
        right: b [rows, columns].
        precondition: multiplies an approximation of the inverse of A, symmetric and positive definite.
        tolerance: relative residual at which a column is done.
        max_steps: maximum number of products.

    References:
        Hestenes and Stiefel 1952, "Methods of conjugate gradients for solving linear systems".
    """
    solution = np.zeros_like(right)
    rest = right.copy()
    size = np.maximum(np.linalg.norm(right, axis=0), np.finfo(float).tiny)
    conditioned = precondition(rest)
    direction = conditioned.copy()
    product = np.einsum("ij,ij->j", rest, conditioned)
    steps = 0
    while steps < max_steps and float(np.max(np.linalg.norm(rest, axis=0) / size)) > tolerance:
        image = apply(direction)
        curved = np.einsum("ij,ij->j", direction, image)
        # a column that is solved already has no curvature, and stays as it is
        length = np.divide(product, curved, out=np.zeros_like(product), where=curved > 0)
        solution += length * direction
        rest -= length * image
        conditioned = precondition(rest)
        before, product = product, np.einsum("ij,ij->j", rest, conditioned)
        turn = np.divide(product, before, out=np.zeros_like(product), where=before > 0)
        direction = conditioned + turn * direction
        steps += 1
    rest = right - apply(solution)  # recomputed, since the running residual drifts
    return Solved(solution, float(np.max(np.linalg.norm(rest, axis=0) / size)), steps)


def low_rank_inverse(columns: np.ndarray, corner: np.ndarray, shift: float) -> Map:
    """Return the inverse of an approximation of A: that by some of its columns, plus a multiple of I.

    Args:
        columns: some columns C of A [rows, chosen].
        corner: their own rows in A [chosen, chosen].
        shift: s > 0 in C corner^-1 C^T + s I.

    References:
        Williams and Seeger 2001, "Using the Nystroem method to speed up kernel machines".
    """
    values, vectors = scipy.linalg.eigh(corner, check_finite=False)
    # columns that others give already add no direction
    kept = values > 1e-12 * max(float(values.max(initial=0.0)), np.finfo(float).tiny)
    factor = columns @ (vectors[:, kept] / np.sqrt(values[kept]))
    inner = scipy.linalg.cho_factor(shift * np.eye(factor.shape[1]) + factor.T @ factor, check_finite=False)

    def inverse(array: np.ndarray) -> np.ndarray:
        # Woodbury's identity: (s I + F F')^-1 = (I - F (s I + F' F)^-1 F') / s
        solved = scipy.linalg.cho_solve(inner, factor.T @ array, check_finite=False)
        return (array - factor @ solved) / shift

    return inverse


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

    def __post_init__(self) -> None:
        if isinstance(self.folds, int):
            raise TypeError(
                f"folds are rows, got a number of them: write CrossValidation.k_fold(pca, {self.folds})."
            )

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
        return self._held_out(alpha)[0]

    def error(self, alpha: float) -> float:
        """Return the estimated mean squared error (counts^2) of predictions at an alpha.

        It is the mean squared residual minus the mean noise variance. It is unbiased for histories of the
        size of the other folds, and may be negative by chance.

        Raises:
            ValueError: alpha not finite and > 0.
        """
        residuals, shared = self._held_out(alpha)
        variances = self.pca.spectrum.noise.variances
        return float(np.mean(residuals**2) - np.mean(variances) + 2 * np.mean(shared))

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

    def _held_out(self, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the residuals and the covariance of each prediction with its own answer's noise [rows]."""
        alpha = checks.number("alpha", alpha, above=0)
        spectrum = self.pca.spectrum
        if not spectrum.noise.independent:
            return self._with_correlated_noise(alpha)
        left = spectrum.unestimable_part(alpha)
        whitened = spectrum.noise.whiten(self.pca.system.answers)
        rest = spectrum.directions @ (left * (spectrum.directions.T @ whitened))
        if len(self.folds) == len(rest):
            rest /= (spectrum.directions**2) @ left
        else:
            root = np.sqrt(left)
            for fold in self.folds:
                half = spectrum.directions[fold] * root
                # (I - H)_FF as a product with its own transpose, and so positive definite in floats too
                rest[fold] = scipy.linalg.solve(half @ half.T, rest[fold], assume_a="pos", check_finite=False)
        return spectrum.noise.stddevs * rest, np.zeros(len(rest))

    def _with_correlated_noise(self, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the same where noise of one fold tells of that of others: fold by fold, from the kernel."""
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
