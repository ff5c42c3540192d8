"""The game of DualQuery: draws against the table's answers, and the record that answers them best."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from pgmjax import random
from pgmjax._internal.progress import Progress
from pgmjax.data.domain import Domain
from pgmjax.measurements.transcript import Transcript
from pgmjax.mechanisms.dual_query_cost import Game
from pgmjax.model.clique_vector import CliqueVector
from pgmjax.model.graphical import GraphicalModel
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.scores import Overshoots
from pgmjax.queries import Query, integers


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
