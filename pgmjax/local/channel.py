"""The numbers of a randomised response that unbiased estimators are made of.

`Channel` is the answer of a record as one category. `Factor` is what a group of attributes answers about some
of its attributes: a record's answer is turned into a number for each cell, 1 for the cell that it names
(direct encoding) or the sum of its bits there (unary encodings). Its mean is `matching` in the record's own
cell and `other` in all others, so that counts have the expectation (matching - other) x + other n.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax._internal import checks
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.privacy.response import KaryResponse, ResponseLaw, UnaryResponse


@dataclasses.dataclass(frozen=True)
class Channel:
    """One record's answer as a random variable: true with probability `truth`, any other with `other`.

    For a function f on the categories the answer y to x has E f(y) = other * sum(f) + gap * f(x), so
    that ``factor * (f(y) - other * sum(f))`` estimates f(x) without bias.

    Attributes:
        size: number m of categories.
        truth: probability of the true category.
        other: probability of each of the m - 1 other categories.
        gap: truth - other.

    References:
        Wang, Ying and Zhang 2016, equations 16 to 18: factor is (e^epsilon + m - 1) / (e^epsilon - 1),
        offset 1 / (e^epsilon - 1), where epsilon is that of the law that is really drawn.

    Example:
        >>> channel = Channel.of(KaryResponse(4, 0.25))
        >>> round(channel.factor, 6), round(channel.offset, 6)
        (1.5, 0.125)
    """

    size: int
    truth: float
    other: float
    gap: float

    @classmethod
    def of(cls, law: KaryResponse) -> Channel:
        """Return the numbers of a law, rounded once from its exact probabilities.

        Raises:
            TypeError: not a law of randomised response.
        """
        if not isinstance(law, KaryResponse):
            raise TypeError(f"law must be a KaryResponse, got {type(law).__name__}.")
        other = Fraction(law.lie) / (law.size - 1)
        return cls(law.size, float(law.truth), float(other), float(law.truth - other))

    @classmethod
    def at(cls, size: int, epsilon: float) -> Channel:
        """Return the numbers for a budget, to float64's digits, before any law is made.

        Raises:
            ValueError: epsilon not above 0, or fewer than two categories.
        """
        size = checks.integer("size", size, low=2)
        epsilon = checks.number("epsilon", epsilon, above=0, below=700)
        less = math.exp(-epsilon)
        whole = 1 + (size - 1) * less
        return cls(size, 1 / whole, less / whole, -math.expm1(-epsilon) / whole)

    @property
    def factor(self) -> float:
        """What an answer's function is multiplied with: 1 / gap."""
        return 1 / self.gap

    @property
    def offset(self) -> float:
        """What is taken off for every unit of the function's sum: other / gap."""
        return self.other / self.gap

    def unbiased(self, counts: np.ndarray) -> np.ndarray:
        """Return unbiased counts of true categories, float64 [..., size], from counts of answers [..., size].

        Entries may be negative; every row keeps its sum.
        """
        counts = np.asarray(counts)
        rows = counts.sum(axis=-1, keepdims=True)
        return self.factor * (counts - self.other * rows)

    def variance(self, value: Any, sums: Any, squares: Any) -> Any:
        """Return the variance of one record's unbiased estimate of f(x), exactly.

        Args:
            value: f(x).
            sums: sum of f over the categories.
            squares: sum of f^2 over the categories.
        """
        first = self.other * sums + self.gap * value
        second = self.other * squares + self.gap * value**2
        return self.factor**2 * np.maximum(second - first**2, 0.0)

    def bound(self, spread: Any) -> Any:
        """Return the bound on that variance for a function whose values span at most `spread`.

        References:
            Wang, Ying and Zhang 2016, Lemma 2: factor^2 (b - a)^2 / 4.
        """
        return (self.factor * np.asarray(spread)) ** 2 / 4

    def largest_variance(self) -> float:
        """Return the largest variance of one record's estimate over all functions with values in 0..1.

        It is convex in the function, so that the largest is at an indicator of some categories: the
        one whose probability of an answer is nearest to one half. `bound(1.0)` lies above.

        Example:
            >>> [round(Channel.at(size, 1.0).largest_variance(), 5) for size in (2, 8)]
            [0.92067, 7.99034]
        """
        nearest = (0.5 - self.truth) / self.other
        extra = {min(max(round(nearest + step), 0), self.size - 2) for step in (-1, 0, 1)}
        hits = [self.truth + self.other * number for number in extra]
        return self.factor**2 * max(hit * (1 - hit) for hit in hits)


