"""Ridge regression of answers from a history at one alpha: the closed form of kernel PCA.

The linear system is computed a block at a time. It is solved by a Cholesky factor in stripes of rows, which
takes half the memory of the full matrix, or by conjugate gradients, which only need products.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from pgmjax import random
from pgmjax._internal import checks
from pgmjax._internal.memory import available_bytes
from pgmjax.history.answers import Answers, rows_of, total_of
from pgmjax.history.history import History
from pgmjax.history.kernel.inner_products import kernel, squared_norms
from pgmjax.history.kernel.pca import positive_alpha
from pgmjax.history.kernel.product import KernelProduct
from pgmjax.history.noise_covariance import NoiseCovariance
from pgmjax.history.prior import ProductPrior

METHODS = ("auto", "cholesky", "conjugate-gradients")
_BLOCK = 1024
_FACTORISED = 10_000  # rows; beyond, products with the kernel are seconds where a factor is minutes

_CHOSEN = 1000  # columns of the approximation that preconditions

STRIPE = 2048

Map = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class KernelRidge:
    """Answers ``k(q)^T (K + Sigma / alpha^2)^-1 a``: those of `KernelPCA` at one finite alpha.

    Attributes:
        system: the matrix for a history, a prior, a total and an alpha.
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
    weights: np.ndarray
    residual: float
    steps: int
    _solve: Callable[[np.ndarray], np.ndarray]

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
            method: `cholesky` (4 bytes times the square of the rows), `conjugate-gradients` (little memory,
                products with the kernel but no kernel), or `auto`: the first up to 10,000 rows, where it
                fits in memory.
            tolerance: relative residual at which conjugate gradients stop.
            max_steps: maximum number of steps of conjugate gradients.

        Raises:
            ValueError: alpha is not finite and > 0, the method is unknown, the prior is over another domain,
                the noise is lost in rounding relative to the kernel at this alpha, or there is no
                convergence.
        """
        alpha = positive_alpha(alpha, finite=True)
        method = checks.choice("method", method, METHODS)
        count = history.num_rows
        if method == "auto":
            fits = bytes_of(count) <= 0.9 * available_bytes()
            method = "cholesky" if fits and count <= _FACTORISED else "conjugate-gradients"
        noise = NoiseCovariance.of(history.stddevs, history.covariance)
        means = history.rows.mean(prior)
        system = System(history, prior, total_of(total), alpha, noise, means)
        right = history.values if system.total is None else history.values - system.total * means
        if method == "cholesky":
            solve = _factorised(system).solve
            return cls(system, solve(right), 0.0, 0, solve)
        iteration = Iteration.of(
            system,
            checks.number("tolerance", tolerance, above=0),
            checks.integer("max_steps", max_steps, low=1),
        )
        solved = iteration.run(right[:, None])
        return cls(system, solved.solution[:, 0], solved.residual, solved.steps, iteration.solve)

    @property
    def alpha(self) -> float:
        """Counts of bias assumed for a query at distance 1."""
        return self.system.alpha

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
        targets = rows_of(queries, system.history.domain)
        means = targets.mean(system.prior)
        values = np.zeros(targets.num_rows) if system.total is None else system.total * means
        spread, distances = np.empty(targets.num_rows), np.empty(targets.num_rows)
        for low in range(0, targets.num_rows, _BLOCK):
            some = slice(low, low + _BLOCK)
            columns = system.columns(targets.take(some))
            values[some] += self.weights @ columns
            if stddevs:
                combination = self._solve(columns)
                variances = (combination * system.noise.apply(combination)).sum(axis=0)
                spread[some] = np.sqrt(variances)
                distances[some] = -(combination * columns).sum(axis=0) - variances / self.alpha**2
        if not stddevs:
            return Answers(values, None)
        distances += squared_norms(targets, system.prior)
        if system.total is not None:
            distances -= means**2
        return Answers(values, spread, None, np.sqrt(np.maximum(distances, 0.0)))

    def __repr__(self) -> str:
        return f"KernelRidge({self.system.history.num_rows:,} rows, alpha={self.alpha:g})"


def _factorised(system: System) -> StripedCholesky:
    try:
        return StripedCholesky.of(system.stripe, system.history.num_rows)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"at alpha = {system.alpha:g} the noise is lost in the rounding of the kernel: use a smaller "
            "alpha, or KernelPCA, which takes any."
        ) from None


@dataclasses.dataclass(frozen=True, eq=False)
class System:
    """The matrix K + Sigma / alpha^2 of a history, computed a block at a time.

    Attributes:
        history: the noisy answers.
        prior: weights of the cells; None for the uniform prior.
        total: the public number of records, whose universal query is taken out of K; None if unknown.
        alpha: finite.
        noise: Sigma.
        means: every row's mean under the prior [rows].
    """

    history: History
    prior: ProductPrior | None
    total: float | None
    alpha: float
    noise: NoiseCovariance
    means: np.ndarray

    def stripe(self, rows: slice) -> np.ndarray:
        """Return the matrix's rows [rows, :rows.stop]."""
        before = slice(0, rows.stop)
        result = self.kernel(rows, before)
        self.noise.add_to(result, rows, before, self.alpha**-2)
        return result

    def kernel(self, rows: Any, columns: Any) -> np.ndarray:
        """Return some of K [rows, columns], without the universal query if the total is known."""
        every = self.history.rows
        result = kernel(every.take(rows), every.take(columns), self.prior)
        if self.total is not None:
            result -= self.means[rows, None] * self.means[columns]
        return result

    def columns(self, targets: Any) -> np.ndarray:
        """Return the inner products of the history's rows with others [rows, targets]."""
        result = kernel(self.history.rows, targets, self.prior)
        if self.total is not None:
            result -= self.means[:, None] * targets.mean(self.prior)
        return result

    def apply(self, array: np.ndarray) -> np.ndarray:
        """Return the matrix times an array [rows, columns], without computing entries of K."""
        result = self.noise.apply(array) * self.alpha**-2
        for column in range(array.shape[1]):
            result[:, column] += self._product.apply(np.ascontiguousarray(array[:, column]))
        if self.total is not None:
            result -= self.means[:, None] * (self.means @ array)
        return result

    @functools.cached_property
    def _product(self) -> KernelProduct:
        return KernelProduct(self.history.rows, None, self.prior)


