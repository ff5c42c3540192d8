"""What a game of DualQuery costs, in four accounts, and how many rounds a budget allows.

Round t draws each query by the exponential mechanism with e_t = 2 step (t - 1) / count: a query's
exponent, step times the sum of t - 1 differences of fractions, moves by step (t - 1) / count when one
of `count` records is replaced. The first round is free.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax.privacy.accounting.zcdp import epsilon_of, rho_for
from pgmjax.privacy.exact import exact, shortened

STEP = Fraction(2)
LEAST_ROUNDS = 4
ACCOUNTS = ("pure", "simple", "tight", "zcdp")
_ROUNDING = 1 + 1e-12
_MOST_ROUNDS = 10**6
_DIGITS = 12


@dataclasses.dataclass(frozen=True)
class Game:
    """The public numbers of a game.

    Attributes:
        count: the number of records.
        step: eta, exact.
        samples: queries drawn in each round.
    """

    count: int
    step: Fraction
    samples: int

    def draw_epsilon(self, number: int) -> Fraction:
        """Return what one draw of a round costs, the first being round 1."""
        return 2 * self.step * (number - 1) / self.count

    def pure(self, rounds: int) -> Fraction:
        """Return the sum of all epsilons."""
        return self.step * rounds * (rounds - 1) * self.samples / self.count

    def rho(self, rounds: int) -> Fraction:
        """Return the sum of all rhos, an eighth of the squared epsilons by the bounded range."""
        return self._squares(rounds) / 8

    def simple(self, rounds: int, delta: Any) -> float:
        """Return the epsilon at a delta > 0 by advanced composition, all draws counted as the dearest."""
        epsilon, draws = float(self.draw_epsilon(rounds)), self.samples * (rounds - 1)
        with np.errstate(over="ignore"):
            rest = draws * epsilon * float(np.expm1(epsilon))
        return (epsilon * math.sqrt(2 * draws * _log_inverse(delta)) + rest) * _ROUNDING

    def tight(self, rounds: int, delta: Any) -> float:
        """Return the epsilon at a delta > 0 by advanced composition of the draws as they are."""
        each = float(2 * self.step / self.count) * np.arange(rounds)
        with np.errstate(over="ignore"):
            rest = self.samples * float(np.sum(each * np.expm1(each)))
        return (math.sqrt(2 * _log_inverse(delta) * float(self._squares(rounds))) + rest) * _ROUNDING

    def epsilon(self, rounds: int, account: str, delta: Any) -> Fraction:
        """Return the epsilon of a game by an account, at its delta (0 for "pure"), rounded up.

        References:
            Dwork, Rothblum and Vadhan 2010, "Boosting and differential privacy" (advanced composition);
            Cesar and Rogers 2021 (bounded range); see `accounting.epsilon_of` for the conversion.
        """
        if account == "pure" or rounds == 1:
            return self.pure(rounds)
        if account == "zcdp":
            return exact("epsilon", epsilon_of(self.rho(rounds), delta))
        found = (self.simple if account == "simple" else self.tight)(rounds, delta)
        return exact("epsilon", found)

    def fits(self, rounds: int, account: str, epsilon: Fraction, delta: Any) -> bool:
        """Return whether a game costs at most (epsilon, delta) by an account."""
        if account == "pure" or rounds == 1:
            return self.pure(rounds) <= epsilon
        if account == "zcdp":
            return self.rho(rounds) <= rho_for(epsilon, delta)
        found = (self.simple if account == "simple" else self.tight)(rounds, delta)
        return math.isfinite(found) and Fraction(found) <= epsilon

    def most_rounds(self, account: str, epsilon: Fraction, delta: Any = 0) -> int:
        """Return the largest number of rounds that costs at most (epsilon, delta), at least 1.

        Example:
            >>> game = Game(48842, Fraction(2), 50)
            >>> [game.most_rounds(each, Fraction(1), Fraction(1, 1000)) for each in ACCOUNTS]
            [22, 58, 83, 162]
        """
        return _last(lambda rounds: self.fits(rounds, account, epsilon, delta), _MOST_ROUNDS)

    def largest_step(self, rounds: int, account: str, epsilon: Fraction, delta: Any = 0) -> Fraction:
        """Return the largest step, to 12 digits, with which so many rounds cost at most (epsilon, delta).

        `step` itself is the most that is returned.
        """
        if self.fits(rounds, account, epsilon, delta):
            return self.step
        low, high = Fraction(0), self.step
        while not low or high - low > high / 10**_DIGITS:
            middle = (low + high) / 2
            # a power of two while nothing fits yet, then few digits
            middle = middle if not low else Fraction(f"{float(middle):.{_DIGITS}e}")
            if not low < middle < high:
                break
            if dataclasses.replace(self, step=middle).fits(rounds, account, epsilon, delta):
                low = middle
            else:
                high = middle
        return low

    def _squares(self, rounds: int) -> Fraction:
        terms = Fraction((rounds - 1) * rounds * (2 * rounds - 1), 6)
        return self.samples * (2 * self.step / self.count) ** 2 * terms


def agree(
    count: int,
    step: Fraction | None,
    samples: int,
    rounds: int | None,
    account: str,
    epsilon: Fraction,
    delta: Any,
) -> tuple[Game, int]:
    """Return a game and its rounds that cost at most (epsilon, delta).

    Args:
        count: the number of records.
        step: eta; None takes 2, or less where that is needed for the rounds asked for, or for 4.
        samples: queries drawn in each round.
        rounds: None takes the most.
        account: one of `ACCOUNTS`.
        epsilon: what may be spent.
        delta: likewise.

    Raises:
        ValueError: the budget does not allow the rounds, or none but the first.
    """
    game = Game(count, STEP if step is None else step, samples)
    if step is None:
        smaller = game.largest_step(rounds or LEAST_ROUNDS, account, epsilon, delta)
        game = dataclasses.replace(game, step=smaller)
    most = game.most_rounds(account, epsilon, delta)
    if most < (rounds or 2):
        allowed = "the first round only, which asks nothing of the table" if most == 1 else f"{most} rounds"
        raise ValueError(
            f"The budget allows {allowed}, with a step of {shortened(game.step)}, {samples} samples and "
            f"{count:,} records: take a smaller step, fewer samples or fewer rounds, or spend more. Nothing "
            "was spent."
        )
    return game, rounds or most


def _log_inverse(delta: Any) -> float:
    return -math.log(delta)


def _last(fits: Callable[[int], bool], most: int) -> int:
    """Return the last of 1, 2, ..., most that fits, 1 fitting always."""
    low, high = 1, 2
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
