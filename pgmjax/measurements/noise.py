"""The discrete noise distributions that are really drawn: their probabilities and exact standard deviations.

Released noise is a discrete Laplace or a discrete Gaussian on the integers, not the continuous distribution
of the same scale: at scale 1 the Laplace variance is 1.841 and not 2. Whatever weighs an answer by
its noise must take the figure from here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from pgmjax._internal import checks

_SINH = 710.0  # its hyperbolic sine is just below the largest float


@dataclasses.dataclass(frozen=True)
class DiscreteLaplace:
    """P(k) proportional to exp(-abs(k) / scale) on the integers.

    Attributes:
        scale: the float that the sampler was given; never a standard deviation.

    Example:
        >>> round(DiscreteLaplace(1.0).variance, 3)
        1.841
    """

    scale: float
    noise: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checks.number("scale", self.scale, above=0))

    @property
    def variance(self) -> float:
        """2 q / (1 - q)^2 with q = exp(-1 / scale), in a form that loses nothing at large scales."""
        return self.stddev * self.stddev

    @property
    def stddev(self) -> float:
        """The exact standard deviation; 0 where it is below all floats."""
        half = 0.5 / self.scale
        return math.sqrt(0.5) / math.sinh(half) if half < _SINH else 0.0

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """Return the probability of each integer in `values` [n]."""
        with np.errstate(over="ignore"):
            return math.tanh(0.5 / self.scale) * np.exp(-np.abs(np.asarray(values, float)) / self.scale)

    def outside(self, half_width: int) -> float:
        """Return the probability that noise is larger than `half_width` >= 0 in size."""
        return 2 * math.exp(-(half_width + 1) / self.scale) / (1 + math.exp(-1 / self.scale))

    def half_width(self, level: float) -> int:
        """Return the smallest integer w >= 0 with P(abs(noise) <= w) >= level.

        Example:
            >>> DiscreteLaplace(10.0).half_width(0.95)
            30
        """
        return _smallest(self.outside, _outside_of(level))

    def radius(self, delta: float) -> int:
        """Return the smallest integer w >= 0 with P(abs(noise) > w) <= delta, which may be tiny.

        Example:
            >>> DiscreteLaplace(10.0).radius(1e-20)
            461
        """
        return _smallest(self.outside, checks.number("delta", delta, above=0, below=1))


@dataclasses.dataclass(frozen=True)
class DiscreteGaussian:
    """P(k) proportional to exp(-k^2 / (2 scale^2)) on the integers.

    Attributes:
        scale: the float that the sampler was given; the standard deviation is just below it.

    References:
        Canonne, Kamath and Steinke 2020, "The discrete Gaussian for differential privacy".

    Example:
        >>> DiscreteGaussian(10.0).stddev
        10.0
    """

    scale: float
    noise: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checks.number("scale", self.scale, above=0))

    def _masses(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):  # a tiny scale's square would be zero
            return np.exp(-0.5 * (values / self.scale) ** 2)

    def _support(self) -> tuple[np.ndarray, np.ndarray]:
        ends = np.arange(-math.ceil(40 * self.scale) - 1, math.ceil(40 * self.scale) + 2, dtype=np.float64)
        return ends, self._masses(ends)

    @property
    def _normaliser(self) -> float:
        # by Poisson summation the two differ by a factor 1 + 2 exp(-2 pi^2 scale^2): nothing at scale 4
        return math.sqrt(2 * math.pi) * self.scale if self.scale >= 4 else float(self._support()[1].sum())

    @property
    def variance(self) -> float:
        """The exact variance: a sum over probabilities, which equals scale^2 to float64 from scale 4 on."""
        if self.scale >= 4:
            return self.scale * self.scale
        ends, masses = self._support()
        return float((ends**2 * masses).sum() / masses.sum())

    @property
    def stddev(self) -> float:
        """The exact standard deviation."""
        return self.scale if self.scale >= 4 else math.sqrt(self.variance)

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """Return the probability of each integer in `values` [n]."""
        return self._masses(np.asarray(values, float)) / self._normaliser

    def outside(self, half_width: int) -> float:
        """Return the probability that noise is larger than `half_width` >= 0 in size.

        A sum over the distribution; above scale 2000 the integral of the continuous distribution from
        `half_width` + 1/2 on, which differs by less than 1e-7.
        """
        if self.scale > 2000:
            return math.erfc((half_width + 0.5) / (self.scale * math.sqrt(2)))
        ends, masses = self._support()
        return float(masses[np.abs(ends) > half_width].sum() / masses.sum())

    def half_width(self, level: float) -> int:
        """Return the smallest integer w >= 0 with P(abs(noise) <= w) >= level.

        Example:
            >>> DiscreteGaussian(10.0).half_width(0.95)
            20
        """
        return _smallest(self.outside, _outside_of(level))

    def radius(self, delta: float) -> int:
        """Return the smallest integer w >= 0 with P(abs(noise) > w) <= delta, which may be tiny.

        Example:
            >>> DiscreteGaussian(10.0).radius(1e-20)
            93
        """
        return _smallest(self.outside, checks.number("delta", delta, above=0, below=1))


NoiseDistribution = DiscreteLaplace | DiscreteGaussian


def _outside_of(level: float) -> float:
    if not 0 < checks.number("level", level) < 1:
        raise ValueError(f"level must be in (0, 1), got {level}.")
    return 1 - level


def _smallest(outside: Callable[[int], float], delta: float) -> int:
    """Return the smallest w >= 0 with outside(w) <= delta."""
    low, high = -1, 1
    while outside(high) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if outside(middle) <= delta else (middle, high)
    return high
