"""What a candidate costs: a junction tree of that size exists, and it is as small as others find.

Spans in a small tree that can be drawn, and cells of bits.
"""

import itertools
import json
import math

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.growth import CliqueForest, Growth, candidate_cells
from pgmjax.inference.plan.structure import Structure, members
from tests.inference.plan.test_contraction import random_structure
from tests.models import STRUCTURES


def is_junction_forest(cliques):
    """Whether some tree over the cliques has the running intersection property.

    The heaviest spanning forest has it if any has: its separators then count every variable once
    less than the cliques do (Jensen and Jensen 1994).
    """
    weights = sorted(
        ((len(set(a) & set(b)), i, j) for (i, a), (j, b) in itertools.combinations(enumerate(cliques), 2)),
        reverse=True,
    )
    group = list(range(len(cliques)))

    def find(i):
        while group[i] != i:
            i = group[i]
        return i

    total = 0
    for weight, i, j in weights:
        if weight and find(i) != find(j):
            group[find(i)] = find(j)
            total += weight
    return total == sum(len(c) for c in cliques) - len({v for c in cliques for v in c})


def random_candidates(seed, variables, count=12):
    rng = np.random.default_rng(seed + 100)
    widths = rng.integers(1, min(5, variables + 1), count)
    return [tuple(int(v) for v in rng.choice(variables, w, replace=False)) for w in widths]


def least_cells(sizes, cliques):
    """Over all orders of elimination."""
    best = math.inf
    for order in itertools.permutations(range(len(sizes))):
        near = {v: {u for c in cliques if v in c for u in c} - {v} for v in order}
        made = []
        for v in order:
            around = near.pop(v)
            if not any(around | {v} <= m for m in made):
                made.append(around | {v})
            for u in around:
                near[u] = (near[u] | around) - {u, v}
        best = min(best, sum(math.prod(sizes[v] for v in m) for m in made))
    return best


@pytest.mark.parametrize("seed", range(4))
def test_never_less_than_the_best_triangulation(seed):
    sizes, cliques = random_structure(seed, count=5, variables=6, width=2)
    growth = Growth(Structure(sizes, cliques))
    for candidate in random_candidates(seed, len(sizes), count=5):
        assert growth.cells(candidate) >= least_cells(sizes, [*cliques, candidate])


@pytest.mark.parametrize("name", STRUCTURES)
def test_nothing_new_costs_nothing(name):
    sizes, cliques = STRUCTURES[name]
    growth = Growth(Structure(sizes, cliques))
    assert growth.forest.base == junction_tree.total_cells(sizes, cliques)
    for clique in cliques:
        assert growth.cells(clique) == growth.cells(clique[:1]) == growth.forest.base
    assert growth.cells(()) == growth.forest.base


def test_known_answers():
    chain = Growth(Structure((2, 3, 5, 7, 11), ((0, 1), (1, 2), (2, 3))))
    assert chain.forest.base == 6 + 15 + 35
    assert chain.cells((0, 2)) == 30 + 35
    # the square 0-1-2-3 falls into triangles: 0-1-2 and 0-2-3, or 0-1-3 and 1-2-3
    assert chain.cells((0, 3)) == min(2 * 3 * 5 + 2 * 5 * 7, 2 * 3 * 7 + 3 * 5 * 7)
    assert chain.cells((4,)) == chain.forest.base + 11
    assert chain.cells((4, 0)) == chain.forest.base + 22
    assert chain.cells((4, 0, 1)) == chain.forest.base - 6 + 66
    assert chain.cells((0, 1, 2, 3, 4)) == 2310


def test_a_wide_clique_on_the_way_is_passed_by_its_separators():
    # 0-1, the clique 1..5 and 5-6: carrying 0 or 6 to the other side takes 1 and 5 with it, not 2, 3, 4
    growth = Growth(Structure((4,) * 7, ((0, 1), (1, 2, 3, 4, 5), (5, 6))))
    assert growth.cells((0, 6)) == 4**5 + 2 * 4**3


def test_as_often_below_planning_anew_as_above():
    ratios = []
    for seed in range(30):
        sizes, cliques = random_structure(seed, count=14, variables=14, width=3)
        candidates = random_candidates(seed, len(sizes), count=20)
        mine = Growth(Structure(sizes, cliques)).cells_of(candidates)
        anew = [junction_tree.total_cells(sizes, [*cliques, c]) for c in candidates]
        ratios += [m / a for m, a in zip(mine, anew, strict=True)]
    assert np.median(ratios) <= 1 and np.mean(ratios) < 1.2


def test_trees_get_the_same_figures_as_planning_anew():
    rng = np.random.default_rng(0)
    sizes = tuple(int(s) for s in rng.integers(2, 9, 30))
    cliques = tuple((int(rng.integers(max(0, i - 4), i)), i) for i in range(1, 30))
    pairs = list(itertools.combinations(range(30), 2))
    mine = np.array(Growth(Structure(sizes, cliques)).cells_of(pairs))
    anew = np.array([junction_tree.total_cells(sizes, [*cliques, p]) for p in pairs])
    assert np.mean(mine <= anew) > 0.9 and np.all(mine <= 2 * anew)


def test_all_pairs_of_a_hundred_attributes_at_once():
    chain = tuple((i, i + 1, i + 2) for i in range(98))
    pairs = list(itertools.combinations(range(100), 2))
    found = Growth(Structure((10,) * 100, chain)).cells_of(pairs)
    assert len(found) == 4950 and min(found) == 98_000


def test_candidates_by_name(data_dir):
    sizes = json.loads((data_dir / "adult" / "adult-domain.json").read_text())
    domain = pj.Domain(sizes)
    candidates = list(itertools.combinations(sizes, 2))
    found = candidate_cells(domain, [("age", "sex"), ("sex", "race")], candidates)
    assert found.dtype == np.int64 and found.shape == (91,)
    base = sizes["age"] * sizes["sex"] + sizes["sex"] * sizes["race"]
    assert found[candidates.index(("age", "sex"))] == base


def test_more_cells_than_an_integer_holds():
    domain = pj.Domain({f"x{i}": 1000 for i in range(8)})
    found = candidate_cells(domain, [], [tuple(domain.attributes), ("x0",)])
    assert found.tolist() == [np.iinfo(np.int64).max, 1000]
    assert Growth(Structure((1000,) * 8, ())).cells(range(8)) == 1000**8


def test_unknown_names():
    with pytest.raises(ValueError, match="'c'"):
        candidate_cells(pj.Domain({"a": 2, "b": 3}), [("a", "b")], [("a", "c")])


# a path 0-1-2-3 with 4 and 5 hanging on 1, and 6 alone
STRUCTURE = Structure((2, 3, 5, 7, 11, 13, 17), ((0, 1), (1, 2), (2, 3), (1, 4), (4, 5)))


@pytest.fixture
def forest():
    return CliqueForest(STRUCTURE)


def holds(forest, x, *variables):
    return set(variables) <= set(members(forest.masks[x]))


def test_bits_and_cells(forest):
    assert members(forest.mask((5, 0, 3))) == (0, 3, 5)
    assert forest.cells(forest.mask((0, 3, 5))) == 2 * 7 * 13 and forest.cells(0) == 1
    assert forest.base == 6 + 15 + 35 + 33 + 143


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
    assert all(CliqueForest(square).filled)
