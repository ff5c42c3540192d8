"""What answers cost, by enumeration of neighbours, and the least that an accuracy costs.

The cell-wise account against Theorem 5.4 written out, and its bounds where tables get large.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from pgmjax import Domain, Relation
from pgmjax.history.rows import Rows
from pgmjax.history.session import costs
from pgmjax.history.session.costs import CellAccount, least_epsilon
from pgmjax.measurements.noise import DiscreteLaplace
from pgmjax.queries import DenseMatrix, Product, identity, marginal, point, prefix, total
from tests.history.session.sessions import system_cost

H = np.array(
    [
        [1, 1, 0, 0],
        [0, 0, 1, 1],
        [0, 0, 0, 1],
        [0, 0, 1, 0],
        [0, 1, 0, 1],
        [2, 1, 0, 0],
        [0, 0, 2, -1],
        [0, -1, 0, 1],
    ],
    float,
)
ALPHA = np.array([0.05, 0.1, 0.05, 0.1, 0.1, 0.05, 0.05, 0.1])


def test_the_papers_costs():
    moves = np.abs(H).max(axis=1)
    assert system_cost(H, ALPHA, moves, "add-remove") == pytest.approx(0.375)
    assert system_cost(H, ALPHA, moves, "add-remove") < ALPHA.sum()
    assert system_cost(H, ALPHA, moves, "replace-one") == pytest.approx(0.525)


def test_replace_one_by_pairs_of_cells():
    rng = np.random.default_rng(0)
    matrix, epsilons = rng.normal(size=(7, 9)), rng.uniform(0.1, 1, 7)
    moves = np.ptp(matrix, axis=1)
    rates = epsilons / moves
    pairs = itertools.combinations(range(9), 2)
    expected = max(float(rates @ np.abs(matrix[:, j] - matrix[:, k])) for j, k in pairs)
    cost = system_cost(matrix, epsilons, moves, "replace-one")
    assert cost == pytest.approx(expected)
    assert cost <= epsilons.sum()


@pytest.mark.parametrize("width", [0, 0.5, 1, 7.3, 100, 12345])
@pytest.mark.parametrize("delta", [0.9, 0.2, 1e-6])
def test_least_epsilon_is_enough_and_the_least(width, delta):
    epsilon = least_epsilon(2.0, width, delta)
    assert DiscreteLaplace(2.0 / epsilon).outside(int(width)) <= delta
    assert DiscreteLaplace(2.0 / (epsilon * (1 - 1e-9))).outside(int(width)) > delta
    if width and width == int(width):
        assert epsilon <= 2.0 * -np.log(delta) / width  # of the paper's continuous distribution


def test_least_epsilon_ends_where_rounding_hides_the_root():
    for delta in (0.9999996794, 0.99999990478, 0.9999999996014448):
        epsilon = least_epsilon(1.0, 2.0, delta)
        assert DiscreteLaplace(1 / epsilon).outside(2) <= delta
        assert epsilon == pytest.approx((1 - delta) / 2.5, rel=1e-5)


def test_bad_input():
    with pytest.raises(ValueError, match=r"half_width.*-1"):
        least_epsilon(1.0, -1.0, 0.1)
    with pytest.raises(ValueError, match=r"delta.*1"):
        least_epsilon(1.0, 1.0, 1.0)


DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
CLIQUES = [("a",), ("b", "a"), ("c",), ("c", "a", "b"), ("b",)]


def some_queries(seed=0):
    rng = np.random.default_rng(seed)
    made = []
    for clique in CLIQUES:
        size = int(np.prod([DOMAIN[name] for name in clique]))
        made.append(DenseMatrix(clique, rng.integers(-3, 4, (1, size))))
    return made


def accounted(relation, rates, **options):
    account = CellAccount(DOMAIN, Relation.parse(relation), **options)
    for query, rate in zip(some_queries(), rates, strict=True):
        account = account.added(query, rate)
    return account


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_it_is_the_theorem_s_cost(relation):
    rates = [10**9, 3 * 10**9, 7, 2 * 10**9, 5 * 10**9]
    rows = Rows.of(some_queries(), DOMAIN).matrix()
    moves = np.abs(rows).max(axis=1)
    expected = system_cost(rows, np.array(rates) * 1e-12 * moves, moves, relation)
    account = accounted(relation, rates)
    assert not account.rest and float(account.cost) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("largest", [0, 4, 16, 40, 150])
def test_with_less_room_it_bounds_the_cost_and_stays_below_the_plain_sum(relation, largest):
    rates = [10**9] * 5
    account = accounted(relation, rates, largest_table=largest)
    tight = accounted(relation, rates).cost
    plain = sum(q.l1_sensitivity(account.relation, DOMAIN) for q in some_queries()) * Fraction(1, 1000)
    assert tight <= account.cost <= plain
    if largest == 0:
        assert account.cost == plain and (account.rest or len(account.tables) > 1)


def test_many_rows_cost_what_one_record_moves_them_by():
    account = CellAccount(DOMAIN, Relation.REPLACE_ONE).added(marginal(["a"]), 10**11)
    assert account.cost == Fraction(1, 5)
    assert CellAccount(DOMAIN, Relation.ADD_REMOVE).cost == 0


@pytest.mark.parametrize("relation, sides", [("add-remove", 1), ("replace-one", 2)])
def test_marginals_without_a_matrix_are_accounted_for_too(relation, sides):
    domain = Domain({"a": 100, "b": 80})
    account = CellAccount(domain, Relation.parse(relation)).added(marginal(["b", "a"]), 10**11)
    assert account.cost == Fraction(sides, 10) and (account.rest == 0) is (sides == 1)
    account = account.added(Product({"a": point(3)}), 2 * 10**11)
    assert account.cost == Fraction(sides, 10) + Fraction(1, 5)


def test_columns_of_a_large_product_are_summed_by_its_blocks(monkeypatch):
    query = Product({"c": prefix(), "a": identity(), "b": total()})
    rows = np.abs(query.matrix(DOMAIN)).sum(axis=0).reshape(4, 3, 2)
    monkeypatch.setattr(costs, "MAX_MATRIX_ENTRIES", 100)
    account = CellAccount(DOMAIN, Relation.ADD_REMOVE).added(query, 7)
    assert np.array_equal(account.tables[0][1], 7 * rows.transpose(1, 2, 0))
    monkeypatch.setattr(costs, "MAX_MATRIX_ENTRIES", 10)  # too small for the block of c as well
    account = CellAccount(DOMAIN, Relation.ADD_REMOVE).added(query, 7)
    assert account.tables == () and account.rest == 28


def test_large_entries_are_counted_to_the_unit():
    entries = np.array([[2**53 + 1, 1, 0]])
    account = CellAccount(DOMAIN, Relation.ADD_REMOVE).added(DenseMatrix(("a",), entries), 1)
    assert account.cost == Fraction(2**53 + 1, 10**12)
