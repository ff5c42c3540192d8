"""Counts dealt to cliques: within one, consistent on separators, unbiased, and used up exactly."""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.model import conditionals, rounding
from tests import models

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
    return model, conditionals.conditionals(model._host.buckets(), structure[0])


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
