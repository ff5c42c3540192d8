"""Repeatable noise from a seed, for research only: anyone who knows the seed can subtract the noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy import selection
from pgmjax.privacy.backend import PiecewiseBackend, checked_choice

_STREAM = int.from_bytes(b"noise", "big")  # keeps noise apart from other uses of the same seed


class SeededBackend(PiecewiseBackend):
    """The secure backend's distributions, drawn by a seeded NumPy generator, to float64 precision.

    Releases made with it say `secure=False` and contain the seed. Each run restarts the stream, so the same
    seed repeats a release; runs that must be independent need different seeds.

    Args:
        seed: a non-negative integer.
        insecure: must be True, to acknowledge that the release is not to be published.

    Raises:
        ValueError: `insecure` is not True.

    References:
        Canonne, Kamath and Steinke 2020, Algorithm 3 (the Gaussian by rejection).

    Example:
        >>> backend = SeededBackend(7, insecure=True)
        >>> backend.secure, backend.draw(DiscreteLaplace(2.0), 3).dtype
        (False, dtype('int64'))
    """

    name = "seeded"
    secure = False
    seed: int | None
    _noise_piece = _coins_piece = 1 << 20

    def __init__(self, seed: int, *, insecure: bool = False):
        if insecure is not True:
            raise ValueError(
                "SeededBackend draws noise that anyone with the seed can subtract. Use it for research only "
                "and say so: SeededBackend(seed, insecure=True). For a release use the default backend."
            )
        self.seed = checks.integer("seed", seed, low=0)
        self._generator = np.random.default_rng([_STREAM, self.seed])

    def restart(self) -> SeededBackend:
        """Return a backend with the same seed at the start of its stream."""
        assert self.seed is not None
        return SeededBackend(self.seed, insecure=True)

    def choose(self, distribution: selection.SelectionDistribution, scores: np.ndarray) -> int:
        """Return the index of the candidate whose score with exponential or Gumbel noise is largest."""
        distribution, scores = checked_choice(distribution, scores)
        pure = isinstance(distribution, selection.PermuteAndFlip)
        noise = (self._generator.standard_exponential if pure else self._generator.gumbel)(size=scores.size)
        return int(np.argmax((scores - scores.max()) / distribution.scale + noise))

    def choose_several(
        self, distribution: selection.SelectionDistribution, scores: np.ndarray, draws: int
    ) -> np.ndarray:
        """Return the indices of independent choices from the same scores, int64 [draws]."""
        distribution, scores = checked_choice(distribution, scores)
        if isinstance(distribution, selection.PermuteAndFlip):
            return np.array([self.choose(distribution, scores) for _ in range(draws)], dtype=np.int64)
        # from the best downwards, so that exp cannot overflow
        ends = np.cumsum(np.exp((scores - scores.max()) / distribution.scale))
        chosen = np.searchsorted(ends, self._generator.random(draws) * ends[-1], side="right")
        # a draw times the last end may round up to that end, which is no candidate
        return np.minimum(chosen, scores.size - 1).astype(np.int64)

    def _coins(self, probability: float | Fraction, size: int) -> np.ndarray:
        return self._generator.random(size) < float(probability)

    def _uniform(self, bound: int, size: int) -> np.ndarray:
        return self._generator.integers(bound, size=size)

    def _laplace(self, distribution: DiscreteLaplace, size: int) -> np.ndarray:
        """Draw discrete Laplace noise as the difference of two geometric variables."""
        success = -math.expm1(-1.0 / distribution.scale)
        return self._generator.geometric(success, size) - self._generator.geometric(success, size)

    def _gaussian(self, distribution: DiscreteGaussian, size: int) -> np.ndarray:
        """Propose from a discrete Laplace of scale floor(sigma) + 1, accept by the ratio of probabilities."""
        scale, width = distribution.scale, math.floor(distribution.scale) + 1.0
        result = np.empty(size, dtype=np.int64)
        filled = 0
        while filled < size:
            proposal = self._laplace(DiscreteLaplace(width), int(1.5 * (size - filled)) + 16)
            # the ratio of Algorithm 3: exp(-(|Y| - sigma^2 / t)^2 / (2 sigma^2))
            excess = np.abs(proposal) - scale**2 / width
            accepted = proposal[self._generator.random(proposal.size) < np.exp(-(excess**2) / (2 * scale**2))]
            taken = accepted[: size - filled]
            result[filled : filled + taken.size] = taken
            filled += taken.size
        return result

    _samplers: ClassVar[dict[type, Any]] = {DiscreteLaplace: _laplace, DiscreteGaussian: _gaussian}

    def __repr__(self) -> str:
        return f"SeededBackend({self.seed}, insecure=True)"
