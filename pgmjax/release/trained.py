"""A release whose answers are those of a trained model, and how far they may be from the truth."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.relation import Relation
from pgmjax.learning.predictor import Predictor
from pgmjax.learning.selection import model_bound, noise_bound
from pgmjax.measurements.noise import DiscreteNoise
from pgmjax.queries import Query
from pgmjax.release.release import Release


@dataclasses.dataclass(frozen=True)
class TrainingAccuracy:
    """Error bounds of a model trained on noisy answers, known beforehand.

    Attributes:
        clique: the attributes of the training queries.
        count: their number.
        distribution: of their noise.
        mean_noise: what the size of the mean of their noises exceeds with probability at most beta (counts;
            of queries with integers as weights, over the largest of them).
        model: what the mean absolute error on all queries, less that on the training queries without noise,
            exceeds with probability at most beta (counts); None for training queries that were not drawn.
    """

    clique: Clique
    count: int
    distribution: DiscreteNoise
    mean_noise: float
    model: float | None


@dataclasses.dataclass(frozen=True, repr=False)
class TrainedRelease(Release):
    """A release with a trained model beside the engine's.

    Attributes:
        predictor: the trained model; None only before it is trained.
        training: how many of the measurements, from the first, are of training queries; the others are of
            validation queries.
        drawn: whether the training queries were drawn at random.
        selection: names of the learners that were tried and what each erred on the validation queries, by
            root mean square (counts).
        training_seed: that the learner was given, for learning once more; it made no noise.
        answered_by: "learner", or one of `release.release.ANSWERS`.

    Guarantees:
        As `Release`: predictions are post-processing of the measurements.
    """

    answered_by: str = "learner"
    predictor: Predictor | None = None
    training: int = 0
    drawn: bool = False
    selection: tuple[tuple[str, float], ...] = ()
    training_seed: int = 0

    def answers(self, answered_by: str | None = None) -> list[np.ndarray]:
        """Return the answers to the workload, from released numbers only: no further cost.

        Args:
            answered_by: "learner" (the trained model), or as for `Release.answers` "engine", "local",
                "global"; None for the way that the release was asked for.

        Returns:
            float64 [rows] an entry, row-major in the order of its clique (counts).

        Raises:
            ValueError: no such way, or as `Release.answers`.
        """
        chosen = self.answered_by if answered_by is None else answered_by
        return self.predict(self.workload) if chosen == "learner" else super().answers(chosen)

    def predict(self, queries: Any) -> Any:
        """Return answers of the trained model to fresh queries, see `Predictor.predict`: no further cost."""
        return self._trained().predict(queries)

    def half_widths(self, query: Query, beta: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds of the noise in predicted answers, see `Predictor.half_widths`."""
        return self._trained().half_widths(query, beta)

    def accuracy(self, beta: float = 0.05, hypotheses: float = 1) -> tuple[TrainingAccuracy, ...]:
        """Return what is known of the errors beforehand, for each measurement that was trained on.

        The model term takes the model's total for the number of records, which is an estimate unless it
        is public; it holds for queries drawn as those of training.

        Args:
            beta: each bound fails with at most this probability.
            hypotheses: the size of the class of models; the learners here have none that is finite, unless
                their parameters are counted as rounded.

        References:
            Zhu et al. 2017, section IV-B, with the corrections that `learning.selection` names.
        """
        found = []
        records = max(1, round(self.model.total))
        for measurement in self.measurements[: self.training]:
            count = measurement.values.size
            assert measurement.distribution is not None
            largest = float(measurement.query.linf_sensitivity(Relation.ADD_REMOVE, self.domain))
            mean_noise = noise_bound(
                measurement.distribution, np.full(count, 1 / count / max(1.0, largest)), beta
            )
            model = model_bound(records, count, beta, hypotheses) if self.drawn else None
            found.append(
                TrainingAccuracy(measurement.clique, count, measurement.distribution, mean_noise, model)
            )
        return tuple(found)

    def _trained(self) -> Predictor:
        if self.predictor is None:
            raise ValueError("this release holds no trained model: only `MLDP.run` returns one that does.")
        return self.predictor
