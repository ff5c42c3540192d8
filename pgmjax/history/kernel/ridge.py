"""Answers out of a history at one alpha, by a linear solve: the closed form of kernel PCA."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.history.answers import Answers, rows_of, total_of
from pgmjax.history.history import History
from pgmjax.history.kernel import striped_cholesky
from pgmjax.history.kernel.norms import squared_norms
from pgmjax.history.kernel.pca import positive_alpha
from pgmjax.history.kernel.ridge_system import Iteration, System
from pgmjax.history.kernel.striped_cholesky import StripedCholesky
from pgmjax.history.noise_covariance import NoiseCovariance
from pgmjax.history.prior import ProductPrior
from pgmjax.inference.plan.forecast import available_bytes

METHODS = ("auto", "cholesky", "conjugate-gradients")
_BLOCK = 1024
_FACTORISED = 10_000  # rows; beyond, products with the kernel are seconds where a factor is minutes


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Ridge:
    """Answers ``k(q)^T (K + Sigma / alpha^2)^-1 a``: those of `KernelPCA` at one finite alpha.

    Attributes:
        system: the matrix, of a history, a prior, a total and an alpha.
        weights: the solution [rows]; an answer is their combination of the query's inner products.
        residual: relative residual of the solution; 0 for a factorisation.
        steps: products with the matrix that conjugate gradients took; 0 for a factorisation.

    Example:
        >>> import pgmjax as pj
        >>> domain = pj.Domain({"age": 3, "sex": 2})
        >>> history = History(domain, [pj.LinearMeasurement(("sex",), [30, 71], stddev=2.0)])
        >>> Ridge.fit(history, alpha=1e6).answer(pj.queries.marginal(["sex"])).values.round(6).tolist()
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
    ) -> Ridge:
        """Solve for one alpha.

        Args:
            history: linear answers with their noise.
            alpha: counts of bias to assume for a query at distance 1, finite and > 0.
            prior: weights of the cells; None is the uniform prior.
            total: the public number of records, as in `KernelPCA.of`.
            method: `cholesky` (4 bytes times the square of the rows), `conjugate-gradients` (little memory,
                products with the kernel but no kernel), or `auto`: the first up to 10,000 rows, where it
                fits in memory.
            tolerance: relative residual at which conjugate gradients end.
            max_steps: of conjugate gradients.

        Raises:
            ValueError: alpha not finite and > 0, an unknown method, a prior over another domain, noise so
                small beside the kernel at this alpha that it is lost in rounding, or no convergence.
        """
        alpha = positive_alpha(alpha, finite=True)
        method = checks.choice("method", method, METHODS)
        count = history.num_rows
        if method == "auto":
            fits = striped_cholesky.bytes_of(count) <= 0.9 * available_bytes()
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
        """Return the answers to the history's own rows (counts) [rows], for the price of nothing."""
        return self.system.history.values - self.system.noise.apply(self.weights) / self.alpha**2

    def answer(self, queries: Any, *, stddevs: bool = True) -> Answers:
        """Return the answers to queries, asked before or new.

        Args:
            queries: a query, several, or Rows.
            stddevs: also the standard deviations and distances, which cost a solve a query.

        Raises:
            TypeError, ValueError: no query, or one that does not fit the domain.
        """
        system = self.system
        asked = rows_of(queries, system.history.domain)
        means = asked.mean(system.prior)
        values = np.zeros(asked.num_rows) if system.total is None else system.total * means
        spread, distances = np.empty(asked.num_rows), np.empty(asked.num_rows)
        for low in range(0, asked.num_rows, _BLOCK):
            some = slice(low, low + _BLOCK)
            columns = system.columns(asked.take(some))
            values[some] += self.weights @ columns
            if stddevs:
                combination = self._solve(columns)
                variances = (combination * system.noise.apply(combination)).sum(axis=0)
                spread[some] = np.sqrt(variances)
                distances[some] = -(combination * columns).sum(axis=0) - variances / self.alpha**2
        if not stddevs:
            return Answers(values, None)
        distances += squared_norms(asked, system.prior)
        if system.total is not None:
            distances -= means**2
        return Answers(values, spread, None, np.sqrt(np.maximum(distances, 0.0)))

    def __repr__(self) -> str:
        return f"Ridge({self.system.history.num_rows:,} rows, alpha={self.alpha:g})"


def _factorised(system: System) -> StripedCholesky:
    try:
        return StripedCholesky.of(system.stripe, system.history.num_rows)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"at alpha = {system.alpha:g} the noise is lost in the rounding of the kernel: use a smaller "
            "alpha, or KernelPCA, which takes any."
        ) from None
