"""Private partitions: the exact distribution of trees on tiny tables, thresholds of keys."""

import math
from fractions import Fraction

import pytest

import pgmjax as pj
from pgmjax.discovery import OpenTable
from pgmjax.discovery.open_table import key_column
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy import partition
from pgmjax.privacy.scales import laplace_for
from tests.audit.discovery import at_least, neighbouring_counts, tree_epsilon, tree_probabilities

ADD, REPLACE = pj.Relation.ADD_REMOVE, pj.Relation.REPLACE_ONE


def exceeds(value, scale):
    """P(Z > value) of discrete Laplace noise."""
    q = math.exp(-1 / scale)
    return q ** (value + 1) / (1 + q) if value >= 0 else 1 - q ** (-value) / (1 + q)


def test_the_audit_finds_the_probabilities_of_the_definition():
    """A node of depth d is split if max(c - d step, least - step) + Z > least."""
    scale, least = 3.0, 2
    step = partition.tree_step(DiscreteLaplace(scale))
    for counts in ((0, 3, 1, 4), (0, 0, 0, 0), (9, 0, 2, 1)):
        root = exceeds(least - sum(counts), scale)
        low, high = (
            exceeds(least - max(sum(half) - step, least - step), scale) for half in (counts[:2], counts[2:])
        )
        wanted = {
            (): 1 - root,
            (2,): root * (1 - low) * (1 - high),
            (1, 2): root * low * (1 - high),
            (2, 3): root * (1 - low) * high,
            (1, 2, 3): root * low * high,
        }
        found = tree_probabilities(counts, DiscreteLaplace(scale), least)
        assert found == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("epsilon", ["0.3", "4"])
@pytest.mark.parametrize("least", [0, 2])
def test_no_two_neighbours_are_told_apart_by_more_than_epsilon(epsilon, least):
    for relation, moved in ((ADD, 1), (REPLACE, 2)):
        distribution = laplace_for(3 * moved, Fraction(epsilon))
        for_all = neighbouring_counts(relation, largest=3 - moved)
        assert tree_epsilon(for_all, distribution, least) <= float(epsilon)
    # the factor is needed: with a third of the noise the bound breaks
    grown = [((least, 0, 0, 0), (least + 1, 0, 0, 0))]
    assert tree_epsilon(grown, laplace_for(1, Fraction(epsilon)), least) > float(epsilon)


def test_several_records_of_a_unit_are_as_many_neighbours():
    two = neighbouring_counts(ADD, records=2)
    assert 0.5 < tree_epsilon(two, laplace_for(3 * 2, Fraction(1)), 1) <= 1


def test_bad_trees_cost_nothing():
    data = pj.Dataset.from_columns(pj.Domain({"x": 6}), {"x": [0, 5]})
    table = pj.privacy.PrivateTable(data, ADD, pj.privacy.Budget(1))
    for cells, given, words in (
        (3, {}, "power of 2"),
        (8, {}, r"1\.\.6"),
        (4, {"least": -1}, "least"),
        (4, {"most": 0}, "most"),
    ):
        with pytest.raises(ValueError, match=words):
            partition.find_cells(table, "x", cells, epsilon=1, **given)
    with pytest.raises(pj.privacy.BudgetExceeded):
        partition.find_cells(table, "x", 4, epsilon=2)
    assert table.budget.spent == 0


@pytest.mark.parametrize(("records", "delta"), [(1, "1e-6"), (4, "1e-9"), (3, "0.01")])
@pytest.mark.parametrize("scale", [0.7, 10.0, 3000.0])
def test_a_key_that_one_unit_alone_has_shows_with_at_most_delta(scale, records, delta):
    least = partition.key_threshold(DiscreteGaussian(scale), records, Fraction(delta))
    shows = records * at_least(DiscreteGaussian(scale), least - records)
    assert shows <= float(delta) * (1 + 1e-6)
    # it is not far too high
    assert records * at_least(DiscreteGaussian(scale), least - 3 - records) > float(delta)


def open_keys(texts, relation=ADD, **options):
    data, coder = key_column(OpenTable.from_columns({"x": texts, **options.pop("more", {})}, **options), "x")
    budget = pj.privacy.Budget(1, "rho", delta="1e-6")
    return pj.privacy.PrivateTable(data, relation, budget), coder


def test_keys_come_out_as_they_went_in():
    texts = (
        ["a"] * 300
        + ["b\u2028c"] * 300
        + [" ü,;\"' "] * 300
        + ["x" * 201] * 300
        + ["once", "", None, "NA"]
        + [""] * 200
    )
    table, coder = open_keys(texts)
    keys, missing, other, least = partition.find_keys(table, "x", coder, rho="0.5", delta="1e-6")
    assert [*keys] == ["a", "ü,;\"'"] and all(abs(count - 300) < 12 for count in keys.values())
    assert abs(missing - 203) < 12 and abs(other - 600) < 12 and 1 < least < 20
    event = table.budget.events[0]
    assert (event.kind, event.rho, event.delta) == ("keys", Fraction(1, 2), Fraction(1, 10**6))


def test_keys_need_a_delta_and_no_weights():
    table, coder = open_keys(["a"] * 10)
    with pytest.raises(ValueError, match=r"delta.*0"):
        partition.find_keys(table, "x", coder, rho="0.5", delta=0)
    with pytest.raises(pj.privacy.BudgetExceeded, match=r"allows 0\.000001"):
        partition.find_keys(table, "x", coder, rho="0.5", delta="1e-5")
    assert table.budget.spent == 0


def test_a_unit_with_many_records_raises_threshold_and_noise():
    ids = [k // 3 for k in range(300)]
    table, coder = open_keys(["a"] * 300, unit=pj.Unit("id", 3), more={"id": ids})
    alone, other_coder = open_keys(["a"] * 300)
    found = partition.find_keys(table, "x", coder, rho="0.5", delta="1e-6")
    single = partition.find_keys(alone, "x", other_coder, rho="0.5", delta="1e-6")
    assert found[3] > 2 * single[3]
