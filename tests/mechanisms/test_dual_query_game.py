"""The best answering record against enumeration, and the game's draws against its distribution."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from pgmjax import queries as q
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.mechanisms.dual_query import first_round, play
from pgmjax.mechanisms.dual_query_game import Game, Player
from pgmjax.privacy.budget import Budget
from pgmjax.privacy.private_table import PrivateTable
from pgmjax.privacy.seeded import SeededBackend

FALSE_ALARMS = 0.0  # the noise is seeded

DOMAIN = Domain({"a": 3, "b": 2, "c": 4, "free": 2})
QUERIES = [
    q.marginal(["b", "a"]),
    q.Product({"a": q.identity(), "b": q.prefix()}),
    q.Product({"c": q.all_ranges(), "b": q.identity()}),
    q.DenseMatrix(("a", "c"), np.random.default_rng(1).integers(0, 2, (5, 12))),
]
CELLS = np.array(list(itertools.product(*(range(size) for size in DOMAIN.shape))))


def indicators():
    """Which query or negation counts which cell, [candidates, cells]."""
    rows = []
    for query in QUERIES:
        places = [DOMAIN.attributes.index(name) for name in query.clique]
        at = np.ravel_multi_index(tuple(CELLS[:, places].T), DOMAIN.shape_of(query.clique))
        rows.append(query.matrix(DOMAIN)[:, at])
    plain = np.concatenate(rows)
    return np.concatenate([plain, 1 - plain])


def test_the_record_is_counted_least():
    player, matrix = Player(DOMAIN, QUERIES), indicators()
    assert player.candidates == len(matrix)
    rng = np.random.default_rng(0)
    for size in [1, 2, 5, 50] * 5:
        drawn = rng.integers(0, player.candidates, size)
        counted = matrix[drawn].sum(0)
        record = player.record(drawn)
        place = np.flatnonzero((record == CELLS).all(1)).item()
        assert counted[place] == counted.min()
        assert record.tolist() == player.record(rng.permutation(drawn)).tolist()


def test_the_first_round_is_the_same_for_all_tables():
    player = Player(DOMAIN, QUERIES)
    one, same, other = (first_round(player, 400, seed) for seed in (3, 3, 4))
    assert np.array_equal(one[0], same[0]) and np.array_equal(one[1], same[1])
    assert not np.array_equal(one[0], other[0])
    assert len(set(one[0].tolist())) > player.candidates / 2


def test_draws_follow_the_distribution_of_the_game():
    """Chi-square of 30,000 draws of the last of three rounds over all queries, 1e-3 for one seed."""
    rng = np.random.default_rng(2)
    columns = {name: rng.integers(0, size, 50) for name, size in DOMAIN.sizes.items()}
    table = PrivateTable(
        Dataset.from_columns(DOMAIN, columns),
        Relation.REPLACE_ONE,
        Budget(10**6),
        SeededBackend(0, insecure=True),
    )
    player, game = Player(DOMAIN, QUERIES), Game(50, Fraction("0.8"), 30_000)
    transcript = play(table, QUERIES, player, game, 3, first_round(player, 30_000, 0), False)
    assert table.budget.spent == game.pure(3) and len(table.budget.events) == 60_000
    matrix = indicators()
    flat = np.ravel_multi_index(tuple(np.stack(list(columns.values()))), DOMAIN.shape)
    truth = matrix[:, flat].mean(1)
    ours = matrix[:, np.ravel_multi_index(tuple(transcript.records[:2].T), DOMAIN.shape)].sum(1)
    weights = np.exp(-0.8 * (2 * truth - ours))
    expected = 30_000 * weights / weights.sum()
    found = np.bincount(transcript.drawn[2], minlength=len(matrix))
    assert expected.min() > 5
    degrees = len(matrix) - 1
    chi_square = ((found - expected) ** 2 / expected).sum()
    assert chi_square < degrees + 3.1 * np.sqrt(2 * degrees) + 7


@pytest.mark.parametrize("rounds", [2, 5])
def test_costs_are_those_of_the_formulas(rounds):
    columns = {name: np.zeros(7, int) for name in DOMAIN.attributes}
    data = Dataset.from_columns(DOMAIN, columns)
    for unit in ("epsilon", "rho"):
        table = PrivateTable(data, Relation.REPLACE_ONE, Budget(99, unit), SeededBackend(0, insecure=True))
        player, game = Player(DOMAIN, QUERIES), Game(7, Fraction(1, 3), 4)
        play(table, QUERIES, player, game, rounds, first_round(player, 4, 0), False)
        assert table.budget.spent == (game.pure(rounds) if unit == "epsilon" else game.rho(rounds))
