"""Cliques chosen in turn: the forest stays a junction forest, and the choice is that of planning anew."""

import itertools
import math

import numpy as np
import pytest

from pgmjax.inference.plan.junction_tree import total_cells
from pgmjax.inference.plan.triangulation import Triangulation, fitting
from tests.inference.plan.test_growth import is_junction_forest


def planned_anew(sizes, cliques, limit):
    """Try each clique, smallest table first, by planning all those kept so far with it."""
    kept = []
    for clique in sorted(cliques, key=lambda clique: math.prod(sizes[v] for v in clique)):
        if total_cells(sizes, [*kept, clique]) <= limit:
            kept.append(clique)
    return kept


def chosen(sizes, cliques, limit):
    return [cliques[i] for i in fitting(sizes, np.array(cliques), limit)]


@pytest.mark.parametrize("seed", range(30))
def test_edges_in_any_order_leave_a_junction_forest_of_a_chordal_graph(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 25))
    sizes = tuple(int(size) for size in rng.integers(2, 6, count))
    graph, added = Triangulation(sizes), []
    for width in rng.integers(2, 4, 60):
        clique = tuple(int(v) for v in rng.choice(count, min(width, count), replace=False))
        before = (graph.cells, graph.cliques())
        if graph.add(clique, 20_000):
            added.append(clique)
        else:
            assert (graph.cells, graph.cliques()) == before
        cliques = [set(each) for each in graph.cliques()]
        assert graph.cells == sum(math.prod(sizes[v] for v in each) for each in cliques) <= 20_000
        assert not any(a < b for a, b in itertools.permutations(cliques, 2))
        assert is_junction_forest(graph.cliques())
        assert all(any(each.issuperset(clique) for each in cliques) for clique in added)
        pairs = {pair for each in cliques for pair in itertools.combinations(sorted(each), 2)}
        near = {(u, v) for u in range(count) for v in range(u + 1, count) if graph.near[u] >> v & 1}
        assert near == pairs


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_as_many_cliques_as_by_planning_each_anew(seed, k):
    rng = np.random.default_rng([seed, k])
    count = int(rng.integers(4, 16 if k < 3 else 10))
    sizes = tuple(int(size) for size in rng.integers(2, (3, 9, 60)[seed % 3], count))
    cliques = list(itertools.combinations(range(count), k))
    limit = sum(sizes) * int(rng.choice([1, 3, 10, 100, 1000]))
    mine, anew = chosen(sizes, cliques, limit), planned_anew(sizes, cliques, limit)
    assert len(mine) >= len(anew)
    assert not mine or total_cells(sizes, mine) <= limit


def test_of_binary_attributes_the_same_pairs_as_by_planning_each_anew():
    pairs = list(itertools.combinations(range(25), 2))
    assert chosen((2,) * 25, pairs, 3_000) == planned_anew((2,) * 25, pairs, 3_000)


def test_pairs_inside_a_clique_of_the_tree_are_taken():
    # of four binary attributes with a clique of 16 cells and one of 8 beside it
    pairs = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (0, 2), (0, 3), (1, 3), (1, 4), (2, 4)]
    kept = chosen((2,) * 5, pairs, 24)
    assert len(kept) == 8 and total_cells((2,) * 5, kept) == 24


def test_five_hundred_attributes_without_a_look_at_most_pairs(monkeypatch):
    looked = []
    way = Triangulation._splice
    monkeypatch.setattr(Triangulation, "_splice", lambda self, *pair: looked.append(pair) or way(self, *pair))
    pairs = np.stack(np.triu_indices(500, 1), 1)
    kept = fitting((2,) * 500, pairs, 1_000_000)
    assert len(looked) < len(kept) + 500 < 6_000


def test_attributes_of_one_value_and_one_attribute():
    assert chosen((1, 1, 1), [(0, 1), (0, 2), (1, 2)], 2) == [(0, 1), (0, 2), (1, 2)]
    assert chosen((3,), [(0,)], 3) == [(0,)]
    assert chosen((3,), [(0,)], 2) == []
