"""Randomised response: each record answers for itself, and lies with a known probability.

It reports a category (`KaryResponse`), or one independently flipped bit per category (`UnaryResponse`).
"""

from __future__ import annotations

import dataclasses
import decimal
import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pgmjax._internal import checks
from pgmjax.privacy import scales
from pgmjax.privacy.exact import floor_float, shortened

LARGEST_SIZE = 2**31
_LARGEST_CHANNEL = 4096
_DIGITS = 60

LARGEST_UNARY_SIZE = 2**16
_LARGEST_UNARY_CHANNEL = 10


@dataclasses.dataclass(frozen=True)
class KaryResponse:
    """Report the true category, or with probability `lie` another one, uniformly.

    Attributes:
        size: number of categories, 2 to 2^31.
        lie: the exact probability of a lie, a float in (0, (size - 1) / size): the truth stays more
            likely than any other category.

    Guarantees:
        `epsilon_bound`-DP for the record that answers, and for a table of such records when one is
        replaced. Participation is not hidden: there is no such guarantee when records are added or removed.

    References:
        Warner 1965; Kairouz, Bonawitz and Ramage 2016, "Discrete distribution estimation under
        local privacy" (k-ary).

    Example:
        >>> KaryResponse(4, 0.25).channel()[0].round(4).tolist()
        [0.75, 0.0833, 0.0833, 0.0833]
    """

    size: int
    lie: float
    name: ClassVar[str] = "randomized-response"

    def __post_init__(self) -> None:
        size = checks.integer("size", self.size, low=2, high=LARGEST_SIZE)
        lie = checks.number("lie", self.lie, above=0)
        if not Fraction(lie) < Fraction(size - 1, size):
            raise ValueError(
                f"lie must be below (size - 1) / size, so that the truth is the likeliest of {size} "
                f"categories, got {lie!r}."
            )
        checks.set_fields(self, size=size, lie=lie)

    @property
    def truth(self) -> Fraction:
        """The exact probability of the true category, 1 - lie."""
        return 1 - Fraction(self.lie)

    @property
    def epsilon_bound(self) -> Fraction:
        """An upper bound on epsilon = ln(truth * (size - 1) / lie), within a relative 1e-58."""
        return log_bound(self.truth * (self.size - 1) / Fraction(self.lie))

    def channel(self) -> np.ndarray:
        """Return the probability of each answer [truth, answer], float64 [size, size].

        Raises:
            ValueError: more than 4096 categories; use `truth` and `lie` instead.
        """
        if self.size > _LARGEST_CHANNEL:
            raise ValueError(
                f"A channel of {self.size} categories is too large to write out: expected at most "
                f"{_LARGEST_CHANNEL}. Use truth and lie / (size - 1)."
            )
        channel = np.full((self.size, self.size), self.lie / (self.size - 1))
        np.fill_diagonal(channel, float(self.truth))
        return channel


def response_for(size: int, epsilon: Fraction) -> KaryResponse:
    """Return the epsilon-DP distribution with the smallest lie probability.

    Args:
        size: number of categories, 2 to 2^31.
        epsilon: exact budget of an answer.

    Raises:
        ValueError: epsilon is so small that the answers are uniform to within a 64-bit float, or so large
            that practically no answer is a lie.

    Guarantees:
        `epsilon_bound` <= epsilon, and that of the next smaller float `lie` is above epsilon.
    """
    size = checks.integer("size", size, low=2, high=LARGEST_SIZE)
    uniform = Fraction(size - 1, size)
    # strictly below: at that probability the truth is no likelier than any other category
    most = floor_float(uniform)
    if Fraction(most) == uniform:
        most = math.nextafter(most, 0.0)
    lie = _least_lie(
        functools.partial(KaryResponse, size),
        size - 1,
        epsilon,
        epsilon,
        most,
        f"randomised response over {size} categories: its answers would be uniform",
    )
    return KaryResponse(size, lie)


def _least_lie(
    make: Callable[[float], ResponseDistribution],
    others: int,
    exponent: Fraction,
    epsilon: Fraction,
    most: float,
    refused: str,
) -> float:
    """Return the smallest lie probability, at most `most`, with which a distribution keeps epsilon.

    The search begins at others / (exp(exponent) + others), which is right up to rounding.
    """
    if epsilon > scales.STRONGEST:
        raise ValueError(
            f"epsilon {shortened(epsilon)} means that no answer is ever a lie and protects nothing: spend at "
            f"most {scales.STRONGEST}."
        )
    lie = min(most, others / (math.exp(exponent) + others))
    while make(lie).epsilon_bound > epsilon:
        if lie >= most:
            raise ValueError(
                f"epsilon {shortened(epsilon)} is too small for {refused} to within a 64-bit float. Spend "
                "more."
            )
        lie = math.nextafter(lie, 1.0)
    while make(lower := math.nextafter(lie, 0.0)).epsilon_bound <= epsilon:
        lie = lower
    return lie


