"""The computed distribution of a sum of noises: its probabilities and their error bounds.

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

import numpy as np
import scipy

from pgmjax._internal import checks
from pgmjax.history.bayes.noise_sum import NoiseSum
from pgmjax.measurements.noise import ContinuousNoise, Gaussian

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
        centred = np.maximum(np.roll(masses, points // 2)[1:], 0.0)
        return LatticeDistribution(step, centred, Accuracy(2 * OUTSIDE))
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
        values = values * np.sinc(angles * smoothing / (2 * math.pi * _POWER)) ** _POWER
    kept = np.abs(values) > _NEGLIGIBLE
    return FourierDistribution(period, orders[kept], values[kept] / (orders[kept] * math.pi), accuracy)
