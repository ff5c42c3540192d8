"""Learners that are linear in the encoding: least squares and ridge regression."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.learning.base import FittedLearner, Learner
from pgmjax.learning.inputs import Examples, encoded_queries
from pgmjax.learning.penalised import chosen_penalty, least_squares


@dataclasses.dataclass(frozen=True, eq=False)
class FittedLinear(FittedLearner):
    """Coefficients, one an entry of the encoding, with a constant behind them where there is one.

    Attributes:
        learner: the settings.
        coefficients: float64 [dimensions], or [batch, dimensions]; one longer with a constant.
    """

    learner: Linear | Ridge
    coefficients: np.ndarray

    @property
    def dimensions(self) -> int:  # type: ignore[override]
        """The length of an encoding."""
        return self.coefficients.shape[-1] - self.learner.intercept

    def predict(self, encodings: Any) -> np.ndarray:
        """Return encodings times coefficients."""
        rows = encoded_queries(encodings, self.dimensions)
        slopes = self.coefficients[..., : self.dimensions]
        constant = self.coefficients[..., self.dimensions :] if self.learner.intercept else 0.0
        return slopes @ rows.T + constant

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the coefficients."""
        return {"coefficients": self.coefficients}


def restored(learner: Linear | Ridge, arrays: Mapping[str, np.ndarray], dimensions: int) -> FittedLinear:
    """Return what a linear learner learned from its arrays."""
    found = np.asarray(arrays.get("coefficients", ()), np.float64)
    expected = dimensions + learner.intercept
    if found.ndim not in (1, 2) or found.shape[-1] != expected or not np.isfinite(found).all():
        raise ValueError(
            f"the learner {learner.name!r} keeps `coefficients`, {expected} finite numbers a row, got shape "
            f"{found.shape}."
        )
    return FittedLinear(learner, found)


def _with_constant(rows: np.ndarray, intercept: bool) -> np.ndarray:
    return np.hstack([rows, np.ones((len(rows), 1))]) if intercept else rows


@dataclasses.dataclass(frozen=True)
class Linear(Learner):
    """Least squares, weighted by the answers' precision; of many solutions the one of least norm.

    On the cells of a query as encoding and without a constant this is the generalised least squares of the
    matrix mechanism; trained on all cells, a prediction is the sum of the noisy cells that the query asks.

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

    def fit(self, encodings: Any, answers: Any, *, weights: Any = None, seed: int = 0) -> FittedLinear:
        """Learn from answered queries, as `Learner.fit`; nothing here is random."""
        given = Examples.of(encodings, answers, weights)
        rows = _with_constant(given.encodings, self.intercept)
        found = least_squares(rows, given.answers, given.weights)
        return FittedLinear(self, found if given.batched else found[0])

    def restore(self, arrays: Mapping[str, np.ndarray], dimensions: int) -> FittedLinear:
        """Return what was learned from the arrays of `FittedLinear.arrays`."""
        return restored(self, arrays, dimensions)


@dataclasses.dataclass(frozen=True)
class Ridge(Learner):
    """Least squares with a penalty on the squares of the coefficients.

    Args:
        penalty: on sum(weights * (prediction - answer)**2) + penalty * |coefficients|^2; None takes the
            one with the least leave-one-out error on the training answers, for each row of a batch by itself.
        intercept: add a constant to the encoding, which is penalised as the rest.

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
        """Whether the penalty is given: a chosen one depends on the answers."""
        return self.penalty is not None

    def fit(self, encodings: Any, answers: Any, *, weights: Any = None, seed: int = 0) -> FittedLinear:
        """Learn from answered queries, as `Learner.fit`; nothing here is random."""
        given = Examples.of(encodings, answers, weights)
        rows = _with_constant(given.encodings, self.intercept)
        found = ridge(rows, given.answers, given.weights, self.penalty)
        return FittedLinear(self, found if given.batched else found[0])

    def restore(self, arrays: Mapping[str, np.ndarray], dimensions: int) -> FittedLinear:
        """Return what was learned from the arrays of `FittedLinear.arrays`."""
        return restored(self, arrays, dimensions)


def ridge(rows: np.ndarray, answers: np.ndarray, weights: np.ndarray, penalty: float | None) -> np.ndarray:
    """Return coefficients [batch, dimensions] at a penalty, or at the best for each row of answers."""
    if penalty is not None:
        return least_squares(rows, answers, weights, penalty)
    penalties = chosen_penalty(rows, answers, weights)
    found = np.empty((len(answers), rows.shape[1]))
    for each in np.unique(penalties):
        chosen = penalties == each
        found[chosen] = least_squares(rows, answers[chosen], weights, float(each))
    return found
