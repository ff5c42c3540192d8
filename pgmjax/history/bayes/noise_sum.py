"""A linear combination of independent noises: its moments, its tail, and the terms of its distribution.

Terms are of four distributions, two of them continuous. The discrete ones of `measurements.noise` are
those really drawn. The continuous ones are the papers' own: they stand for the discrete ones only where they
are asked for by name.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.moved import renamed
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace

__all__ = ["DiscreteGaussian", "Gaussian", "Laplace", "NoiseSum"]

_NEGLIGIBLE = 1e-12  # a coefficient whose noise is below this share of the whole is rounding
_DIGITS = 12
_LARGEST_DENOMINATOR = 1000
DISCRETE = (DiscreteLaplace, DiscreteGaussian)
LARGEST_EXPONENT = 700.0


@renamed(laws="distributions")
@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class NoiseSum:
    """The distribution of sum_k c_k N_k with independent symmetric noises N_k.

    Terms of one distribution and one size of coefficient are grouped, those that are nothing but rounding
    left out.

    Args:
        coefficients: c [terms].
        distributions: one distribution a term, or one for all; a number is the scale of a discrete Laplace
            distribution.
        continuous: take the papers' continuous distributions of the same families and scales.

    Attributes:
        sizes: the distinct sizes of coefficients [groups], largest standard deviation first.
        distributions: the distribution of every group.
        counts: how many terms a group holds [groups].

    Raises:
        ValueError: coefficients that are not finite, or as many distributions as terms were expected.

    Example:
        >>> NoiseSum([1.0, -1.0], 2.0, continuous=True)
        NoiseSum(2 terms, stddev 4)
    """

    sizes: np.ndarray
    distributions: tuple[NoiseDistribution, ...]
    counts: np.ndarray

    def __init__(self, coefficients: Any, distributions: Any, continuous: bool = False) -> None:
        array = np.atleast_1d(np.asarray(coefficients, np.float64))
        if array.ndim != 1 or not np.isfinite(array).all():
            raise ValueError(f"coefficients must be finite numbers [terms], got shape {array.shape}.")
        given = (
            list(distributions)
            if isinstance(distributions, Sequence | np.ndarray)
            else [distributions] * len(array)
        )
        if len(given) != len(array):
            raise ValueError(
                f"expected one distribution a term, {len(array)}, or one for all, got {len(given)}."
            )
        every = [
            as_distribution(f"term {k}", distribution, continuous) for k, distribution in enumerate(given)
        ]
        groups = _grouped(np.abs(array), every)
        object.__setattr__(self, "sizes", np.array([size for size, _ in groups]))
        object.__setattr__(self, "distributions", tuple(distribution for _, distribution in groups))
        object.__setattr__(self, "counts", np.array(list(groups.values()), np.int64))

    def __repr__(self) -> str:
        return f"NoiseSum({self.num_terms} terms, stddev {self.stddev:g})"

    @property
    def num_terms(self) -> int:
        """The number of terms that count."""
        return int(self.counts.sum())

    @functools.cached_property
    def variance(self) -> float:
        """The exact variance."""
        parts = zip(self.sizes, self.counts, self.distributions, strict=True)
        return math.fsum(count * size * size * distribution.variance for size, count, distribution in parts)

    @property
    def stddev(self) -> float:
        """The exact standard deviation."""
        return math.sqrt(self.variance)

    @property
    def is_discrete(self) -> bool:
        """Whether every noise is discrete."""
        return all(isinstance(distribution, DISCRETE) for distribution in self.distributions)

    def continuous(self) -> NoiseSum:
        """Return the sum with the papers' continuous distributions of the same families and scales."""
        sizes = np.repeat(self.sizes, self.counts)
        return NoiseSum(
            sizes, np.repeat(np.array(self.distributions, object), self.counts).tolist(), continuous=True
        )

    def characteristic(self, angles: np.ndarray, negligible: float = 0.0) -> np.ndarray:
        """Return E cos(t X) for every t in `angles` [n].

        Args:
            angles: the arguments t.
            negligible: values below it in size may be given as 0 (it saves time).
        """
        result = np.ones_like(np.asarray(angles, np.float64))
        left = np.arange(result.size)
        for size, count, distribution in zip(self.sizes, self.counts, self.distributions, strict=True):
            result[left] *= characteristic(distribution, size * angles[left]) ** count
            if negligible:
                large = np.abs(result[left]) > negligible
                result[left[~large]] = 0.0
                left = left[large]
        return result

    @functools.cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Arguments s and log E exp(s X) there, for Chernoff's bound."""
        limits = [
            largest_argument(distribution) / size
            for size, distribution in zip(self.sizes, self.distributions, strict=True)
        ]
        most = min(limits, default=math.inf)
        most = min(most, 50 / self.stddev)
        shares = np.concatenate([np.geomspace(1e-3, 0.5, 32), 1 - np.geomspace(0.5, 1e-4, 32)])
        arguments = most * shares
        logs = np.zeros_like(arguments)
        for size, count, distribution in zip(self.sizes, self.counts, self.distributions, strict=True):
            logs += count * log_moment(distribution, size * arguments)
        return arguments, logs

    def radius(self, outside: float) -> float:
        """Return an r with P(abs(X) > r) <= outside, by Chernoff's bound."""
        if not self.sizes.size:
            return 0.0
        arguments, logs = self._moments
        return float(((math.log(2 / outside) + logs) / arguments).min())

    def lattice(self) -> float | None:
        """Return the largest step g that all coefficients are integers times, None where there is none.

        Ratios with denominators above 1,000 count as not commensurate.

        Example:
            >>> NoiseSum([0.5, -0.75], 2.0).lattice()
            0.25
        """
        if not self.is_discrete or not self.sizes.size:
            return None
        unit = float(self.sizes.min())
        common = 1
        for size in self.sizes / unit:
            ratio = Fraction(float(size)).limit_denominator(_LARGEST_DENOMINATOR)
            if abs(float(ratio) - size) > 1e-10 * size:
                return None
            common = math.lcm(common, ratio.denominator)
            if common > 1 << 24:
                return None
        return unit / common


