"""Private selection: distributions that pick one of several candidates, favouring higher scores.

There are two mechanisms with different privacy bounds. Permute-and-flip is epsilon-DP and never worse on
average than the exponential mechanism. The exponential mechanism is epsilon-DP and, by its bounded range,
epsilon^2/8-zCDP, which makes it cheaper when many choices are composed. `ThresholdNoise` is the noise of a
threshold test: one draw for the threshold, and one for each distance.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.privacy import scales
from pgmjax.privacy.exact import ceil_float, shortened

SCORE_LIMIT = 2**53
_QUADRATURE_NODES = 32


@dataclasses.dataclass(frozen=True)
class _Scaled:
    """A distribution with the scale of its sampler, at most 2^50."""

    scale: float

    def __post_init__(self) -> None:
        scale = checks.number("scale", self.scale, above=0)
        if scale > scales.LARGEST_SCALE:
            raise ValueError(f"scale must be at most 2^50, got {scale:g}.")
        checks.set_fields(self, scale=scale)


@dataclasses.dataclass(frozen=True)
class PermuteAndFlip(_Scaled):
    """Go through the candidates in random order, take one with probability exp((score - best) / scale).

    The same distribution as the largest of score + scale * (standard exponential noise).

    Attributes:
        scale: the sampler's scale, a float.

    Guarantees:
        epsilon-DP if scale >= 2 sensitivity / epsilon; nothing better than epsilon^2/2-zCDP is claimed.

    References:
        McKenna and Sheldon 2020, "Permute-and-Flip"; Ding et al. 2021 for the exponential noise.

    Example:
        >>> PermuteAndFlip(1.0).probabilities(np.array([0, 1])).round(4).tolist()
        [0.1839, 0.8161]
    """

    name: ClassVar[str] = "permute-and-flip"

    def probabilities(self, scores: Any) -> np.ndarray:
        """Return the probability of each candidate, float64 [candidates].

        With q = exp((score - best) / scale), candidate i is taken with probability
        q_i * integral over 0 <= u <= 1 of the product over j != i of (1 - q_j u). Gauss-Legendre quadrature
        integrates this polynomial exactly for up to 64 candidates; for more it is applied on panels that
        halve towards 0. Memory: a few times 32 numbers per candidate.
        """
        q = np.exp(_below_best(scores) / self.scale)
        points, weights = np.polynomial.legendre.leggauss(_QUADRATURE_NODES)
        halvings = 0 if q.size <= 2 * _QUADRATURE_NODES else math.ceil(math.log2(q.size)) + 1
        total = np.zeros(q.size)
        for low, high in itertools.pairwise([0.0, *(2.0**-k for k in range(halvings, -1, -1))]):
            half = (high - low) / 2
            refused = -np.multiply.outer(low + half * (1 + points), q)
            all_refused = np.exp(np.log1p(refused).sum(axis=1))
            # the product over j != i is that over all, divided by the factor of i
            total += (half * weights * all_refused) @ (1 / (1 + refused))
        return q * total


@dataclasses.dataclass(frozen=True)
class ExponentialMechanism(_Scaled):
    """Pick candidate i with probability proportional to exp(score_i / scale).

    The same distribution as the largest of score + scale * (standard Gumbel noise).

    Attributes:
        scale: the sampler's scale, a float.

    Guarantees:
        epsilon-DP and epsilon^2/8-zCDP if scale >= 2 sensitivity / epsilon.

    References:
        McSherry and Talwar 2007; Cesar and Rogers 2021, "Bounding, concentrating, and truncating"
        (bounded range).

    Example:
        >>> ExponentialMechanism(1.0).probabilities(np.array([0, 1])).round(4).tolist()
        [0.2689, 0.7311]
    """

    name: ClassVar[str] = "exponential"

    def probabilities(self, scores: Any) -> np.ndarray:
        """Return the probability of each candidate, float64 [candidates]."""
        weights = np.exp(_below_best(scores) / self.scale)
        return weights / weights.sum()


SelectionDistribution = PermuteAndFlip | ExponentialMechanism


@dataclasses.dataclass(frozen=True)
class ThresholdNoise:
    """The noise of `privacy.threshold.ThresholdTest`.

    Attributes:
        threshold: the noise of the threshold, drawn once.
        distance: the noise of each distance.
    """

    threshold: DiscreteLaplace
    distance: DiscreteLaplace

    def epsilon(self, sensitivity: int) -> float:
        """Return the cost of a whole test, for distances of the given sensitivity.

        References:
            Dwork and Roth 2014, Theorem 3.23: the threshold is shifted once, the last distance twice.
        """
        return sensitivity / self.threshold.scale + 2 * sensitivity / self.distance.scale


def permute_and_flip_for(sensitivity: int, epsilon: Fraction) -> PermuteAndFlip:
    """Return the distribution that makes a choice epsilon-DP, its scale rounded up to a float.

    Args:
        sensitivity: the largest change of one score between neighbours; 0 is taken as 1.
        epsilon: exact budget of the choice.

    Raises:
        ValueError: the scale would overflow, or the choice would practically not be random.
    """
    return PermuteAndFlip(_scale(sensitivity, epsilon))


def exponential_for(sensitivity: int, epsilon: Fraction) -> ExponentialMechanism:
    """Return the distribution of an epsilon-DP and epsilon^2/8-zCDP choice; see `permute_and_flip_for`."""
    return ExponentialMechanism(_scale(sensitivity, epsilon))


def checked_scores(scores: Any) -> np.ndarray:
    """Return scores as int64 [candidates].

    An error depends on the scores, which are private, so callers must keep them in range by construction.

    Raises:
        TypeError: the scores are not integers.
        ValueError: not one axis, no candidate, or a score outside -2^53 < score < 2^53.
    """
    array = np.asarray(scores)
    if array.ndim != 1:
        raise ValueError(f"scores must have one axis, the candidates, got {array.ndim} axes.")
    if array.size == 0:
        raise ValueError("There must be at least one candidate to choose from, got none.")
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"scores must be integers, got {array.dtype}: multiply them by a common factor and round, and "
            "the sensitivity with them."
        )
    if not -SCORE_LIMIT < int(array.min()) <= int(array.max()) < SCORE_LIMIT:
        raise ValueError("scores must lie between -2^53 and 2^53, exclusive: divide them by a common factor.")
    return np.ascontiguousarray(array, dtype=np.int64)


def _below_best(scores: Any) -> np.ndarray:
    """Return score - best (<= 0), subtracted exactly before conversion to float64 [candidates]."""
    array = checked_scores(scores)
    return (array - array.max()).astype(np.float64)


def _scale(sensitivity: int, epsilon: Fraction) -> float:
    scale = 2 * Fraction(max(sensitivity, 1)) / epsilon
    if scale > scales.LARGEST_SCALE:
        raise ValueError(
            f"epsilon {shortened(epsilon)} for scores of sensitivity {sensitivity} asks for a scale above "
            "2^50, beyond any difference of scores: spend more."
        )
    if scale * scales.STRONGEST < 1:
        raise ValueError(
            f"epsilon {shortened(epsilon)} for scores of sensitivity {sensitivity} leaves nothing to chance "
            "(once in 10^27 choices) and protects nothing: spend at most "
            f"{2 * scales.STRONGEST} times the sensitivity."
        )
    return ceil_float(scale)
