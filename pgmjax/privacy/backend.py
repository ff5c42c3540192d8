"""Noise backends: one small interface with two implementations.

`OpenDPBackend` is the default and the only one whose releases are secure. `SeededBackend` draws the
same distributions from a seed, for repeatable research, and marks its releases as not secure.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Protocol, TypeVar

import numpy as np

from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace, DiscreteNoise
from pgmjax.privacy.response import KaryResponse, UnaryResponse
from pgmjax.privacy.selection import ExponentialMechanism, PermuteAndFlip, SelectionDistribution


class NoiseBackend(Protocol):
    """Integer noise for integer answers, choices by integer scores, and randomised response.

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
        ...

    def gaussian(self, sensitivity_squared: int, rho: Fraction) -> DiscreteGaussian:
        """Return the distribution this backend draws for an exact squared L2 sensitivity and rho."""
        ...

    def permute_and_flip(self, sensitivity: int, epsilon: Fraction, monotone: bool = False) -> PermuteAndFlip:
        """Return the selection distribution this backend uses for a score sensitivity and epsilon."""
        ...

    def exponential(
        self, sensitivity: int, epsilon: Fraction, monotone: bool = False
    ) -> ExponentialMechanism:
        """Return the selection distribution this backend uses, epsilon-DP and epsilon^2/8-zCDP."""
        ...

    def unary_response(self, size: int, epsilon: Fraction, symmetric: bool = False) -> UnaryResponse:
        """Return the epsilon-DP unary response (one bit per category) with the smallest lie probability."""
        ...

    def randomized_response(self, size: int, epsilon: Fraction) -> KaryResponse:
        """Return the epsilon-DP distribution of a record's answer, one of `size` categories."""
        ...

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


_WRAPPERS: set[type] = set()

_Wrapper = TypeVar("_Wrapper", bound=type)


def passes_on(wrapper: _Wrapper) -> _Wrapper:
    """Mark a class of this library that draws nothing itself and hands over what its `_backend` draws."""
    _WRAPPERS.add(wrapper)
    return wrapper


def is_secure(backend: NoiseBackend) -> bool:
    """Return whether noise protects, which the backend's class decides and not its attribute `secure`.

    Guarantees:
        True only for an `OpenDPBackend`, not of a subclass and without methods put in its place, or for what
        this library itself wraps around one and that hands over its noise unchanged.

    Example:
        >>> from pgmjax.privacy.seeded import SeededBackend
        >>> backend = SeededBackend(1, insecure=True)
        >>> backend.secure = True
        >>> is_secure(backend), is_secure(default_backend())
        (False, True)
    """
    from pgmjax.privacy.opendp import OpenDPBackend

    source: Any = backend
    while True:
        if any(callable(getattr(type(source), name, None)) for name in getattr(source, "__dict__", ())):
            return False
        if type(source) not in _WRAPPERS:
            return type(source) is OpenDPBackend
        source = source._backend


def default_backend() -> NoiseBackend:
    """Return the secure backend.

    Raises:
        ImportError: OpenDP is not installed; the message names the command that installs it.
    """
    from pgmjax.privacy.opendp import OpenDPBackend

    return OpenDPBackend()
