"""Learners that are linear in the encoding: least squares and ridge regression.

Both weight the examples; ridge regression chooses its penalty by leave-one-out error.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import scipy

from pgmjax._internal import checks
from pgmjax.learning.base import Examples, Learner

_PENALTIES = np.logspace(-6, 6, 49)
_CONDITION = 1e-10
_SPARSE = 0.1


class LinearLearner(Learner):
    """Common base of learners of one coefficient for each entry of the encoding, perhaps with a constant."""

    intercept: bool

    @abc.abstractmethod
    def _solve(self, rows: np.ndarray, answers: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return coefficients [batch, dimensions], one more with a constant, which is the last."""

    def _learn(self, given: Examples, seed: Any) -> dict[str, Any]:
        return {"coefficients": self._solve(self._extended(given.encodings), given.answers, given.weights)}

    def _predict(self, learned: Mapping[str, Any], rows: np.ndarray) -> np.ndarray:
        return np.asarray(learned["coefficients"] @ self._extended(rows).T)

    def _shapes(self, dimensions: int) -> dict[str, tuple[int | str, ...]]:
        return {"coefficients": ("batch", dimensions + self.intercept)}

    def _extended(self, rows: np.ndarray) -> np.ndarray:
        return np.hstack([rows, np.ones((len(rows), int(self.intercept)))])


@dataclasses.dataclass(frozen=True)
class Linear(LinearLearner):
    """Least squares, weighted by the answers' precision; the minimum-norm solution if there are several.

    With the cell encoding and no constant, this is the generalised least squares of the matrix mechanism.
    If trained on all cells, a prediction is the query's sum of the noisy cells.

    Args:
        intercept: add a constant to the encoding.

    References:
        Zhu et al. 2017, section III-D; Li et al. 2015, "The matrix mechanism".

    Example:
        >>> fitted = Linear().fit([[1, 1], [1, 0]], [5, 3])
        >>> fitted.predict([[0, 1]]).round(9).tolist()
        [2.0]
    """

    intercept: bool = False

    name: ClassVar[str] = "linear"

    @property
    def linear(self) -> bool:
        """True."""
        return True

    def _solve(self, rows: np.ndarray, answers: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return least_squares(rows, answers, weights)


@dataclasses.dataclass(frozen=True)
class Ridge(LinearLearner):
    """Least squares with a penalty on the squares of the coefficients.

    Args:
        penalty: penalty in sum(weights * (prediction - answer)**2) + penalty * |coefficients|^2. Default: the
            one with the smallest leave-one-out error on the training answers, for each row of a batch.
        intercept: add a constant to the encoding, penalised like the rest.

    Raises:
        ValueError: a penalty that is not > 0.

    Example:
        >>> Ridge(penalty=1.0).fit([[1.0], [1.0]], [3, 3]).predict([[1.0]]).round(9).tolist()
        [2.0]
    """

    penalty: float | None = None
    intercept: bool = False

    name: ClassVar[str] = "ridge"

    def __post_init__(self) -> None:
        if self.penalty is not None:
            checks.number("penalty", self.penalty, above=0)

    @property
    def linear(self) -> bool:
        """True if the penalty is given; an automatic one depends on the answers."""
        return self.penalty is not None

    def _solve(self, rows: np.ndarray, answers: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return ridge(rows, answers, weights, self.penalty)


def ridge(rows: np.ndarray, answers: np.ndarray, weights: np.ndarray, penalty: float | None) -> np.ndarray:
    """Return coefficients [batch, dimensions] for a penalty, or for the best one per row of answers."""
    if penalty is not None:
        return least_squares(rows, answers, weights, penalty)
    penalties = chosen_penalty(rows, answers, weights)
    found = np.empty((len(answers), rows.shape[1]))
    for each in np.unique(penalties):
        chosen = penalties == each
        found[chosen] = least_squares(rows, answers[chosen], weights, float(each))
    return found


def least_squares(
    rows: np.ndarray, answers: np.ndarray, weights: np.ndarray, penalty: float = 0.0
) -> np.ndarray:
    """Return coefficients that minimise ``sum(weights * (rows c - answer)**2) + penalty |c|^2``.

    Args:
        rows: [queries, dimensions].
        answers: [batch, queries].
        weights: [queries], > 0.
        penalty: >= 0; 0 gives the minimum-norm solution if there are several.

    Returns:
        float64 [batch, dimensions].
    """
    roots = np.sqrt(weights / weights.max())
    scaled, told = rows * roots[:, None], (answers * roots).T
    ridge = penalty / weights.max()
    if len(rows) < rows.shape[1]:
        return (scaled.T @ _solver(_gram(scaled), ridge)(told)).T
    solved = _solver(_gram(scaled.T), ridge)
    found = solved(scaled.T @ told)
    if ridge == 0:  # one step of refinement against the rounding of the normal equations
        found = found + solved(scaled.T @ (told - scaled @ found))
    return found.T


def chosen_penalty(rows: np.ndarray, answers: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return, for each row of answers, the penalty from a grid with the smallest leave-one-out error.

    Args:
        rows: [queries, dimensions].
        answers: [batch, queries].
        weights: [queries], > 0.

    Returns:
        float64 [batch]; the grid has 49 penalties from 1e-6 to 1e6 times the mean squared length of a row.

    References:
        Golub, Heath and Wahba 1979, "Generalized cross-validation", for the closed form.
    """
    roots = np.sqrt(weights)
    scaled, told = rows * roots[:, None], (answers * roots).T
    left, values, _ = np.linalg.svd(scaled, full_matrices=False)
    grid = _PENALTIES * max(float((scaled**2).sum()) / len(rows), np.finfo(float).tiny)
    shared = left.T @ told
    errors = []
    for penalty in grid:
        kept = values**2 / (values**2 + penalty)
        missed = told - left @ (kept[:, None] * shared)
        leverage = (left**2) @ kept
        errors.append(((missed / np.maximum(1 - leverage, 1e-12)[:, None]) ** 2).sum(axis=0))
    return grid[np.argmin(errors, axis=0)]


def _gram(rows: np.ndarray) -> np.ndarray:
    """Return rows times its transpose, with sparse arithmetic if few entries are nonzero (large trees)."""
    if np.count_nonzero(rows) < _SPARSE * rows.size:
        few = scipy.sparse.csr_array(rows)
        return (few @ few.T).toarray()
    return rows @ rows.T


def _solver(gram: np.ndarray, ridge: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that gives the minimum-norm solution of ``(gram + ridge I) x = told``."""
    matrix = gram + ridge * np.eye(len(gram)) if ridge else gram
    try:
        factor = scipy.linalg.cho_factor(matrix)
        diagonal = np.diag(factor[0]) ** 2
        if diagonal.min() > _CONDITION * diagonal.max():
            return lambda told: scipy.linalg.cho_solve(factor, told)
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(matrix)
    kept = values > len(values) * np.finfo(float).eps * max(values.max(), 0.0) * 10
    return lambda told: vectors[:, kept] @ ((vectors[:, kept].T @ told) / values[kept, None])
