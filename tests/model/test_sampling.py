"""Synthetic rows follow the model's own marginals.

Cumulated tables and their inverse, against NumPy's own search.

Counts dealt to cliques: within one, consistent on separators, unbiased, and used up exactly.
"""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

import pgmjax as pj
from pgmjax import random
from pgmjax.model import sampling
from pgmjax.model import sampling as rounding
from tests import models

DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 2, "d": 5})


@pytest.fixture(scope="module")
def model():
    structure = ((3, 4, 2, 5), ((0, 1), (1, 2), (2, 3), (3, 0)))
    tables = models.potentials(structure, seed=3, zeros=0.2)
    cliques = [tuple("abcd"[v] for v in c) for c in structure[1]]
    return pj.GraphicalModel.from_potentials(DOMAIN, dict(zip(cliques, tables, strict=True)), total=1234.4)


def histogram(columns):
    table = np.zeros(DOMAIN.shape)
    np.add.at(table, tuple(columns[n] for n in DOMAIN.attributes), 1)
    return table


def test_rows_default_to_the_rounded_total(model):
    columns = model.sample()
    assert list(columns) == list(DOMAIN.attributes)
    assert all(len(column) == 1234 for column in columns.values())


def test_multinomial_rows_fit_the_joint(model):
    """Chi-square on the whole joint table; seeded, level 1e-6."""
    rows = 100_000
    observed = histogram(model.sample(rows, seed=0, method="multinomial")).ravel()
    expected = rows * model.marginal(DOMAIN.attributes).ravel() / model.total
    assert (observed[expected == 0] == 0).all()
    likely = expected >= 10
    rest_observed, rest_expected = observed[~likely].sum(), expected[~likely].sum()
    statistic = np.sum((observed[likely] - expected[likely]) ** 2 / expected[likely])
    statistic += (rest_observed - rest_expected) ** 2 / max(rest_expected, 1e-12) if rest_expected > 0 else 0
    assert scipy.stats.chi2.sf(statistic, likely.sum()) > 1e-6


def test_rounding_has_less_error_than_sampling(model):
    rows = 20_000
    errors = {}
    for method in ("multinomial", "round"):
        table = histogram(model.sample(rows, seed=1, method=method))
        errors[method] = [
            np.abs(
                table.sum(axis=tuple(j for j in range(4) if j not in pair))
                - rows * model.marginal(tuple(DOMAIN.attributes[i] for i in pair)) / model.total
            ).sum()
            for pair in ((0, 1), (1, 2), (2, 3), (0, 3))
        ]
    assert all(r < m / 3 for r, m in zip(errors["round"], errors["multinomial"], strict=True))


def test_rounded_counts_are_within_one_of_their_expectation():
    """One attribute alone: every count is its expectation rounded up or down."""
    weights = np.array([0.13, 0.27, 0.0, 0.6])
    with np.errstate(divide="ignore"):
        model = pj.GraphicalModel.from_potentials(pj.Domain({"a": 4}), {("a",): np.log(weights)})
    for rows in (1, 7, 10, 333):
        counts = np.bincount(model.sample(rows, seed=rows, method="round")["a"], minlength=4)
        assert (np.abs(counts - rows * weights) < 1).all()


def test_a_seed_repeats_and_another_differs(model):
    first, again, other = model.sample(100, seed=5), model.sample(100, seed=5), model.sample(100, seed=6)
    assert all((first[n] == again[n]).all() for n in first)
    assert any((first[n] != other[n]).any() for n in first)


def test_no_rows_and_bad_arguments(model):
    assert all(len(column) == 0 for column in model.sample(0).values())
    with pytest.raises(ValueError, match=r"rows.*-1"):
        model.sample(-1)
    with pytest.raises(ValueError, match=r"method.*'magic'"):
        model.sample(5, method="magic")
    with pytest.raises(ValueError, match=r"seed.*-1"):
        model.sample(5, seed=-1)


def test_rows_are_dealt_by_default_and_independent_on_request(model, tmp_path):
    """In memory, in a file, of evidence, completed, of a mixture: what nobody chose is `round`."""
    some = model.condition({"a": 1})
    for one in (model, some):
        dealt, named = one.sample(5000, seed=2), one.sample(5000, seed=2, method="round")
        other = one.sample(5000, seed=2, method="multinomial")
        assert all((dealt[n] == named[n]).all() for n in dealt)
        assert max(check.total_variation for check in one.check_rows(dealt)) < min(
            check.total_variation for check in one.check_rows(other) if check.expected > 0.005
        )
    stored = pd.read_parquet(model.sample_to(tmp_path / "rows.parquet", 5000, seed=2))
    dealt = model.sample(5000, seed=2)
    assert all((stored[n] == dealt[n]).all() for n in dealt)
    known = {"a": np.ones(3000, np.int64)}
    filled, named = model.complete(known, seed=4), model.complete(known, seed=4, method="round")
    assert all((filled[n] == named[n]).all() for n in filled)


