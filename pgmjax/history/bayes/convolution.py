"""The distribution of a sum of noises by probability calculation: masses on a grid, truncated and convolved.

Each noise becomes a vector of masses on multiples of a step, long enough that the total mass cut off is at
most gamma. The convolution is a product of Fourier transforms. Rounding to the grid shifts the sum by at most
half a step per term, and by Hoeffding's inequality by far less with near certainty.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from pgmjax._internal import checks
from pgmjax.history.bayes.distribution import Accuracy, LatticeDistribution
from pgmjax.history.bayes.noise_sum import NoiseSum
from pgmjax.measurements.noise import NoiseDistribution

GAMMA = 1e-8
_MOVED = 1e-9  # probability that rounding shifts the sum by more than `shift`
_FOLDED = 0.1
_POINTS = 1 << 17
_MOST_POINTS = 1 << 26


@dataclasses.dataclass(frozen=True)
class Convolution:
    """The plan of a probability calculation.

    Attributes:
        step: grid step (counts).
        lengths: length of each group's vector, odd [groups].
        points: length of the result, odd. It is shorter than the full convolution if the mass further out, at
            most a tenth of gamma, is folded in.
        folded: whether that mass is folded in.
        exact: whether all noise is on the grid, so that nothing is rounded.
        accuracy: accuracy of the result.
    """

    step: float
    lengths: np.ndarray
    points: int
    folded: bool
    exact: bool
    accuracy: Accuracy


def plan_convolution(distribution: NoiseSum, step: float | None = None, gamma: float = GAMMA) -> Convolution:
    """Plan the calculation of the distribution of a sum.

    Args:
        distribution: the sum.
        step: grid step (counts); the paper uses 1. Default: the lattice of discrete noise if one exists and
            is not too fine, else a grid of about 131,000 points.
        gamma: probability that may be cut off.

    Raises:
        ValueError: step or gamma is not positive.
    """
    gamma = checks.number("gamma", gamma, above=0, below=1)
    terms = distribution.num_terms
    reaches = (
        np.array([noise.reach(gamma / terms) for noise in distribution.distributions]) * distribution.sizes
    )
    lattice = distribution.lattice()
    folded = step is None
    whole = 2 * max(distribution.radius(_FOLDED * gamma), float(reaches.max()))
    if step is not None:
        step = checks.number("step", step, above=0)
    elif lattice is not None and whole / lattice <= 8 * _POINTS:
        step = lattice
    else:
        step = whole / (_POINTS - 4)
    lengths = np.ceil(2 * reaches / step).astype(np.int64) + 1
    lengths += 1 - lengths % 2
    ratio = 0.0 if lattice is None else lattice / step
    exact = round(ratio) >= 1 and abs(round(ratio) - ratio) <= 1e-9
    if exact:
        accuracy = Accuracy(gamma)
    else:
        moved = min(0.5 * terms, math.sqrt(0.5 * terms * math.log(2 / _MOVED))) * step
        if any(noise.is_discrete for noise in distribution.distributions):
            moved += 0.5 * step  # atoms lie anywhere in a cell, over which its mass is spread evenly
        accuracy = Accuracy(gamma + _MOVED, moved)
    points = int(distribution.counts @ (lengths - 1)) + 1
    window = 2 * math.ceil(0.5 * whole / step) + 1
    folded = folded and points > window
    if folded:
        points = window
        accuracy = dataclasses.replace(accuracy, mass=accuracy.mass + _FOLDED * gamma)
    if points > _MOST_POINTS:
        raise ValueError(
            f"a step of {step:g} over noise of standard deviation {distribution.stddev:.3g} needs {points:,} "
            f"points, above the limit of {_MOST_POINTS:,}: take a wider step, or method 'characteristic'."
        )
    return Convolution(step, lengths, points, folded, exact, accuracy)


def convolve(distribution: NoiseSum, step: float | None = None, gamma: float = GAMMA) -> LatticeDistribution:
    """Return the distribution of a sum by probability calculation.

    Args:
        distribution: the sum.
        step: as in `plan_convolution`.
        gamma: as in `plan_convolution`.

    References:
        Xiao and Xiong 2012, Section 4.3, Algorithm 2, with the lengths of its Lemma 4.3.

    Example:
        >>> distribution = convolve(NoiseSum([1.0, 0.5], 10.0), gamma=0.01)
        >>> bool(0.99 <= distribution.masses.sum() <= 1)
        True
    """
    if not distribution.sizes.size:
        return LatticeDistribution(1.0, np.ones(1), Accuracy(0.0))
    plan = plan_convolution(distribution, step, gamma)
    padded = 1 << math.ceil(math.log2(plan.points))
    product = np.ones(padded // 2 + 1)
    kept = 1.0
    for size, noise, count, length in zip(
        distribution.sizes, distribution.distributions, distribution.counts, plan.lengths, strict=True
    ):
        masses = _masses(noise, size, int(length), plan.step)
        kept *= masses.sum() ** count
        centred = np.zeros(padded)
        np.add.at(centred, (np.arange(length) - length // 2) % padded, masses)
        product *= np.fft.rfft(centred).real ** count
    circular = np.fft.irfft(product, padded)
    half = plan.points // 2
    result = np.maximum(np.concatenate([circular[padded - half :], circular[: half + 1]]), 0.0)
    lost = float(max(1 - kept, 0.0)) + _FOLDED * gamma * plan.folded + 1e-12
    accuracy = dataclasses.replace(plan.accuracy, mass=lost if plan.exact else lost + _MOVED)
    return LatticeDistribution(plan.step, result, accuracy, cells=not plan.exact)


def _masses(noise: NoiseDistribution, size: float, length: int, step: float) -> np.ndarray:
    """Return the masses of size x noise on the grid [length], each over one step around its point."""
    half = length // 2
    edges = (np.arange(half + 1) + 0.5) * (step / size)
    if noise.is_discrete:
        edges = np.ceil(edges - 1e-9) - 1  # an atom on an edge belongs to the outer cell: symmetric
    tails = noise.above(edges)
    masses = np.concatenate([[1 - 2 * tails[0]], tails[:-1] - tails[1:]])
    return np.concatenate([masses[:0:-1], masses])
