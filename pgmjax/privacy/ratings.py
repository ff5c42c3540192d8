"""The choke point for ratings: similarities of records are released only with noise.

Sensitivity is computed under one of two relations, both with public records, items and scale. "record": all
ratings of one record are replaced by any others. "rating": the value of one rating is replaced by another on
the scale; which items a record rated is public.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.ratings import Ratings, check_pairs
from pgmjax.data.relation import Relation
from pgmjax.measurements.noise import DiscreteNoise
from pgmjax.privacy import measuring
from pgmjax.privacy import tape as tapes
from pgmjax.privacy.accounting.events import LaplaceEvent
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.exact import exact_epsilon
from pgmjax.privacy.gate import Gate, Journal
from pgmjax.privacy.opendp import default_backend
from pgmjax.privacy.sensitivity import Sensitivity

GRID = 2.0**-20
"""Similarities are rounded to multiples of this before noise, also a multiple of it, is added."""

LARGEST_PRODUCT = 2.0**33
"""Above this size of an inner product, neighbouring floats are farther apart than the grid."""

MEASURES = ("cosine", "pearson", "inner_product")
PROTECTS = ("rating", "record")


class PrivateRatings(Gate):
    """Ratings that answer only with noise, under a budget.

    Args:
        ratings: the ratings; nothing else may use them.
        relation: the neighbouring relation: only REPLACE_ONE, since the similarity of an absent record is
            undefined.
        budget: the budget, in epsilon.
        protect: the unit of protection: "record", all ratings of one record; or "rating", the value of
            one rating, where the items a record rated are public.
        backend: source of noise. Default: the secure backend.
        journal: stores charges and answers, such as a `LedgerJournal`; None for no journal. Only for
            `protect="record"`, since a ledger accounts for whole records.

    Raises:
        TypeError: `ratings` is not a `Ratings`.
        ValueError: another relation, a budget with another unit, an unknown unit of protection, or a
            journal with `protect="rating"`.

    Guarantees:
        All answers together are `budget.cap`-DP for tables that differ in one unit of `protect`. Records,
        items and scale must not depend on the ratings.
    """

    def __init__(
        self,
        ratings: Ratings,
        relation: Relation | str,
        budget: Budget,
        *,
        protect: str,
        backend: NoiseBackend | None = None,
        journal: Journal | None = None,
    ) -> None:
        checks.kind(ratings, Ratings, "ratings must be pgmjax.data.ratings.Ratings")
        if Relation.parse(relation) is not Relation.REPLACE_ONE:
            raise ValueError(
                "similarities are released under replace-one only: that of a record which is added or "
                "removed is no number in one of the tables."
            )
        if budget.unit != "epsilon":
            raise ValueError(f"the budget of ratings must be counted in epsilon, got {budget.unit}.")
        budget.bind(Relation.REPLACE_ONE)
        self._protect = checks.choice("protect", protect, PROTECTS)
        if journal is not None and self._protect != "record":
            raise ValueError(
                "a ledger's account answers for whole records, and protect='rating' for single ratings only: "
                "protect records, or keep no ledger."
            )
        source = default_backend() if backend is None else backend
        super().__init__(Relation.REPLACE_ONE, budget, source, journal)
        self._ratings = ratings

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of records and items, which are public."""
        return self._ratings.shape

    def similarities(self, pairs: Any, measure: str, *, epsilon: Any) -> NoisySimilarities:
        """Answer similarities of pairs of records, with discrete Laplace noise.

        Args:
            pairs: [pairs, 2] codes of different records.
            measure: "cosine", "pearson" or "inner_product".
            epsilon: cost of the answers, exact.

        Raises:
            ValueError: the pairs are invalid or the sensitivity is unbounded; nothing was spent.
            BudgetExceeded: the budget does not suffice; nothing was spent.
            TableReadError: the ratings could not be read; the spend stays.

        Guarantees:
            epsilon-DP: the noise has scale (L1 sensitivity of all similarities on the grid) / epsilon. A
            record affects only the pairs that contain it.
        """
        pairs = check_pairs(pairs, self._ratings.shape[0])
        epsilon = exact_epsilon(epsilon)
        sensitivity, distribution = self.noise(pairs, measure, epsilon=epsilon)
        asked = {"similarities": {"pairs": pairs.tolist(), "measure": measure, "scale": distribution.scale}}
        event = LaplaceEvent(epsilon, None, distribution.scale)

        def compute() -> np.ndarray:
            low, high = value_range(measure, self._ratings.scale, self._ratings.shape[1])
            noise = 0 if self._replays else measuring.fresh(self._backend, distribution, len(pairs))
            # rounding may leave the range, by which the sensitivity is bounded
            found = self._withheld("Reading the ratings", self._ratings.similarities, pairs, measure)
            exact = np.rint(np.clip(found, low, high) / GRID).astype(np.int64)
            moved = Sensitivity(sensitivity, "l1", Relation.REPLACE_ONE)
            public = (measure, self._protect, pairs.tobytes())
            call = tapes.Call(distribution.noise, public, distribution, moved, exact)
            return self._through_tape(call, lambda: exact + noise)

        values = self._buy([event], asked, compute)
        return NoisySimilarities(pairs, measure, values, sensitivity, distribution)

    def noise(self, pairs: np.ndarray, measure: str, *, epsilon: Any) -> tuple[int, DiscreteNoise]:
        """Return the L1 sensitivity and the noise of answers, in units of `GRID`. Spends nothing; public."""
        sensitivity = self._sensitivity(pairs, measure)
        return sensitivity, self._backend.laplace(sensitivity, exact_epsilon(epsilon))

    def _sensitivity(self, pairs: np.ndarray, measure: str) -> int:
        scale = self._ratings.scale
        records, items = self._ratings.shape
        low, high = value_range(measure, scale, items)
        if high > LARGEST_PRODUCT:
            raise ValueError(
                f"inner products on this scale of {items:,} items may reach {high:.3g}, above the limit of "
                f"{LARGEST_PRODUCT:.3g} up to which they are exact enough: state the ratings in larger units."
            )
        if self._protect == "record" or measure != "cosine":
            # of an inner product, the sum of as many rounded terms as there are items, in both tables
            rounding = 2 * (items + 2) * 2.0**-53 * high if measure == "inner_product" else 0.0
            step = _whole(pair_sensitivity(measure, self._protect, scale, items) + rounding, low, high)
            steps = np.full(records, step)
        else:
            # no rating is as one: neither moves a cosine
            counts = np.maximum(self._ratings.counts(), 1)
            different, place = np.unique(counts, return_inverse=True)
            found = [pair_sensitivity(measure, "rating", scale, items, int(count)) for count in different]
            steps = np.array([_whole(step, low, high) for step in found])[place]
        return int(joint_sensitivity(pairs, steps))


