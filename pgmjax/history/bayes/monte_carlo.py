"""The distribution of a sum of noises by drawing it many times on the device."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from pgmjax import random
from pgmjax._internal import checks
from pgmjax._internal.jit import jit
from pgmjax.history.bayes.distribution import Accuracy, SumDistribution
from pgmjax.history.bayes.noise_sum import NoiseSum
from pgmjax.measurements.noise import DiscreteNoise, NoiseDistribution

SIZE = 1_000_000
"""Default number of draws."""
CONFIDENCE = 0.999
_SLACK = 1e-9  # of the largest draw
_CHUNK_NUMBERS = 1 << 22


@dataclasses.dataclass(frozen=True, eq=False)
class SimulatedDistribution(SumDistribution):
    """A symmetric distribution represented by draws from it.

    Attributes:
        sizes: absolute values of the draws, ascending [draws].
        accuracy: bound, at its stated confidence, on the error of probabilities of intervals around 0.
    """

    sizes: np.ndarray
    accuracy: Accuracy

    def between(self, low: float, high: float) -> float:
        """Return the share of draws, and of their mirror images, in low..high."""
        return max(0.0, self._below(high, True) - self._below(low, False))

    def _below(self, end: float, included: bool) -> float:
        """Return P(X <= end), or P(X < end), with both signs of every draw counted half."""
        slack = _SLACK * float(self.sizes[-1])
        side = 1.0 if included == (end >= 0) else -1.0
        inside = np.searchsorted(self.sizes, abs(end) + side * slack) / len(self.sizes)
        return float(0.5 + 0.5 * inside if end > 0 or (end == 0 and included) else 0.5 - 0.5 * inside)

    def half_width(self, level: float) -> float:
        """Return a w with P(abs(X) <= w) >= level, with the stated confidence over the draws.

        Raises:
            ValueError: the level is outside (0, 1), or too close to 1 for the number of draws.
        """
        number = order_statistic(len(self.sizes), level)
        if number > len(self.sizes):
            raise self._unreachable(level)
        # sums that are equal up to rounding are one atom
        return float(self.sizes[number - 1] + _SLACK * self.sizes[-1])


def order_statistic(size: int, level: float) -> int:
    """Return the rank, from 1, of a draw at or above a level's quantile with `CONFIDENCE`.

    It exceeds `level` times `size`, since the draw of that rank is below the quantile half of the time.
    `size` + 1 if no draw is large enough with that confidence.

    Example:
        >>> order_statistic(10_000, 0.95), order_statistic(100, 0.95)
        (9567, 101)
    """
    level = checks.number("level", level, above=0, below=1)
    return min(int(scipy.stats.binom.ppf(CONFIDENCE, size, level)), size) + 1


def simulate(distribution: NoiseSum, size: int = SIZE, seed: int = 0) -> SimulatedDistribution:
    """Return the distribution of a sum by draws on the device.

    Args:
        distribution: the sum.
        size: the number of draws.
        seed: of the device's generator.

    References:
        Xiao and Xiong 2012, Section 4.2, Algorithm 1.
    """
    every = np.repeat(np.array(distribution.distributions, object), distribution.counts).tolist()
    draws = draw_sums(np.repeat(distribution.sizes, distribution.counts)[None], every, size, seed)[:, 0]
    return SimulatedDistribution(np.sort(np.abs(draws)), _accuracy(len(draws)))


def draw_sums(coefficients: np.ndarray, distributions: Any, size: int, seed: int = 0) -> np.ndarray:
    """Return joint draws of linear combinations of independent noises, float64 [draws, targets].

    Args:
        coefficients: [targets, terms].
        distributions: the distribution of every term [terms].
        size: the number of draws.
        seed: of the device's generator.
    """
    size = checks.integer("size", size, low=1)
    terms = len(distributions)
    if not terms:
        return np.zeros((size, len(coefficients)))
    chunk = min(size, max(1, _CHUNK_NUMBERS // terms))
    with jax.enable_x64(True):
        arguments = _arguments(np.asarray(coefficients, np.float64), tuple(distributions))
        keys = random.split(random.key(seed, jax), -(-size // chunk), jax)
        parts = [np.asarray(_draw(key, arguments, chunk)) for key in keys]
    return np.concatenate(parts)[:size]


def _accuracy(size: int) -> Accuracy:
    """Return the accuracy of shares of draws, by the inequality of Dvoretzky, Kiefer and Wolfowitz."""
    return Accuracy(math.sqrt(math.log(2 / (1 - CONFIDENCE)) / (2 * size)), 0.0, CONFIDENCE)


def _arguments(
    coefficients: np.ndarray, distributions: tuple[NoiseDistribution, ...]
) -> list[tuple[Any, ...]]:
    """Return the terms for `_draw`, grouped by sampler: coefficients, scales, discreteness."""
    scales = np.array([distribution.scale for distribution in distributions])
    discrete = np.array([distribution.is_discrete for distribution in distributions])
    laplace = np.array([distribution.noise == "laplace" for distribution in distributions])
    tabled = np.array([distribution.tabled for distribution in distributions])
    parts: list[tuple[Any, ...]] = []
    for which in (laplace, ~laplace & ~tabled):
        parts.append((coefficients[:, which].T, scales[which], discrete[which]))
    tables = []
    drawn = {
        distribution
        for distribution in distributions
        if distribution.tabled and isinstance(distribution, DiscreteNoise)
    }
    for distribution in sorted(drawn, key=lambda distribution: (distribution.scale, repr(distribution))):
        which = np.array([each == distribution for each in distributions])
        tables.append((coefficients[:, which].T, *distribution.table()))
    return [*parts, *tables]


@functools.partial(jit, static_argnums=2)
def _draw(key: Any, arguments: Any, chunk: int) -> Any:
    laplace, gaussian, *tables = arguments
    keys = random.split(key, 3 + len(tables), jax)
    coefficients, scales, discrete = laplace
    sizes = [-scales * jnp.log(random.uniforms(k, (chunk, len(scales)), jax)) for k in keys[:2]]
    sizes = [jnp.where(discrete, jnp.floor(each), each) for each in sizes]
    result = (sizes[0] - sizes[1]) @ coefficients
    coefficients, scales, discrete = gaussian
    values = scales * random.normals(keys[2], (chunk, len(scales)), jax)
    result += jnp.where(discrete, jnp.rint(values), values) @ coefficients
    for each, (coefficients, sums, ends) in zip(keys[3:], tables, strict=True):
        uniforms = random.uniforms(each, (chunk, len(coefficients)), jax)
        result += ends[jnp.minimum(jnp.searchsorted(sums, uniforms), len(ends) - 1)] @ coefficients
    return result
