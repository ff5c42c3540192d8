"""Checks of what learners are given: encodings, answers, weights."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np


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
