"""The game of DualQuery: draws against the table's answers, and the record that answers them best.

Its cost is known in four accounts, and `agree` finds the rounds that a budget allows. Round t draws each
query by the exponential mechanism with e_t = 2 step (t - 1) / count: a query's exponent, step times the sum
of t - 1 differences of fractions, moves by step (t - 1) / count when one of `count` records is replaced. The
first round is free.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pgmjax import random
from pgmjax._internal.progress import Progress
from pgmjax.data.domain import Domain
from pgmjax.measurements.transcript import Transcript
from pgmjax.model.clique_vector import CliqueVector
from pgmjax.model.graphical import GraphicalModel
from pgmjax.privacy.accounting.zcdp import epsilon_of, rho_for
from pgmjax.privacy.exact import exact, shortened
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.scores import Overshoots
from pgmjax.queries import Query, integers

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
            Cesar and Rogers 2021 (bounded range); see `privacy.epsilon_of` for the conversion.
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


class Player:
    """Answers draws by the record that they count least, which needs no data.

    Args:
        domain: the attributes.
        queries: what is played with, all entries 0 or 1; a draw is numbered as in a `Transcript`.

    Its largest table is the same for all draws, so that one answer given tells that all can be.
    """

    def __init__(self, domain: Domain, queries: Sequence[Query]):
        self._domain = domain
        self._queries = tuple(queries)
        self._ends = np.cumsum([query.num_rows(domain) for query in queries])
        self.candidates = 2 * int(self._ends[-1])

    def record(self, drawn: np.ndarray) -> np.ndarray:
        """Return the codes of the record that the fewest of the drawn queries count, int64 [attributes].

        The most probable cell of a model whose log-potentials are minus the drawn queries' indicators: exact,
        and the first of equally good ones.
        """
        rows = self.candidates // 2
        places = np.searchsorted(self._ends, drawn % rows, side="right")
        tables: dict[frozenset[str], tuple[tuple[str, ...], np.ndarray]] = {}
        for place, query in enumerate(self._queries):
            mine = drawn[places == place]
            start = self._ends[place] - query.num_rows(self._domain)
            plain, negated = mine[mine < rows] - start, mine[mine >= rows] - rows - start
            table = np.zeros(self._domain.shape_of(query.clique))
            if plain.size:
                table -= integers.sum_of_rows(query, self._domain, plain)
            if negated.size:
                table += integers.sum_of_rows(query, self._domain, negated)
            clique, before = tables.setdefault(frozenset(query.clique), (query.clique, np.zeros(table.shape)))
            before += table.transpose([query.clique.index(name) for name in clique])
        cliques, potentials = zip(*tables.values(), strict=True)
        best = GraphicalModel(self._domain, CliqueVector(cliques, potentials), 1.0).mode()
        return np.array([best[name] for name in self._domain.attributes], dtype=np.int64)


def first_round(player: Player, samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the draws and the record of the first round, which are the same for all tables.

    Raises:
        ValueError: the largest table that answering needs does not fit in memory.
    """
    drawn = random.generator(seed).integers(player.candidates, size=samples)
    return drawn, player.record(drawn)


def play(
    table: PrivateTable,
    queries: Sequence[Query],
    player: Player,
    game: Game,
    rounds: int,
    first: tuple[np.ndarray, np.ndarray],
    show_progress: bool | None,
) -> Transcript:
    """Play the rounds after the first: the draws are charged to the table's budget, nothing else is.

    References:
        Gaboardi, Gallego Arias, Hsu, Roth and Wu 2014, Algorithm 1; McKenna et al. 2019, Algorithm 4.
    """
    drawn, records = [first[0]], [first[1]]
    with Progress("playing", rounds - 1, show_progress) as progress:
        for number in range(2, rounds + 1):
            score = Overshoots(queries, np.stack(records), game.count)
            cost: Fraction = game.draw_epsilon(number)
            drawn.append(table.select_several(score, game.samples, epsilon=cost, method="exponential"))
            records.append(player.record(drawn[-1]))
            progress.advance()
    return Transcript(table.domain, tuple(queries), game.count, game.step, np.stack(drawn), np.stack(records))


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
