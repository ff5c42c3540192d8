"""The defining properties of a junction tree, on fixed and random structures.

Elimination orders against graphs whose answer is known, and the Adult pairs.
"""

import itertools
import json

import numpy as np
import pytest

from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.structure import Structure
from tests.models import STRUCTURES


def random_structure(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 15))
    cliques = [tuple(rng.choice(n, int(rng.integers(1, min(n, 4) + 1)), replace=False)) for _ in range(n)]
    structure, _ = Structure.named(
        dict.fromkeys(map(str, range(n)), 3), [tuple(map(str, c)) for c in cliques]
    )
    return structure


CASES = [Structure(*s) for s in STRUCTURES.values()] + [random_structure(seed) for seed in range(40)]


@pytest.mark.parametrize("structure", CASES)
@pytest.mark.parametrize("rule", junction_tree.RULES)
def test_is_a_junction_tree(structure, rule):
    tree = junction_tree.build(structure, junction_tree.eliminate(structure, rule))
    assert all(parent < i for i, parent in enumerate(tree.parent))
    for clique, separator, parent in zip(tree.cliques, tree.separator, tree.parent, strict=True):
        assert clique[: len(separator)] == separator
        shared = set(clique) & set(tree.cliques[parent]) if parent >= 0 else set()
        assert set(separator) == shared
    # running intersection: a variable enters the tree once, and all its cliques hang together
    entered = [v for c, s in zip(tree.cliques, tree.separator, strict=True) for v in c if v not in s]
    assert sorted(entered) == list(range(len(structure.sizes)))
    for clique, home in zip(structure.cliques, tree.home, strict=True):
        assert set(clique) <= set(tree.cliques[home])
    sets = [set(c) for c in tree.cliques]
    assert not any(a <= b for i, a in enumerate(sets) for j, b in enumerate(sets) if i != j)


def test_long_chains_do_not_recurse():
    structure = Structure((2,) * 5000, tuple((i, i + 1) for i in range(4999)))
    assert len(junction_tree.build(structure).cliques) == 4999


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


@pytest.mark.parametrize("rule", junction_tree.RULES)
@pytest.mark.parametrize("name", STRUCTURES)
def test_cliques_are_those_the_order_makes(name, rule):
    sizes, cliques = STRUCTURES[name]
    found = junction_tree.eliminate(Structure(sizes, cliques), rule)
    assert sorted(found.order) == list(range(len(sizes)))
    assert [set(c) for c in found.cliques] == brute_force_width(sizes, cliques, found.order)
    assert all(clique[0] == v for clique, v in zip(found.cliques, found.order, strict=True))


@pytest.mark.parametrize("rule", junction_tree.RULES)
def test_a_tree_is_never_filled_in(rule):
    rng = np.random.default_rng(3)
    cliques = tuple((int(rng.integers(i)), i) for i in range(1, 60))
    found = junction_tree.eliminate(Structure((2,) * 60, cliques), rule)
    assert max(len(c) for c in found.cliques) == 2


def test_min_fill_triangulates_a_cycle_with_triangles():
    n = 12
    cycle = tuple((i, (i + 1) % n) for i in range(n))
    found = junction_tree.eliminate(Structure((2,) * n, cycle), "min-fill")
    assert sorted(len(c) for c in junction_tree.maximal_cliques(found)) == [3] * (n - 2)


def test_variables_of_a_marginal_come_last():
    found = junction_tree.eliminate(Structure(*STRUCTURES["chain"]), "min-weight", last=(0, 1))
    assert set(found.order[-2:]) == {0, 1}


def test_total_cells_of_a_known_model():
    # a square of sizes 3, 2, 4, 2 needs two triangles over the cheaper diagonal (sizes 2 and 2)
    assert junction_tree.total_cells((3, 2, 4, 2), [(0, 1), (1, 2), (2, 3), (3, 0)]) == 12 + 16


def test_unused_variables_cost_nothing():
    assert junction_tree.total_cells((3, 2, 100), [(0, 1)]) == 6


def test_unknown_rule():
    with pytest.raises(ValueError, match="rule must be one of"):
        junction_tree.eliminate(Structure((2,), ((0,),)), "best")


def test_all_pairs_of_adult_under_a_million_cells(data_dir):
    sizes = tuple(json.loads((data_dir / "adult" / "adult-domain.json").read_text()).values())
    pairs = sorted(itertools.combinations(range(14), 2), key=lambda p: sizes[p[0]] * sizes[p[1]])
    kept = []
    for pair in pairs:
        if junction_tree.total_cells(sizes, [*kept, pair]) < 1_000_000:
            kept.append(pair)
    assert (len(pairs), len(kept)) == (91, 58)


def test_a_star_of_thousands_is_ordered_from_its_leaves():
    """The hub's cost changes with every leaf that goes: counted afresh each time this takes a minute."""
    leaves = 3000
    star = Structure((10,) * (leaves + 1), tuple((0, i) for i in range(1, leaves + 1)))
    order = junction_tree.best_elimination(star).order
    assert set(order) == set(range(leaves + 1))
    assert order.index(0) >= leaves - 1
