"""A linear combination of independent noises of `measurements.noise`: its moments, tail and lattice."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax.measurements.noise import DiscreteLaplace, NoiseDistribution

_NEGLIGIBLE = 1e-12  # a coefficient whose noise is below this share of the whole is rounding
_DIGITS = 12
_LARGEST_DENOMINATOR = 1000


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class NoiseSum:
    """The distribution of sum_k c_k N_k with independent symmetric noises N_k.

    Terms with the same distribution and absolute coefficient are grouped; coefficients of rounding size are
    dropped.

    Args:
        coefficients: c [terms].
        distributions: one distribution per term, or one for all; a number is the scale of a discrete Laplace
            distribution.
        continuous: use the papers' continuous distributions of the same families and scales.

    Attributes:
        sizes: distinct absolute coefficients [groups], largest standard deviation first.
        distributions: distribution of each group.
        counts: number of terms of each group [groups].

    Raises:
        ValueError: coefficients are not finite, or the number of distributions is neither one nor one per
            term.

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
        every = as_distributions("term", distributions, len(array), continuous)
        groups = _grouped(np.abs(array), every)
        object.__setattr__(self, "sizes", np.array([size for size, _ in groups]))
        object.__setattr__(self, "distributions", tuple(distribution for _, distribution in groups))
        object.__setattr__(self, "counts", np.array(list(groups.values()), np.int64))

    def __repr__(self) -> str:
        return f"NoiseSum({self.num_terms} terms, stddev {self.stddev:g})"

    @property
    def num_terms(self) -> int:
        """The number of terms kept."""
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
        """Return whether every noise is discrete."""
        return all(distribution.is_discrete for distribution in self.distributions)

    def characteristic(self, angles: np.ndarray, negligible: float = 0.0) -> np.ndarray:
        """Return E cos(t X) for every t in `angles` [n].

        Args:
            angles: the arguments t.
            negligible: values below this magnitude may be returned as 0, to save time.
        """
        result = np.ones_like(np.asarray(angles, np.float64))
        left = np.arange(result.size)
        for size, count, distribution in zip(self.sizes, self.counts, self.distributions, strict=True):
            result[left] *= distribution.characteristic(size * angles[left]) ** count
            if negligible:
                large = np.abs(result[left]) > negligible
                result[left[~large]] = 0.0
                left = left[large]
        return result

    @functools.cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return arguments s and log E exp(s X) there, for Chernoff's bound."""
        limits = [
            distribution.largest_argument / size
            for size, distribution in zip(self.sizes, self.distributions, strict=True)
        ]
        most = min(limits, default=math.inf)
        most = min(most, 50 / self.stddev)
        shares = np.concatenate([np.geomspace(1e-3, 0.5, 32), 1 - np.geomspace(0.5, 1e-4, 32)])
        arguments = most * shares
        logs = np.zeros_like(arguments)
        for size, count, distribution in zip(self.sizes, self.counts, self.distributions, strict=True):
            logs += count * distribution.log_moment(size * arguments)
        return arguments, logs

    def radius(self, outside: float) -> float:
        """Return an r with P(abs(X) > r) <= outside, by Chernoff's bound."""
        if not self.sizes.size:
            return 0.0
        arguments, logs = self._moments
        return float(((math.log(2 / outside) + logs) / arguments).min())

    def lattice(self) -> float | None:
        """Return the largest step g of which all coefficients are integer multiples, or None.

        Ratios with denominators above 1,000 count as incommensurate.

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


def as_distributions(
    said: str, values: Any, number: int, continuous: bool = False
) -> list[NoiseDistribution]:
    """Return a distribution of each of some noises, from as many or one for all; see `as_distribution`.

    Raises:
        ValueError: the number of distributions is neither one nor one per noise.
    """
    given = list(values) if isinstance(values, Sequence | np.ndarray) else [values] * number
    if len(given) != number:
        raise ValueError(f"expected one distribution a {said}, {number}, or one for all, got {len(given)}.")
    return [as_distribution(f"{said} {k}", value, continuous) for k, value in enumerate(given)]


def as_distribution(said: str, value: Any, continuous: bool = False) -> NoiseDistribution:
    """Return a distribution from itself or from a Laplace scale.

    Args:
        said: name of the noise, for error messages.
        value: a distribution, or a number: the scale of a discrete Laplace distribution, the one that is
            actually drawn.
        continuous: use the continuous distribution of the same family and scale instead.

    Raises:
        TypeError: `value` is neither a distribution nor a number.
        ValueError: the scale is not finite and positive.

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
    return value.continuous() if continuous else value
