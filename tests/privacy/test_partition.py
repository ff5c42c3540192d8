"""Private partitions: the exact distribution of trees on all tiny tables, thresholds of keys."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

import pgmjax as pj
from pgmjax.audit.partitions import largest_tree_loss, tree_probabilities
from pgmjax.discovery import OpenTable, key_column
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.privacy import partition
from pgmjax.privacy.scales import laplace_for

ADD, REPLACE = pj.Relation.ADD_REMOVE, pj.Relation.REPLACE_ONE
DOMAIN = pj.Domain({"x": 4})


def largest_loss(scale, least, neighbours):
    return largest_tree_loss(neighbours, DiscreteLaplace(scale), least)


TABLES = list(itertools.product(range(4), repeat=4))
ADDED = [(t, tuple(c + (k == place) for k, c in enumerate(t))) for t in TABLES for place in range(4)]
REPLACED = [
    (t, tuple(c - (k == low) + (k == high) for k, c in enumerate(t)))
    for t in TABLES
    for low, high in itertools.permutations(range(4), 2)
    if t[low]
]


@pytest.mark.parametrize("epsilon", ["0.3", "1", "4"])
@pytest.mark.parametrize("least", [0, 1, 2])
def test_no_two_neighbours_are_told_apart_by_more_than_epsilon(epsilon, least):
    for neighbours, moved in ((ADDED, 1), (REPLACED, 2)):
        scale = laplace_for(3 * moved, Fraction(epsilon)).scale
        assert largest_loss(scale, least, neighbours) <= float(epsilon)
    # the factor is needed: with a third of the noise, or counts that do not fall, the bound breaks
    scale = laplace_for(1, Fraction(epsilon)).scale
    assert largest_loss(scale, least, ADDED) > float(epsilon)


def test_counts_must_fall_from_level_to_level(monkeypatch):
    deep = [((9, 0, 0, 0, 0, 0, 0, 0), (10, 0, 0, 0, 0, 0, 0, 0))]
    scale = laplace_for(3, Fraction(2)).scale
    assert largest_loss(scale, 9, deep) <= 2
    monkeypatch.setattr(partition, "tree_step", lambda distribution: 0)
    assert largest_loss(laplace_for(1, Fraction(2)).scale, 9, deep) > 2


def test_several_records_of_a_unit_are_as_many_neighbours():
    scale = laplace_for(3 * 2, Fraction(1)).scale
    two = [
        (a, tuple(x + y - z for x, y, z in zip(b, c, a, strict=True)))
        for a, b in ADDED
        for d, c in ADDED
        if d == a
    ]
    assert 0.5 < largest_loss(scale, 1, two) <= 1


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_draws_follow_the_exact_distribution(relation):
    counts = (0, 3, 1, 4)
    data = pj.Dataset.from_columns(DOMAIN, {"x": np.repeat(np.arange(4), counts)})
    seen = {}
    backend = pj.privacy.SeededBackend(3, insecure=True)
    for _ in range(400):
        table = pj.privacy.PrivateTable(data, relation, pj.privacy.Budget(6))
        table._backend = backend  # one stream for all
        edges = partition.find_cells(table, "x", 4, epsilon=6, least=3)
        assert table.budget.spent == 6 and [e.kind for e in table.budget.events] == ["tree"]
        seen[tuple(edges[1:-1].tolist())] = seen.get(tuple(edges[1:-1].tolist()), 0) + 1
    scale = laplace_for(3 * (1 + (relation is REPLACE)), Fraction(6)).scale
    wanted = tree_probabilities(counts, DiscreteLaplace(scale), 3)
    expected = np.array([400 * wanted[shape] for shape in sorted(wanted)])
    found = np.array([seen.get(shape, 0) for shape in sorted(wanted)])
    assert set(seen) <= set(wanted)
    few = expected < 5
    expected, found = (
        np.append(expected[~few], expected[few].sum() + 1e-9),
        np.append(found[~few], found[few].sum()),
    )
    assert scipy.stats.chisquare(found, expected * 400 / expected.sum()).pvalue > 1e-6


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
    values = np.arange(least - records, least - records + int(50 * scale) + 50)
    shows = records * DiscreteGaussian(scale).probabilities(values).sum()
    assert shows <= float(delta) * (1 + 1e-6)
    lower = np.arange(least - 3 - records, values[-1])
    assert records * DiscreteGaussian(scale).probabilities(lower).sum() > float(
        delta
    )  # it is not far too high


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
    with pytest.raises(ValueError, match="delta must be > 0"):
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
