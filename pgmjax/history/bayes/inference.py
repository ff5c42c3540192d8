"""Inference about a true answer from its estimate: intervals, probabilities and tests, with their errors.

`distribution_of` computes the distribution of an estimate's error. A `Claim` about the true answer is tested
against an estimate; the result is a `Verdict`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.migration import Named
from pgmjax.history.bayes import convolution, monte_carlo
from pgmjax.history.bayes.distribution import Accuracy, LatticeDistribution, SumDistribution, invert
from pgmjax.history.bayes.monte_carlo import SIZE, draw_sums, order_statistic
from pgmjax.history.bayes.noise_sum import NoiseSum
from pgmjax.measurements.noise import NoiseDistribution

METHODS: dict[str, Callable[..., SumDistribution]] = {
    "auto": invert,
    "characteristic": invert,
    "convolution": convolution.convolve,
    "monte-carlo": monte_carlo.simulate,
}
_ENDS = 1e-7  # of a lattice step: keeps a true answer at an end inside in spite of rounding


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
        method: how it is computed, see `history.distribution_of`.
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
        slack = _ENDS * self.computed.step if isinstance(self.computed, LatticeDistribution) else 0.0
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
        into account: the level is reached with confidence `monte_carlo.CONFIDENCE` over the draws.

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
        >>> Claim(low=0.0).opposite
        Claim(low=-inf, high=0.0, strict=True)
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

    @property
    def opposite(self) -> Claim | None:
        """The opposite claim, if it is a single interval."""
        if self.low == -math.inf and self.high < math.inf:
            return Claim(low=self.high, strict=not self.strict)
        if self.high == math.inf and self.low > -math.inf:
            return Claim(high=self.low, strict=not self.strict)
        return None

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