def test_dealt_rows_are_in_random_order(model):
    """Neighbours are no more alike than rows far apart: 6 standard errors of as many independent pairs."""
    rows = 40_000
    columns = model.sample(rows, seed=5)
    for name in model.domain:
        share = np.bincount(columns[name], minlength=model.domain[name]) / rows
        alike = np.mean(columns[name][1:] == columns[name][:-1])
        expected = np.sum(share**2)
        assert abs(alike - expected) < 6 * np.sqrt(expected * (1 - expected) / rows)
        early = np.bincount(columns[name][: rows // 2], minlength=model.domain[name])
        assert (np.abs(early - share * rows / 2) <= 6 * np.sqrt(rows * share * (1 - share) / 4)).all()


def test_no_rows_by_rounding_and_seed_by_position(model):
    assert all(len(column) == 0 for column in model.sample(0).values())
    first, again = model.sample(20, 3), model.sample(20, seed=3)
    assert all((first[n] == again[n]).all() for n in first)


@pytest.mark.parametrize("method", ["multinomial", "round"])
@pytest.mark.parametrize("name", models.STRUCTURES)
def test_marginals_lie_within_three_standard_errors(name, method):
    """Brute force on ten structures. One right draw in 8,000 would fail (McDiarmid); seeds are fixed."""
    structure = models.STRUCTURES[name]
    tables = models.potentials(structure, seed=1, zeros=0.2)
    names = tuple("abcde"[: len(structure[0])])
    cliques = [tuple(names[v] for v in clique) for clique in structure[1]]
    potentials = {}
    for clique, table in zip(cliques, tables, strict=True):
        same = next((c for c in potentials if set(c) == set(clique)), None)
        table = table if same is None else table.transpose([clique.index(n) for n in same])
        potentials[same or clique] = potentials.get(same or clique, 0.0) + table
    domain = pj.Domain(dict(zip(names, structure[0], strict=True)))
    fitted = pj.GraphicalModel.from_potentials(domain, potentials)
    rows = 20_000
    columns = fitted.sample(rows, seed=4, method=method)
    logits = models.joint(structure, tables)
    wanted = [tuple(range(len(names))), *(tuple(sorted(set(c))) for c in structure[1])]
    for variables in wanted:
        truth = models.marginal(logits, variables)
        cell = np.ravel_multi_index([columns[names[v]] for v in variables], truth.shape)
        share = np.bincount(cell, minlength=truth.size).reshape(truth.shape) / rows
        assert (share[truth == 0] == 0).all()
        expected = 0.5 * np.sqrt(truth * (1 - truth) / rows).sum()  # at least the mean distance, by Jensen
        assert 0.5 * np.abs(share - truth).sum() <= expected + 3 / np.sqrt(2 * rows)


@pytest.mark.parametrize("method", ["multinomial", "round"])
def test_blocks_together_are_the_rows(model, method, monkeypatch):
    monkeypatch.setattr(sampling, "BLOCK_ROWS", 97)
    blocks = list(sampling.blocks(model._host, 1000, 3, method))
    assert [len(block[0]) for block in blocks] == [97] * 10 + [30]
    whole = model.sample(1000, 3, method=method)
    for i, name in enumerate(DOMAIN.attributes):
        assert (np.concatenate([block[i] for block in blocks]) == whole[name]).all()


def test_rounding_holds_over_all_blocks_together(model, monkeypatch):
    """Dealt counts are drawn without replacement: the number of blocks does not show in them."""
    monkeypatch.setattr(sampling, "BLOCK_ROWS", 500)
    rows = 20_000
    table = histogram(model.sample(rows, seed=1, method="round"))
    for pair in ((0, 1), (1, 2), (2, 3), (0, 3)):
        others = tuple(j for j in range(4) if j not in pair)
        expected = rows * model.marginal(tuple(DOMAIN.attributes[i] for i in pair)) / model.total
        assert np.abs(table.sum(axis=others) - expected).max() < 6


def test_a_table_too_large_to_keep_leaves_those_above_it_dealt_over_all_blocks(monkeypatch):
    """A chain whose middle table is too large: what is above it is whole, and counts add up below it too."""
    model, order = order_of("chain")
    sizes = [conditional.groups * conditional.size for conditional in order]
    whole = sampling.allocate(order, ROWS, np.random.default_rng(1))
    monkeypatch.setattr(sampling, "KEPT_CELLS", max(sizes) - 1)
    first = sizes.index(max(sizes))
    part = sampling.allocate(order, ROWS, np.random.default_rng(1))
    assert first > 0 and all(table is not None for table in whole)
    assert part[first] is None
    for conditional, table, one in zip(order, part, whole, strict=True):
        if table is not None and order.index(conditional) < first:
            assert (table == one).all()
    monkeypatch.setattr(sampling, "BLOCK_ROWS", 100)
    columns = model.sample(ROWS, seed=1)
    for conditional, table in zip(order, sampling.allocate(order, ROWS, random.generator(1)), strict=True):
        if table is not None:
            codes = [columns["abcd"[v]] for v in (*conditional.parents, conditional.variable)]
            shape = (*conditional.parent_sizes, conditional.size)
            cells = np.bincount(np.ravel_multi_index(codes, shape), minlength=table.size)
            assert (cells == table.ravel()).all()


def test_many_small_groups_round_up_to_little():
    """A thousand groups of one row each: the sum is within a few rows, where independent ones miss by 15."""
    generator = np.random.default_rng(0)
    cumulated = np.tile(np.cumsum([0.3, 0.5, 0.2]), (1000, 1))
    cumulated[:, -1] = 1
    for _ in range(20):
        counts = sampling.even(cumulated, np.ones(1000, np.int64), generator)
        assert (counts.sum(axis=1) == 1).all()
        # a thousand multiples of the golden ratio hit an interval less than 5 times too often or too rarely
        # (Kuipers and Niederreiter 1974, chapter 2, theorem 3.4); a cell is one interval or two
        assert np.abs(counts.sum(axis=0) - [300, 500, 200]).max() < 10


@pytest.mark.parametrize("method", ["multinomial", "round"])
def test_tables_too_large_to_keep_give_rows_of_the_model_too(model, method, monkeypatch):
    """Level 1e-6 on the joint by chi-square; dealt rows are nearer than independent ones."""
    monkeypatch.setattr(sampling, "KEPT_CELLS", 0)
    monkeypatch.setattr(sampling, "PIECE_CELLS", 7)
    monkeypatch.setattr(sampling, "BLOCK_ROWS", 5000)
    rows = 20_000
    columns = model.sample(rows, seed=2, method=method)
    observed = histogram(columns).ravel()
    expected = rows * model.marginal(DOMAIN.attributes).ravel() / model.total
    assert (observed[expected == 0] == 0).all()
    likely = expected >= 10
    statistic = np.sum((observed[likely] - expected[likely]) ** 2 / expected[likely])
    assert scipy.stats.chi2.sf(statistic, likely.sum()) > 1e-6
    assert all(check.standard_errors < 3 for check in model.check_rows(columns))


def test_kept_and_unkept_tables_give_the_same_independent_rows(model, monkeypatch):
    kept = model.sample(3000, seed=8, method="multinomial")
    monkeypatch.setattr(sampling, "KEPT_CELLS", 0)
    again = model.sample(3000, seed=8, method="multinomial")
    assert all((kept[n] == again[n]).all() for n in kept)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 9, 100])
