"""The interface of a learner: from encoded queries and their noisy answers to answers of any query.

A learner is a frozen dataclass of settings; the fitted model is a separate object, so that settings can be
compared, saved and reused. Both use released numbers only, so everything they do is post-processing.
`Examples` checks the encodings, answers and weights passed to learners; `Scale` standardises columns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal.checks import Error


@dataclasses.dataclass(frozen=True)
class Learner:
    """Settings of a regression from encodings to answers.

    A new learner is a frozen dataclass with `name`, `_learn` and `_predict`, and with `_shapes` if what it
    learns is arrays, which are then saved; or with `name` and a `fit` of its own.

    Attributes:
        name: name of the learner in files and on the command line.
    """

    name: ClassVar[str]

    @property
    def linear(self) -> bool:
        """True if predictions are linear in the training answers."""
        return False

    def fit(self, encodings: Any, answers: Any, *, weights: Any = None, seed: Any = 0) -> FittedLearner:
        """Learn from answered queries.

        Args:
            encodings: [queries, dimensions], float64, finite.
            answers: [queries], or [batch, queries] to learn from each row separately (counts).
            weights: [queries], > 0, one over the variance of each answer. Default: equal weights.
            seed: seed of the learner's random choices, which are not noise.

        Raises:
            ValueError: mismatched shapes, or numbers that are not finite.
        """
        given = Examples.of(encodings, answers, weights)
        return FittedLearner(self, given.dimensions, self._learn(given, seed), given.batched)

    def _learn(self, given: Examples, seed: Any) -> dict[str, Any]:
        """Return what predictions need, by name, for all rows of the batch."""
        raise NotImplementedError(f"{type(self).__name__} needs `_learn` and `_predict`, or its own `fit`.")

    def _predict(self, learned: Mapping[str, Any], rows: np.ndarray) -> np.ndarray:
        """Return predicted answers [batch, queries] to checked encodings [queries, dimensions]."""
        raise NotImplementedError(f"{type(self).__name__} needs `_predict`.")

    def _shapes(self, dimensions: int) -> dict[str, tuple[int | str, ...]] | None:
        """Return the shape of each array of `_learn`; a word stands for one length. None: no arrays."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return `name` and settings in the form for files.

        Raises:
            NotDescribedError: settings that have no such form.
        """
        return {"name": self.name, **dataclasses.asdict(self)}


@dataclasses.dataclass(frozen=True, eq=False)
class FittedLearner:
    """A fitted learner.

    Attributes:
        learner: its settings.
        dimensions: the length of an encoding.
        learned: what it learned, by name, for all rows of the batch.
        batched: whether it was fitted to a batch of answers.
    """

    learner: Learner
    dimensions: int
    learned: Mapping[str, Any]
    batched: bool = False

    def predict(self, encodings: Any) -> np.ndarray:
        """Return predicted answers.

        Args:
            encodings: [queries, dimensions], float64.

        Returns:
            float64 [queries], or [batch, queries] if fitted to a batch of answers.

        Raises:
            ValueError: encodings whose length differs from those in training, or that are not finite.
        """
        rows = _matrix("the encodings", encodings)
        if rows.shape[1] != self.dimensions:
            raise ValueError(
                f"the learner was trained on encodings of length {self.dimensions}, got length "
                f"{rows.shape[1]}: encode queries as those it was trained on."
            )
        answers = self.learner._predict(self.learned, rows)
        return answers if self.batched else answers[0]

    def arrays(self) -> dict[str, np.ndarray] | None:
        """Return the fitted model as named arrays, or None if it must be fitted again on loading."""
        if self.learner._shapes(self.dimensions) is None:
            return None
        return {**self.learned, "batched": np.array(self.batched)}


def restored(learner: Learner, arrays: Mapping[str, np.ndarray], dimensions: int) -> FittedLearner:
    """Return a fitted learner from the arrays of `FittedLearner.arrays`.

    Raises:
        NotDescribedError: the learner stores no arrays and must be fitted again.
        ValueError: arrays that do not fit the learner.
    """
    shapes = learner._shapes(dimensions)
    if shapes is None:
        raise NotDescribedError(f"the learner {learner.name!r} keeps no arrays: fit it again.")
    learned = {name: np.asarray(arrays.get(name, np.nan), np.float64) for name in shapes}
    lengths: dict[str, int] = {}
    for name, shape in shapes.items():
        found = learned[name]
        expected = tuple(
            lengths.setdefault(size, length) if isinstance(size, str) else size
            for size, length in zip(shape, found.shape, strict=False)
        )
        if found.ndim != len(shape) or found.shape != expected or not np.isfinite(found).all():
            raise ValueError(
                f"the learner {learner.name!r} keeps finite numbers `{name}` {list(shape)}, got shape "
                f"{found.shape}."
            )
    return FittedLearner(learner, dimensions, learned, bool(arrays.get("batched", False)))


class NotDescribedError(Error, ValueError):
    """The settings or the fitted model of a learner cannot be saved."""


@dataclasses.dataclass(frozen=True, eq=False)
class Examples:
    """Encoded queries with their answers.

    Attributes:
        encodings: float64 [queries, dimensions].
        answers: float64 [batch, queries].
        weights: float64 [queries], > 0.
        batched: whether the given answers were a batch; otherwise `answers` has one row.
    """

    encodings: np.ndarray
    answers: np.ndarray
    weights: np.ndarray
    batched: bool

    @classmethod
    def of(cls, encodings: Any, answers: Any, weights: Any = None) -> Examples:
        """Return checked examples; arguments as in `Learner.fit`.

        Raises:
            TypeError: values that are not numeric.
            ValueError: mismatched shapes, numbers that are not finite, or weights that are not > 0.
        """
        rows = _matrix("the encodings", encodings)
        answered = _finite("the answers", answers)
        if answered.ndim not in (1, 2) or answered.shape[-1] != len(rows) or answered.size == 0:
            raise ValueError(
                f"the answers must be one a query, or [batch, queries]: expected {len(rows)} numbers a row "
                f"for {len(rows)} encodings, got shape {answered.shape}."
            )
        weights = np.ones(len(rows)) if weights is None else _finite("the weights", weights)
        if weights.shape != (len(rows),) or not (weights > 0).all():
            some = " with some that are not > 0" if weights.shape == (len(rows),) else ""
            raise ValueError(
                f"the weights must be {len(rows)} numbers > 0, one a query (one over its answer's variance), "
                f"got shape {weights.shape}{some}."
            )
        return cls(rows, np.atleast_2d(answered), weights, answered.ndim == 2)

    @property
    def dimensions(self) -> int:
        """The length of an encoding."""
        return self.encodings.shape[1]


@dataclasses.dataclass(frozen=True, eq=False)
class Scale:
    """Shift and scale that give columns mean 0 and standard deviation 1; constant columns become 0.

    Attributes:
        mean: float64 [columns].
        deviation: float64 [columns], > 0.
    """

    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> Scale:
        """Return the scale of columns [rows, columns]."""
        deviation = rows.std(axis=0)
        return cls(rows.mean(axis=0), np.where(deviation > 0, deviation, 1.0))

    @classmethod
    def none(cls, rows: np.ndarray) -> Scale:
        """Return the scale of columns [rows, columns] that changes nothing."""
        return cls(np.zeros(rows.shape[1]), np.ones(rows.shape[1]))

    def apply(self, rows: np.ndarray) -> np.ndarray:
        """Return scaled rows [rows, columns]."""
        return (rows - self.mean) / self.deviation

    def undo(self, rows: np.ndarray) -> np.ndarray:
        """Return unscaled rows [rows, columns]."""
        return rows * self.deviation + self.mean


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
