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


@dataclasses.dataclass(frozen=True)
class Inversion:
    """The plan of an inversion.

    Attributes:
        period: length of the period (counts).
        points: number of values of the characteristic function needed; 0 for a closed form.
        step: lattice step, or None without a lattice.
        smoothing: width of the displacement (counts), 0 for none.
        accuracy: accuracy of the result.
    """

    period: float
    points: int
    step: float | None
    smoothing: float
    accuracy: Accuracy

    @property
    def cost(self) -> float:
        """The approximate cost in nanoseconds on one core."""
        return 150.0 * self.points


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
        if low == -high:
            return self._central(high)
        angles = (2 * math.pi / self.period) * self.orders
        inside = float(self.weights @ (np.sin(angles * high) - np.sin(angles * low)))
        return min(max((high - low) / self.period + inside, 0.0), 1.0)

    def _central(self, width: float) -> float:
        angles = (2 * math.pi / self.period * width) * self.orders
        return min(max(2 * width / self.period + 2 * float(self.weights @ np.sin(angles)), 0.0), 1.0)

    def half_width(self, level: float) -> float:
        """Return the w with P(abs(X) <= w) = level, increased by the error of the computation."""
        from scipy.optimize import brentq

        needed = self.reach(level)
        most = self.period / 2
        if self._central(most) < needed:
            raise self._unreachable(level)
        width = brentq(lambda w: self._central(w) - needed, 0.0, most, xtol=1e-13 * most, rtol=1e-13)
        return float(width) + self.accuracy.shift


def plan_inversion(distribution: NoiseSum, resolution: float = 1 / 128) -> Inversion:
    """Plan the inversion of a sum's characteristic function.

    Args:
        distribution: the sum.
        resolution: width of the displacement, if one is needed, in standard deviations of the sum.
    """
    if not distribution.sizes.size or closed_form(distribution) is not None:
        return Inversion(math.inf, 0, None, 0.0, Accuracy(0.0))
    period = 2 * distribution.radius(OUTSIDE)
    step = distribution.lattice()
    if step is not None and period / step < _MAX_POINTS:
        points = 1 << max(2, math.ceil(math.log2(period / step + 2)))
        return Inversion(points * step, points // 2 + 1, step, 0.0, Accuracy(2 * OUTSIDE))
    for left, most in ((OUTSIDE, _MAX_POINTS // 4), (_LEFT, _MAX_POINTS)):
        points = _convergent(distribution, period, left, most)
        if points <= most:
            return Inversion(period, points, None, 0.0, Accuracy(2 * OUTSIDE + left))
    width, period = resolution * distribution.stddev, 2 * distribution.radius(ROUGHLY)
    last = (1 / (ROUGHLY * _POWER * math.pi)) ** (1 / _POWER)  # from here on the series sums to ROUGHLY
    points = math.ceil(last * 2 * _POWER / width * period / (2 * math.pi))
    return Inversion(period, points, None, width, Accuracy(3 * ROUGHLY, width / 2))


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


def invert(distribution: NoiseSum, plan: Inversion | None = None) -> SumDistribution:
    """Return the distribution of a sum of noises from its characteristic function.

    Args:
        distribution: the sum.
        plan: plan of the inversion. Default: from `plan_inversion`.

    References:
        Gil-Pelaez 1951, "Note on the inversion theorem"; Xiao and Xiong 2012, Theorem 4.1.

    Example:
        >>> invert(NoiseSum([1.0, -1.0], 2.0)).half_width(0.95)
        8.0
    """
    if not distribution.sizes.size:
        return LatticeDistribution(1.0, np.ones(1), Accuracy(0.0))
    chosen = plan if plan is not None else plan_inversion(distribution)
    closed = closed_form(distribution)
    if closed is not None:
        return closed
    if chosen.step is not None:
        points = 2 * (chosen.points - 1)
        angles = (2 * math.pi / (points * chosen.step)) * np.arange(chosen.points)
        masses = np.fft.irfft(distribution.characteristic(angles, _NEGLIGIBLE), points)
        centred = np.maximum(np.roll(masses, points // 2)[1:], 0.0)
        return LatticeDistribution(chosen.step, centred, chosen.accuracy)
    return _series(distribution, chosen)


def _series(distribution: NoiseSum, chosen: Inversion) -> FourierDistribution:
    orders = np.arange(1, chosen.points + 1, dtype=np.float64)
    angles = (2 * math.pi / chosen.period) * orders
    values = distribution.characteristic(angles, _NEGLIGIBLE)
    if chosen.smoothing:
        values = values * np.sinc(angles * chosen.smoothing / (2 * math.pi * _POWER)) ** _POWER
    kept = np.abs(values) > _NEGLIGIBLE
    return FourierDistribution(
        chosen.period, orders[kept], values[kept] / (orders[kept] * math.pi), chosen.accuracy
    )


__all__ = ["FourierDistribution", "Inversion", "invert", "plan_inversion"]
