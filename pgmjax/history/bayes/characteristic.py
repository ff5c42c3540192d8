"""The distribution of a sum of noises from its characteristic function: Gil-Pelaez inversion on a period.

On a period that contains nearly all mass the inversion integral is a Fourier series, exact up to the mass
outside. There are three cases. Discrete noise with commensurate coefficients gives exact masses on a lattice.
A continuous noise gives a convergent series. Discrete noise with incommensurate coefficients has dense atoms
and a series that does not converge, so a small smooth displacement of known size is added.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import scipy

from pgmjax.history.bayes.distribution import Accuracy, LatticeDistribution, SumDistribution, closed_form
from pgmjax.history.bayes.noise_sum import NoiseSum
from pgmjax.measurements.noise import ContinuousNoise

OUTSIDE = 1e-11
"""The probability outside the period."""
ROUGHLY = 1e-7
"""The same if a displacement limits the accuracy anyway."""
_LEFT = 1e-9  # truncation error of a slowly converging series
_NEGLIGIBLE = 1e-17
_POWER = 12  # the displacement is a sum of this many uniforms: smooth enough for a short series
_MAX_POINTS = 1 << 20


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
    closed = closed_form(distribution)
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
