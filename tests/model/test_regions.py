"""Answers from tables that agree, and the exact model of a forest of them."""

import itertools

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.model.clique_vector import CliqueVector
from pgmjax.model.regions import RegionModel

DOMAIN = pj.Domain({"a": 2, "b": 3, "c": 2, "d": 4, "free": 2})


def joint(seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(48, 0.5)).reshape(2, 3, 2, 4)


def marginal(table, names):
    summed = table.sum(axis=tuple(i for i, name in enumerate("abcd") if name not in names))
    kept = [name for name in "abcd" if name in names]
    return summed.transpose([kept.index(name) for name in names])


def model(cliques, table=None, total=100.0):
    table = joint() if table is None else table
    vector = CliqueVector(tuple(cliques), tuple(marginal(table, clique) for clique in cliques))
    return RegionModel(DOMAIN, vector, total, residual=0.0)


PAIRS = list(itertools.combinations("abcd", 2))


def test_marginals_within_a_region_are_its_own():
    found = model([tuple("abc"), tuple("dcb"), tuple("ad")])
    for clique in (("c", "a"), ("b",), ("d", "b"), ("a", "d"), ("c", "b", "d")):
        np.testing.assert_allclose(found.marginal(clique), 100 * marginal(joint(), clique), atol=1e-12)
        assert found.within_a_region(clique)
    assert not found.within_a_region(("a", "b", "d"))


def test_a_chain_answers_everything_exactly():
    """Where the regions are a tree the answers are those of the tree's distribution."""
    ab, bc, cd = (marginal(joint(), pair) for pair in ("ab", "bc", "cd"))
    truth = np.einsum("ab,bc,cd->abcd", ab, bc / bc.sum(1, keepdims=True), cd / cd.sum(1, keepdims=True))
    found = model([("a", "b"), ("b", "c"), ("c", "d")])
    for k in range(1, 5):
        for clique in itertools.permutations("abcd", k):
            np.testing.assert_allclose(found.marginal(clique), 100 * marginal(truth, clique), atol=1e-9)
            np.testing.assert_allclose(
                found.tractable().marginal(clique), 100 * marginal(truth, clique), atol=1e-9
            )


def test_other_answers_keep_what_the_regions_say():
    found = model(PAIRS)
    whole = found.marginal(("a", "b", "c", "d"))
    assert whole.min() >= 0
    for pair in PAIRS:
        np.testing.assert_allclose(marginal(whole, pair), 100 * marginal(joint(), pair), atol=1e-5)


def test_free_attributes_are_uniform():
    found = model(PAIRS).marginal(("free", "a"))
    np.testing.assert_allclose(found, 100 * np.outer([0.5, 0.5], marginal(joint(), "a")), atol=1e-9)


def test_the_forest_is_the_tree_of_most_information():
    """Against all spanning trees over four attributes (Chow and Liu)."""
    table = joint(3)

    def information(pair):
        p = marginal(table, pair)
        return np.sum(p * np.log(p / np.outer(p.sum(1), p.sum(0))))

    best = max(
        sum(map(information, chosen))
        for chosen in itertools.combinations(PAIRS, 3)
        if len(set(itertools.chain(*chosen))) == 4
    )
    tree = model(PAIRS, table).tractable()
    entropies = sum(
        -np.sum(marginal(table, name) * np.log(marginal(table, name))) for name in "abcd"
    ) + np.log(2)
    assert tree.entropy() >= entropies - best - 1e-9
    first = max(PAIRS, key=information)
    np.testing.assert_allclose(tree.marginal(first), 100 * marginal(table, first), atol=1e-9)


def counted(rows, names):
    shape = [DOMAIN[name] for name in names]
    cells = np.ravel_multi_index([rows[name] for name in names], shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)


def entropy_maximum(table, pairs, sweeps=2000):
    """The distribution of most entropy with a table's pairs, by proportional fitting of all 48 cells."""
    found = np.full(table.shape, 1 / table.size)
    for _ in range(sweeps):
        for pair in pairs:
            gone = tuple(i for i, name in enumerate("abcd") if name not in pair)
            found = found * (table.sum(gone, keepdims=True) / found.sum(gone, keepdims=True))
    return found