def test_inverse_finds_what_searchsorted_finds(size):
    generator = np.random.default_rng(size)
    logs = generator.normal(size=(6, size))
    logs[:, 1:][generator.random((6, size - 1)) < 0.4] = -np.inf
    cumulated = sampling.cumulate(logs)
    group, position = generator.integers(6, size=500), generator.random(500)
    position[:3] = 0.0, np.nextafter(1.0, 0.0), 0.5
    position[3:6] = np.minimum(cumulated[group[3:6], 0], np.nextafter(1.0, 0.0))  # on the edge of a cell
    found = sampling.inverse(cumulated, group, position)
    assert found.tolist() == [
        np.searchsorted(cumulated[g], p, side="right") for g, p in zip(group, position, strict=True)
    ]
    assert np.isfinite(logs[group, found]).all()


def test_a_first_cell_that_is_impossible_is_not_found_by_position_zero():
    cumulated = sampling.cumulate(np.array([[-np.inf, 0.0, 0.0]]))
    assert sampling.inverse(cumulated, np.zeros(1, np.int64), np.zeros(1)).tolist() == [1]


def test_cumulated_rows_end_at_one_even_where_nothing_is_possible():
    cumulated = sampling.cumulate(np.array([[0.0, 0.0], [-np.inf, -np.inf], [-1e4, -np.inf]]))
    assert cumulated.tolist() == [[0.5, 1.0], [0.5, 1.0], [1.0, 1.0]]


ROWS = 1237


