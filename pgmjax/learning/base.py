"""The interface of a learner: from encoded queries and their noisy answers to answers of any query.

A learner is a frozen dataclass of settings; what it has learned is another object, so that settings can be
compared, written down and used again. Both take released numbers only: whatever they do is post-processing.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np


class NotDescribedError(ValueError):
    """The settings of a learner, or what it has learned, cannot be written down."""


class FittedLearner(abc.ABC):
    """What a learner has learned.

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


@dataclasses.dataclass(frozen=True)
class Learner(abc.ABC):
    """Settings of a regression from encodings to answers.

    Attributes:
        name: of the class, as in files and on the command line.
    """

    name: ClassVar[str]

    @property
    def linear(self) -> bool:
        """Whether predictions are linear in the answers that are learned from."""
        return False

    @abc.abstractmethod
    def fit(self, encodings: Any, answers: Any, *, weights: Any = None, seed: int = 0) -> FittedLearner:
        """Learn from answered queries.

        Args:
            encodings: [queries, dimensions], float64, finite.
            answers: [queries], or [batch, queries] to learn from each row by itself (counts).
            weights: [queries], > 0, one over the variance of each answer; None is the same for all.
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
