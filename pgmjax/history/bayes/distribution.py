"""The computed distribution of a sum of noises: its probabilities and their error bounds.

A sum has a closed form where it is one continuous noise, or any number of Gaussian ones.
"""

from __future__ import annotations

import abc
import dataclasses
import functools

import numpy as np

from pgmjax._internal import checks
from pgmjax.history.bayes.noise_sum import NoiseSum
from pgmjax.measurements.noise import ContinuousNoise, Gaussian

_SNAP = 1e-6  # of a lattice step: an end this close to a lattice point includes it


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


def closed_form(distribution: NoiseSum) -> ExactDistribution | None:
    """Return the distribution of a sum if it has a closed form, else None."""
    if not distribution.sizes.size:
        return None
    if all(isinstance(noise, Gaussian) for noise in distribution.distributions):
        return ExactDistribution(Gaussian(distribution.stddev))
    first = distribution.distributions[0]
    if distribution.num_terms == 1 and isinstance(first, ContinuousNoise):
        return ExactDistribution(first.scaled(float(distribution.sizes[0])))
    return None
