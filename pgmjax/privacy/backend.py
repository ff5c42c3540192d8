"""Noise backends: one small interface with two implementations.

`OpenDPBackend` is the default and the only one whose releases are secure. `SeededBackend` draws the
same distributions from a seed, for repeatable research, and marks its releases as not secure.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np

from pgmjax._internal import checks
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

    def choose(self, distribution: SelectionDistribution, scores: np.ndarray) -> int:
        """Return the index of one candidate; scores are int64 [candidates], larger is better.

        Raises:
            TypeError: the scores are not integers.
            ValueError: there is no candidate, or a score is outside -2^53 < score < 2^53.
        """

    def choose_several(
        self, distribution: SelectionDistribution, scores: np.ndarray, draws: int
    ) -> np.ndarray:
        """Return the indices of independent choices from the same scores, int64 [draws]."""

    def respond(self, distribution: KaryResponse, codes: np.ndarray) -> np.ndarray:
        """Return an answer for each true category, int64 [records].

        Raises:
            TypeError: the codes are not integers.
            ValueError: a code is outside 0..size-1; nothing was drawn.
        """

    def respond_bits(self, distribution: UnaryResponse, codes: np.ndarray) -> np.ndarray:
        """Return one bit per category for each true category, bool [records, size].

        Raises:
            ValueError: as for `respond`.
        """


class PiecewiseBackend(NoiseBackend):
    """A backend that checks what it is given and draws noise and responses in pieces.

    Subclasses draw a piece. All of a piece is drawn before a category is read, so that the time that drawing
    takes does not depend on it.

    Attributes:
        _noise_piece: numbers of noise in a piece.
        _coins_piece: coins in a piece of responses.
        _samplers: the methods that draw noise, by the class of its distribution.
    """

    _noise_piece: ClassVar[int]
    _coins_piece: ClassVar[int]
    _samplers: ClassVar[dict[type, Callable[..., np.ndarray]]]

    @abc.abstractmethod
    def _coins(self, probability: float | Fraction, size: int) -> np.ndarray:
        """Return independent bools [size], each True with a probability."""

    @abc.abstractmethod
    def _uniform(self, bound: int, size: int) -> np.ndarray:
        """Return independent uniform integers in 0..bound-1, int64 [size]."""

    def _in_pieces(self, size: int, piece: int, fill: Callable[[int, int], None]) -> None:
        """Call fill(start, stop) for pieces of a range."""
        for start in range(0, size, piece):
            fill(start, min(start + piece, size))

    def draw(self, distribution: DiscreteNoise, size: int) -> np.ndarray:
        """Return independent noise, int64 [size].

        Raises:
            TypeError: no discrete noise, or one without a sampler here.
        """
        checks.kind(
            distribution,
            DiscreteNoise,
            "distribution must be a DiscreteLaplace or DiscreteGaussian, or other discrete noise of "
            "`measurements.noise`",
        )
        sampler = self._samplers.get(type(distribution))
        if sampler is None:  # also for a subclass, which would be drawn as something else without a word
            has = ", ".join(kind.__name__ for kind in self._samplers)
            raise TypeError(
                f"{type(self).__name__} has no sampler for {type(distribution).__name__}; it draws {has}."
            )
        noise = np.empty(size, dtype=np.int64)

        def fill(start: int, stop: int) -> None:
            noise[start:stop] = sampler(self, distribution, stop - start)

        self._in_pieces(size, self._noise_piece, fill)
        return noise

    def respond(self, distribution: KaryResponse, codes: np.ndarray) -> np.ndarray:
        """Return an answer for each true category, int64 [records].

        A coin a record says whether it lies. A lie is uniform over the other categories.
        """
        checks.kind(distribution, KaryResponse, "distribution must be a KaryResponse")
        codes = response.checked_codes(distribution.size, codes)
        answers = np.empty(codes.size, dtype=np.int64)

        def fill(start: int, stop: int) -> None:
            lies = self._coins(distribution.lie, stop - start)
            others = self._uniform(distribution.size - 1, int(np.count_nonzero(lies)))
            answers[start:stop] = response.answered(codes[start:stop], lies, others)

        self._in_pieces(codes.size, self._coins_piece, fill)
        return answers

    def respond_bits(self, distribution: UnaryResponse, codes: np.ndarray) -> np.ndarray:
        """Return one bit per category for each true category, bool [records, size]."""
        checks.kind(distribution, UnaryResponse, "distribution must be a UnaryResponse")
        codes = response.checked_codes(distribution.size, codes)
        answers = np.empty((codes.size, distribution.size), dtype=np.bool_)

        def fill(start: int, stop: int) -> None:
            count = stop - start
            bits = self._coins(distribution.lie, count * distribution.size).reshape(count, distribution.size)
            own = self._coins(distribution.truth, count)
            bits[np.arange(count), codes[start:stop]] = own
            answers[start:stop] = bits

        self._in_pieces(codes.size, max(1, self._coins_piece // distribution.size), fill)
        return answers


def checked_choice(
    distribution: SelectionDistribution, scores: Any
) -> tuple[SelectionDistribution, np.ndarray]:
    """Return a selection distribution and its scores, int64 [candidates], both checked.

    Raises:
        TypeError: no selection distribution, or scores that are no integers.
        ValueError: as `selection.checked_scores`.
    """
    checks.kind(
        distribution,
        PermuteAndFlip | ExponentialMechanism,
        "distribution must be a PermuteAndFlip or ExponentialMechanism",
    )
    return distribution, selection.checked_scores(scores)