def _grouped(
    sizes: np.ndarray, distributions: list[NoiseDistribution]
) -> dict[tuple[float, NoiseDistribution], int]:
    spreads = sizes * np.array([distribution.stddev for distribution in distributions])
    total = math.sqrt(math.fsum(spreads**2))
    groups: dict[tuple[float, NoiseDistribution], int] = {}
    for k in np.argsort(-spreads, kind="stable"):
        if spreads[k] > _NEGLIGIBLE * total:
            key = (float(f"{sizes[k]:.{_DIGITS}g}"), distributions[k])
            groups[key] = groups.get(key, 0) + 1
    return groups


@dataclasses.dataclass(frozen=True)
class Laplace:
    """The continuous Laplace distribution, with density exp(-abs(x) / scale) / (2 scale).

    Example:
        >>> Laplace(1.0).variance
        2.0
    """

    scale: float
    noise: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checks.number("scale", self.scale, above=0))

    @property
    def variance(self) -> float:
        """Twice the squared scale."""
        return 2 * self.scale * self.scale

    @property
    def stddev(self) -> float:
        """The standard deviation."""
        return math.sqrt(2) * self.scale


@dataclasses.dataclass(frozen=True)
class Gaussian:
    """The continuous Gaussian distribution of mean 0; its scale is its standard deviation.

    Example:
        >>> Gaussian(3.0).variance
        9.0
    """

    scale: float
    noise: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checks.number("scale", self.scale, above=0))

    @property
    def variance(self) -> float:
        """The squared scale."""
        return self.scale * self.scale

    @property
    def stddev(self) -> float:
        """The standard deviation."""
        return self.scale


NoiseDistribution = DiscreteLaplace | DiscreteGaussian | Laplace | Gaussian


def as_distribution(said: str, value: Any, continuous: bool = False) -> NoiseDistribution:
    """Return a distribution from itself or from a Laplace scale.

    Args:
        said: what it is the distribution of, for messages.
        value: a distribution, or a number: the scale of a discrete Laplace distribution, the one that is
            really drawn.
        continuous: take the continuous distribution of the same family and scale instead.

    Raises:
        TypeError: neither a distribution nor a number.
        ValueError: a scale that is not finite and positive.

    Example:
        >>> as_distribution("row 0", 2.0, continuous=True)
        Laplace(scale=2.0)
    """
    if not isinstance(value, NoiseDistribution):
        try:
            value = DiscreteLaplace(value)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"{said} needs a distribution of noise or a Laplace scale (counts): {error}"
            ) from error
    if not continuous:
        return value
    return Laplace(value.scale) if value.noise == "laplace" else Gaussian(value.scale)


