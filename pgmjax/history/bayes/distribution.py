"""The distribution of a sum of noises: its moments, tail and lattice, and its computed probabilities.

A sum has a closed form where it is one continuous noise, or any number of Gaussian ones. Otherwise `invert`
computes it from its characteristic function, by Gil-Pelaez inversion on a period.

On a period that contains nearly all mass the inversion integral is a Fourier series, exact up to the mass
outside. There are three cases. Discrete noise with commensurate coefficients gives exact masses on a lattice.
A continuous noise gives a convergent series. Discrete noise with incommensurate coefficients has dense atoms
and a series that does not converge, so a small smooth displacement of known size is added.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import scipy

from pgmjax._internal import checks
from pgmjax.measurements.noise import ContinuousNoise, DiscreteLaplace, Gaussian, NoiseDistribution

_ROUNDING = 1e-12  # a coefficient whose noise is below this share of the whole is rounding
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
        checks.set_fields(
            self,
            sizes=np.array([size for size, _ in groups]),
            distributions=tuple(distribution for _, distribution in groups),
            counts=np.array(list(groups.values()), np.int64),
        )

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
            # no further factor is above 1 in size: what is negligible already stays so
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
        # larger arguments belong to tails below e^-1000; Gaussian noise alone has no limit of its own
        most = min(most, 50 / self.stddev)
        # near 0 for the middle of the distribution, and near the limit for its far tails
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
        # Chernoff: P(abs(X) > r) <= 2 exp(log E exp(s X) - s r), solved for r at every s
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
        if spreads[k] > _ROUNDING * total:
            # by 12 digits, so that coefficients that differ by rounding are one group on one lattice
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


_SNAP = 1e-6  # of a lattice step: an end this close to a lattice point includes it
OUTSIDE = 1e-11
"""The probability outside the period."""
ROUGHLY = 1e-7
"""The same if a displacement limits the accuracy anyway."""
_LEFT = 1e-9  # truncation error of a slowly converging series
_NEGLIGIBLE = 1e-17
_POWER = 12  # the displacement is a sum of this many uniforms: smooth enough for a short series
_MAX_POINTS = 1 << 20


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """An error bound of a computed distribution.

    With probability `confidence`, moving the ends of any interval by at most `shift` changes its computed
    probability into one that is within `mass` of the true one.

    Attributes:
        mass: a probability.
        shift: a distance (counts).
        confidence: 1 for computations, below for simulations.
    """

    mass: float
    shift: float = 0.0
    confidence: float = 1.0


class SumDistribution(abc.ABC):
    """The computed distribution of a symmetric sum of noises X."""

    accuracy: Accuracy

    @abc.abstractmethod
    def between(self, low: float, high: float) -> float:
        """Return P(low <= X <= high) as computed, both ends included."""

    @abc.abstractmethod
    def half_width(self, level: float) -> float:
        """Return a least w with P(abs(X) <= w) >= level (counts).

        The error of the computation is taken into account, so that the true probability reaches the level
        (for a simulation, with its stated confidence).

        Raises:
            ValueError: the level is outside (0, 1), or closer to 1 than the accuracy of the computation.
        """

    def shortest(self, level: float) -> tuple[float, float]:
        """Return the ends of a shortest interval with P(low <= X <= high) >= level (counts)."""
        width = self.half_width(level)
        return -width, width

    def reach(self, level: float) -> float:
        """Return the computed probability that guarantees a level."""
        level = checks.number("level", level, above=0, below=1)
        return level + self.accuracy.mass if self.accuracy.confidence == 1 else level

    def _unreachable(self, level: float) -> ValueError:
        return ValueError(
            f"level {level:g} is closer to 1 than this distribution is computed, to "
            f"{self.accuracy.mass:.1g}: give a lower level, or another method."
        )


@dataclasses.dataclass(frozen=True, eq=False)
class LatticeDistribution(SumDistribution):
    """A distribution by its masses at multiples of a step.

    Attributes:
        step: distance between neighbouring points (counts).
        masses: probabilities [2 n + 1] at -n, ..., n steps.
        accuracy: their error bound.
        cells: whether each mass is spread over the interval of one step around its point.
    """

    step: float
    masses: np.ndarray
    accuracy: Accuracy
    cells: bool = False

    @functools.cached_property
    def _sums(self) -> np.ndarray:
        """The cumulative distribution at every edge [2 n + 2], from zero on."""
        return np.concatenate([[0.0], np.cumsum(self.masses)])

    @functools.cached_property
    def _central(self) -> np.ndarray:
        """Probability of the points -k, ..., k for every k [n + 1]."""
        middle = len(self.masses) // 2
        return self.masses[middle] + np.concatenate(
            [[0.0], np.cumsum(self.masses[middle + 1 :] + self.masses[:middle][::-1])]
        )

    def between(self, low: float, high: float) -> float:
        """Return P(low <= X <= high); an end within a millionth of a step of a point includes it."""
        half = len(self.masses) // 2
        first, last = (
            np.clip(end / self.step, -half - 1, half + 1) if end == end else end for end in (low, high)
        )
        if self.cells:
            edges = np.arange(-half - 0.5, half + 1)
            below, up_to = np.interp([first, last], edges, self._sums)
        else:
            below = self._sums[max(int(np.ceil(first - _SNAP)), -half) + half]
            up_to = self._sums[min(int(np.floor(last + _SNAP)), half) + half + 1]
        return float(min(max(up_to - below, 0.0), 1.0))

    def half_width(self, level: float) -> float:
        """Return a least w with P(abs(X) <= w) >= level: a lattice point if the masses are exact."""
        needed = self.reach(level)
        if not self._central[-1] >= needed:
            raise self._unreachable(level)
        index = int(np.argmax(self._central >= needed))
        if not self.cells:
            return index * self.step + self.accuracy.shift
        below = self._central[index - 1] if index else 0.0
        share = (needed - below) / (self._central[index] - below)
        inner = index - 0.5 + share if index else 0.5 * share
        return float(inner * self.step + self.accuracy.shift)

    def shortest(self, level: float) -> tuple[float, float]:
        """Return the shortest window of points that reaches the level, the most central one if several do."""
        width = self.half_width(level)
        if self.cells:
            return -width, width
        half = len(self.masses) // 2
        first = np.arange(len(self.masses))
        last = np.searchsorted(self._sums, self._sums[:-1] + self.reach(level), side="left")
        inside = last < len(self._sums)
        lengths = np.where(inside, last - first, len(self.masses) + 1)
        best = first[lengths == lengths.min()]
        # twice the distance of a window's middle from 0, in whole numbers
        low = int(best[np.argmin(np.abs(2 * best + lengths.min() - 1 - 2 * half))])
        high = low + int(lengths.min()) - 1
        shift = self.accuracy.shift
        return (low - half) * self.step - shift, (high - half) * self.step + shift


@dataclasses.dataclass(frozen=True)
class ExactDistribution(SumDistribution):
    """A continuous distribution of one noise as the distribution of a sum.

    Example:
        >>> from pgmjax.measurements.noise import Laplace
        >>> round(ExactDistribution(Laplace(10.0)).between(-10.0, 10.0), 6)
        0.632121
    """

    distribution: ContinuousNoise
    accuracy: Accuracy = dataclasses.field(default=Accuracy(0.0))

    def between(self, low: float, high: float) -> float:
        """Return P(low <= X <= high)."""
        if high <= low:
            return 0.0
        tails = [float(self.distribution.above(np.array(abs(end)))) for end in (low, high)]
        if low >= 0 or high <= 0:
            return abs(tails[0] - tails[1])
        return 1 - tails[0] - tails[1]

    def half_width(self, level: float) -> float:
        """Return the w with P(abs(X) <= w) = level."""
        return self.distribution.half_width(self.reach(level))


def _closed_form(distribution: NoiseSum) -> ExactDistribution | None:
    """Return the distribution of a sum of some noises if it has a closed form, else None."""
    if all(isinstance(noise, Gaussian) for noise in distribution.distributions):
        return ExactDistribution(Gaussian(distribution.stddev))
    first = distribution.distributions[0]
    if distribution.num_terms == 1 and isinstance(first, ContinuousNoise):
        return ExactDistribution(first.scaled(float(distribution.sizes[0])))
    return None


@dataclasses.dataclass(frozen=True, eq=False)
class FourierDistribution(SumDistribution):
    """A distribution on a period by its Fourier series.

    Attributes:
        period: the length of the period (counts), centred at 0.
        orders: orders k of the terms that are kept [terms].
        weights: their characteristic function over k pi [terms].
        accuracy: its error bound.
    """

    period: float
    orders: np.ndarray
    weights: np.ndarray
    accuracy: Accuracy

    def between(self, low: float, high: float) -> float:
        """Return P(low <= X <= high)."""
        low, high = (float(np.clip(end, -self.period / 2, self.period / 2)) for end in (low, high))
        if high <= low:
            return 0.0
        angles = (2 * math.pi / self.period) * self.orders
        inside = float(self.weights @ (np.sin(angles * high) - np.sin(angles * low)))
        return min(max((high - low) / self.period + inside, 0.0), 1.0)

    def half_width(self, level: float) -> float:
        """Return the w with P(abs(X) <= w) = level, increased by the error of the computation."""
        needed = self.reach(level)
        most = self.period / 2
        if self.between(-most, most) < needed:
            raise self._unreachable(level)
        width = scipy.optimize.brentq(
            lambda w: self.between(-w, w) - needed, 0.0, most, xtol=1e-13 * most, rtol=1e-13
        )
        return float(width) + self.accuracy.shift


def invert(distribution: NoiseSum, resolution: float = 1 / 128) -> SumDistribution:
    """Return the distribution of a sum of noises from its characteristic function.

    Args:
        distribution: the sum.
        resolution: width of the displacement, if one is needed, in standard deviations of the sum.

    References:
        Gil-Pelaez 1951, "Note on the inversion theorem"; Xiao and Xiong 2012, Theorem 4.1.

    Example:
        >>> invert(NoiseSum([1.0, -1.0], 2.0)).half_width(0.95)
        8.0
    """
    if not distribution.sizes.size:
        return LatticeDistribution(1.0, np.ones(1), Accuracy(0.0))
    closed = _closed_form(distribution)
    if closed is not None:
        return closed
    period = 2 * distribution.radius(OUTSIDE)
    step = distribution.lattice()
    if step is not None and period / step < _MAX_POINTS:
        points = 1 << max(2, math.ceil(math.log2(period / step + 2)))
        angles = (2 * math.pi / (points * step)) * np.arange(points // 2 + 1)
        masses = np.fft.irfft(distribution.characteristic(angles, _NEGLIGIBLE), points)
        # the mass at half the period has no mirror image; rounding leaves others a little below 0
        centred = np.maximum(np.roll(masses, points // 2)[1:], 0.0)
        return LatticeDistribution(step, centred, Accuracy(2 * OUTSIDE))
    # a precise series first; a slow one would need too many terms, and is cut earlier
    for left, most in ((OUTSIDE, _MAX_POINTS // 4), (_LEFT, _MAX_POINTS)):
        terms = _convergent(distribution, period, left, most)
        if terms <= most:
            return _series(distribution, period, terms, Accuracy(2 * OUTSIDE + left))
    width, period = resolution * distribution.stddev, 2 * distribution.radius(ROUGHLY)
    last = (1 / (ROUGHLY * _POWER * math.pi)) ** (1 / _POWER)  # from here on the series sums to ROUGHLY
    terms = math.ceil(last * 2 * _POWER / width * period / (2 * math.pi))
    return _series(distribution, period, terms, Accuracy(3 * ROUGHLY, width / 2), smoothing=width)


def _convergent(distribution: NoiseSum, period: float, left: float, most: int) -> int:
    """Return the number of terms that bounds the truncation error, by continuous noises alone."""
    groups = [
        (size, count, noise)
        for size, count, noise in zip(
            distribution.sizes, distribution.counts, distribution.distributions, strict=True
        )
        if isinstance(noise, ContinuousNoise)
    ]
    order = 64
    while groups and order <= most:
        angle = 2 * math.pi * order / period
        logarithm, power = 0.0, 0.0
        for size, count, noise in groups:
            fall, slope = noise.decay(size * angle)
            logarithm -= count * fall
            power += count * slope
        if logarithm - math.log(power * math.pi) < math.log(left):
            return order
        order = math.ceil(order * 1.25)
    return most + 1


def _series(
    distribution: NoiseSum, period: float, terms: int, accuracy: Accuracy, smoothing: float = 0.0
) -> FourierDistribution:
    """Return the series of some terms, of the sum displaced by as much as `smoothing` (counts)."""
    orders = np.arange(1, terms + 1, dtype=np.float64)
    angles = (2 * math.pi / period) * orders
    values = distribution.characteristic(angles, _NEGLIGIBLE)
    if smoothing:
        # the transform of as many uniforms, each of that part of the width
        values = values * np.sinc(angles * smoothing / (2 * math.pi * _POWER)) ** _POWER
    kept = np.abs(values) > _NEGLIGIBLE
    return FourierDistribution(period, orders[kept], values[kept] / (orders[kept] * math.pi), accuracy)
