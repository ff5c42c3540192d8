"""The linear system of the ridge form, a block at a time, and its solution by conjugate gradients."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from pgmjax import random
from pgmjax.history.history import History
from pgmjax.history.kernel import conjugate_gradients
from pgmjax.history.kernel.conjugate_gradients import Map, Solved
from pgmjax.history.kernel.kernel import kernel
from pgmjax.history.kernel.product import KernelProduct
from pgmjax.history.noise_covariance import NoiseCovariance
from pgmjax.history.prior import ProductPrior

_CHOSEN = 1000  # columns of the approximation that preconditions


@dataclasses.dataclass(frozen=True, eq=False)
class System:
    """The matrix K + Sigma / alpha^2 of a history, computed a block at a time.

    Attributes:
        history: what was answered.
        prior: weights of the cells; None is the uniform prior.
        total: the public number of records, whose universal query is taken out of K; None where unknown.
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
        """Return some of K [rows, columns], without the universal query where the total is known."""
        every = self.history.rows
        result = kernel(every.take(rows), every.take(columns), self.prior)
        if self.total is not None:
            result -= self.means[rows, None] * self.means[columns]
        return result

    def columns(self, asked: Any) -> np.ndarray:
        """Return the inner products of the history's rows with others [rows, asked]."""
        result = kernel(self.history.rows, asked, self.prior)
        if self.total is not None:
            result -= self.means[:, None] * asked.mean(self.prior)
        return result

    def apply(self, array: np.ndarray) -> np.ndarray:
        """Return the matrix times an array [rows, columns], for which no entry of K is computed."""
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
        max_steps: products with the matrix at most.
        precondition: an approximate inverse of the whitened matrix, from some of its columns.
    """

    system: System
    tolerance: float
    max_steps: int
    precondition: Map

    @classmethod
    def of(cls, system: System, tolerance: float, max_steps: int) -> Iteration:
        """Compute the columns that precondition: chosen at random, always the same ones."""
        count = system.history.num_rows
        chosen = np.sort(random.generator(0).permutation(count)[:_CHOSEN])
        columns = system.noise.whiten(system.kernel(np.arange(count), chosen))
        corner = system.kernel(chosen, chosen)
        inverse = conjugate_gradients.low_rank_inverse(columns, corner, system.alpha**-2)
        return cls(system, tolerance, max_steps, inverse)

    def run(self, right: np.ndarray) -> Solved:
        """Solve for some right-hand sides [rows, columns].

        Raises:
            ValueError: the steps did not suffice.
        """
        noise, apply = self.system.noise, self.system.apply
        solved = conjugate_gradients.solve(
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
