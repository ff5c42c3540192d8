"""Repeatable noise from a seed, for research only: anyone who knows the seed can subtract the noise."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace, DiscreteNoise
from pgmjax.privacy import response, selection
from pgmjax.privacy.backend import NoiseBackend
from pgmjax.privacy.response import (
    UnaryResponse,
    checked_bits,
    checked_noise,
    checked_response,
    checked_selection,
    sampler_of,
)

_STREAM = int.from_bytes(b"noise", "big")  # keeps noise apart from other uses of the same seed
_CHUNK = 1 << 20


class SeededBackend(NoiseBackend):
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

    def draw(self, distribution: DiscreteNoise, size: int) -> np.ndarray:
        """Return independent noise, int64 [size]."""
        distribution = checked_noise(distribution)
        sampler = sampler_of(self._samplers, distribution, "SeededBackend")
        parts = [sampler(self, distribution, min(_CHUNK, size - start)) for start in range(0, size, _CHUNK)]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    def choose(self, distribution: selection.SelectionDistribution, scores: np.ndarray) -> int:
        """Return the index of the candidate whose score with exponential or Gumbel noise is largest."""
        distribution, scores = checked_selection(distribution), selection.checked_scores(scores)
        pure = isinstance(distribution, selection.PermuteAndFlip)
        noise = (self._generator.standard_exponential if pure else self._generator.gumbel)(size=scores.size)
        return int(np.argmax((scores - scores.max()) / distribution.scale + noise))

    def choose_several(
        self, distribution: selection.SelectionDistribution, scores: np.ndarray, draws: int
    ) -> np.ndarray:
        """Return the indices of independent choices from the same scores, int64 [draws]."""
        distribution, scores = checked_selection(distribution), selection.checked_scores(scores)
        if isinstance(distribution, selection.PermuteAndFlip):
            return np.array([self.choose(distribution, scores) for _ in range(draws)], dtype=np.int64)
        ends = np.cumsum(np.exp((scores - scores.max()) / distribution.scale))
        chosen = np.searchsorted(ends, self._generator.random(draws) * ends[-1], side="right")
        return np.minimum(chosen, scores.size - 1).astype(np.int64)

    def respond(self, distribution: response.KaryResponse, codes: np.ndarray) -> np.ndarray:
        """Return an answer for each true category, int64 [records]."""
        distribution = checked_response(distribution)
        codes = response.checked_codes(distribution.size, codes)
        answers = np.empty(codes.size, dtype=np.int64)
        for start in range(0, codes.size, _CHUNK):
            truth = codes[start : start + _CHUNK]
            lies = self._generator.random(truth.size) < distribution.lie
            others = self._generator.integers(distribution.size - 1, size=np.count_nonzero(lies))
            answers[start : start + truth.size] = response.answered(truth, lies, others)
        return answers

    def respond_bits(self, distribution: UnaryResponse, codes: np.ndarray) -> np.ndarray:
        """Return one bit per category for each true category, bool [records, size]."""
        distribution = checked_bits(distribution)
        codes = response.checked_codes(distribution.size, codes)
        answers = np.empty((codes.size, distribution.size), dtype=np.bool_)
        step = max(1, _CHUNK // distribution.size)
        for start in range(0, codes.size, step):
            truth = codes[start : start + step]
            bits = self._generator.random((truth.size, distribution.size)) < distribution.lie
            bits[np.arange(truth.size), truth] = self._generator.random(truth.size) < float(
                distribution.truth
            )
            answers[start : start + step] = bits
        return answers

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
            excess = np.abs(proposal) - scale**2 / width
            accepted = proposal[self._generator.random(proposal.size) < np.exp(-(excess**2) / (2 * scale**2))]
            taken = accepted[: size - filled]
            result[filled : filled + taken.size] = taken
            filled += taken.size
        return result

    _samplers: ClassVar[dict[type, Any]] = {
        DiscreteLaplace: _laplace,
        DiscreteGaussian: _gaussian,
    }

    def __repr__(self) -> str:
        return f"SeededBackend({self.seed}, insecure=True)"
