"""Distributions of noise: variances, tails, transforms, and draws for simulations.

Released noise is a discrete Laplace or a discrete Gaussian on the integers, not the continuous distribution
of the same scale: at scale 1 the Laplace variance is 1.841 and not 2. Code that weights answers by their
noise must use the variances from here. The continuous distributions are those of the papers and are used only
on request.
"""

from __future__ import annotations

import abc
import dataclasses
import math
import statistics
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks

_SINH = 710.0  # its hyperbolic sine is just below the largest float
LARGEST_EXPONENT = 700.0
_NORMAL_FROM = 4.0  # scale of a discrete Gaussian whose moments are the continuous one's
_TABLE_SCALE = 1000.0  # from here on a rounded Gaussian is the discrete one to 1e-7
_TAIL = 1e-12  # of a discrete distribution's probability that simulated noise leaves out
_LONGEST_TABLE = 1 << 24  # beyond it simulated noise is the continuous one, rounded


@dataclasses.dataclass(frozen=True)
class NoiseDistribution(abc.ABC):
    """A symmetric distribution of noise added to an answer. Subclasses define the families.

    Attributes:
        scale: the parameter of the sampler; in general not the standard deviation.
        noise: the family's name in records and files.
        is_discrete: whether the noise is an integer.
    """

    scale: float
    noise: ClassVar[str]
    is_discrete: ClassVar[bool]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checks.number("scale", self.scale, above=0))

    @property
    @abc.abstractmethod
    def variance(self) -> float:
        """The exact variance."""

    @property
    def stddev(self) -> float:
        """The exact standard deviation."""
        return math.sqrt(self.variance)

    @property
    @abc.abstractmethod
    def mean_absolute(self) -> float:
        """The expected absolute value."""

    @property
    def tabled(self) -> bool:
        """True if simulations on the device draw it from a table of its probabilities."""
        return False

    def outside(self, half_width: float) -> float:
        """Return P(abs(N) > half_width) for a half_width >= 0."""
        return 2 * float(self.above(np.array(float(half_width))))

    @abc.abstractmethod
    def half_width(self, level: float) -> float:
        """Return the smallest w >= 0, an integer for discrete noise, with P(abs(N) <= w) >= level."""

    @abc.abstractmethod
    def above(self, values: np.ndarray) -> np.ndarray:
        """Return P(N > v) for every v >= 0 in `values` [n], accurate far into the tail."""

    @abc.abstractmethod
    def reach(self, outside: float) -> float:
        """Return an r with P(abs(N) > r) <= outside, or a closed form near it that a subclass describes."""

    @abc.abstractmethod
    def characteristic(self, angles: np.ndarray) -> np.ndarray:
        """Return E cos(t N) for every t in `angles` [n], the characteristic function."""

    @property
    @abc.abstractmethod
    def largest_argument(self) -> float:
        """The smallest s > 0 for which E exp(s N) is infinite."""

    @abc.abstractmethod
    def log_moment(self, arguments: np.ndarray) -> np.ndarray:
        """Return log E exp(s N), or an upper bound of it, for every s >= 0 in `arguments` [n]."""

    @property
    @abc.abstractmethod
    def sub_exponential(self) -> tuple[float, float]:
        """Numbers v and l with log E exp(s N) <= v s^2 / 2 for all abs(s) <= 1 / l (for all s if l is 0).

        They bound the tails of weighted sums (Wainwright 2019, "High-dimensional statistics", Section 2.1.3).
        """

    @abc.abstractmethod
    def continuous(self) -> NoiseDistribution:
        """Return the papers' continuous distribution of the same family and scale."""

    @abc.abstractmethod
    def simulate(self, key: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Return independent draws in float64, for Monte Carlo only: they give no privacy.

        Args:
            key: a generator, such as `pgmjax.random` creates from a seed.
            shape: shape of the result.
        """

    def parameters(self) -> dict[str, Any]:
        """Return the parameters by name, as stored in files next to the family's name."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class _LaplaceFamily(NoiseDistribution):
    """Common formulas of the discrete and the continuous Laplace distribution of one scale."""

    noise: ClassVar[str] = "laplace"

    def reach(self, outside: float) -> float:
        """Return scale ln(1 / outside), beyond which continuous noise lies with this probability.

        The discrete has at most 2 / (1 + exp(-1 / scale)) times as much there, which is less than twice.
        """
        return self.scale * math.log(1 / outside)

    @property
    def largest_argument(self) -> float:
        """1 / scale."""
        return 1 / self.scale

    @property
    def sub_exponential(self) -> tuple[float, float]:
        """4 scale^2 and sqrt(2) scale (Chan, Shi and Song 2011, Lemma 2.8)."""
        return 4 * self.scale * self.scale, math.sqrt(2) * self.scale


@dataclasses.dataclass(frozen=True)
class _GaussianFamily(NoiseDistribution):
    """Common formulas of the discrete and the continuous Gaussian distribution of one scale.

    The moments of the continuous one bound those of the discrete one (Canonne, Kamath and Steinke 2020,
    Fact 19).
    """

    noise: ClassVar[str] = "gaussian"

    def reach(self, outside: float) -> float:
        """Return scale sqrt(2 ln(2 / outside)), an r with P(abs(N) > r) <= outside."""
        return self.scale * math.sqrt(2 * math.log(2 / outside))

    @property
    def largest_argument(self) -> float:
        """Infinity."""
        return math.inf

    def log_moment(self, arguments: np.ndarray) -> np.ndarray:
        """Return scale^2 s^2 / 2 for every s in `arguments` [n]."""
        return np.asarray(0.5 * (self.scale * arguments) ** 2)

    @property
    def sub_exponential(self) -> tuple[float, float]:
        """scale^2 and 0."""
        return self.scale * self.scale, 0.0


class DiscreteNoise(NoiseDistribution):
    """Noise on the integers, as it is actually drawn and released."""

    is_discrete: ClassVar[bool] = True

    @abc.abstractmethod
    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """Return the probability of each integer in `values` [n]."""

    def half_width(self, level: float) -> int:
        """Return the smallest integer w >= 0 with P(abs(noise) <= w) >= level.

        Example:
            >>> DiscreteLaplace(10.0).half_width(0.95), DiscreteGaussian(10.0).half_width(0.95)
            (30, 20)
        """
        return self.radius(1 - checks.number("level", level, above=0, below=1))

    def radius(self, delta: float) -> int:
        """Return the smallest integer w >= 0 with P(abs(noise) > w) <= delta, which may be tiny.

        Example:
            >>> DiscreteLaplace(10.0).radius(1e-20), DiscreteGaussian(10.0).radius(1e-20)
            (461, 93)
        """
        delta = checks.number("delta", delta, above=0, below=1)
        low, high = -1, 1
        while self.outside(high) > delta:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.outside(middle) <= delta else (middle, high)
        return high

    def continuous(self) -> NoiseDistribution:
        """Return the papers' continuous distribution of the same family and scale."""
        return CONTINUOUS[self.noise](self.scale)

    def simulate(self, key: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Return independent draws in float64 by inversion of a table, for Monte Carlo alone."""
        if self.radius(_TAIL) > _LONGEST_TABLE:
            return np.rint(self.continuous().simulate(key, shape))
        below, values = self.table()
        return np.asarray(values[np.searchsorted(below, key.random(shape) * below[-1])])

    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """Return cumulative probabilities and their values in float64 [n], for simulations.

        Raises:
            ValueError: the table would have more than about 30 million values.
        """
        radius = self.radius(_TAIL)
        if radius > _LONGEST_TABLE:
            raise ValueError(f"{self} has too many values for a table: +- {radius:,}.")
        values = np.arange(-radius, radius + 1)
        return np.cumsum(self.probabilities(values)), values.astype(np.float64)


@dataclasses.dataclass(frozen=True)
class DiscreteLaplace(_LaplaceFamily, DiscreteNoise):
    """P(k) proportional to exp(-abs(k) / scale) on the integers.

    Attributes:
        scale: the float that the sampler was given; never a standard deviation.

    Example:
        >>> round(DiscreteLaplace(1.0).variance, 3)
        1.841
    """

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
            # (1 - q) / (1 + q), in a form that keeps its digits at large scales
            return math.tanh(0.5 / self.scale) * np.exp(-np.abs(np.asarray(values, float)) / self.scale)

    @property
    def mean_absolute(self) -> float:
        """1 / sinh(1 / scale): near the scale, but for small ones.

        Example:
            >>> round(DiscreteLaplace(10.0).mean_absolute, 3), round(DiscreteLaplace(0.5).mean_absolute, 3)
            (9.983, 0.276)
        """
        inverse = 1 / self.scale
        return 1 / math.sinh(inverse) if inverse < LARGEST_EXPONENT else 0.0

    def above(self, values: np.ndarray) -> np.ndarray:
        """Return P(N > v) for every v >= 0 in `values` [n], accurate far into the tail."""
        with np.errstate(over="ignore"):  # of a tiny scale
            return np.exp(-(np.floor(values) + 1) / self.scale) / (1 + math.exp(-1 / self.scale))

    def characteristic(self, angles: np.ndarray) -> np.ndarray:
        """Return E cos(t N) for every t in `angles` [n]."""
        return np.asarray(1 / (1 + (np.sin(0.5 * angles) / self._sinh_half) ** 2))

    @property
    def _sinh_half(self) -> float:
        return math.sinh(min(0.5 / self.scale, LARGEST_EXPONENT / 2))

    def log_moment(self, arguments: np.ndarray) -> np.ndarray:
        """Return log E exp(s N) for every s >= 0 in `arguments` [n]; infinite from 1 / scale on."""
        with np.errstate(over="ignore"):
            sinh = np.sinh(np.minimum(0.5 * arguments, LARGEST_EXPONENT / 2))
            return _laplace_log_moment((sinh / self._sinh_half) ** 2)


@dataclasses.dataclass(frozen=True)
class DiscreteGaussian(_GaussianFamily, DiscreteNoise):
    """P(k) proportional to exp(-k^2 / (2 scale^2)) on the integers.

    Attributes:
        scale: the float that the sampler was given; the standard deviation is just below it.

    References:
        Canonne, Kamath and Steinke 2020, "The discrete Gaussian for differential privacy".

    Example:
        >>> DiscreteGaussian(10.0).stddev
        10.0
    """

    def _masses(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):  # a tiny scale's square would be zero
            return np.exp(-0.5 * (values / self.scale) ** 2)

    def _support(self) -> tuple[np.ndarray, np.ndarray]:
        # further out exp(-800) is 0 in float64
        ends = np.arange(-math.ceil(40 * self.scale) - 1, math.ceil(40 * self.scale) + 2, dtype=np.float64)
        return ends, self._masses(ends)

    @property
    def _normaliser(self) -> float:
        # by Poisson summation the two differ by a factor 1 + 2 exp(-2 pi^2 scale^2): nothing at scale 4
        if self.scale >= _NORMAL_FROM:
            return math.sqrt(2 * math.pi) * self.scale
        return float(self._support()[1].sum())

    @property
    def variance(self) -> float:
        """The exact variance: a sum over probabilities, which equals scale^2 to float64 from scale 4 on."""
        if self.scale >= _NORMAL_FROM:
            return self.scale * self.scale
        ends, masses = self._support()
        return float((ends**2 * masses).sum() / masses.sum())

    @property
    def stddev(self) -> float:
        """The exact standard deviation."""
        return self.scale if self.scale >= _NORMAL_FROM else math.sqrt(self.variance)

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """Return the probability of each integer in `values` [n]."""
        return self._masses(np.asarray(values, float)) / self._normaliser

    @property
    def mean_absolute(self) -> float:
        """The expected absolute value: about sqrt(2 / pi) scale, but for small ones."""
        if self.scale >= _NORMAL_FROM:
            return math.sqrt(2 / math.pi) * (self.scale - 1 / (12 * self.scale))  # Euler-Maclaurin
        values = np.arange(1, math.ceil(40 * self.scale) + 2)
        return float(2 * (values * self.probabilities(values)).sum())

    @property
    def tabled(self) -> bool:
        """True if simulations draw it from a table; from scale 1000 on a rounded Gaussian is as good."""
        return self.scale < _TABLE_SCALE

    def above(self, values: np.ndarray) -> np.ndarray:
        """Return P(N > v) for every v >= 0 in `values` [n], accurate far into the tail.

        A sum over the distribution; above scale 2000 the integral of the continuous distribution from v + 1/2
        on, which differs by less than 1e-7.
        """
        if self.scale > 2000:
            return Gaussian(self.scale).above(np.floor(values) + 0.5)
        ends = np.arange(0, math.ceil(40 * self.scale) + 2)
        # from the tail inwards, so that small probabilities keep their digits
        tails = np.append(np.cumsum(self.probabilities(ends)[::-1])[::-1], 0.0)
        return np.asarray(tails[np.minimum(np.floor(values) + 1, len(ends)).astype(np.int64)])

    def characteristic(self, angles: np.ndarray) -> np.ndarray:
        """Return E cos(t N) for every t in `angles` [n]."""
        if self.scale < 1:
            ends, masses = self._support()
            return np.asarray(np.cos(np.multiply.outer(angles, ends)) @ masses / masses.sum())
        # the function has the period 2 pi, as the noise is whole
        turned = np.remainder(angles + math.pi, 2 * math.pi) - math.pi
        shifts = 2 * math.pi * np.arange(-2, 3)  # Poisson summation; the next terms are below 1e-50
        peaks = np.exp(-0.5 * (self.scale * (turned[..., None] + shifts)) ** 2).sum(axis=-1)
        return np.asarray(peaks / np.exp(-0.5 * (self.scale * shifts) ** 2).sum())


class ContinuousNoise(NoiseDistribution):
    """A distribution with a density, as in the papers. It is never used for released noise."""

    is_discrete: ClassVar[bool] = False

    def continuous(self) -> ContinuousNoise:
        """Return itself."""
        return self

    def scaled(self, factor: float) -> ContinuousNoise:
        """Return the distribution of the noise times a factor > 0."""
        return dataclasses.replace(self, scale=float(factor * self.scale))

    @abc.abstractmethod
    def decay(self, angle: float) -> tuple[float, float]:
        """Return -log E cos(t N) at an angle t > 0, and its slope on a logarithmic axis of t."""

    @classmethod
    def of_stddev(cls, stddev: float) -> ContinuousNoise:
        """Return the distribution of this family that has a standard deviation."""
        return cls(float(stddev / cls(1.0).stddev))


@dataclasses.dataclass(frozen=True)
class Laplace(_LaplaceFamily, ContinuousNoise):
    """The continuous Laplace distribution, with density exp(-abs(x) / scale) / (2 scale).

    Example:
        >>> Laplace(1.0).variance
        2.0
    """

    @property
    def variance(self) -> float:
        """Twice the squared scale."""
        return 2 * self.scale * self.scale

    @property
    def mean_absolute(self) -> float:
        """The scale."""
        return self.scale

    def half_width(self, level: float) -> float:
        """Return the w with P(abs(N) <= w) = level."""
        return -self.scale * math.log1p(-checks.number("level", level, above=0, below=1))

    def above(self, values: np.ndarray) -> np.ndarray:
        """Return P(N > v) for every v >= 0 in `values` [n]."""
        return np.asarray(0.5 * np.exp(-np.asarray(values) / self.scale))

    def characteristic(self, angles: np.ndarray) -> np.ndarray:
        """Return 1 / (1 + scale^2 t^2) for every t in `angles` [n]."""
        return np.asarray(1 / (1 + (self.scale * angles) ** 2))

    def decay(self, angle: float) -> tuple[float, float]:
        """Return log(1 + scale^2 t^2) and its slope 2 scale^2 t^2 / (1 + scale^2 t^2)."""
        square = (self.scale * angle) ** 2
        return math.log1p(square), 2 * square / (1 + square)

    def log_moment(self, arguments: np.ndarray) -> np.ndarray:
        """Return log E exp(s N) for every s >= 0 in `arguments` [n]; infinite from 1 / scale on."""
        return _laplace_log_moment((self.scale * arguments) ** 2)

    def simulate(self, key: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Return independent draws in float64, for Monte Carlo alone."""
        return np.asarray(key.laplace(size=shape) * self.scale)


@dataclasses.dataclass(frozen=True)
class Gaussian(_GaussianFamily, ContinuousNoise):
    """The continuous Gaussian distribution of mean 0; its scale is its standard deviation.

    Example:
        >>> Gaussian(3.0).variance
        9.0
    """

    @property
    def variance(self) -> float:
        """The squared scale."""
        return self.scale * self.scale

    @property
    def mean_absolute(self) -> float:
        """sqrt(2 / pi) scale."""
        return math.sqrt(2 / math.pi) * self.scale

    def half_width(self, level: float) -> float:
        """Return the w with P(abs(N) <= w) = level."""
        return self.scale * normal_quantile(level)

    def above(self, values: np.ndarray) -> np.ndarray:
        """Return P(N > v) for every v >= 0 in `values` [n]."""
        from scipy.special import ndtr

        return np.asarray(ndtr(-np.asarray(values) / self.scale))

    def characteristic(self, angles: np.ndarray) -> np.ndarray:
        """Return exp(-scale^2 t^2 / 2) for every t in `angles` [n]."""
        return np.asarray(np.exp(-0.5 * (self.scale * angles) ** 2))

    def decay(self, angle: float) -> tuple[float, float]:
        """Return scale^2 t^2 / 2 and its slope scale^2 t^2."""
        square = (self.scale * angle) ** 2
        return 0.5 * square, square

    def simulate(self, key: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Return independent draws in float64, for Monte Carlo alone."""
        return np.asarray(key.standard_normal(shape) * self.scale)


DISCRETE: dict[str, type[DiscreteNoise]] = {kind.noise: kind for kind in (DiscreteLaplace, DiscreteGaussian)}
"""The distributions used for released noise, by the family's name in files."""
CONTINUOUS: dict[str, type[ContinuousNoise]] = {kind.noise: kind for kind in (Laplace, Gaussian)}
"""The continuous distributions by the family's name."""


def read_noise(word: str, record: Mapping[str, Any]) -> DiscreteNoise:
    """Return the discrete distribution from its family's name and `parameters()` in a file.

    Raises:
        KeyError: the name is unknown, or the scale is missing.

    Example:
        >>> read_noise("laplace", {"scale": 2.0})
        DiscreteLaplace(scale=2.0)
    """
    return DISCRETE[word](record["scale"])


def normal_quantile(level: float) -> float:
    """Return z with P(abs(Z) <= z) = level for a standard Gaussian Z.

    Raises:
        ValueError: `level` is not in (0, 1).

    Example:
        >>> round(normal_quantile(0.95), 3)
        1.96
    """
    level = checks.number("level", level, above=0, below=1)
    return statistics.NormalDist().inv_cdf(0.5 + 0.5 * level)


def _laplace_log_moment(inside: np.ndarray) -> np.ndarray:
    """-log(1 - inside), infinite from 1 on."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(inside < 1, -np.log1p(-np.minimum(inside, 1)), np.inf)
