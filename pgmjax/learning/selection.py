"""Model selection: the learner with the smallest validation error, and bounds on the error of its answers.

Bounds hold with stated confidence. `noise_bound` holds for the discrete distributions actually used: the
moment generating function is at most ``1 / (1 - (t b)**2)`` for the discrete Laplace distribution (that of
the continuous distribution of scale b) and at most ``exp(t**2 sigma**2 / 2)`` for the discrete Gaussian.
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
    """A query with answers that no learner is trained on.

    Args:
        query: the query.
        answers: [rows], released noisy answers or public ones (counts).
        stddevs: standard deviations of their noise, one for all or one per row; 0 for public answers.

    Raises:
        TypeError: not a query.
        ValueError: answers or standard deviations that are not finite, negative standard deviations, or a
            wrong number of them.
    """

    query: Query
    answers: np.ndarray
    stddevs: Any = 0.0

    def __post_init__(self) -> None:
        checks.kind(self.query, Query, "validation needs a query")
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
        """Refuse a number of answers other than the query's number of rows.

        Raises:
            ValueError: wrong number of answers, or a query that does not fit the domain.
        """
        self.query.check(domain)
        rows = self.query.num_rows(domain)
        if self.answers.size != rows:
            raise ValueError(f"a validation needs an answer a row, {rows:,}, got {self.answers.size:,}.")

    def error(self, predicted: np.ndarray) -> float:
        """Return an estimate of the mean squared error of predictions [rows] (counts squared).

        It is the mean squared difference from the noisy answers minus the variance of their noise. It is
        unbiased if the noise is independent of the predictions, and may be negative.
        """
        return float(((predicted - self.answers) ** 2 - self.stddevs**2).mean())


def best_of(predictors: Sequence[Any], validations: Sequence[Validation]) -> tuple[int, tuple[float, ...]]:
    """Return the index of the predictor with the smallest error, and all errors (root mean square, counts).

    A negative estimate of a mean squared error has root 0; ties go to the first.

    Args:
        predictors: objects with `predict(query)`, such as `Predictor`.
        validations: at least one; each is weighted by its number of rows.
    """
    rows = np.array([each.answers.size for each in validations], float)
    errors = []
    for predictor in predictors:
        found = [each.error(predictor.predict(each.query)) for each in validations]
        errors.append(float(np.dot(found, rows) / rows.sum()))
    roots = tuple(float(np.sqrt(max(0.0, error))) for error in errors)
    return int(np.argmin(errors)), roots


def noise_bound(distribution: DiscreteNoise, coefficients: np.ndarray, beta: float = 0.05) -> float:
    """Return a bound that a weighted sum of independent noises exceeds with probability at most beta.

    Args:
        distribution: distribution of each noise term.
        coefficients: [noises], the weights.
        beta: probability in (0, 1).

    Returns:
        a bound on the absolute value, in counts. With ``L = log(2 / beta)`` and |c| the Euclidean norm: for
        Laplace noise of scale b ``2 sqrt(2) b |c| sqrt(L)`` if ``L <= (|c| / max|c|)**2``, else
        ``sqrt(2) b (max|c| L + |c|**2 / max|c|)``; for Gaussian noise ``sigma |c| sqrt(2 L)``.

    References:
        Zhu et al. 2017, Lemma IV.3, whose right side lacks the square of the scale and one of two tails;
        for equal weights 1 this is P(|sum| > t) <= 2 exp(-t**2 / (8 m b**2)) for t <= 2 sqrt(2) m b. Chan,
        Shi and Song 2011, Lemma 2.8; Canonne, Kamath and Steinke 2020, for the Gaussian distribution.

    Example:
        >>> from pgmjax.measurements.noise import DiscreteLaplace
        >>> round(noise_bound(DiscreteLaplace(10.0), np.ones(100) / 100), 3)
        5.432
    """
    beta = checks.number("beta", beta, above=0, below=1)
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
    """Return a bound on the generalisation error of a model, from training queries to all queries.

    It bounds the mean absolute error over the distribution of the training queries, minus the mean absolute
    error on the training queries without noise, simultaneously for finitely many hypotheses. It does not
    apply to covering training queries, which are not random, nor to an infinite class.

    Args:
        records: the number of records; errors are between 0 and this number.
        count: the number of training queries, drawn independently.
        beta: the bound fails with at most this probability over the draw.
        hypotheses: the size of the class that the model is chosen from.

    References:
        Zhu et al. 2017, Theorem IV.2.

    Example:
        >>> round(model_bound(1000, 100), 1)
        135.8
    """
    beta = checks.number("beta", beta, above=0, below=1)
    records = checks.integer("records", records, low=0)
    count = checks.integer("count", count, low=1)
    hypotheses = checks.number("hypotheses", hypotheses, at_least=1)
    return records * math.sqrt(math.log(2 * hypotheses / beta) / (2 * count))
