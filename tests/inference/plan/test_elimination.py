"""Elimination orders against graphs whose answer is known, and the Adult pairs."""

import itertools
import json

import numpy as np
import pytest

from pgmjax.inference.plan import elimination
from pgmjax.inference.plan.structure import Structure
from tests.models import STRUCTURES


def brute_force_width(sizes, cliques, order):
    """Cells of the cliques that an order creates, by eliminating in plain sets."""
    near = {v: set() for v in range(len(sizes))}
    for clique in cliques:
        for a, b in itertools.permutations(clique, 2):
            near[a].add(b)
    made = []
    for v in order:
        made.append({v, *near[v]})
        for a, b in itertools.permutations(near[v], 2):
            near[a].add(b)
        for u in near.pop(v):
            near[u].discard(v)
    return made


@pytest.mark.parametrize("rule", elimination.RULES)
@pytest.mark.parametrize("name", STRUCTURES)
def test_cliques_are_those_the_order_makes(name, rule):
    sizes, cliques = STRUCTURES[name]
    found = elimination.eliminate(Structure(sizes, cliques), rule)
    assert sorted(found.order) == list(range(len(sizes)))
    assert [set(c) for c in found.cliques] == brute_force_width(sizes, cliques, found.order)
    assert all(clique[0] == v for clique, v in zip(found.cliques, found.order, strict=True))


@pytest.mark.parametrize("rule", elimination.RULES)
def test_a_tree_is_never_filled_in(rule):
    rng = np.random.default_rng(3)
    cliques = tuple((int(rng.integers(i)), i) for i in range(1, 60))
    found = elimination.eliminate(Structure((2,) * 60, cliques), rule)
    assert max(len(c) for c in found.cliques) == 2


def test_min_fill_triangulates_a_cycle_with_triangles():
    n = 12
    cycle = tuple((i, (i + 1) % n) for i in range(n))
    found = elimination.eliminate(Structure((2,) * n, cycle), "min-fill")
    assert sorted(len(c) for c in elimination.maximal_cliques(found)) == [3] * (n - 2)


def test_variables_of_a_marginal_come_last():
    found = elimination.eliminate(Structure(*STRUCTURES["chain"]), "min-weight", last=(0, 1))
    assert set(found.order[-2:]) == {0, 1}


def test_total_cells_of_a_known_model():
    # a square of sizes 3, 2, 4, 2 needs two triangles over the cheaper diagonal (sizes 2 and 2)
    assert elimination.total_cells((3, 2, 4, 2), [(0, 1), (1, 2), (2, 3), (3, 0)]) == 12 + 16


def test_unused_variables_cost_nothing():
    assert elimination.total_cells((3, 2, 100), [(0, 1)]) == 6


def test_unknown_rule():
    with pytest.raises(ValueError, match="rule must be one of"):
        elimination.eliminate(Structure((2,), ((0,),)), "best")


def test_all_pairs_of_adult_under_a_million_cells(data_dir):
    sizes = tuple(json.loads((data_dir / "adult" / "adult-domain.json").read_text()).values())
    pairs = sorted(itertools.combinations(range(14), 2), key=lambda p: sizes[p[0]] * sizes[p[1]])
    kept = []
    for pair in pairs:
        if elimination.total_cells(sizes, [*kept, pair]) < 1_000_000:
            kept.append(pair)
    assert (len(pairs), len(kept)) == (91, 58)


def test_a_star_of_thousands_is_ordered_from_its_leaves():
    """The hub's cost changes with every leaf that goes: counted afresh each time this takes a minute."""
    leaves = 3000
    star = Structure((10,) * (leaves + 1), tuple((0, i) for i in range(1, leaves + 1)))
    order = elimination.best(star).order
    assert set(order) == set(range(leaves + 1))
    assert order.index(0) >= leaves - 1
