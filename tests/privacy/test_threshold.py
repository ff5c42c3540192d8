"""The threshold test: exact privacy by enumeration, what it tells, what is frozen, what is refused."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from pgmjax.audit import check_pair, check_pairs, cost, neighbours
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy import Budget, BudgetExceeded, PrivateTable
from pgmjax.privacy.ledger import IdempotencyConflict, Ledger
from pgmjax.privacy.ledger.journal import HeldTable, LedgerJournal
from pgmjax.privacy.opendp import OpenDPBackend
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.privacy.selection import ThresholdNoise
from pgmjax.privacy.threshold import ThresholdLost, ThresholdTest
from pgmjax.queries import DenseMatrix, Product, marginal, point, total

DOMAIN = Domain({"a": 4})
REPLACE = Relation.REPLACE_ONE
FIRST = Product({"a": point(0)})


def table(codes=(0,) * 30, cap=4, seed=0, relation=REPLACE, **more):
    data = Dataset.from_columns(DOMAIN, {"a": np.array(codes, int)}, **more)
    return PrivateTable(data, relation, Budget(cap), SeededBackend(seed, insecure=True))


def tail(distribution, least):
    """P(noise >= least) of a discrete Laplace distribution [numbers]."""
    q = math.exp(-1 / distribution.scale)
    return np.where(least > 0, q ** np.maximum(least, 0), 1 + q - q ** np.maximum(1 - least, 0)) / (1 + q)


def probability(distribution, distances, threshold, told):
    """P(near, ..., near, then `told`) by summing over the threshold's noise."""
    noise, q = np.arange(-400, 401), math.exp(-1 / distribution.threshold.scale)
    parts = (1 - q) / (1 + q) * q ** np.abs(noise)
    far = [tail(distribution.distance, threshold + noise - distance) for distance in distances]
    for share in far[:-1]:
        parts = parts * (1 - share)
    return float((parts * (far[-1] if told else 1 - far[-1])).sum())


def worst_ratio(distribution):
    """The largest log-ratio of a run of answers between neighbours, over starts, lengths and moves."""
    worst = 0.0
    for length, start in itertools.product((1, 2, 4), (0, 5, 11)):
        distances = [start] * length
        for moves in itertools.product((-1, 0, 1), repeat=length):
            moved = [distance + move for distance, move in zip(distances, moves, strict=True)]
            for told in (True, False):
                both = [probability(distribution, each, 6, told) for each in (distances, moved)]
                worst = max(worst, abs(math.log(both[0] / both[1])))
    return worst


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)])
@pytest.mark.parametrize(
    "backend", [SeededBackend(0, insecure=True), OpenDPBackend()], ids=["seeded", "opendp"]
)
def test_no_run_of_answers_tells_neighbours_apart_by_more_than_epsilon(epsilon, backend):
    distribution = ThresholdNoise(backend.laplace(1, epsilon / 2), backend.laplace(2, epsilon / 2))
    assert distribution.epsilon(1) <= float(epsilon) * (1 + 1e-9)
    assert 0.5 * float(epsilon) < worst_ratio(distribution) <= float(epsilon) * (1 + 1e-9)


def test_half_the_noise_on_distances_would_be_found():
    backend = SeededBackend(0, insecure=True)
    mutant = ThresholdNoise(backend.laplace(1, Fraction(1, 2)), backend.laplace(1, Fraction(1, 2)))
    assert worst_ratio(mutant) > 1.05


def test_answers_have_the_probabilities_of_the_distribution():
    """600 tests of two questions; a right program fails with probability below 1e-6 (4.9 standard errors)."""
    runs, near_far = 600, 0
    for seed in range(runs):
        test = ThresholdTest(table(seed=seed, cap=1), 20, 1)
        near_far += not test.far(FIRST, 15) and test.far(FIRST, 5)
    expected = probability(test._distribution, [15, 25], 20, True)
    assert abs(near_far / runs - expected) < 4.9 * math.sqrt(expected * (1 - expected) / runs)


def test_a_test_is_charged_at_once_and_ends_with_the_first_far():
    held = table()
    test = ThresholdTest(held, 10, "1/2")
    assert held.budget.spent == Fraction(1, 2)
    test = ThresholdTest(held, 1000, 1)
    for _ in range(20):
        assert not test.far(FIRST, 30)
    assert held.budget.spent == Fraction(3, 2) and not test.closed
    assert test.far(FIRST, 10**6) and test.closed
    with pytest.raises(ValueError, match="open another"):
        test.far(FIRST, 30)


def test_far_is_on_both_sides_and_takes_guesses_of_any_size():
    for guess in (-(10.0**300), 10.0**300):
        assert ThresholdTest(table(), 10, 1).far(FIRST, guess)


def asking(data):
    held = PrivateTable(data, REPLACE, Budget(2), SeededBackend(3, insecure=True))
    told = []
    for threshold in (1, 2):
        test = ThresholdTest(held, threshold, 1)
        while not test.closed and len(told) < 12:
            told.append(test.far(Product({"a": point(len(told) % 4)}), 3 + len(told)))
    return told


