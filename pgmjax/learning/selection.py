"""Model selection: the learner that errs least on validation queries, and bounds on the error of its answers.

Bounds hold with stated confidence. `noise_bound` holds for the discrete distributions that are drawn: a
discrete Laplace variable has at every point a moment generating function of at most ``1 / (1 - (t b)**2)``,
that of the continuous distribution of scale b, and a discrete Gaussian one of at most
``exp(t**2 sigma**2 / 2)``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Domain
from pgmjax.measurements.noise import DiscreteNoise
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


def noise_bound(distribution: DiscreteNoise, coefficients: np.ndarray, beta: float = 0.05) -> float:
    """Return what the size of a weighted sum of independent noises exceeds with probability at most beta.

    Args:
        distribution: of each noise.
        coefficients: [noises], the weights.
        beta: in (0, 1).

    Returns:
        a bound in counts. Laplace of scale b: ``2 sqrt(2) b |c| sqrt(L)`` with ``L = log(2 / beta)`` and |c|
        the Euclidean norm while ``L <= (|c| / max|c|)**2``, beyond that ``sqrt(2) b (max|c| L +
        |c|**2 / max|c|)``. Gaussian: ``sigma |c| sqrt(2 L)``.

    References:
        Zhu et al. 2017, Lemma IV.3, whose right side lacks the square of the scale and one of two tails;
        for equal weights 1 this is P(|sum| > t) <= 2 exp(-t**2 / (8 m b**2)) for t <= 2 sqrt(2) m b. Chan,
        Shi and Song 2011, Lemma 2.8; Canonne, Kamath and Steinke 2020, for the Gaussian distribution.

    Example:
        >>> from pgmjax.measurements.noise import DiscreteLaplace
        >>> round(noise_bound(DiscreteLaplace(10.0), np.ones(100) / 100), 3)
        5.432
    """
    beta = _beta(beta)
    weights = np.abs(np.asarray(coefficients, float))
    largest, norm = float(weights.max(initial=0.0)), float(np.linalg.norm(weights))
    if largest == 0:
        return 0.0
    log = math.log(2 / beta)
    spread, limit = distribution.sub_exponential
    if 2 * log * (limit * largest) ** 2 <= spread * norm**2:
        return norm * math.sqrt(2 * spread * log)
    return limit * largest * log + spread * norm**2 / (2 * limit * largest)


def model_bound(records: int, count: int, beta: float = 0.05, hypotheses: float = 1) -> float:
    """Return a bound on how much worse a model does on all queries than on those it was trained on.

    It bounds the mean absolute error over the distribution that the training queries were drawn from, less
    the mean absolute error on the training queries without noise, for every one of finitely many hypotheses
    at once. It says nothing of covering training queries, which are not drawn, nor of a class without a
    finite size.

    Args:
        records: the number of records; errors lie between 0 and it.
        count: the number of training queries, drawn independently.
        beta: the bound fails with at most this probability over the draw.
        hypotheses: the size of the class that the model is chosen from.

    References:
        Zhu et al. 2017, Theorem IV.2.

    Example:
        >>> round(model_bound(1000, 100), 1)
        135.8
    """
    beta = _beta(beta)
    checks.integer("records", records, low=0)
    checks.integer("count", count, low=1)
    hypotheses = checks.number("hypotheses", hypotheses, at_least=1)
    return records * math.sqrt(math.log(2 * hypotheses / beta) / (2 * count))


def _beta(beta: float) -> float:
    return checks.number("beta", beta, above=0, below=1)
