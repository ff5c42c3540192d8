"""Cliques in a row on the host: order, frontiers and index maps."""

import numpy as np
import pytest

from pgmjax.inference.plan import chain
from pgmjax.inference.plan.structure import IMPOSSIBLE, Structure
from tests.models import STRUCTURES


@pytest.mark.parametrize("name", STRUCTURES)
def test_frontiers_hold_what_both_sides_share(name):
    structure = Structure(*STRUCTURES[name])
    row = chain.arrange(structure)
    assert sorted(row.order) == list(range(len(structure.cliques)))
    cliques = [set(structure.cliques[i]) for i in row.order]
    for place in range(1, len(cliques)):
        shared = set().union(*cliques[:place]) & set().union(*cliques[place:])
        assert set(row.frontiers[place]) == shared


@pytest.mark.parametrize("name", STRUCTURES)
def test_every_number_has_one_cell(name):
    structure = Structure(*STRUCTURES[name])
    maps = chain.index_maps(chain.arrange(structure))
    cells = maps.cells.ravel()
    assert sorted(cells[cells != IMPOSSIBLE]) == list(range(len(maps.out)))
    np.testing.assert_array_equal(cells[maps.out], np.arange(len(maps.out)))


def test_a_row_of_triples_in_any_order_has_pairs_as_frontiers_and_nothing_private():
    triples = [(i, i + 1, i + 2) for i in range(998)]
    shuffled = [triples[i] for i in np.random.default_rng(0).permutation(998)]
    row = chain.arrange(Structure((10,) * 1000, tuple(shuffled)))
    assert {frozenset(f) for f in row.frontiers[1:-1]} == {frozenset((i, i + 1)) for i in range(1, 998)}
    sizes = row.sizes
    assert (sizes.states, sizes.shared, sizes.private, sizes.carried) == (100, 1000, 1, 1)
    assert (sizes.matrices, sizes.levels) == (1024, 10)


def test_branches_come_before_the_row_goes_on():
    """A row of 50 with two branches of three: a frontier never holds more than two variables."""
    row = [(i, i + 1) for i in range(49)]
    branches = [(10, 50), (50, 51), (51, 52), (30, 53), (53, 54), (54, 55)]
    found = chain.arrange(Structure((3,) * 56, (*row, *branches)))
    assert found.sizes.states == 9


def test_work_of_the_forecast_is_that_of_the_products():
    forecast = chain.arrange(Structure((10,) * 1000, tuple((i, i + 1, i + 2) for i in range(998)))).forecast
    assert 1023 * 100**3 <= forecast.work <= 1.1 * 1024 * 100**3
    assert forecast.kernels <= 150
