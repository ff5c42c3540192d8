"""Learners that solve least squares: linear in the encoding, or in Gaussian functions of it.

All weight the examples. Ridge regression chooses its penalty by leave-one-out error; the engine, pgmjax's own
estimator, finds counts of cells that are not negative.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import scipy

from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.estimation.estimator import Estimator
from pgmjax.learning.base import Examples, Learner
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.queries import DenseMatrix
from pgmjax.random import generator

_PENALTIES = np.logspace(-6, 6, 49)
_CONDITION = 1e-10
_SPARSE = 0.1


class LinearLearner(Learner, abc.ABC):
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
        return np.hstack([rows, np.ones((len(rows), 1))]) if self.intercept else rows


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
    # relative to the largest, so that their units do not count in the condition of the system
    roots = np.sqrt(weights / weights.max())
    scaled, targets = rows * roots[:, None], (answers * roots).T
    ridge = penalty / weights.max()
    # fewer examples than coefficients: the smaller dual system, whose solution has least norm
    if len(rows) < rows.shape[1]:
        return (scaled.T @ _solver(_gram(scaled), ridge)(targets)).T
    solved = _solver(_gram(scaled.T), ridge)
    found = solved(scaled.T @ targets)
    if ridge == 0:  # one step of refinement against the rounding of the normal equations
        found = found + solved(scaled.T @ (targets - scaled @ found))
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
    scaled, targets = rows * roots[:, None], (answers * roots).T
    # one decomposition serves the whole grid of penalties
    left, values, _ = np.linalg.svd(scaled, full_matrices=False)
    # relative to the mean squared length of a row, so that one grid suits all encodings
    grid = _PENALTIES * max(float((scaled**2).sum()) / len(rows), np.finfo(float).tiny)
    shared = left.T @ targets
    errors = []
    for penalty in grid:
        kept = values**2 / (values**2 + penalty)
        missed = targets - left @ (kept[:, None] * shared)
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
    """Return a function that gives the minimum-norm solution of ``(gram + ridge I) x = targets``."""
    matrix = gram + ridge * np.eye(len(gram)) if ridge else gram
    try:
        factor = scipy.linalg.cho_factor(matrix)
        # their range bounds the condition number from below, at no cost
        diagonal = np.diag(factor[0]) ** 2
        if diagonal.min() > _CONDITION * diagonal.max():
            return lambda targets: scipy.linalg.cho_solve(factor, targets)
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(matrix)
    kept = values > len(values) * np.finfo(float).eps * max(values.max(), 0.0) * 10
    return lambda targets: vectors[:, kept] @ ((vectors[:, kept].T @ targets) / values[kept, None])


PRECISION = 1e-3
"""Residuals are measured in units of this share of the largest answer, but at least one count."""


@dataclasses.dataclass(frozen=True)
class EngineLearner(LinearLearner):
    """Nonnegative cell counts that fit the answers best; among several fits, the most spread out.

    Encodings are the queries' weights for all cells of a small domain. Unlike least squares, this learner
    uses that counts are not negative, and it spreads the remaining total evenly over undetermined cells.

    Args:
        total: the number of records, if public. Default: the least-squares estimate of the total, at least 1.
        max_steps: maximum number of solver steps.
        tolerance: relative gap at which the solver stops.

    Raises:
        ValueError: a total that is not > 0, or settings outside their range.

    References:
        McKenna et al. 2019, section 3.

    Example:
        >>> fitted = EngineLearner(total=10).fit([[1, 0, 0]], [4])
        >>> fitted.predict([[0, 1, 0], [0, 0, 1]]).round(2).tolist()
        [3.0, 3.0]
    """

    total: float | None = None
    max_steps: int = 1000
    tolerance: float = 1e-4

    name: ClassVar[str] = "engine"
    intercept = False

    def __post_init__(self) -> None:
        if self.total is not None:
            checks.total(self.total)
        checks.set_integers(self, "max_steps", low=1)
        checks.number("tolerance", self.tolerance, above=0)

    def _solve(self, rows: np.ndarray, answers: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return counts of cells [batch, cells]; all rows of the batch are fitted together."""
        domain, query = Domain({"cell": rows.shape[1]}), DenseMatrix(("cell",), rows)
        if self.total is None:
            found = least_squares(rows, answers, weights)
            totals = np.maximum(1.0, found.sum(axis=1)).tolist()
        else:
            totals = [self.total] * len(answers)
        spread = np.sqrt(weights.max() / weights)
        # Weights are relative, so residuals are scaled by the size of the answers.
        scales = np.maximum(1.0, PRECISION * np.abs(answers).max(axis=1))
        measured = [
            [LinearMeasurement(("cell",), row, scale * spread, query)]
            for row, scale in zip(answers, scales, strict=True)
        ]
        estimator = Estimator(max_steps=self.max_steps, tol=self.tolerance, progress=False)
        fits = estimator.fit_batch(domain, measured, totals)
        return np.stack([np.asarray(fit.model.marginal(("cell",)), np.float64) for fit in fits])


