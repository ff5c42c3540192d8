"""The engine as third estimator: answers of one table without negative counts, with noise-only error bars."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pgmjax.estimation.estimator import Estimator
from pgmjax.history.bayes.blue import Blue
from pgmjax.history.history import History
from pgmjax.queries import Query

LABEL = "engine's model: consistent and non-negative; error bars of the noise alone, without the model's bias"


@dataclasses.dataclass(frozen=True, eq=False)
class ConsistentAnswers:
    """What the engine's model of a history answers.

    Attributes:
        values: the answers [rows] (counts); together they are those of one table without negative counts.
        noise_stddevs: standard deviation of the noise in the best linear unbiased answers to the same rows
            [rows] (counts), a scale for comparison: NaN where they are not estimable. It is no promise of how
            far the model's answers are off, which have a bias where the history does not tell all.
        label: what these numbers are, to be shown with them.
    """

    values: np.ndarray
    noise_stddevs: np.ndarray
    label: str = LABEL


def consistent_answers(
    history: History, query: Query, *, total: float | None = None, estimator: Any = None
) -> ConsistentAnswers:
    """Return answers to a query from the engine's model of a history.

    Args:
        history: independent noisy answers.
        query: of any number of rows.
        total: the number of records, where it is public; None estimates it.
        estimator: an `Estimator`; None is the default one.

    Raises:
        ValueError: a history without answers, or a query that does not fit its domain.

    Example:
        >>> from pgmjax import Domain, LinearMeasurement
        >>> from pgmjax.measurements.noise import DiscreteLaplace
        >>> from pgmjax.queries import marginal
        >>> measured = LinearMeasurement.released(marginal(["sex"]), [-3, 43], DiscreteLaplace(2.0))
        >>> answers = consistent_answers(History(Domain({"sex": 2}), [measured]), marginal(["sex"]), total=40)
        >>> bool((answers.values >= 0).all()), answers.noise_stddevs.round(2).tolist()
        (True, [2.8, 2.8])
    """
    if not history.measurements:
        raise ValueError("there is no answer yet: the history is empty.")
    query.check(history.domain)
    fitted = (Estimator(progress=False) if estimator is None else estimator).fit(
        history.domain, history.measurements, total=total
    )
    values = np.asarray(fitted.model.answer(query), np.float64).reshape(-1)
    blue = Blue.of(history)
    known = blue.is_estimable(query)
    variances = blue.variances(query, biased=True)
    return ConsistentAnswers(values, np.where(known, np.sqrt(np.maximum(variances, 0)), np.nan))