def test_rows_have_the_regions_tables_and_most_entropy_beyond():
    """Nearer to the pairs than independent rows of the true table, near the entropy's maximum elsewhere."""
    table = joint(4)
    rows = model(PAIRS, table).sample(20_000, seed=0)
    independent = np.random.default_rng(0).multinomial(20_000, table.reshape(-1)).reshape(table.shape)
    ours = [np.abs(counted(rows, pair) - 20_000 * marginal(table, pair)).sum() for pair in PAIRS]
    drawn = [np.abs(marginal(independent, pair) - 20_000 * marginal(table, pair)).sum() for pair in PAIRS]
    assert sum(ours) < 0.2 * sum(drawn)
    wanted = entropy_maximum(table, PAIRS)
    away = np.abs(counted(rows, "abcd") / 20_000 - wanted).sum()
    assert away < 0.25 * np.abs(table - wanted).sum() and away < 0.05
    assert abs(rows["free"].mean() - 0.5) < 0.02


def test_rows_repeat_with_their_seed_and_can_be_none_or_few():
    found = model(PAIRS)
    few, again, others = (found.sample(7, seed=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(few[name], again[name]) for name in DOMAIN)
    assert any(not np.array_equal(few[name], others[name]) for name in DOMAIN)
    assert {len(column) for column in found.sample(0).values()} == {0}
    assert len(found.sample()["a"]) == 100
    for wrong in ({"rows": -1}, {"sweeps": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            found.sample(**wrong)


def test_rows_in_several_parts_are_all_there(monkeypatch):
    monkeypatch.setattr("pgmjax.model.regions.MOST_ROWS", 300)
    table = joint(5)
    rows = model(PAIRS, table).sample(1000, seed=0)
    missed = [np.abs(counted(rows, pair) - 1000 * marginal(table, pair)).sum() for pair in PAIRS]
    assert len(rows["a"]) == 1000 and max(missed) < 40


def test_rows_avoid_impossible_cells():
    """The table has them in a pair that the forest leaves out or not, whichever it is."""
    table = joint(1)
    table[0, :, 1] = 0
    table[:, 2, :, 3] = 0
    rows = model(PAIRS, table / table.sum()).sample(5000, seed=0)
    assert counted(rows, "ac")[0, 1] == 0 and counted(rows, "bd")[2, 3] == 0


def test_zero_cells_make_no_nan():
    table = joint()
    table[0] = 0
    table[:, 1, :, 2] = 0
    table /= table.sum()
    found = model(PAIRS, table)
    whole = found.marginal(("a", "b", "c", "d"))
    assert np.isfinite(whole).all() and whole[0].sum() == 0
    np.testing.assert_allclose(whole.sum(), 100)
    assert found.tractable().marginal(("a",))[0] == 0


def test_pseudo_marginals_of_no_table_still_give_answers():
    opposite = np.array([[0.0, 0.5], [0.5, 0.0]])
    domain = pj.Domain({"a": 2, "b": 2, "c": 2})
    vector = CliqueVector((("a", "b"), ("b", "c"), ("a", "c")), (opposite,) * 3)
    found = RegionModel(domain, vector, 10.0, residual=0.0, loss=1.0, gap=0.25)
    np.testing.assert_allclose(found.marginal(("a", "c")), 10 * opposite)
    assert np.isfinite(found.marginal(("a", "b", "c"))).all()
    assert "convex belief propagation" in found.summary() and "0.75" in found.summary()


def test_queries():
    found = model(PAIRS)
    query = pj.queries.kronecker({"a": pj.queries.prefix(), "d": pj.queries.identity()})
    expected = np.cumsum(100 * marginal(joint(), "ad"), axis=0)
    np.testing.assert_allclose(found.answer(query), expected, atol=1e-9)
    with pytest.raises(ValueError, match="'a'"):
        found.answer("a")


def test_a_notebook_is_told_what_it_is():
    shown = model(PAIRS)._repr_html_()
    assert "RegionModel" in shown and "convex belief propagation" in shown
