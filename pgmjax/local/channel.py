"""Means and variances of a randomised response, from which unbiased estimators are built."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.domain import Clique, Domain
from pgmjax.privacy.response import KaryResponse, ResponseDistribution, UnaryResponse


@dataclasses.dataclass(frozen=True)
class Channel:
    """A record's answer about some cells, as a random number for each cell.

    The number is 1 for the cell that the record answers and 0 for all others (direct encoding), or the sum
    of its bits in the cell (unary encodings). Counts therefore have expectation gap * x + other * n. For a
    function f on the cells, let f(y) be the sum of f weighted by the numbers of the answer y for true cell x.
    Its mean is E f(y) = other * sum(f) + gap * f(x), so ``factor * (f(y) - other * sum(f))`` is an unbiased
    estimate of f(x).

    Attributes:
        size: number m of cells.
        truth: mean of the number of the record's own cell; for direct encoding the probability of the truth.
        other: mean of the number of any other cell; for direct encoding the probability of that lie.
        gap: truth - other.
        attributes: the attributes that the cells are of; empty if unnamed.
        bit_variances: variances of the numbers of the record's own cell and of another cell, which are
            independent; None for direct encoding, where one cell's number is 1 and all others are 0.

    References:
        Wang, Ying and Zhang 2016, equations 16 to 18: factor is (e^epsilon + m - 1) / (e^epsilon - 1),
        offset 1 / (e^epsilon - 1), where epsilon is that of the distribution actually used.

    Example:
        >>> channel = Channel.of(KaryResponse(4, 0.25))
        >>> round(channel.factor, 6), round(channel.offset, 6)
        (1.5, 0.125)
    """

    size: int
    truth: float
    other: float
    gap: float
    attributes: Clique = ()
    bit_variances: tuple[float, float] | None = None

    @classmethod
    def of(
        cls, distribution: ResponseDistribution, domain: Domain | None = None, attributes: Clique = ()
    ) -> Channel:
        """Return the channel of a distribution's answers.

        Args:
            distribution: distribution of the answers about a group of attributes.
            domain: the attributes' sizes; needed if `attributes` are given.
            attributes: some or all of the group's attributes; answers are merged to their cells. Leave out
                `domain` too to keep the distribution's categories.

        Raises:
            TypeError: not a distribution of randomised response.
        """
        checks.kind(
            distribution, KaryResponse | UnaryResponse, "distribution must be a KaryResponse or UnaryResponse"
        )
        unary = isinstance(distribution, UnaryResponse)
        # exact, as the gap between two near probabilities loses its digits in floats
        lie = Fraction(distribution.lie) / (1 if unary else distribution.size - 1)
        size = distribution.size if domain is None else domain.size(attributes)
        merged = distribution.size // size  # categories in each cell
        truth, other, gap = float(distribution.truth), float(lie), float(distribution.truth - lie)
        spread = other * (1 - other)
        variances = (truth * (1 - truth) + (merged - 1) * spread, merged * spread) if unary else None
        return cls(size, truth + (merged - 1) * other, merged * other, gap, attributes, variances)

    @classmethod
    def at(cls, size: int, epsilon: float) -> Channel:
        """Return the channel of direct encoding for a budget, in float64 precision.

        Raises:
            ValueError: epsilon not in (0, 700), or fewer than two categories.
        """
        size = checks.integer("size", size, low=2)
        epsilon = checks.number("epsilon", epsilon, above=0, below=700)
        less = math.exp(-epsilon)
        whole = 1 + (size - 1) * less
        # by expm1, as truth less lie would cancel where epsilon is small
        return cls(size, 1 / whole, less / whole, -math.expm1(-epsilon) / whole)

    @property
    def exclusive(self) -> bool:
        """True if an answer is one cell (direct encoding), not one bit per category."""
        return self.bit_variances is None

    @property
    def factor(self) -> float:
        """The factor that multiplies an answer's function: 1 / gap."""
        return 1 / self.gap

    @property
    def offset(self) -> float:
        """The amount subtracted per unit of the function's sum: other / gap."""
        return self.other / self.gap

    @property
    def squares(self) -> tuple[float, float]:
        """Mean squares of the number of the record's own cell and of another."""
        if self.bit_variances is None:
            return self.truth, self.other
        own, other = self.bit_variances
        return own + self.truth**2, other + self.other**2

    @property
    def unbiased_squares(self) -> tuple[float, float]:
        """Mean squares of (number - other) / gap, of the record's own cell and of another."""
        own, other = self.squares
        shifted = own - 2 * self.other * self.truth + self.other**2
        return shifted / self.gap**2, (other - self.other**2) / self.gap**2

    def matrix(self) -> np.ndarray:
        """Return the mean of each cell's number [cell, own cell], float64 [size, size]."""
        matrix = np.full((self.size, self.size), self.other)
        np.fill_diagonal(matrix, self.truth)
        return matrix

    def unbiased(self, counts: np.ndarray, rows: Any = None) -> np.ndarray:
        """Return unbiased counts of true cells, float64 [..., size], from counts of answers [..., size].

        Entries may be negative. With direct encoding, the result has the same sum as the counts.

        Args:
            counts: sums of the records' numbers.
            rows: number of records, broadcast to the counts. Default: the sum of the counts, correct for
                direct encoding only.
        """
        counts = np.asarray(counts)
        rows = counts.sum(axis=-1, keepdims=True) if rows is None else rows
        return (counts - self.other * rows) / self.gap

    def variance(self, value: Any, sums: Any, squares: Any) -> Any:
        """Return the variance of one record's unbiased estimate of f(x), exactly.

        Args:
            value: f(x).
            sums: sum of f over the cells.
            squares: sum of f^2 over the cells.
        """
        if self.bit_variances is not None:
            own, other = self.bit_variances
            return self.factor**2 * (own * value**2 + other * (squares - value**2))
        first = self.other * sums + self.gap * value
        second = self.other * squares + self.gap * value**2
        return self.factor**2 * np.maximum(second - first**2, 0.0)

    def bound(self, spread: Any) -> Any:
        """Return a bound on that variance for a function with values in 0..spread.

        For direct encoding it holds for all functions whose values span at most `spread`.

        References:
            Wang, Ying and Zhang 2016, Lemma 2: factor^2 (b - a)^2 / 4.
        """
        if self.exclusive:
            return (self.factor * np.asarray(spread)) ** 2 / 4
        return np.asarray(spread) ** 2 * self.largest_variance()

    def largest_variance(self) -> float:
        """Return the largest variance of one record's estimate over all functions with values in 0..1.

        The variance is convex in the function, so its maximum is at an indicator of a set of cells. For
        unary encodings that is all cells. For direct encoding with two or more cells, it is the set whose
        probability of an answer is nearest to one half; `bound(1.0)` is never below.

        Example:
            >>> [round(Channel.at(size, 1.0).largest_variance(), 5) for size in (2, 8)]
            [0.92067, 7.99034]
        """
        if self.bit_variances is not None:
            own, other = self.bit_variances
            return self.factor**2 * (own + (self.size - 1) * other)
        # how many other cells make the chance of an answer one half
        nearest = (0.5 - self.truth) / self.other
        extra = {min(max(round(nearest + step), 0), self.size - 2) for step in (-1, 0, 1)}
        hits = [self.truth + self.other * number for number in extra]
        return self.factor**2 * max(hit * (1 - hit) for hit in hits)