def test_nothing_but_the_answers_depends_on_the_table():
    seen = check_pairs(asking, neighbours(DOMAIN, REPLACE, pairs=20), epsilon=2)
    assert seen.pairs == 20 and seen.epsilon == pytest.approx(2)


def test_a_test_counts_once_however_much_is_asked():
    first, second = next(iter(neighbours(DOMAIN, REPLACE, pairs=1)))
    tape = check_pair(asking, first, second)
    assert {call.kind for call in tape.calls} == {"threshold"}
    assert cost(tape.calls)[0] == pytest.approx(2)


def test_the_budget_is_asked_before_anything():
    with pytest.raises(BudgetExceeded):
        ThresholdTest(table(cap=1), 5, 2)


@pytest.mark.parametrize(
    "query, error, message",
    [
        (marginal(["a"]), ValueError, "one row"),
        (DenseMatrix(("a",), [[2, 0, 0, 1]]), ValueError, "by more than 1, got 2"),
        (DenseMatrix(("a",), [[0.5, 0, 0, 1]]), ValueError, r"\('a',\).*queries\.quantise"),
        (Product({"b": total()}), ValueError, "b"),
        ("count", TypeError, "str"),
    ],
)
def test_queries_that_are_no_counts_are_refused(query, error, message):
    with pytest.raises(error, match=message):
        ThresholdTest(table(), 5, 1).far(query, 0)


def test_bad_tests_are_refused():
    with pytest.raises(TypeError, match="PrivateTable"):
        ThresholdTest("table", 5, 1)
    for threshold in (0, 2.5):
        with pytest.raises((TypeError, ValueError), match="threshold"):
            ThresholdTest(table(), threshold, 1)
    with pytest.raises(ValueError, match="guess"):
        ThresholdTest(table(), 5, 1).far(FIRST, math.nan)
    weighted = Dataset.from_columns(DOMAIN, {"a": [0, 1]}, weights=[1, 2], max_weight=3)
    with pytest.raises(ValueError, match="weighted"):
        ThresholdTest(PrivateTable(weighted, REPLACE, Budget(1), SeededBackend(0, insecure=True)), 5, 1)


def test_a_ledger_keeps_what_was_told_and_no_threshold(tmp_path):
    """The second run hears the first one's answers again, and pays for another test where they end."""
    data = Dataset.from_columns(DOMAIN, {"a": [0] * 1000})
    with Ledger.create(tmp_path / "budgets.ledger") as ledger:
        ledger.register(
            "table", epsilon=2, relation="replace-one", digest=ledger.digest_of(data), domain=data.domain
        )

        def opened(budget):
            journal = LedgerJournal(ledger, HeldTable.of(ledger, data), "run", {"mechanism": "made up"})
            return PrivateTable(data, REPLACE, budget, journal=journal)

        first = ThresholdTest(opened(Budget(2)), 500, 1)
        assert [first.far(FIRST, guess) for guess in (1000, 990)] == [False, False]
        for _ in range(2):  # a third run hears the second one's test, too
            budget = Budget(2)
            again = opened(budget)
            test = ThresholdTest(again, 500, 1)
            assert [test.far(FIRST, guess) for guess in (1000, 990)] == [False, False]
            with pytest.raises(ThresholdLost, match="open another one"):
                test.far(FIRST, 0)
            test = ThresholdTest(again, 500, 1)
            assert test.far(FIRST, 0) and budget.spent == 2
        account = ledger.account("table")
        assert (account.charges, account.spent) == (1, 2)
        with pytest.raises(BudgetExceeded):
            ThresholdTest(again, 500, 1)


def test_two_runs_at_once_never_mix_their_thresholds(tmp_path):
    """Answers of one test come from the run that began it; the other one hears them, or opens its own."""
    data = Dataset.from_columns(DOMAIN, {"a": [0] * 1000})
    with Ledger.create(tmp_path / "budgets.ledger") as ledger:
        ledger.register(
            "table", epsilon=2, relation="replace-one", digest=ledger.digest_of(data), domain=data.domain
        )

        def opened():
            journal = LedgerJournal(ledger, HeldTable.of(ledger, data), "run", {"mechanism": "made up"})
            table = PrivateTable(data, REPLACE, Budget(2), journal=journal)
            return table, ThresholdTest(table, 500, 1)

        (_, first), (table, second) = opened(), opened()
        with pytest.raises(ThresholdLost):
            second.far(FIRST, 1000)
        assert not first.far(FIRST, 1000) and not second.far(FIRST, 1000)
        with pytest.raises(ThresholdLost):
            second.far(FIRST, 990)
        assert ThresholdTest(table, 500, 1).far(FIRST, 0)
        with pytest.raises(IdempotencyConflict):
            first.far(FIRST, 990)
