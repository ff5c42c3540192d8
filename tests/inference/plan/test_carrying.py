"""Carrying two variables is the same by the quick way for pairs and by the one for any clique."""

import itertools

import pytest

from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.carrying import Carrier
from pgmjax.inference.plan.clique_forest import CliqueForest
from pgmjax.inference.plan.structure import Structure
from tests.inference.plan.test_contraction import random_structure


@pytest.mark.parametrize("seed", range(20))
def test_pairs_cost_what_the_general_way_says(seed):
    structure = Structure(*random_structure(seed, count=6 + seed % 8, variables=14))
    forest = CliqueForest(structure, junction_tree.build(structure))
    carrier = Carrier(forest)
    for u, v in itertools.combinations(range(len(structure.sizes)), 2):
        clique = forest.mask((u, v))
        apart = not any(clique & ~mask == 0 for mask in forest.masks)
        if apart and forest.root[forest.top[u]] == forest.root[forest.top[v]]:
            near = forest.span(clique, [forest.top[u], forest.top[v]])
            cells, log = carrier.meeting(clique, near, 0)
            assert carrier.pair(u, v, forest.between(u, v)) == cells
            assert cells == sum(forest.cells(m) if m > 0 else -forest.cells(-m) for m in log)