def _whole(step: float, low: float, high: float) -> int:
    """Return a bound in units of the grid, for a measure with values from `low` to `high`.

    Rounding two values, themselves floats with rounding error, may add one unit to their distance, but
    never beyond the whole range.
    """
    return min(math.ceil(step / GRID) + 1, round(high / GRID) - round(low / GRID))


@dataclasses.dataclass(frozen=True, eq=False)
class NoisySimilarities:
    """Similarities as released.

    Attributes:
        pairs: [pairs, 2] records.
        measure: the similarity measure.
        values: int64 [pairs], in units of `GRID`.
        sensitivity: L1 sensitivity of all values together, in units of `GRID`.
        distribution: noise distribution, in units of `GRID`.
    """

    pairs: np.ndarray
    measure: str
    values: np.ndarray
    sensitivity: int
    distribution: DiscreteNoise

    @property
    def answers(self) -> np.ndarray:
        """The noisy similarities, float64 [pairs]."""
        return self.values * GRID


def value_range(measure: str, scale: tuple[float, float] | None, items: int) -> tuple[float, float]:
    """Return the least and largest value a similarity can have.

    Args:
        measure: "cosine", "pearson" or "inner_product".
        scale: least and largest rating; None if ratings are unbounded.
        items: the number of items.

    Raises:
        ValueError: the measure is an inner product and ratings are unbounded.
    """
    measure = checks.choice("measure", measure, MEASURES)
    if measure == "inner_product":
        if scale is None:
            raise ValueError(
                "the inner product of ratings without a scale is unbounded, and so is its sensitivity: give "
                "the scale of the ratings, or ask for 'cosine' or 'pearson'."
            )
        most = items * max(abs(scale[0]), abs(scale[1])) ** 2
        return (0.0, most) if scale[0] >= 0 else (-most, most)
    if measure == "cosine" and scale is not None and scale[0] >= 0:
        return 0.0, 1.0
    return -1.0, 1.0


