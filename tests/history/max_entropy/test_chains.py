"""Chains against the joint distribution written out."""

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.history.max_entropy.ascent import Chains, draw
from pgmjax.model.graphical import GraphicalModel

DOMAIN = Domain({"a": 3, "b": 4, "c": 2, "free": 2})
CLIQUES = (("a", "b"), ("c", "b"), ("a", "c"))
CHAINS = 40_000


def tables(zeros=False):
    rng = np.random.default_rng(2)
    made = [rng.normal(size=DOMAIN.shape_of(clique)) for clique in CLIQUES]
    if zeros:
        made[0][1, 2] = made[1][0, 3] = -np.inf
    return made


def joint(made):
    ab, cb, ac = made
    logs = ab[:, :, None] + cb.T[None, :, :] + ac[:, None, :]
    p = np.exp(logs)
    return p / p.sum()


def started(seed=0):
    flat = [np.full(size, 1 / size) for size in DOMAIN.shape]
    return Chains.start(DOMAIN, CLIQUES, flat, CHAINS, seed)


@pytest.mark.parametrize("zeros", [False, True])
def test_chains_reach_the_joint_distribution(zeros):
    """Chi-squared of all cells at independent chains: mean 23, standard deviation below 7."""
    made = tables(zeros)
    chains = started().swept(made, 20)
    codes = np.asarray(chains.codes)
    counts = np.zeros(DOMAIN.shape[:3])
    np.add.at(counts, tuple(codes[:3]), 1)
    expected = counts.sum() * joint(made)
    assert (counts[expected == 0] == 0).all()
    some = expected > 0
    assert np.sum((counts[some] - expected[some]) ** 2 / expected[some]) < 23 + 5 * 7
    assert abs(codes[3].mean() - 0.5) < 5 * 0.5 / np.sqrt(CHAINS)


def test_shares_count_the_chains_in_every_cell():
    chains = started().swept(tables(), 2)
    codes = np.asarray(chains.codes)
    for clique, found, cells in zip(CLIQUES, chains.shares(), chains.cells(), strict=True):
        places = [DOMAIN.attributes.index(name) for name in clique]
        counts = np.zeros(DOMAIN.shape_of(clique))
        np.add.at(counts, tuple(codes[places]), 1)
        np.testing.assert_allclose(found, counts / CHAINS)
        np.testing.assert_array_equal(cells, np.ravel_multi_index(codes[places], DOMAIN.shape_of(clique)))


def test_a_seed_gives_the_same_chains_and_another_one_others():
    one, two, other = (np.asarray(started(seed).swept(tables(), 3).codes) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one, two)
    assert (one != other).any()


def test_starts_leave_out_codes_of_probability_zero():
    probabilities = [[0.0, 1.0, 0.0], [0.5, 0, 0, 0.5], [0, 1], [1, 0]]
    codes = np.asarray(Chains.start(DOMAIN, CLIQUES, probabilities, 1000, 0).codes)
    assert set(codes[0]) == {1} and set(codes[1]) == {0, 3} and set(codes[3]) == {0}


def test_drawn_rows_follow_the_model():
    model = GraphicalModel.from_potentials(DOMAIN, dict(zip(CLIQUES, tables(), strict=True)), total=10)
    columns = draw(model, 60_000, seed=0, sweeps=20)
    assert all(len(column) == 60_000 for column in columns.values())
    found = np.bincount(columns["b"], minlength=4) / 60_000
    np.testing.assert_allclose(found, model.marginal(("b",)) / 10, atol=5 * 0.5 / np.sqrt(60_000))
    assert {name: column.size for name, column in draw(model, 0, 0, 1).items()} == dict.fromkeys(DOMAIN, 0)
