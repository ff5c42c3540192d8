"""A release that answers with a trained model, and bounds on its errors."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.relation import Relation
from pgmjax.learning.predictor import Predictor, model_bound, noise_bound
from pgmjax.measurements.noise import DiscreteNoise
from pgmjax.queries import Query
from pgmjax.queries import text as query_text
from pgmjax.release.accuracy import LEARNER, CountEstimates, Reported
from pgmjax.release.release import Release


def reported(
    model: Any, estimates: CountEstimates, query: Any, predictor: Predictor | None = None
) -> Reported:
    """Return the answers to a query: the trained model's where it learned them, else the fitted model's.

    Args:
        model: the fitted model.
        estimates: from the released answers.
        query: of the domain.
        predictor: the trained model of a release that answers by it.
    """
    query = query_text.asked(model.domain, query)
    if predictor is not None:
        with contextlib.suppress(ValueError):  # attributes that no learner learned together, or another query
            return estimates.report(query, predictor.predict(query), given_by=LEARNER)
    return estimates.report(query, model.answer(query))


@dataclasses.dataclass(frozen=True)
class TrainingAccuracy:
    """A priori error bounds of a model trained on noisy answers.

    Attributes:
        clique: attributes of the training queries.
        count: number of training queries.
        distribution: distribution of their noise.
        mean_noise: bound that the absolute mean of their noise exceeds with probability at most beta (counts;
            for queries with integer weights, divided by the largest weight).
        model: bound that the mean absolute error on all queries, minus that on the noiseless training
            queries, exceeds with probability at most beta (counts); None if the training queries were not
            drawn at random.
    """

    clique: Clique
    count: int
    distribution: DiscreteNoise
    mean_noise: float
    model: float | None


@dataclasses.dataclass(frozen=True, repr=False)
class TrainedRelease(Release):
    """A release with a trained model in addition to the engine's model.

    Attributes:
        predictor: the trained model; None only before training.
        training: number of leading measurements that are of training queries; the others are of validation
            queries.
        drawn: whether the training queries were drawn at random.
        selection: names of the learners that were tried, and the root mean square error of each on the
            validation queries (counts).
        training_seed: the learner's seed, with which training can be repeated; no noise was drawn from it.
        answered_by: "learner", or one of `release.release.ANSWERS`.

    Guarantees:
        Same as `Release`: predictions are post-processing of the measurements.
    """

    answered_by: str = "learner"
    predictor: Predictor | None = None
    training: int = 0
    drawn: bool = False
    selection: tuple[tuple[str, float], ...] = ()
    training_seed: int = 0

    def answers(self, answered_by: str | None = None) -> list[np.ndarray]:
        """Return the answers to the workload, computed from released numbers at no further cost.

        Args:
            answered_by: "learner" (the trained model), or "engine", "local" or "global" as in
                `Release.answers`. Default: the release's own `answered_by`.

        Returns:
            One float64 array [rows] per entry, row-major in the order of its clique (counts).

        Raises:
            ValueError: `answered_by` is unknown, or see `Release.answers`.
        """
        chosen = self.answered_by if answered_by is None else answered_by
        return self.predict(self.workload) if chosen == "learner" else super().answers(chosen)

    def report(self, query: Any) -> Reported:
        """Return the answers to a query, by the trained model where it learned them; see `Release.report`."""
        learned = self.answered_by == "learner"
        return reported(self.asked, self.estimates, query, self._trained() if learned else None)

    def predict(self, queries: Any) -> Any:
        """Return the trained model's answers to new queries at no further cost; see `Predictor.predict`."""
        return self._trained().predict(queries)

    def half_widths(self, query: Query, beta: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds on the noise in predicted answers; see `Predictor.half_widths`."""
        return self._trained().half_widths(query, beta)

    def accuracy(self, beta: float = 0.05, hypotheses: float = 1) -> tuple[TrainingAccuracy, ...]:
        """Return a priori error bounds for each measurement used in training.

        The model term uses the model's total as the number of records, which is an estimate unless it is
        public. It holds for queries drawn like the training queries.

        Args:
            beta: each bound fails with at most this probability.
            hypotheses: size of the class of models. It is finite for the learners here only if their
                parameters are counted as rounded.

        References:
            Zhu et al. 2017, section IV-B, with the corrections listed in `learning.predictor`.
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
            raise ValueError(
                "This release holds no trained model: only MLDP's `run` returns a release with one."
            )
        return self.predictor
