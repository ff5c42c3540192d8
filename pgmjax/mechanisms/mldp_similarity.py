"""MLDP for similarities: train on noisy similarities of some pairs of records, predict those of any."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from pgmjax import random
from pgmjax._internal import checks
from pgmjax.data.ratings import Ratings, check_pairs
from pgmjax.data.relation import Relation
from pgmjax.learning import Learner
from pgmjax.learning.base import FittedLearner
from pgmjax.learning.learners import as_learner
from pgmjax.mechanisms.parameters import Keeping, PrivacyParameters, one_of, whole
from pgmjax.privacy.ledger import Ledger
from pgmjax.privacy.ratings import (
    GRID,
    MEASURES,
    PROTECTS,
    NoisySimilarities,
    PrivateRatings,
    value_range,
)

_LARGEST_FEATURE = 1e60  # learners square products of two of them


@dataclasses.dataclass(frozen=True, eq=False)
class SimilarityPredictor:
    """A model of all similarities, learned from noisy ones. Predictions cost no budget.

    Attributes:
        released: the noisy similarities that it was trained on.
        fitted: the fitted learner.
        records: the number of records.
        features: public features of each record [records, features], or None.
        epsilon: the epsilon spent.
        protect: the protected unit, "record" or "rating".
        secure: whether the noise came from a vetted sampler that cannot be reproduced.
        limits: the smallest and the largest possible value of the measure.
        ledger: account, key and number of the charge in a ledger; None without a ledger.
    """

    released: NoisySimilarities
    fitted: FittedLearner
    records: int
    features: np.ndarray | None
    epsilon: Any
    protect: str
    secure: bool
    limits: tuple[float, float]
    ledger: Mapping[str, Any] | None = None

    def predict(self, pairs: Any) -> np.ndarray:
        """Return predicted similarities [pairs] of pairs [pairs, 2] of different records, within the limits.

        Raises:
            ValueError: a pair is not of two different records of the table.
        """
        encodings = encode_pairs(check_pairs(pairs, self.records), self.records, self.features)
        return np.clip(self.fitted.predict(encodings), *self.limits)


@dataclasses.dataclass(frozen=True)
class SimilarityMLDP(PrivacyParameters):
    """Measure similarities of pairs that share as few records as possible, learn them, predict others.

    Args:
        protect: the protected unit: "record" or "rating", see `privacy.ratings.PrivateRatings`.
        measure: "cosine", "pearson" or "inner_product".
        training_count: number of measured pairs.
        learner: a name or a `learning.Learner`.
        training_seed: seed of the choice of pairs and of the learner; it does not affect the noise.

    Guarantees:
        epsilon-DP under REPLACE_ONE of the unit `protect`, see `PrivateRatings.similarities`. Pairs are
        chosen without looking at ratings; learning and predicting are post-processing.

    References:
        Zhu et al. 2017, sections III-D and V, which does not state the sensitivity of a similarity.
    """

    delta: Any = dataclasses.field(default=0, init=False)
    protect: str
    measure: str = one_of("cosine", MEASURES)
    training_count: int = whole(500, low=1)
    learner: Any = "ridge"
    training_seed: int = whole(0)

    name: ClassVar[str] = "similarity-mldp"
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    restriction: ClassVar[str] = "a record that is added or removed has no similarity in one of the tables."

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.set_choice(self, "protect", PROTECTS)
        as_learner(self.learner)

    def noise_stddev(self, ratings: Ratings) -> float:
        """Return the standard deviation of the noise in each measured similarity. Spends nothing; public."""
        table, pairs = self._table(ratings)
        return GRID * table.noise(pairs, self.measure, epsilon=self.epsilon)[1].stddev

    def _table(self, ratings: Ratings, journal: Any = None) -> tuple[PrivateRatings, np.ndarray]:
        """Return the private table and the pairs that are measured."""
        table = PrivateRatings(
            ratings,
            self.relation,
            self.budget(),
            protect=self.protect,
            backend=self.backend,
            journal=journal,
        )
        return table, covering_pairs(table.shape[0], self.training_count, self.training_seed)

    def run(
        self, ratings: Ratings, features: Any = None, *, ledger: Ledger | None = None, key: str | None = None
    ) -> SimilarityPredictor:
        """Measure, learn, and return the model.

        Args:
            ratings: the private table.
            features: public features of each record [records, features]. Default: none.
            ledger: the ledger with the table's budget, for `protect="record"`. Default: no record beyond
                this run.
            key: the run's name in the ledger. Default: derived from the request. Repeating a run under the
                same name returns the same answers at no cost, with any learner.

        Raises:
            TypeError: an argument is not ratings or not a ledger.
            ValueError: too many pairs, features that do not match the records, or a ledger for single
                ratings; nothing was spent.
            BudgetExceeded: the table's budget in the ledger does not suffice; nothing was spent.
            LedgerError: the ledger cannot be used; nothing was spent.
        """
        checks.kind(ratings, Ratings, "ratings must be pgmjax.data.ratings.Ratings")
        learner: Learner = as_learner(self.learner)
        asked = {
            "protect": self.protect,
            "measure": self.measure,
            "training_count": self.training_count,
            "training_seed": self.training_seed,
            "mechanism": self.name,
            "shape": list(ratings.shape),
            "scale": ratings.scale,
        }
        journal = Keeping(ledger, key).journal(ratings, self._request_of(asked))
        table, pairs = self._table(ratings, journal)
        records = table.shape[0]
        known = None if features is None else np.asarray(features, np.float64)
        encodings = encode_pairs(pairs, records, known)
        released = table.similarities(pairs, self.measure, epsilon=self.epsilon)
        fitted = learner.fit(encodings, released.answers, seed=self.training_seed)
        return SimilarityPredictor(
            released,
            fitted,
            records,
            known,
            self.epsilon,
            self.protect,
            table.secure,
            value_range(self.measure, ratings.scale, table.shape[1]),
            table.receipt(),
        )


def covering_pairs(records: int, count: int, seed: int = 0) -> np.ndarray:
    """Return pairs so that every record is in few of them, at most 2 ceil(count / records).

    In a random cyclic order of the records, each is paired with the next, then with the second next, etc.

    Args:
        records: number of records, >= 2.
        count: number of pairs.
        seed: seed of the cyclic order, which does not affect the noise or depend on ratings.

    Returns:
        int64 [count, 2], all different.

    Raises:
        ValueError: fewer than `count` pairs exist.

    Example:
        >>> int(np.bincount(covering_pairs(10, 20).ravel()).max())
        4
    """
    records = checks.integer("the number of records", records, low=2)
    count = checks.integer(
        "training_count (--training-count), the number of pairs,",
        count,
        low=1,
        high=records * (records - 1) // 2,
    )
    circle = random.generator(seed).permutation(records)
    place = np.arange(count)
    step, start = place // records + 1, place % records
    return np.stack([circle[start], circle[(start + step) % records]], axis=1).astype(np.int64)


def encode_pairs(pairs: np.ndarray, records: int, features: np.ndarray | None = None) -> np.ndarray:
    """Return feature vectors of pairs, independent of the order within a pair.

    Args:
        pairs: [pairs, 2].
        records: number of records.
        features: public features of each record [records, features], or None.

    Returns:
        float64 [pairs, 1 + records + 2 features]: a constant 1; indicators of the two records; sums and
        products of their features.

    Raises:
        ValueError: features are not finite, too large, or of the wrong shape.
    """
    vectors = np.zeros((len(pairs), 1 + records))
    vectors[:, 0] = 1
    vectors[np.arange(len(pairs)), 1 + pairs[:, 0]] = 1
    vectors[np.arange(len(pairs)), 1 + pairs[:, 1]] = 1
    if features is None:
        return vectors
    if features.ndim != 2 or len(features) != records or not (np.abs(features) <= _LARGEST_FEATURE).all():
        raise ValueError(
            f"features must be numbers [{records:,}, features] of at most {_LARGEST_FEATURE:g} in size, got "
            f"shape {features.shape}: state them in larger units."
        )
    first, second = features[pairs[:, 0]], features[pairs[:, 1]]
    return np.hstack([vectors, first + second, first * second])