def pair_sensitivity(
    measure: str, protect: str, scale: tuple[float, float] | None, items: int, ratings: int | None = None
) -> float:
    """Return the sensitivity of one similarity.

    Args:
        measure: "cosine" (unrated items count as 0), "pearson" (over the items both rated) or
            "inner_product".
        protect: "rating" or "record".
        scale: least and largest rating (l, h); None if ratings are unbounded.
        items: the number of items.
        ratings: for "rating", the number of ratings of the record whose rating changes, which is public.

    Returns:
        For "record", the range of the measure, which is attained: 1 for a cosine of ratings >= 0, 2 for a
        Pearson correlation. For "rating": max(abs(l), abs(h)) * (h - l) for an inner product, and 2 for a
        Pearson correlation, its range, since with two common items one changed rating can turn -1 into 1.
        For a cosine of ratings in [l, h], l > 0, of a record whose other ratings have Euclidean norm X, it
        is the larger of ``X / sqrt(X**2 + l**2) - X / sqrt(X**2 + h**2)`` and
        ``h / sqrt(X**2 + h**2) - l / sqrt(X**2 + l**2)`` at the worst X from l sqrt(ratings - 1) to
        h sqrt(ratings - 1). The change of the unit vector has one sign on the changed item and the other
        on the rest, and a non-negative vector can align with only one of them. It decreases with the
        number of ratings.

    Raises:
        ValueError: the sensitivity is unbounded: an inner product without a scale, or a cosine under
            "rating" with ratings that may be <= 0, where a record may have no direction.

    Example:
        >>> round(pair_sensitivity("cosine", "rating", (0.5, 5.0), 1000, ratings=1), 4)
        0.0
        >>> [round(pair_sensitivity("cosine", "rating", (0.5, 5.0), 1000, n), 4) for n in (2, 20, 500)]
        [0.6984, 0.6984, 0.3639]
    """
    protect = checks.choice("protect", protect, PROTECTS)
    low, high = value_range(measure, scale, items)
    if protect == "record" or measure == "pearson":
        return high - low
    if scale is None or (measure == "cosine" and scale[0] <= 0):
        raise ValueError(
            "how far one rating moves a cosine is bounded below its range only for ratings on a scale above "
            "0: give scale=(1, 5), its ends, or protect='record'."
        )
    if measure == "inner_product":
        return max(abs(scale[0]), abs(scale[1])) * (scale[1] - scale[0])
    others = checks.integer("ratings", ratings, low=1) - 1
    return _cosine_step(*scale, others)


def _cosine_step(low: float, high: float, others: int) -> float:
    """Return the largest change of a cosine when one of `others` + 1 ratings changes."""
    if others == 0:
        return 0.0  # a single rating has the same direction whatever its value
    # a norm of the others is between these; the change is largest at an end or where its slope is 0
    ends = (low * math.sqrt(others), high * math.sqrt(others))
    peaks = []
    for power in (4 / 3, 2 / 3):  # of the fall of the other ratings' part, of the rise of the changed one's
        ratio = (high / low) ** power
        square = (high**2 - low**2 * ratio) / (ratio - 1)
        peaks.append(min(max(math.sqrt(max(square, 0.0)), ends[0]), ends[1]))
    norms = np.array([*ends, *peaks])
    fall = norms / np.hypot(norms, low) - norms / np.hypot(norms, high)
    rise = high / np.hypot(norms, high) - low / np.hypot(norms, low)
    return float(max(fall.max(), rise.max())) * (1 + 1e-12)


def joint_sensitivity(pairs: np.ndarray, steps: np.ndarray) -> Any:
    """Return the L1 sensitivity of all similarities of the pairs.

    Args:
        pairs: [pairs, 2], records.
        steps: [records], the largest change of one similarity when that record changes.

    Returns:
        The maximum over records of the number of pairs with it times its step; exact for integer steps.
    """
    degrees = np.bincount(np.asarray(pairs).reshape(-1), minlength=len(steps))
    # Python's numbers: products of 64-bit ones would overflow unseen
    return max(degree * step for degree, step in zip(degrees.tolist(), steps.tolist(), strict=True))