def characteristic(distribution: NoiseDistribution, angles: np.ndarray) -> np.ndarray:
    """Return E cos(t N) for every t in `angles` [n]: real, since every distribution is symmetric."""
    if isinstance(distribution, Laplace):
        return 1 / (1 + (distribution.scale * angles) ** 2)
    if isinstance(distribution, Gaussian):
        return np.exp(-0.5 * (distribution.scale * angles) ** 2)
    if isinstance(distribution, DiscreteLaplace):
        half = min(0.5 / distribution.scale, LARGEST_EXPONENT / 2)
        return 1 / (1 + (np.sin(0.5 * angles) / math.sinh(half)) ** 2)
    if distribution.scale < 1:
        values = np.arange(1, math.ceil(40 * distribution.scale) + 2)
        masses = distribution.probabilities(np.arange(-values[-1], values[-1] + 1))[values[-1] :]
        return (masses[0] + 2 * np.cos(np.multiply.outer(angles, values)) @ masses[1:]) / (
            masses[0] + 2 * masses[1:].sum()
        )
    turned = np.remainder(angles + math.pi, 2 * math.pi) - math.pi
    shifts = 2 * math.pi * np.arange(-2, 3)  # Poisson summation; the next terms are below 1e-50
    peaks = np.exp(-0.5 * (distribution.scale * (turned[..., None] + shifts)) ** 2).sum(axis=-1)
    return np.asarray(peaks / np.exp(-0.5 * (distribution.scale * shifts) ** 2).sum())


def log_moment(distribution: NoiseDistribution, arguments: np.ndarray) -> np.ndarray:
    """Return log E exp(s N), or an upper bound of it, for every s >= 0 in `arguments` [n].

    Infinite for Laplace distributions from s = 1 / scale on; for the discrete Gaussian it is the continuous
    one's, which is not smaller (Canonne, Kamath and Steinke 2020, Fact 19).
    """
    if distribution.noise == "gaussian":
        return 0.5 * (distribution.scale * arguments) ** 2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if isinstance(distribution, Laplace):
            inside = (distribution.scale * arguments) ** 2
        else:
            half = min(0.5 / distribution.scale, LARGEST_EXPONENT / 2)
            inside = (np.sinh(np.minimum(0.5 * arguments, LARGEST_EXPONENT / 2)) / math.sinh(half)) ** 2
        return np.where(inside < 1, -np.log1p(-np.minimum(inside, 1)), np.inf)


def largest_argument(distribution: NoiseDistribution) -> float:
    """Return the s from which on E exp(s N) is infinite."""
    return math.inf if distribution.noise == "gaussian" else 1 / distribution.scale


def above(distribution: NoiseDistribution, values: np.ndarray) -> np.ndarray:
    """Return P(N > v) for every v >= 0 in `values` [n], accurate far into the tail."""
    if isinstance(distribution, Laplace):
        return 0.5 * np.exp(-np.asarray(values) / distribution.scale)
    if isinstance(distribution, Gaussian) or (
        isinstance(distribution, DiscreteGaussian) and distribution.scale > 2000
    ):
        from scipy.special import ndtr

        steps = values if isinstance(distribution, Gaussian) else np.floor(values) + 0.5
        return np.asarray(ndtr(-np.asarray(steps) / distribution.scale))
    first = np.floor(values) + 1
    if isinstance(distribution, DiscreteLaplace):
        return np.exp(-first / distribution.scale) / (1 + math.exp(-1 / distribution.scale))
    ends = np.arange(0, math.ceil(40 * distribution.scale) + 2)
    tails = np.append(np.cumsum(distribution.probabilities(ends)[::-1])[::-1], 0.0)
    return tails[np.minimum(first, len(ends)).astype(np.int64)]
