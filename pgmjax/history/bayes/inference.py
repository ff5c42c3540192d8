"""Inference about a true answer from its estimate: intervals, probabilities and tests, with their errors.

`distribution_of` computes the distribution of an estimate's error. A `Claim` about the true answer is tested
against an estimate; the result is a `Verdict`.

The distribution of a sum of noises is calculated on a grid, or drawn many times on the device. On the grid,
each noise becomes a vector of masses on multiples of a step, long enough that the total mass cut off is at
most gamma. The convolution is a product of Fourier transforms. Rounding to the grid shifts the sum by at most
half a step per term, and by Hoeffding's inequality by far less with near certainty.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from pgmjax import random
from pgmjax._internal import checks
from pgmjax._internal.jit import jit
from pgmjax._internal.migration import Named
from pgmjax.history.bayes.distribution import Accuracy, LatticeDistribution, NoiseSum, SumDistribution, invert
from pgmjax.measurements.noise import DiscreteNoise, NoiseDistribution

SIZE = 1_000_000
"""Default number of draws."""
CONFIDENCE = 0.999
_SLACK = 1e-9  # of the largest draw
_CHUNK_NUMBERS = 1 << 22


@dataclasses.dataclass(frozen=True, eq=False)
class SimulatedDistribution(SumDistribution):
    """A symmetric distribution represented by draws from it.

    Attributes:
        sizes: absolute values of the draws, ascending [draws].
        accuracy: bound, at its stated confidence, on the error of probabilities of intervals around 0.
    """

    sizes: np.ndarray
    accuracy: Accuracy

    def between(self, low: float, high: float) -> float:
        """Return the share of draws, and of their mirror images, in low..high."""
        return max(0.0, self._below(high, True) - self._below(low, False))

    def _below(self, end: float, included: bool) -> float:
        """Return P(X <= end), or P(X < end), with both signs of every draw counted half."""
        # so that rounding leaves an atom at the end as a whole inside or outside
        slack = _SLACK * float(self.sizes[-1])
        side = 1.0 if included == (end >= 0) else -1.0
        inside = np.searchsorted(self.sizes, abs(end) + side * slack) / len(self.sizes)
        return float(0.5 + 0.5 * inside if end > 0 or (end == 0 and included) else 0.5 - 0.5 * inside)

    def half_width(self, level: float) -> float:
        """Return a w with P(abs(X) <= w) >= level, with the stated confidence over the draws.

        Raises:
            ValueError: the level is outside (0, 1), or too close to 1 for the number of draws.
        """
        number = order_statistic(len(self.sizes), level)
        if number > len(self.sizes):
            raise self._unreachable(level)
        # sums that are equal up to rounding are one atom
        return float(self.sizes[number - 1] + _SLACK * self.sizes[-1])


def order_statistic(size: int, level: float) -> int:
    """Return the rank, from 1, of a draw at or above a level's quantile with `CONFIDENCE`.

    It exceeds `level` times `size`, since the draw of that rank is below the quantile half of the time.
    `size` + 1 if no draw is large enough with that confidence.

    Example:
        >>> order_statistic(10_000, 0.95), order_statistic(100, 0.95)
        (9567, 101)
    """
    level = checks.number("level", level, above=0, below=1)
    return min(int(scipy.stats.binom.ppf(CONFIDENCE, size, level)), size) + 1


def simulate(distribution: NoiseSum, size: int = SIZE, seed: int = 0) -> SimulatedDistribution:
    """Return the distribution of a sum by draws on the device.

    Args:
        distribution: the sum.
        size: the number of draws.
        seed: of the device's generator.

    References:
        Xiao and Xiong 2012, Section 4.2, Algorithm 1.
    """
    every = np.repeat(np.array(distribution.distributions, object), distribution.counts).tolist()
    draws = draw_sums(np.repeat(distribution.sizes, distribution.counts)[None], every, size, seed)[:, 0]
    return SimulatedDistribution(np.sort(np.abs(draws)), _accuracy(len(draws)))


def draw_sums(coefficients: np.ndarray, distributions: Any, size: int, seed: int = 0) -> np.ndarray:
    """Return joint draws of linear combinations of independent noises, float64 [draws, targets].

    Args:
        coefficients: [targets, terms].
        distributions: the distribution of every term [terms].
        size: the number of draws.
        seed: of the device's generator.
    """
    size = checks.integer("size", size, low=1)
    terms = len(distributions)
    if not terms:
        return np.zeros((size, len(coefficients)))
    chunk = min(size, max(1, _CHUNK_NUMBERS // terms))
    with jax.enable_x64(True):
        arguments = _arguments(np.asarray(coefficients, np.float64), tuple(distributions))
        keys = random.split(random.key(seed, jax), -(-size // chunk), jax)
        parts = [np.asarray(_draw(key, arguments, chunk)) for key in keys]
    return np.concatenate(parts)[:size]


def _accuracy(size: int) -> Accuracy:
    """Return the accuracy of shares of draws, by the inequality of Dvoretzky, Kiefer and Wolfowitz."""
    return Accuracy(math.sqrt(math.log(2 / (1 - CONFIDENCE)) / (2 * size)), 0.0, CONFIDENCE)


def _arguments(
    coefficients: np.ndarray, distributions: tuple[NoiseDistribution, ...]
) -> list[tuple[Any, ...]]:
    """Return the terms for `_draw`, grouped by sampler: coefficients, scales, discreteness."""
    scales = np.array([distribution.scale for distribution in distributions])
    discrete = np.array([distribution.is_discrete for distribution in distributions])
    laplace = np.array([distribution.noise == "laplace" for distribution in distributions])
    tabled = np.array([distribution.tabled for distribution in distributions])
    parts: list[tuple[Any, ...]] = []
    for which in (laplace, ~laplace & ~tabled):
        parts.append((coefficients[:, which].T, scales[which], discrete[which]))
    tables = []
    drawn = {
        distribution
        for distribution in distributions
        if distribution.tabled and isinstance(distribution, DiscreteNoise)
    }
    for distribution in sorted(drawn, key=lambda distribution: (distribution.scale, repr(distribution))):
        which = np.array([each == distribution for each in distributions])
        tables.append((coefficients[:, which].T, *distribution.table()))
    return [*parts, *tables]


@functools.partial(jit, static_argnums=2)
def _draw(key: Any, arguments: Any, chunk: int) -> Any:
    laplace, gaussian, *tables = arguments
    keys = random.split(key, 3 + len(tables), jax)
    coefficients, scales, discrete = laplace
    sizes = [-scales * jnp.log(random.uniforms(k, (chunk, len(scales)), jax)) for k in keys[:2]]
    # the floor of an exponential variable is geometric: the difference of two is discrete Laplace
    sizes = [jnp.where(discrete, jnp.floor(each), each) for each in sizes]
    result = (sizes[0] - sizes[1]) @ coefficients
    coefficients, scales, discrete = gaussian
    values = scales * random.normals(keys[2], (chunk, len(scales)), jax)
    # a discrete Gaussian without a table is so wide that rounding gives its law
    result += jnp.where(discrete, jnp.rint(values), values) @ coefficients
    for each, (coefficients, sums, ends) in zip(keys[3:], tables, strict=True):
        uniforms = random.uniforms(each, (chunk, len(coefficients)), jax)
        result += ends[jnp.minimum(jnp.searchsorted(sums, uniforms), len(ends) - 1)] @ coefficients
    return result


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
        shift: how far rounding moves the sum at most, but for a probability of 1e-9 (counts).
    """

    step: float
    lengths: np.ndarray
    points: int
    folded: bool
    exact: bool
    shift: float


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
    # Hoeffding: terms move independently, each by half a step at most
    shift = 0.0 if exact else min(0.5 * terms, math.sqrt(0.5 * terms * math.log(2 / _MOVED))) * step
    if not exact and any(noise.is_discrete for noise in distribution.distributions):
        shift += 0.5 * step  # atoms lie anywhere in a cell, over which its mass is spread evenly
    points = int(distribution.counts @ (lengths - 1)) + 1
    window = 2 * math.ceil(0.5 * whole / step) + 1
    folded = folded and points > window
    if folded:
        points = window
    if points > _MOST_POINTS:
        raise ValueError(
            f"a step of {step:g} over noise of standard deviation {distribution.stddev:.3g} needs {points:,} "
            f"points, above the limit of {_MOST_POINTS:,}: take a wider step, or method 'characteristic'."
        )
    return Convolution(step, lengths, points, folded, exact, shift)


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
        # with 0 at the first place, so that the transform of a symmetric vector is real
        np.add.at(centred, (np.arange(length) - length // 2) % padded, masses)
        product *= np.fft.rfft(centred).real ** count
    circular = np.fft.irfft(product, padded)
    half = plan.points // 2
    result = np.maximum(np.concatenate([circular[padded - half :], circular[: half + 1]]), 0.0)
    lost = float(max(1 - kept, 0.0)) + _FOLDED * gamma * plan.folded + 1e-12
    accuracy = Accuracy(lost if plan.exact else lost + _MOVED, plan.shift)
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


METHODS: dict[str, Callable[..., SumDistribution]] = {
    "auto": invert,
    "characteristic": invert,
    "convolution": convolve,
    "monte-carlo": simulate,
}
ENDS = 1e-7
"""Of a lattice step: keeps a true answer at an end inside in spite of rounding."""


def distribution_of(distribution: NoiseSum, method: str = "auto", **options: Any) -> SumDistribution:
    """Return the computed distribution of a sum of noises.

    Args:
        distribution: the sum.
        method: `characteristic` (inversion of the characteristic function), `convolution` (masses on a grid,
            each noise truncated), `monte-carlo` (draws on the device), or `auto`, the first, which is both
            the fastest and the most accurate.
        options: options of the method: `resolution`; `step`, `gamma`; `size`, `seed`, respectively.

    Raises:
        ValueError: unknown method.

    References:
        Xiao and Xiong 2012, Section 4.

    Example:
        >>> distribution_of(NoiseSum([1.0], 10.0)).half_width(0.95)
        30.0
    """
    return METHODS[checks.choice("method", method, METHODS)](distribution, **options)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Inference(Named):
    """An estimate and its error distribution: the posterior of the true answer theta given it.

    Given the estimate alone, under a flat prior, theta = value - error. The posterior given all
    individual answers is different, see `history.posterior`.

    Attributes:
        value: the estimate (counts).
        distribution: distribution of the error.
        method: how it is computed, see `distribution_of`.
        options: options of the method.
        biased: whether the target was not estimable, so that the distribution omits a bias of unknown size.

    References:
        Xiao and Xiong 2012, Section 4, Lemma 4.1.

    Example:
        >>> answer = Inference(12.0, NoiseSum([1.0], 10.0, continuous=True))
        >>> [round(end, 3) for end in answer.interval(0.95)], round(answer.probability(low=0.0), 4)
        ([-17.957, 41.957], 0.8494)
    """

    value: float
    distribution: NoiseSum
    method: str = "auto"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    biased: bool = False

    def __post_init__(self) -> None:
        checks.set_choice(self, "method", METHODS)

    @functools.cached_property
    def computed(self) -> SumDistribution:
        """The computed distribution, with its accuracy."""
        return distribution_of(self.distribution, self.method, **dict(self.options))

    @property
    def accuracy(self) -> Accuracy:
        """The error bound of probabilities and ends."""
        return self.computed.accuracy

    @property
    def variance(self) -> float:
        """The exact variance of the error (counts squared)."""
        return self.distribution.variance

    @property
    def stddev(self) -> float:
        """The exact standard deviation of the error (counts)."""
        return self.distribution.stddev

    def half_width(self, level: float = 0.95) -> float:
        """Return a least w with P(abs(theta - value) <= w) >= level (counts), independent of the value."""
        return self.computed.half_width(level)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return a shortest closed interval that contains theta with probability `level` (counts).

        For a coarse discrete distribution the probability may be larger and the value may be off centre.

        Raises:
            ValueError: the level is outside (0, 1), or too close to 1 for the method.
        """
        low, high = self.computed.shortest(level)
        slack = ENDS * self.computed.step if isinstance(self.computed, LatticeDistribution) else 0.0
        return self.value - high - slack, self.value - low + slack

    def probability(self, low: float = -math.inf, high: float = math.inf) -> float:
        """Return P(low <= theta <= high)."""
        return Claim(low, high).within(self.computed, self.value)

    def probability_of_set(self, intervals: Sequence[tuple[float, float]]) -> float:
        """Return P(theta in a union of intervals), ends included; they may overlap.

        Args:
            intervals: pairs of a low and a high end (counts), infinite for no bound.
        """
        merged: list[tuple[float, float]] = []
        for claim in sorted((Claim(*ends) for ends in intervals), key=lambda claim: claim.low):
            if merged and claim.low <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(merged[-1][1], claim.high)
            else:
                merged.append((claim.low, claim.high))
        return min(1.0, math.fsum(self.probability(low, high) for low, high in merged))

    def test(self, claim: Claim, level: float = 0.95) -> Verdict:
        """Test a claim about theta: its probability, and whether it or its opposite reaches a level."""
        probability = claim.within(self.computed, self.value)
        return Verdict(claim, probability, checks.number("level", level, above=0, below=1))

    def __repr__(self) -> str:
        return f"Inference({self.value:,.6g}, stddev {self.stddev:g}{', biased' if self.biased else ''})"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class JointInference:
    """Estimates of several queries and the joint distribution of their errors.

    Attributes:
        values: the estimates [targets] (counts).
        combination: A [targets, answers]; the errors are A times the noise.
        distributions: the distribution of every answer's noise [answers].
        biased: which targets were not estimable, so that the distributions omit a bias of unknown size, bool
            [targets]; None if all are estimable.
    """

    values: np.ndarray
    combination: np.ndarray
    distributions: tuple[NoiseDistribution, ...]
    biased: np.ndarray | None = None

    @property
    def covariance(self) -> np.ndarray:
        """The exact covariance of the errors [targets, targets] (counts squared)."""
        variances = np.array([distribution.variance for distribution in self.distributions])
        return (self.combination * variances) @ self.combination.T

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, target: int) -> Inference:
        biased = self.biased is not None and bool(self.biased[target])
        distribution = NoiseSum(self.combination[target], self.distributions)
        return Inference(float(self.values[target]), distribution, biased=biased)

    def draws(self, size: int = SIZE, seed: int = 0) -> np.ndarray:
        """Return draws of all targets' true answers given their estimates, on the device [draws, targets]."""
        return self.values - draw_sums(self.combination, self.distributions, size, seed)

    def probability(
        self, low: Any = -math.inf, high: Any = math.inf, *, size: int = SIZE, seed: int = 0
    ) -> tuple[float, float]:
        """Return P(low <= theta <= high for all targets together), and its standard error.

        Args:
            low: one number or one per target (counts).
            high: as `low`.
            size: the number of draws.
            seed: seed of the device's generator.
        """
        draws = self.draws(size, seed)
        slack = 1e-9 * np.sqrt(np.diagonal(self.covariance))
        inside = ((draws >= np.asarray(low) - slack) & (draws <= np.asarray(high) + slack)).all(axis=1)
        share = float(inside.mean())
        return share, math.sqrt(share * (1 - share) / size)

    def intervals(self, level: float = 0.95, *, size: int = SIZE, seed: int = 0) -> np.ndarray:
        """Return intervals [targets, 2] that jointly contain all true answers with a probability (counts).

        All have the same width in standard deviations of their own error. The error of the draws is taken
        into account: the level is reached with confidence `CONFIDENCE` over the draws.

        Raises:
            ValueError: the level is outside (0, 1), or too close to 1 for this number of draws.
        """
        level = checks.number("level", level, above=0, below=1)
        spreads = np.sqrt(np.diagonal(self.covariance))
        errors = np.abs(self.values - self.draws(size, seed)) / np.where(spreads > 0, spreads, 1.0)
        largest = np.sort(errors.max(axis=1))
        number = order_statistic(size, level)
        if number > size:
            raise ValueError(f"level {level:g} is closer to 1 than {size:,} draws tell: take more of them.")
        width = largest[number - 1] * (1 + 1e-9) * spreads
        return np.stack([self.values - width, self.values + width], axis=1)

    def __repr__(self) -> str:
        return f"JointInference({len(self.values):,} targets from {len(self.distributions):,} answers)"


@dataclasses.dataclass(frozen=True)
class Claim:
    """The claim that a true answer is in low..high, ends included, or excluded if strict.

    Attributes:
        low: the lower end (counts); minus infinity for none.
        high: the upper end (counts).
        strict: whether the ends are excluded; relevant for discrete distributions only.

    Example:
        >>> Claim(low=0.0)  # at least 0; that it is less is Claim(high=0.0, strict=True)
        Claim(low=0.0, high=inf, strict=False)
    """

    low: float = -math.inf
    high: float = math.inf
    strict: bool = False

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
                raise ValueError(f"the {name} end of a claim must be a number or infinite, got {value!r}.")
        if self.low > self.high:
            raise ValueError("a claim's low end must not be above its high end.")

    def within(self, distribution: SumDistribution, value: float) -> float:
        """Return the probability of the claim, given an estimate and the distribution of its error."""
        if self.strict:
            outside = distribution.between(value - self.low, math.inf) if self.low > -math.inf else 0.0
            outside += distribution.between(-math.inf, value - self.high) if self.high < math.inf else 0.0
            return max(0.0, 1 - outside) if self.low < self.high else 0.0
        if self.low == -math.inf and self.high == math.inf:
            return 1.0
        return distribution.between(value - self.high, value - self.low)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The verdict on a claim.

    Attributes:
        claim: the claim.
        probability: probability of the claim.
        level: probability from which a claim counts as established.
    """

    claim: Claim
    probability: float
    level: float

    @property
    def holds(self) -> bool | None:
        """True or False if the claim or its opposite reaches the level, None if neither does."""
        if self.probability >= self.level:
            return True
        return False if 1 - self.probability >= self.level else None
