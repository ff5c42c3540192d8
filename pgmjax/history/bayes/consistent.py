"""Consistent answers from the engine's model, without negative counts, and inference control.

The engine is the third estimator of a history; its error bars are those of the noise alone. Inference control
declines further queries once the answers make a watched claim too certain.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.checks import Error
from pgmjax.estimation.estimator import Estimator
from pgmjax.history.bayes.blue import BestLinearUnbiased
from pgmjax.history.bayes.inference import Claim, Verdict
from pgmjax.history.history import History, as_history
from pgmjax.queries import Query

LABEL = "engine's model: consistent and non-negative; error bars of the noise alone, without the model's bias"


@dataclasses.dataclass(frozen=True, eq=False)
class ConsistentAnswers:
    """Answers from the engine's model of a history.

    Attributes:
        values: the answers [rows] (counts); together they are those of one table without negative counts.
        noise_stddevs: standard deviation of the noise in the best linear unbiased answers to the same rows
            [rows] (counts), as a scale for comparison; NaN if not estimable. It does not bound the error of
            the model's answers, which are biased for queries that the history does not determine.
        label: description of these numbers, to be shown with them.
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
        query: query of any number of rows.
        total: number of records, if public. Default: estimated.
        estimator: an `Estimator`. Default: the default one.

    Raises:
        ValueError: the history has no answers, or the query does not fit its domain.

    Example:
        >>> from pgmjax import Domain, LinearMeasurement
        >>> from pgmjax.measurements.noise import DiscreteLaplace
        >>> from pgmjax.queries import marginal
        >>> measured = LinearMeasurement.released(marginal(["sex"]), [-3, 43], DiscreteLaplace(2.0))
        >>> answers = consistent_answers(History(Domain({"sex": 2}), [measured]), marginal(["sex"]), total=40)
        >>> bool((answers.values >= 0).all()), answers.noise_stddevs.round(2).tolist()
        (True, [2.8, 2.8])
    """
    if not as_history(history).measurements:
        raise ValueError("there is no answer yet: the history is empty.")
    query = query.over(history.domain)
    fitted = (Estimator(progress=False) if estimator is None else estimator).fit(
        history.domain, history.measurements, total=total
    )
    values = np.asarray(fitted.model.answer(query), np.float64).reshape(-1)
    blue = BestLinearUnbiased.of(history)
    known = blue.is_estimable(query)
    variances = blue.variances(query, biased=True)
    return ConsistentAnswers(values, np.where(known, np.sqrt(np.maximum(variances, 0)), np.nan))


class DeclinedError(Error, ValueError):
    """Raised when a query is declined because a watched claim has reached its level.

    Attributes:
        verdicts: verdicts on the claims that have.
    """

    def __init__(self, message: str, verdicts: tuple[Verdict, ...]) -> None:
        super().__init__(message)
        self.verdicts = verdicts


@dataclasses.dataclass(frozen=True)
class InferenceControl:
    """Inference control: claims that must not become certain from the answers.

    Refusals depend on released answers only, so that they reveal nothing new about the table.

    Attributes:
        watched: pairs of a query of one row (as `BestLinearUnbiased.answer` takes it) and a claim about its
            answer.
        level: probability from which a claim counts as known, in (0, 1).

    References:
        Xiao and Xiong 2012, Section 5.

    Example:
        >>> control = InferenceControl([([1.0], Claim(low=5.0))], level=0.9)
        >>> [len(control.passed(BestLinearUnbiased.from_matrix([[1.0]], [y], 2.0))) for y in (6, 20)]
        [0, 1]
    """

    watched: Sequence[tuple[Any, Claim]]
    level: float = 0.95

    def __post_init__(self) -> None:
        checks.number("level", self.level, above=0, below=1)
        for pair in self.watched:
            if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[1], Claim):
                raise TypeError("watched must hold pairs of a query and a Claim: [(query, Claim(low=5))].")

    def passed(self, blue: BestLinearUnbiased) -> tuple[Verdict, ...]:
        """Return the verdicts on the claims that reach the level, among those with estimable targets."""
        verdicts = [
            blue.answer(target).test(claim, self.level)
            for target, claim in self.watched
            if bool(blue.is_estimable(target).all())
        ]
        return tuple(verdict for verdict in verdicts if verdict.holds)

    def check(self, blue: BestLinearUnbiased) -> None:
        """Decline further queries if a claim reaches the level.

        Raises:
            DeclinedError: (a ValueError) a claim does; the message says how many.
        """
        passed = self.passed(blue)
        if passed:
            raise DeclinedError(
                f"declined: {len(passed)} of {len(self.watched)} watched claims are known with probability "
                f"{self.level:g} or more from the answers so far. Answers that the history holds already may "
                "still be given.",
                passed,
            )
