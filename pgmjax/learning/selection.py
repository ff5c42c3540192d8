"""Which learner is taken: the one that errs least on validation queries."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax.data.domain import Domain
from pgmjax.queries import Query


@dataclasses.dataclass(frozen=True, eq=False)
class Validation:
    """Queries with answers that no learner is trained on.

    Args:
        query: what is asked.
        answers: [rows], noisy ones that were released or public ones (counts).
        stddevs: of their noise, one or one a row; 0 for public answers, which all weigh the same.

    Raises:
        TypeError: no query.
        ValueError: answers or standard deviations that are not finite numbers.
    """

    query: Query
    answers: np.ndarray
    stddevs: Any = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.query, Query):
            raise TypeError(f"validation needs a query, got {type(self.query).__name__}.")
        answers = np.asarray(self.answers, np.float64).reshape(-1)
        stddevs = np.asarray(self.stddevs, np.float64).reshape(-1)
        if stddevs.size not in (1, answers.size):
            raise ValueError(
                f"a validation needs one stddev or {answers.size}, one an answer, got {stddevs.size}."
            )
        if not (np.isfinite(answers).all() and np.isfinite(stddevs).all() and (stddevs >= 0).all()):
            raise ValueError("the answers of a validation must be finite, their stddevs finite and >= 0.")
        object.__setattr__(self, "answers", answers)
        object.__setattr__(self, "stddevs", np.broadcast_to(stddevs, answers.shape))

    def check(self, domain: Domain) -> None:
        """Refuse answers of another number than the query has rows.

        Raises:
            ValueError: that, or a query that does not fit the domain.
        """
        self.query.check(domain)
        rows = self.query.num_rows(domain)
        if self.answers.size != rows:
            raise ValueError(f"a validation needs an answer a row, {rows:,}, got {self.answers.size:,}.")

    def error(self, predicted: np.ndarray) -> float:
        """Return an estimate of the mean squared error of predictions [rows] (counts squared).

        The squared distance from noisy answers less the variance of their noise: without bias where the
        noise is independent of the predictions, and so below zero now and then.
        """
        return float(((predicted - self.answers) ** 2 - self.stddevs**2).mean())


def best_of(predictors: Sequence[Any], validations: Sequence[Validation]) -> tuple[int, tuple[float, ...]]:
    """Return the number of the predictor that errs least, and the errors of all (root mean squares, counts).

    A mean squared error that is estimated below zero has the root 0; ties go to the first.

    Args:
        predictors: objects with `predict(query)`, such as `Predictor`.
        validations: at least one; each counts by its number of rows.
    """
    rows = np.array([each.answers.size for each in validations], float)
    errors = []
    for predictor in predictors:
        found = [each.error(predictor.predict(each.query)) for each in validations]
        errors.append(float(np.dot(found, rows) / rows.sum()))
    roots = tuple(float(np.sqrt(max(0.0, error))) for error in errors)
    return int(np.argmin(errors)), roots