def predicted_stddev(distribution: ResponseDistribution, rows: int) -> float:
    """Return the largest standard deviation of an answer to a statistical query with values in 0..1.

    It uses no data, so it can be used to check beforehand whether a universe is too large for a table.

    Args:
        distribution: distribution of the responses.
        rows: number of records.

    Example:
        >>> from fractions import Fraction
        >>> from pgmjax.privacy.response import response_for
        >>> [round(predicted_stddev(response_for(size, Fraction(1)), 48842), 4) for size in (8, 1024)]
        [0.0128, 1.3505]
    """
    rows = checks.integer("rows", rows, low=1)
    return math.sqrt(Channel.of(distribution).largest_variance() / rows)


def predicted_error(factors: Sequence[Channel], rows: int) -> float:
    """Return a bound on the standard deviation of an estimated fraction of the records.

    Args:
        factors: the channels of all groups that contain a clique's attributes.
        rows: number of records.

    Returns:
        A bound that holds for every table and for any predicate on the cells of one group, or a product of
        such predicates over several groups, such as cells and rectangles. For direct encoding of one group
        it is a / (2 sqrt(rows)) with a = (e^epsilon + m - 1) / (e^epsilon - 1).

    References:
        Wang, Ying and Zhang 2016, Lemma 2 (one group).

    Example:
        >>> from fractions import Fraction
        >>> from pgmjax.privacy.response import response_for
        >>> distribution = response_for(1024, Fraction(1))
        >>> round(predicted_error([Channel.of(distribution, Domain({"a": 1024}), ("a",))], 48842), 2)
        1.35
    """
    # the product of 1 + bound over the factors, less 1, in a form that keeps small bounds
    worst = math.expm1(sum(math.log1p(float(factor.bound(1.0))) for factor in factors))
    return math.sqrt(worst / rows)
