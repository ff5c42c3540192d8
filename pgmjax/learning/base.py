"""The interface of a learner: from encoded queries and their noisy answers to answers of any query.

A learner is a frozen dataclass of settings; what it has learned is another object, so that settings can be
compared, written down and used again. Both take released numbers only: whatever they do is post-processing.
`Examples` checks the encodings, answers and weights that learners are given.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal.errors import Error


@dataclasses.dataclass(frozen=True)
class Learner(abc.ABC):
    """Settings of a regression from encodings to answers.

    Attributes:
        name: of the class, as in files and on the command line.
    """

    name: ClassVar[str]

    @property
    def linear(self) -> bool:
        """True if predictions are linear in the answers that are learned from."""
        return False

    @abc.abstractmethod
    def fit(self, encodings: Any, answers: Any, *, weights: Any = None, seed: int = 0) -> FittedLearner:
        """Learn from answered queries.

        Args:
            encodings: [queries, dimensions], float64, finite.
            answers: [queries], or [batch, queries] to learn from each row by itself (counts).
            weights: [queries], > 0, one over the variance of each answer; None for the same for all.
            seed: of starts and orders, which are no noise.

        Raises:
            ValueError: shapes that do not fit each other, or numbers that are not finite.
        """

    def to_dict(self) -> dict[str, Any]:
        """Return `name` and settings as they are written to files.

        Raises:
            NotDescribedError: settings that have no such form.
        """
        return {"name": self.name, **dataclasses.asdict(self)}

    def restore(self, arrays: Mapping[str, np.ndarray], dimensions: int) -> FittedLearner:
        """Return what was learned from the arrays of `FittedLearner.arrays`.

        Raises:
            NotDescribedError: this learner keeps no arrays and must learn again.
            ValueError: arrays that are not its own.
        """
        raise NotDescribedError(f"the learner {self.name!r} keeps no arrays: fit it again.")


class FittedLearner(abc.ABC):
    """The result of a learner.

    Attributes:
        learner: the settings it was made with.
        dimensions: the length of an encoding.
    """

    learner: Learner
    dimensions: int

    @abc.abstractmethod
    def predict(self, encodings: Any) -> np.ndarray:
        """Return predicted answers.

        Args:
            encodings: [queries, dimensions], float64.

        Returns:
            float64 [queries], or [batch, queries] where a batch of answers was learned from.

        Raises:
            ValueError: encodings of another length, or not finite.
        """

    def arrays(self) -> dict[str, np.ndarray] | None:
        """Return all that was learned as named arrays, or None where it must be learned again on loading."""
        return None


class NotDescribedError(Error, ValueError):
    """The settings of a learner, or what it has learned, cannot be written down."""


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
    """Encoded queries with their answers.

    Attributes:
        encodings: float64 [queries, dimensions].
        answers: float64 [batch, queries].
        weights: float64 [queries], > 0.
        batched: whether a batch was given; otherwise `answers` has one row.
    """

    encodings: np.ndarray
    answers: np.ndarray
    weights: np.ndarray
    batched: bool

    @classmethod
    def of(cls, encodings: Any, answers: Any, weights: Any = None) -> Examples:
        """Return checked examples; arguments as in `Learner.fit`.

        Raises:
            TypeError: something that is not numbers.
            ValueError: shapes that do not fit each other, or numbers that are not finite.
        """
        rows = _matrix("the encodings", encodings)
        told = _finite("the answers", answers)
        if told.ndim not in (1, 2) or told.shape[-1] != len(rows) or told.size == 0:
            raise ValueError(
                f"the answers must be one a query, or [batch, queries]: expected {len(rows)} numbers a row "
                f"for {len(rows)} encodings, got shape {told.shape}."
            )
        weighed = np.ones(len(rows)) if weights is None else _finite("the weights", weights)
        if weighed.shape != (len(rows),) or not (weighed > 0).all():
            some = " with some that are not > 0" if weighed.shape == (len(rows),) else ""
            raise ValueError(
                f"the weights must be {len(rows)} numbers > 0, one a query (one over its answer's variance), "
                f"got shape {weighed.shape}{some}."
            )
        return cls(rows, np.atleast_2d(told), weighed, told.ndim == 2)

    @property
    def dimensions(self) -> int:
        """The length of an encoding."""
        return self.encodings.shape[1]


def encoded_queries(encodings: Any, dimensions: int) -> np.ndarray:
    """Return encodings [queries, dimensions] that are to be predicted for.

    Raises:
        ValueError: encodings of another length than those that were learned from, or not finite.
    """
    rows = _matrix("the encodings", encodings)
    if rows.shape[1] != dimensions:
        raise ValueError(
            f"the learner was trained on encodings of length {dimensions}, got length {rows.shape[1]}: "
            "encode queries as those it was trained on."
        )
    return rows


def _matrix(name: str, values: Any) -> np.ndarray:
    rows = _finite(name, values)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(
            f"{name} must be [queries, dimensions] with at least one of each, got shape {rows.shape}."
        )
    return rows


def _finite(name: str, values: Any) -> np.ndarray:
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} must be a rectangular array of numbers, got {type(values).__name__}."
        ) from error
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got infinities or NaN.")
    return array
