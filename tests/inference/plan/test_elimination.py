"""The search for elimination orders, against exhaustive search on small graphs and bounds on grids."""

import itertools
import math

import numpy as np
import pytest

from pgmjax.inference.plan import elimination, junction_tree
from pgmjax.inference.plan.structure import Structure


def grid(rows: int, columns: int) -> Structure:
    place = np.arange(rows * columns).reshape(rows, columns)
    across = zip(place[:, :-1].ravel().tolist(), place[:, 1:].ravel().tolist(), strict=True)
    down = zip(place[:-1].ravel().tolist(), place[1:].ravel().tolist(), strict=True)
    return Structure((2,) * place.size, (*across, *down))


def random_graph(variables: int, pairs: int, seed: int) -> Structure:
    rng = np.random.default_rng(seed)
    every = list(itertools.combinations(range(variables), 2))
    chosen = rng.permutation(len(every))[:pairs]
    return Structure(tuple(rng.integers(2, 6, variables).tolist()), tuple(every[i] for i in chosen))


def cells_of(structure: Structure, order) -> int:
    """Cells of all cliques of an order, by the definition."""
    near, total = structure.neighbours(), 0
    for v in order:
        total += structure.cells((v, *near[v]))
        for u in near[v]:
            near[u] = (near[u] | near[v]) - {u, v}
    return total


@pytest.mark.parametrize("seed", range(8))
def test_it_finds_the_best_of_all_orders(seed):
    structure = random_graph(7, 12, seed)
    least = min(cells_of(structure, order) for order in itertools.permutations(range(7)))
    found = elimination.best(structure, calls=1e6)
    assert sorted(found.order) == list(range(7))
    assert cells_of(structure, found.order) <= 1.1 * least  # it counts cliques in others only once


@pytest.mark.parametrize("seed", range(8))
def test_the_lower_bound_holds_for_all_orders(seed):
    structure = random_graph(7, 6 + seed, seed)

    def widest(order) -> int:
        near, found = structure.neighbours(), 1
        for v in order:
            found = max(found, structure.cells((v, *near[v])))
            for u in near[v]:
                near[u] = (near[u] | near[v]) - {u, v}
        return found

    least = min(map(widest, itertools.permutations(range(7))))
    assert least / 6 <= elimination.least_table(structure) <= least


@pytest.mark.parametrize("seed", range(4))
def test_its_cliques_are_those_of_its_order(seed):
    structure = random_graph(30, 50, seed)
    found = elimination.best(structure, last=(3, 5))
    assert set(found.order[-2:]) == {3, 5}
    near = structure.neighbours()
    for v, clique in zip(found.order, found.cliques, strict=True):
        assert clique[0] == v and set(clique[1:]) == near[v]
        assert [found.order.index(u) for u in clique] == sorted(found.order.index(u) for u in clique)
        for u in near[v]:
            near[u] = (near[u] | near[v]) - {u, v}


@pytest.mark.parametrize("side", [8, 12])
def test_a_grid_takes_less_than_row_by_row(side):
    """Row by row the cliques have side + 1 variables, which is the least that is possible."""
    structure = grid(side, side)
    found = elimination.best(structure, calls=3e3)
    assert cells_of(structure, found.order) < 0.5 * cells_of(structure, range(side * side))
    greedy = junction_tree.best_elimination(structure)
    assert cells_of(structure, found.order) < 0.8 * cells_of(structure, greedy.order)


def test_more_calls_are_searched_longer_and_equal_ones_give_the_same():
    structure = grid(9, 9)
    few, many = elimination.best(structure), elimination.best(structure, calls=1e4)
    assert cells_of(structure, many.order) < cells_of(structure, few.order)
    elimination.found.cache_clear()
    assert elimination.best(structure, calls=1e4).order == many.order


def test_trees_need_no_search():
    rng = np.random.default_rng(0)
    structure = Structure((3,) * 3000, tuple((int(rng.integers(v)), v) for v in range(1, 3000)))
    found = elimination.best(structure, calls=1e9)
    assert max(map(len, found.cliques)) == 2 and math.isfinite(cells_of(structure, found.order))


def test_one_question_to_a_lattice_is_searched_beyond_the_greedy_rules():
    """4 x 4 x 4 binary attributes: min-fill has a table of 2^19 cells."""
    place = {cell: i for i, cell in enumerate(itertools.product(range(4), repeat=3))}
    steps = [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    pairs = [
        (place[cell], place[other])
        for cell in place
        for step in steps
        if (other := tuple(map(sum, zip(cell, step, strict=True)))) in place
    ]
    structure = Structure((2,) * 64, tuple(pairs))
    greedy = junction_tree.best_elimination(structure)
    assert max(map(structure.cells, elimination.best(structure).cliques)) <= 2**18
    assert max(map(structure.cells, greedy.cliques)) > 2**18
