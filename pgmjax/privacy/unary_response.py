"""Unary responses: each record answers with a bit a category, every bit turned over by itself."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.privacy import scales
from pgmjax.privacy.exact import shortened
from pgmjax.privacy.response import log_bound

LARGEST_SIZE = 2**16
_LARGEST_CHANNEL = 10


@dataclasses.dataclass(frozen=True)
class UnaryResponse:
    """Answer a bit for each category: 1 for the true one with probability `truth`, for others with `lie`.

    Bits are independent. The optimal encoding tells the truth about the true category half of the time,
    which gives all of epsilon to the many others; the symmetric one turns every bit over alike.

    Attributes:
        size: number of categories, 2 to 2^16.
        lie: the exact probability of a 1 for a category that is not the record's, a float in (0, 1/2).
        symmetric: whether `truth` is 1 - lie; otherwise it is 1/2.

    Guarantees:
        `epsilon_bound`-DP for the record that answers, and for a table of such records when one is
        replaced; nothing where records come and go.

    References:
        Wang, Blocki, Li and Jha 2017, "Locally differentially private protocols for frequency estimation"
        (optimal and symmetric unary encoding).

    Example:
        >>> law = UnaryResponse(2, 0.25)
        >>> law.channel().round(4).tolist()  # answers 00, 01, 10, 11
        [[0.375, 0.125, 0.375, 0.125], [0.375, 0.375, 0.125, 0.125]]
    """

    size: int
    lie: float
    symmetric: bool = False
    name: ClassVar[str] = "unary-response"

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", checks.integer("size", self.size, low=2, high=LARGEST_SIZE))
        object.__setattr__(self, "lie", checks.number("lie", self.lie, above=0, below=0.5))
        if not isinstance(self.symmetric, bool):
            raise TypeError(f"symmetric must be True or False, got {type(self.symmetric).__name__}.")

    @property
    def truth(self) -> Fraction:
        """The exact probability of a 1 for the record's own category."""
        return 1 - Fraction(self.lie) if self.symmetric else Fraction(1, 2)

    @property
    def epsilon_bound(self) -> Fraction:
        """An upper bound of epsilon = ln(truth (1 - lie) / ((1 - truth) lie)), by 1e-58 of it at most."""
        lie = Fraction(self.lie)
        return log_bound(self.truth * (1 - lie) / ((1 - self.truth) * lie))

    def channel(self) -> np.ndarray:
        """Return the probability of each answer [truth, answer], float64 [size, 2^size].

        The answer's bits are its number in binary, category 0 first.

        Raises:
            ValueError: more than 10 categories.
        """
        if self.size > _LARGEST_CHANNEL:
            raise ValueError(
                f"A channel of {self.size} bits is too large to write out: expected at most "
                f"{_LARGEST_CHANNEL} categories. Use truth and lie, a bit at a time."
            )
        answers = np.arange(2**self.size)
        bits = (answers[:, None] >> np.arange(self.size)[::-1]) & 1
        ones = np.full((self.size, self.size), self.lie)
        np.fill_diagonal(ones, float(self.truth))
        return np.where(bits[None], ones[:, None], 1 - ones[:, None]).prod(axis=2)


def unary_for(size: int, epsilon: Fraction, symmetric: bool = False) -> UnaryResponse:
    """Return the law of least lie that is epsilon-DP.

    Args:
        size: number of categories, 2 to 2^16.
        epsilon: exact budget of an answer.
        symmetric: which encoding, see `UnaryResponse`.

    Raises:
        ValueError: epsilon is so small that no 64-bit float tells a bit from a fair coin, or so large
            that nobody ever lies.

    Guarantees:
        `epsilon_bound` <= epsilon, and the next smaller float's is above it.
    """
    if epsilon > scales.STRONGEST:
        raise ValueError(
            f"epsilon {shortened(epsilon)} means that no answer is ever a lie and protects nothing: spend at "
            f"most {scales.STRONGEST}."
        )
    most = math.nextafter(0.5, 0.0)
    lie = min(most, 1 / (math.exp(epsilon / 2 if symmetric else epsilon) + 1))
    while UnaryResponse(size, lie, symmetric).epsilon_bound > epsilon:
        if lie >= most:
            raise ValueError(
                f"epsilon {shortened(epsilon)} is too small for unary responses: their bits would be fair "
                "coins to within a 64-bit float. Spend more."
            )
        lie = math.nextafter(lie, 1.0)
    while UnaryResponse(size, lower := math.nextafter(lie, 0.0), symmetric).epsilon_bound <= epsilon:
        lie = lower
    return UnaryResponse(size, lie, symmetric)