def predicted_stddev(law: KaryResponse, rows: int) -> float:
    """Return the largest standard deviation of an answer to a statistical query with values in 0..1.

    It is known before anything is drawn: use it to see whether a universe is too large for a table.

    Args:
        law: size and probability of a lie.
        rows: number of records.

    Example:
        >>> from fractions import Fraction
        >>> from pgmjax.privacy.response import response_for
        >>> [round(predicted_stddev(response_for(size, Fraction(1)), 48842), 4) for size in (8, 1024)]
        [0.0128, 1.3505]
    """
    rows = checks.integer("rows", rows, low=1)
    return math.sqrt(Channel.of(law).largest_variance() / rows)


@dataclasses.dataclass(frozen=True)
class Factor:
    """The answers of one group of attributes about some of them.

    Attributes:
        attributes: those asked about.
        size: their cells.
        matching: mean of the number of the record's own cell.
        other: mean of the number of any other cell.
        matching_square: mean square of the number of the record's own cell.
        other_square: mean square of the number of any other cell.
        exclusive: whether at most one cell's number is not 0 (direct); otherwise they are independent.
    """

    attributes: Clique
    size: int
    matching: float
    other: float
    matching_square: float
    other_square: float
    exclusive: bool

    @classmethod
    def of(cls, law: ResponseLaw, domain: Domain, attributes: Clique) -> Factor:
        """Return the factor of a law's answers about some attributes of its group.

        Args:
            law: of the group's answers.
            domain: with the attributes' sizes.
            attributes: some or all of the group's.
        """
        size = domain.size(attributes)
        merged = law.size // size  # categories in each cell
        truth = float(law.truth)
        if isinstance(law, UnaryResponse):
            lie, spread = law.lie, law.lie * (1 - law.lie)
            matching, other = truth + (merged - 1) * lie, merged * lie
            squares = (
                truth * (1 - truth) + (merged - 1) * spread + matching**2,
                merged * spread + other**2,
            )
        else:
            lie = law.lie / (law.size - 1)
            matching, other = truth + (merged - 1) * lie, merged * lie
            squares = matching, other
        exclusive = not isinstance(law, UnaryResponse)
        return cls(attributes, size, matching, other, *squares, exclusive)

    @property
    def gain(self) -> float:
        """How much more the record's own cell counts than another one."""
        return self.matching - self.other

    @property
    def unbiased_squares(self) -> tuple[float, float]:
        """Mean squares of (number - other) / gain, of the record's own cell and of another."""
        own = self.matching_square - 2 * self.other * self.matching + self.other**2
        return own / self.gain**2, (self.other_square - self.other**2) / self.gain**2

    @property
    def predicate_variance(self) -> float:
        """A bound of the variance of one record's unbiased estimate of any predicate on the cells.

        Direct: a quarter of the squared range 1 / gain. Unary: all cells may count.
        """
        if self.exclusive:
            return 0.25 / self.gain**2
        own, other = self.unbiased_squares
        return own - 1 + (self.size - 1) * other


def predicted_error(factors: Sequence[Factor], rows: int) -> float:
    """Return a bound of the standard deviation of an estimated fraction of the records.

    Args:
        factors: of all groups that a clique's attributes lie in.
        rows: the number of records.

    Returns:
        It holds for every table and for any predicate on the cells of one group, and over several groups for
        products of such predicates: cells, rectangles. For direct encoding of one group it is
        a / (2 sqrt(rows)) with a = (e^epsilon + m - 1) / (e^epsilon - 1).

    References:
        Wang, Ying and Zhang 2016, Lemma 2 (one group).

    Example:
        >>> from fractions import Fraction
        >>> from pgmjax.privacy.response import response_for
        >>> law = response_for(1024, Fraction(1))
        >>> round(predicted_error([Factor.of(law, Domain({"a": 1024}), ("a",))], 48842), 2)
        1.35
    """
    worst = math.expm1(sum(math.log1p(factor.predicate_variance) for factor in factors))
    return math.sqrt(worst / rows)
