"""The defining properties of a junction tree, on fixed and random structures."""

import numpy as np
import pytest

from pgmjax.inference.plan import elimination, junction_tree
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
@pytest.mark.parametrize("rule", elimination.RULES)
def test_is_a_junction_tree(structure, rule):
    tree = junction_tree.build(structure, elimination.eliminate(structure, rule))
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