MAX_CENTRES = 1000
"""Default maximum number of centres."""
NEIGHBOURS = 2.0
"""The default width is this factor times the median distance between a centre and its nearest neighbour."""


@dataclasses.dataclass(frozen=True)
class GaussianBasis(Learner):
    """Ridge regression on phi_j(q) = exp(-|encoding(q) - centre_j|^2 / (2 width^2)) and a constant.

    The paper's equation 7 uses functions of the answers, which new queries do not have. Here they are
    functions of the encoding, fitted to the answers.

    Args:
        centres: number of centres, drawn without replacement from the distinct training encodings. Default:
            all, up to 1,000.
        width: width of every function, in units of the encoding. Default: twice the median distance between
            a centre and its nearest neighbour.
        penalty: penalty on the squares of all coefficients except the constant, > 0. Default: the one with
            the smallest leave-one-out error on the training answers.

    Raises:
        TypeError: a setting that is not a number.
        ValueError: no centre, or a width or penalty that is not > 0.

    References:
        Zhu et al. 2017, equation 7, corrected.

    Example:
        >>> rows = np.linspace(0, 1, 30)[:, None]
        >>> fitted = GaussianBasis(width=0.2).fit(rows, np.sin(6 * rows[:, 0]))
        >>> bool(abs(fitted.predict([[0.51]])[0] - np.sin(6 * 0.51)) < 0.01)
        True
    """

    centres: int | None = None
    width: float | None = None
    penalty: float | None = None

    name: ClassVar[str] = "gaussian-basis"

    def __post_init__(self) -> None:
        checks.set_integers(self, "centres", low=1, optional=True)
        for name in ("width", "penalty"):
            if getattr(self, name) is not None:
                checks.number(name, getattr(self, name), above=0)

    @property
    def linear(self) -> bool:
        """True if the penalty is given; an automatic one depends on the answers."""
        return self.penalty is not None

    def _learn(self, given: Examples, seed: Any) -> dict[str, Any]:
        """Fit the functions; the seed draws the centres."""
        different = np.unique(given.encodings, axis=0)
        count = min(len(different), MAX_CENTRES if self.centres is None else self.centres)
        centres = different
        if count < len(different):
            centres = different[np.sort(generator(seed).choice(len(different), count, replace=False))]
        width = _width(centres) if self.width is None else self.width
        features, share = _features(given.encodings, centres, width), given.weights / given.weights.sum()
        # The constant is not penalised: it restores the means subtracted here.
        mean, means = share @ features, given.answers @ share
        slopes = ridge(features - mean, given.answers - means[:, None], given.weights, self.penalty)
        constants = means - slopes @ mean
        return {"centres": centres, "width": width, "coefficients": slopes, "constants": constants}

    def _predict(self, learned: Mapping[str, Any], rows: np.ndarray) -> np.ndarray:
        features = _features(rows, learned["centres"], learned["width"])
        return np.asarray(learned["coefficients"] @ features.T + learned["constants"][:, None])

    def _shapes(self, dimensions: int) -> dict[str, tuple[int | str, ...]]:
        return {
            "centres": ("centres", dimensions),
            "width": (),
            "coefficients": ("batch", "centres"),
            "constants": ("batch",),
        }


def _features(rows: np.ndarray, centres: np.ndarray, width: float) -> np.ndarray:
    return np.exp(-scipy.spatial.distance.cdist(rows, centres, "sqeuclidean") / (2 * width**2))


def _width(centres: np.ndarray) -> float:
    """Return the default width, which depends on the encodings only; 1 for a single centre."""
    if len(centres) == 1:
        return 1.0
    distances = scipy.spatial.distance.cdist(centres, centres)
    np.fill_diagonal(distances, np.inf)
    return float(NEIGHBOURS * np.median(distances.min(axis=1)))