def answered(truth: np.ndarray, lies: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the answers, int64 [records].

    Args:
        truth: true categories [records].
        lies: whose answer is a lie, bool [records].
        others: one uniform integer in 0..size-2 per lie [lies]; values >= the truth are shifted by one,
            so that every other category is equally likely.
    """
    answers = truth.astype(np.int64)
    hidden = answers[lies]
    # others count the categories without the truth: from it on they move up by one
    answers[lies] = others + (others >= hidden)
    return answers


@dataclasses.dataclass(frozen=True)
class UnaryResponse:
    """Answer one bit per category: 1 for the true one with probability `truth`, for others with `lie`.

    Bits are independent. The optimal encoding reports the true category with probability 1/2, which uses
    all of epsilon for the many others; the symmetric one flips every bit with the same probability.

    Attributes:
        size: number of categories, 2 to 2^16.
        lie: the exact probability of a 1 for a category that is not the record's, a float in (0, 1/2).
        symmetric: whether `truth` is 1 - lie; otherwise it is 1/2.

    Guarantees:
        `epsilon_bound`-DP for the record that answers, and for a table of such records when one is
        replaced; no guarantee when records are added or removed.

    References:
        Wang, Blocki, Li and Jha 2017, "Locally differentially private protocols for frequency estimation"
        (optimal and symmetric unary encoding).

    Example:
        >>> distribution = UnaryResponse(2, 0.25)
        >>> distribution.channel().round(4).tolist()  # answers 00, 01, 10, 11
        [[0.375, 0.125, 0.375, 0.125], [0.375, 0.375, 0.125, 0.125]]
    """

    size: int
    lie: float
    symmetric: bool = False
    name: ClassVar[str] = "unary-response"

    def __post_init__(self) -> None:
        size = checks.integer("size", self.size, low=2, high=LARGEST_UNARY_SIZE)
        checks.set_fields(self, size=size, lie=checks.number("lie", self.lie, above=0, below=0.5))
        checks.kind(self.symmetric, bool, "symmetric must be True or False")

    @property
    def truth(self) -> Fraction:
        """The exact probability of a 1 for the record's own category."""
        return 1 - Fraction(self.lie) if self.symmetric else Fraction(1, 2)

    @property
    def epsilon_bound(self) -> Fraction:
        """An upper bound on epsilon = ln(truth (1 - lie) / ((1 - truth) lie)), within a relative 1e-58."""
        lie = Fraction(self.lie)
        return log_bound(self.truth * (1 - lie) / ((1 - self.truth) * lie))

    def channel(self) -> np.ndarray:
        """Return the probability of each answer [truth, answer], float64 [size, 2^size].

        An answer's index in binary gives its bits, category 0 first.

        Raises:
            ValueError: more than 10 categories.
        """
        if self.size > _LARGEST_UNARY_CHANNEL:
            raise ValueError(
                f"A channel of {self.size} bits is too large to write out: expected at most "
                f"{_LARGEST_UNARY_CHANNEL} categories. Use truth and lie, a bit at a time."
            )
        answers = np.arange(2**self.size)
        bits = (answers[:, None] >> np.arange(self.size)[::-1]) & 1
        ones = np.full((self.size, self.size), self.lie)
        np.fill_diagonal(ones, float(self.truth))
        return np.where(bits[None], ones[:, None], 1 - ones[:, None]).prod(axis=2)


def unary_for(size: int, epsilon: Fraction, symmetric: bool = False) -> UnaryResponse:
    """Return the epsilon-DP distribution with the smallest lie probability.

    Args:
        size: number of categories, 2 to 2^16.
        epsilon: exact budget of an answer.
        symmetric: the encoding, see `UnaryResponse`.

    Raises:
        ValueError: epsilon is so small that the bits are fair coins to within a 64-bit float, or so large
            that practically no answer is a lie.

    Guarantees:
        `epsilon_bound` <= epsilon, and that of the next smaller float `lie` is above epsilon.
    """
    lie = _least_lie(
        functools.partial(UnaryResponse, size, symmetric=symmetric),
        1,
        epsilon / 2 if symmetric else epsilon,
        epsilon,
        math.nextafter(0.5, 0.0),
        "unary responses: their bits would be fair coins",
    )
    return UnaryResponse(size, lie, symmetric)


ResponseDistribution = KaryResponse | UnaryResponse


def log_bound(odds: Fraction) -> Fraction:
    """Return an upper bound on the logarithm of odds > 1, within a relative 1e-58."""
    context = decimal.Context(prec=_DIGITS, rounding=decimal.ROUND_CEILING)
    above = context.divide(decimal.Decimal(odds.numerator), decimal.Decimal(odds.denominator))
    # a Decimal's logarithm is rounded to the nearest in every context: the next one is an upper bound
    return Fraction(context.next_plus(context.ln(above)))


def checked_codes(size: int, codes: Any) -> np.ndarray:
    """Return true categories as an array of integers [records], all in 0..size-1.

    An error depends on the codes, which are private, and its message counts those out of range.

    Raises:
        TypeError: the codes are not integers.
        ValueError: not one axis, or a code is outside 0..size-1.
    """
    array = np.asarray(codes)
    if array.ndim != 1:
        raise ValueError(f"codes must have one axis, the records, got {array.ndim} axes.")
    if array.dtype.kind not in "iu":
        raise TypeError(f"codes must be integers, got {array.dtype}.")
    if array.size and not 0 <= int(array.min()) <= int(array.max()) < size:
        # a category that is not in the list would be answered by a random one without a word
        outside = np.count_nonzero((array < 0) | (array >= size))
        raise ValueError(f"{outside} of {array.size} codes lie outside 0..{size - 1}: nothing was drawn.")
    return array


def checked_response(distribution: Any) -> KaryResponse:
    """Return the argument if it is a `KaryResponse`, otherwise raise TypeError."""
    checks.kind(distribution, KaryResponse, "distribution must be a KaryResponse")
    return distribution
