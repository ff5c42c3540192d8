"""DualQuery's four accounts against mechanisms written out, and the tables' rounds."""

import math
from fractions import Fraction

import pytest

from pgmjax.data.relation import Relation
from pgmjax.mechanisms.dual_query_game import ACCOUNTS, Game
from pgmjax.privacy.accounting.composition import Composition
from pgmjax.privacy.accounting.events import Selection
from pgmjax.privacy.accounting.zcdp import epsilon_of, rho_for

DELTA = Fraction(1, 1000)

# records, rounds of the reference script, pure, simple and tight epsilon there, most rounds for epsilon 1
TABLE = [
    (1304, 6, 2.3006, 0.9606, 0.6239, [6, 7, 14]),
    (48842, 59, 7.0063, 1.0164, 0.5784, [58, 83, 162]),
    (42535, 54, 6.7286, 1.0197, 0.5810, [53, 76, 148]),
    (19434, 32, 5.1045, 0.9970, 0.5742, [32, 45, 88]),
]


@pytest.mark.parametrize("count, rounds, pure, simple, tight, most", TABLE)
def test_the_table_of_rounds(count, rounds, pure, simple, tight, most):
    """The script's own formula, all under one root, allows 59 and 54 rounds, which cost more than 1."""
    game = Game(count, Fraction(2), 50)
    assert round(float(game.pure(rounds)), 4) == pure
    assert round(game.simple(rounds, DELTA), 4) == simple
    assert round(game.tight(rounds, DELTA), 4) == tight
    assert [game.most_rounds(account, Fraction(1), DELTA) for account in ACCOUNTS[1:]] == most


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(10)])
def test_one_more_round_would_cost_too_much(account, epsilon):
    game = Game(48842, Fraction(2), 50)
    most = game.most_rounds(account, epsilon, DELTA)
    assert game.epsilon(most, account, DELTA) <= epsilon < game.epsilon(most + 1, account, DELTA)


def test_sums_are_those_of_the_draws_one_by_one():
    game = Game(1000, Fraction("0.7"), 3)
    events = [
        Selection(game.draw_epsilon(number), "exponential") for number in range(2, 10) for _ in range(3)
    ]
    plan = Composition(events, Relation.REPLACE_ONE)
    assert game.pure(9) == plan.epsilon_pure() and game.rho(9) == plan.rho()
    each = [float(event.epsilon) for event in events]
    squares, excess = sum(e * e for e in each), sum(e * math.expm1(e) for e in each)
    tight = math.sqrt(2 * math.log(1000) * squares) + excess
    assert game.tight(9, DELTA) == pytest.approx(tight, rel=1e-11)
    worst, draws = max(each), len(each)
    simple = worst * (math.sqrt(2 * draws * math.log(1000)) + draws * math.expm1(worst))
    assert game.simple(9, DELTA) == pytest.approx(simple, rel=1e-11)
    assert game.tight(9, DELTA) >= tight and game.simple(9, DELTA) >= simple
    assert float(game.epsilon(9, "zcdp", DELTA)) == epsilon_of(plan.rho(), DELTA)


@pytest.mark.parametrize("delta", [Fraction(1, 10**9), DELTA, Fraction(1, 2)])
@pytest.mark.parametrize("count", [10, 1000, 10**6])
def test_better_accounts_allow_no_fewer_rounds(count, delta):
    """So that whatever an account allows fits into the budget, which counts rho."""
    for epsilon in (Fraction(1, 100), Fraction(1), Fraction(8)):
        game = Game(count, Fraction(1, 2), 7)
        found = [game.most_rounds(account, epsilon, delta) for account in ACCOUNTS[1:]]
        assert found == sorted(found)
        assert game.rho(found[1]) <= rho_for(epsilon, delta)


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("epsilon", ["1e-9", "0.7", "1"])
def test_the_largest_step_spends_nearly_all(account, epsilon):
    game = Game(40, Fraction(2), 50)
    epsilon = Fraction(epsilon)
    step = game.largest_step(4, account, epsilon, DELTA)
    assert 0 < step < 2 and Game(40, step, 50).fits(4, account, epsilon, DELTA)
    assert not Game(40, step * Fraction(1001, 1000), 50).fits(4, account, epsilon, DELTA)
    assert Game(10**6, Fraction(2), 50).largest_step(4, account, Fraction(1), DELTA) == 2


def test_the_first_round_is_free():
    game = Game(10, Fraction(2), 50)
    assert game.draw_epsilon(1) == 0 and game.pure(1) == 0 and game.rho(1) == 0
    assert [game.most_rounds(account, Fraction(1, 10**6), DELTA) for account in ACCOUNTS] == [1] * 4
    assert game.epsilon(1, "zcdp", DELTA) == 0