def order_of(name, seed=0):
    structure = models.STRUCTURES[name]
    names = tuple("abcde"[: len(structure[0])])
    domain = pj.Domain(dict(zip(names, structure[0], strict=True)))
    tables = models.potentials(structure, seed=seed, zeros=0.2)
    potentials = {}
    for clique, table in zip(structure[1], tables, strict=True):
        potentials.setdefault(tuple(names[v] for v in clique), table)
    model = pj.GraphicalModel.from_potentials(domain, potentials)
    return model, sampling.conditionals(model._host.buckets(), structure[0])


@pytest.mark.parametrize("name", models.STRUCTURES)
def test_counts_are_within_one_given_the_counts_of_their_separator(name):
    _, order = order_of(name)
    counts = rounding.allocate(order, ROWS, np.random.default_rng(0))
    for conditional, table in zip(order, counts, strict=True):
        assert table.sum() == ROWS and table.min() >= 0
        probabilities = np.diff(conditional.cumulated, axis=1, prepend=0)
        expected = table.sum(axis=1, keepdims=True) * probabilities
        # cells of one walk start within a row, so that a group's own whole count adds at most one
        assert np.abs(table - expected).max() < 2
        assert (table[probabilities == 0] == 0).all()


def test_the_first_clique_is_within_one_as_a_whole():
    """A clique of three: all its cells and its leading pairs."""
    model, order = order_of("nested")
    for seed in range(50):
        counts = rounding.allocate(order, ROWS, np.random.default_rng(seed))
        for conditional, table in zip(order, counts, strict=True):
            names = tuple("abc"[v] for v in (*conditional.parents, conditional.variable))
            expected = ROWS * model.marginal(names).reshape(table.shape)
            assert np.abs(table - expected).max() < 1


def test_impossible_cells_at_the_end_get_no_sliver_of_a_walk():
    """Ends that are off by the last bit would give them a row where a whole number lies between."""
    generator = np.random.default_rng(0)
    low, high = generator.random(1000), 1 + generator.random(1000)
    cumulated = np.array([[0.3, 1.0, 1.0]])
    assert (low + (high - low) != high).any()
    assert (rounding._between(low, high, cumulated)[:, 1:] == high[:, None]).all()


def test_counts_are_right_on_average():
    """400 draws: each cell's mean within 6 of its standard errors, whose bound is that of a rounding."""
    model, order = order_of("chain")
    draws = [rounding.allocate(order, 50, np.random.default_rng(seed)) for seed in range(400)]
    for i, conditional in enumerate(order):
        names = tuple("abcd"[v] for v in (*conditional.parents, conditional.variable))
        values = np.array([draw[i] for draw in draws])
        expected = 50 * model.marginal(names).reshape(values.shape[1:])
        spread = np.maximum(values.std(axis=0), 0.05) / np.sqrt(len(draws))
        assert (np.abs(values.mean(axis=0) - expected) < 6 * spread).all()


def test_taking_uses_counts_up_evenly():
    generator = np.random.default_rng(0)
    counts = np.array([[5, 0, 15], [0, 0, 0], [7, 7, 6]])
    left, drawn = counts.copy(), np.zeros_like(counts)
    key = generator.permutation(np.repeat([0, 2], 20))
    for block in np.split(key, 8):
        before = drawn.copy()
        np.add.at(drawn, (block, rounding.take(left, block, generator)), 1)
        share = (counts - before) / np.maximum((counts - before).sum(axis=1, keepdims=True), 1)
        expected = share * np.bincount(block, minlength=3)[:, None]
        assert (np.abs(drawn - before - expected) < 1).all()
    assert (drawn == counts).all() and not left.any()


def test_cells_are_handed_out_in_random_order():
    """Within a group the first row gets each cell as often as its share: 6 standard errors, seeded."""
    generator = np.random.default_rng(0)
    counts = np.array([[3, 1], [0, 4]])
    key = np.array([1, 0, 0, 1, 0, 1, 0, 1])
    drawn = np.array([rounding.deal(counts, key, generator) for _ in range(2000)])
    assert (drawn[:, key == 1] == 1).all() and (drawn[:, key == 0].sum(axis=1) == 1).all()
    assert np.abs(drawn[:, key == 0].mean(axis=0) - 0.25).max() < 6 * np.sqrt(0.25 * 0.75 / 2000)


def test_rows_that_memory_does_not_hold_are_refused_before_they_are_drawn():
    model = pj.GraphicalModel.from_potentials(
        pj.Domain({"a": 2, "b": 3}), {("a", "b"): np.zeros((2, 3))}, 9.0
    )
    for rows in (10**12, 10**13, 2**63):
        with pytest.raises(ValueError, match="rows"):
            model.sample(rows)
    with pytest.raises(ValueError, match="draw them to a file with sample_to, or fewer"):
        model.sample(10**12)
