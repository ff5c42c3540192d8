"""The game of DualQuery: what its rounds cost, and the player that answers draws by records.

The cost is computed by one of four accounting methods, and `agree` finds the rounds that a budget allows.
Round t draws each query by the exponential mechanism with e_t = 2 step (t - 1) / count. A query's exponent is
step times the sum of t - 1 differences of fractions, so it changes by at most step (t - 1) / count when one
of `count` records is replaced. The first round is free.
"""

from __future__ import annotations

import bisect
import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax.data.domain import Domain
from pgmjax.model.clique_vector import CliqueVector
from pgmjax.model.graphical import GraphicalModel
from pgmjax.privacy.accounting.zcdp import epsilon_of, rho_for
from pgmjax.privacy.exact import exact, shortened
from pgmjax.queries import Query
from pgmjax.queries.sums import transposed

STEP = Fraction(2)  # eta, where nobody gives one and the budget allows it
LEAST_ROUNDS = 4  # for which the step is made smaller, where nobody gives their number
ACCOUNTS = ("pure", "simple", "tight", "zcdp")
_ROUNDING = 1 + 1e-12  # costs in floats are rounded up by this factor
_MOST_ROUNDS = 10**6  # that are looked at
_DIGITS = 12  # of a step that is searched


@dataclasses.dataclass(frozen=True)
class Game:
    """The public numbers of a game.

    Attributes:
        count: the number of records.
        step: eta, exact.
        samples: number of queries drawn in each round.
    """

    count: int
    step: Fraction
    samples: int

    def draw_epsilon(self, number: int) -> Fraction:
        """Return the epsilon of one draw in a round; rounds are numbered from 1."""
        return 2 * self.step * (number - 1) / self.count

    def pure(self, rounds: int) -> Fraction:
        """Return the sum of epsilon over all draws."""
        return self.step * rounds * (rounds - 1) * self.samples / self.count

    def rho(self, rounds: int) -> Fraction:
        """Return the sum of rho over all draws, each epsilon^2 / 8 by the bounded range."""
        return self._squares(rounds) / 8

    def simple(self, rounds: int, delta: Any) -> float:
        """Return the epsilon at delta > 0 by advanced composition, with the largest cost for all draws."""
        epsilon, draws = float(self.draw_epsilon(rounds)), self.samples * (rounds - 1)
        with np.errstate(over="ignore"):
            rest = draws * epsilon * float(np.expm1(epsilon))
        return (epsilon * math.sqrt(-2 * draws * math.log(delta)) + rest) * _ROUNDING

    def tight(self, rounds: int, delta: Any) -> float:
        """Return the epsilon at delta > 0 by advanced composition, with the actual cost of each draw."""
        each = float(2 * self.step / self.count) * np.arange(rounds)
        with np.errstate(over="ignore"):
            rest = self.samples * float(np.sum(each * np.expm1(each)))
        return (math.sqrt(-2 * math.log(delta) * float(self._squares(rounds))) + rest) * _ROUNDING

    def epsilon(self, rounds: int, account: str, delta: Any) -> Fraction:
        """Return the epsilon of a game by an accounting method, at delta (0 for "pure"), rounded up.

        References:
            Dwork, Rothblum and Vadhan 2010, "Boosting and differential privacy" (advanced composition);
            Cesar and Rogers 2021 (bounded range); see `privacy.epsilon_of` for the conversion.
        """
        if account == "pure" or rounds == 1:
            return self.pure(rounds)
        if account == "zcdp":
            return exact("epsilon", epsilon_of(self.rho(rounds), delta))
        found = (self.simple if account == "simple" else self.tight)(rounds, delta)
        return exact("epsilon", found)

    def fits(self, rounds: int, account: str, epsilon: Fraction, delta: Any) -> bool:
        """Return whether a game costs at most (epsilon, delta) by an accounting method."""
        if account == "pure" or rounds == 1:
            return self.pure(rounds) <= epsilon
        if account == "zcdp":
            return self.rho(rounds) <= rho_for(epsilon, delta)
        found = (self.simple if account == "simple" else self.tight)(rounds, delta)
        return math.isfinite(found) and exact("epsilon", found) <= epsilon  # as it is told afterwards

    def most_rounds(self, account: str, epsilon: Fraction, delta: Any = 0) -> int:
        """Return the largest number of rounds that costs at most (epsilon, delta), at least 1.

        Example:
            >>> game = Game(48842, Fraction(2), 50)
            >>> [game.most_rounds(each, Fraction(1), Fraction(1, 1000)) for each in ACCOUNTS]
            [22, 58, 83, 162]
        """

        def costs_more(rounds: int) -> bool:
            return not self.fits(rounds, account, epsilon, delta)

        # costs grow with every round, so that bisection finds the last one that fits
        return max(1, bisect.bisect_left(range(1, _MOST_ROUNDS + 1), True, key=costs_more))

    def largest_step(self, rounds: int, account: str, epsilon: Fraction, delta: Any = 0) -> Fraction:
        """Return the largest step, to 12 digits, for which `rounds` rounds cost at most (epsilon, delta).

        The result is at most the game's own `step`.
        """
        if self.fits(rounds, account, epsilon, delta):
            return self.step
        low, high = Fraction(0), self.step
        while not low or high - low > high / 10**_DIGITS:
            middle = (low + high) / 2
            # halve until a step fits, then round to few digits
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
        step: eta. Default: 2, or less if necessary for `rounds` rounds (4 if not given).
        samples: number of queries drawn in each round.
        rounds: number of rounds. Default: the most that the budget allows.
        account: one of `ACCOUNTS`.
        epsilon: the epsilon of the budget.
        delta: the delta of the budget.

    Raises:
        ValueError: the budget does not allow the rounds, or allows only the first.
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


class Player:
    """The data-independent player, which answers draws by the record counted by the fewest of them.

    Args:
        domain: the attributes.
        queries: the queries of the game, with entries 0 or 1. Draws are numbered as in a `Transcript`.

    Its largest table is the same for all draws, so if one answer fits in memory, all do.
    """

    def __init__(self, domain: Domain, queries: Sequence[Query]):
        self._domain = domain
        self._queries = tuple(queries)
        self._ends = np.cumsum([query.num_rows(domain) for query in queries])
        self.candidates = 2 * int(self._ends[-1])

    def record(self, drawn: np.ndarray) -> np.ndarray:
        """Return the codes of the record that the fewest of the drawn queries count, int64 [attributes].

        It is the mode of a model whose log-potentials are minus the drawn queries' indicators. The result is
        exact; ties go to the first record.
        """
        rows = self.candidates // 2
        places = np.searchsorted(self._ends, drawn % rows, side="right")
        tables: dict[frozenset[str], tuple[tuple[str, ...], np.ndarray]] = {}
        for place, query in enumerate(self._queries):
            mine = drawn[places == place]
            start = self._ends[place] - query.num_rows(self._domain)
            plain, negated = mine[mine < rows] - start, mine[mine >= rows] - rows - start
            number = query.num_rows(self._domain)
            # a negated query is a constant less the query, so that it counts with the other sign
            weights = np.bincount(negated, minlength=number) - np.bincount(plain, minlength=number)
            table = transposed(query, self._domain, weights)
            clique, before = tables.setdefault(frozenset(query.clique), (query.clique, np.zeros(table.shape)))
            before += table.transpose([query.clique.index(name) for name in clique])
        cliques, potentials = zip(*tables.values(), strict=True)
        best = GraphicalModel(self._domain, CliqueVector(cliques, potentials), 1.0).mode()
        return np.array([best[name] for name in self._domain.attributes], dtype=np.int64)
