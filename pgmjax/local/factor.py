"""What a group of attributes answers about some of its attributes: a channel of two numbers.

A record's answer is turned into a number for each cell: 1 for the cell that it names (direct encoding), or
the sum of its bits there (unary encodings). Its mean is `matching` in the record's own cell and `other` in
all others, so that counts have the expectation (matching - other) x + other n.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.privacy.response import ResponseLaw, UnaryResponse


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
