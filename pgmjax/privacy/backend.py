"""Noise backends: one small interface with two implementations.

`OpenDPBackend` is the default and the only one whose releases are secure. `SeededBackend` draws the
same distributions from a seed, for repeatable research, and marks its releases as not secure.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

import numpy as np

from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace, DiscreteNoise
from pgmjax.privacy import response, scales, selection
from pgmjax.privacy.response import KaryResponse, UnaryResponse
from pgmjax.privacy.selection import ExponentialMechanism, PermuteAndFlip, SelectionDistribution


class NoiseBackend(Protocol):
    """Integer noise for integer answers, choices by integer scores, and randomised response.

    The distributions for a sensitivity and a cost are given here; a backend draws from them.

    Attributes:
        name: the name that releases record.
        secure: the backend's own claim. Releases are marked by `is_secure`, which looks at the class.
        seed: the seed, or None.
    """

    name: str
    secure: bool
    seed: int | None

    def restart(self) -> NoiseBackend:
        """Return the backend for one run; a seeded backend restarts its stream."""
        ...

    def laplace(self, sensitivity: int, epsilon: Fraction) -> DiscreteLaplace:
        """Return the distribution this backend draws for an exact L1 sensitivity and epsilon."""
        return scales.laplace_for(sensitivity, epsilon)

    def gaussian(self, sensitivity_squared: int, rho: Fraction) -> DiscreteGaussian:
        """Return the distribution this backend draws for an exact squared L2 sensitivity and rho."""
        return scales.gaussian_for(sensitivity_squared, rho)

    def permute_and_flip(self, sensitivity: int, epsilon: Fraction) -> PermuteAndFlip:
        """Return the selection distribution this backend uses for a score sensitivity and epsilon."""
        return selection.permute_and_flip_for(sensitivity, epsilon)

    def exponential(self, sensitivity: int, epsilon: Fraction) -> ExponentialMechanism:
        """Return the selection distribution this backend uses, epsilon-DP and epsilon^2/8-zCDP."""
        return selection.exponential_for(sensitivity, epsilon)

    def unary_response(self, size: int, epsilon: Fraction, symmetric: bool = False) -> UnaryResponse:
        """Return the epsilon-DP unary response (one bit per category) with the smallest lie probability."""
        return response.unary_for(size, epsilon, symmetric)

    def randomized_response(self, size: int, epsilon: Fraction) -> KaryResponse:
        """Return the epsilon-DP distribution of a record's answer, one of `size` categories."""
        return response.response_for(size, epsilon)

    def draw(self, distribution: DiscreteNoise, size: int) -> np.ndarray:
        """Return independent noise, int64 [size]."""
        ...

    def choose(self, distribution: SelectionDistribution, scores: np.ndarray) -> int:
        """Return the index of one candidate; scores are int64 [candidates], larger is better.

        Raises:
            TypeError: the scores are not integers.
            ValueError: there is no candidate, or a score is outside -2^53 < score < 2^53.
        """
        ...

    def choose_several(
        self, distribution: SelectionDistribution, scores: np.ndarray, draws: int
    ) -> np.ndarray:
        """Return the indices of independent choices from the same scores, int64 [draws]."""
        ...

    def respond(self, distribution: KaryResponse, codes: np.ndarray) -> np.ndarray:
        """Return an answer for each true category, int64 [records].

        Raises:
            TypeError: the codes are not integers.
            ValueError: a code is outside 0..size-1; nothing was drawn.
        """
        ...

    def respond_bits(self, distribution: UnaryResponse, codes: np.ndarray) -> np.ndarray:
        """Return one bit per category for each true category, bool [records, size].

        Raises:
            ValueError: as for `respond`.
        """
        ...
