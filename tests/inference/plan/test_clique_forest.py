"""Ways and spans in a small tree that can be drawn, and cells of bits."""

import itertools

import pytest

from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.clique_forest import CliqueForest, members
from pgmjax.inference.plan.structure import Structure

# a path 0-1-2-3 with 4 and 5 hanging on 1, and 6 alone
STRUCTURE = Structure((2, 3, 5, 7, 11, 13, 17), ((0, 1), (1, 2), (2, 3), (1, 4), (4, 5)))


@pytest.fixture
def forest():
    return CliqueForest(STRUCTURE, junction_tree.build(STRUCTURE))


def holds(forest, x, *variables):
    return set(variables) <= set(members(forest.masks[x]))


def test_bits_and_cells(forest):
    assert members(forest.mask((5, 0, 3))) == (0, 3, 5)
    assert forest.cells(forest.mask((0, 3, 5))) == 2 * 7 * 13 and forest.cells(0) == 1
    assert forest.base == 6 + 15 + 35 + 33 + 143


@pytest.mark.parametrize(("u", "v"), [(0, 3), (3, 0), (0, 5), (5, 3), (2, 4)])
def test_ways_lead_from_edge_to_edge(forest, u, v):
    way = forest.between(u, v)
    assert holds(forest, way[0], u) and holds(forest, way[-1], v)
    assert not any(holds(forest, x, u) for x in way[1:])
    assert not any(holds(forest, x, v) for x in way[:-1])
    assert all(y in forest.around[x] for x, y in itertools.pairwise(way))


def test_span_touches_every_variable_and_nothing_more(forest):
    clique = forest.mask((0, 3, 5))
    near = forest.span(clique, [forest.top[v] for v in (0, 3, 5)])
    assert all(any(holds(forest, x, v) for x in near) for v in (0, 3, 5))
    assert all(x in near[y] for x, around in near.items() for y in around)
    ends = [x for x, around in near.items() if len(around) == 1]
    assert all(any(holds(forest, x, v) for v in (0, 3, 5)) for x in ends)


def test_chordal_models_are_not_filled(forest):
    assert not any(forest.filled)
    square = Structure((2,) * 4, ((0, 1), (1, 2), (2, 3), (3, 0)))
    assert all(CliqueForest(square, junction_tree.build(square)).filled)


def test_unknown_variable(forest):
    with pytest.raises(ValueError, match=r"must lie in 0\.\.6, got 7"):
        forest.mask((7,))