@dataclasses.dataclass(frozen=True, eq=False)
class Iteration:
    """Conjugate gradients in whitened coordinates, where the noise is a multiple of the identity.

    Attributes:
        system: the matrix.
        tolerance: relative residual, in units of the noise, at which a solve ends.
        max_steps: maximum number of products with the matrix.
        precondition: an approximate inverse of the whitened matrix, from some of its columns.
    """

    system: System
    tolerance: float
    max_steps: int
    precondition: Map

    @classmethod
    def of(cls, system: System, tolerance: float, max_steps: int) -> Iteration:
        """Compute the preconditioner's columns: chosen at random with a fixed seed."""
        count = system.history.num_rows
        chosen = np.sort(random.generator(0).permutation(count)[:_CHOSEN])
        columns = system.noise.whiten(system.kernel(np.arange(count), chosen))
        corner = system.kernel(chosen, chosen)
        inverse = low_rank_inverse(columns, corner, system.alpha**-2)
        return cls(system, tolerance, max_steps, inverse)

    def run(self, right: np.ndarray) -> Solved:
        """Solve for some right-hand sides [rows, columns].

        Raises:
            ValueError: no convergence within the maximum number of steps.
        """
        noise, apply = self.system.noise, self.system.apply
        solved = solve(
            lambda array: noise.whiten(apply(noise.whiten_transposed(array))),
            noise.whiten(right),
            self.precondition,
            tolerance=self.tolerance,
            max_steps=self.max_steps,
        )
        if not solved.residual <= self.tolerance:
            raise ValueError(
                f"conjugate gradients stand at a relative residual of {solved.residual:.1e} after "
                f"{solved.steps} steps, above the tolerance of {self.tolerance:g}: allow more steps, more "
                "tolerance or a smaller alpha, or use method='cholesky'."
            )
        return dataclasses.replace(solved, solution=noise.whiten_transposed(solved.solution))

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Return the solutions alone."""
        return self.run(right).solution


@dataclasses.dataclass(frozen=True, eq=False)
class StripedCholesky:
    """The lower factor L of a symmetric positive definite matrix L L^T.

    Attributes:
        starts: the first row of every stripe, and the number of rows [stripes + 1].
        stripes: L[start:stop, :stop] of every stripe, float64.
    """

    starts: tuple[int, ...]
    stripes: tuple[np.ndarray, ...]

    @classmethod
    def of(
        cls, rows_of: Callable[[slice], np.ndarray], size: int, *, stripe: int = STRIPE
    ) -> StripedCholesky:
        """Factorise a matrix that is computed a stripe at a time.

        Args:
            rows_of: given the rows start..stop, returns matrix[start:stop, :stop], whose memory becomes L's.
            size: number of rows.
            stripe: number of rows at a time.

        Raises:
            numpy.linalg.LinAlgError: the matrix is not positive definite to float64.
        """
        starts = (*range(0, size, stripe), size)
        stripes: list[np.ndarray] = []
        for start, stop in itertools.pairwise(starts):
            rows = np.ascontiguousarray(rows_of(slice(start, stop)), np.float64)
            for number, earlier in enumerate(stripes):
                low, high = starts[number], starts[number + 1]
                part = rows[:, low:high] - rows[:, :low] @ earlier[:, :low].T
                rows[:, low:high] = _solve(earlier[:, low:], part.T).T
            corner = rows[:, start:] - rows[:, :start] @ rows[:, :start].T
            rows[:, start:] = scipy.linalg.cholesky(corner, lower=True, overwrite_a=True, check_finite=False)
            stripes.append(rows)
        return cls(starts, tuple(stripes))

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Return (L L^T)^-1 times an array [rows] or [rows, columns]."""
        result = np.array(right, np.float64)
        ends = list(zip(self.starts[:-1], self.starts[1:], self.stripes, strict=True))
        for start, stop, rows in ends:
            result[start:stop] -= rows[:, :start] @ result[:start]
            result[start:stop] = _solve(rows[:, start:], result[start:stop])
        for start, stop, rows in reversed(ends):
            result[start:stop] = _solve(rows[:, start:], result[start:stop], trans=1)
            result[:start] -= rows[:, :start].T @ result[start:stop]
        return result


def _solve(triangle: np.ndarray, right: np.ndarray, trans: int = 0) -> np.ndarray:
    return scipy.linalg.solve_triangular(triangle, right, lower=True, trans=trans, check_finite=False)


def bytes_of(size: int, stripe: int = STRIPE) -> int:
    """Return the bytes that a factor of `size` rows needs at the most, temporary ones included."""
    return 4 * size**2 + 4 * size * stripe + 6 * 8 * stripe * max(stripe, size)


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
    kept = values > 1e-12 * max(float(values.max(initial=0.0)), np.finfo(float).tiny)
    factor = columns @ (vectors[:, kept] / np.sqrt(values[kept]))
    inner = scipy.linalg.cho_factor(shift * np.eye(factor.shape[1]) + factor.T @ factor, check_finite=False)

    def inverse(array: np.ndarray) -> np.ndarray:
        solved = scipy.linalg.cho_solve(inner, factor.T @ array, check_finite=False)
        return (array - factor @ solved) / shift

    return inverse
