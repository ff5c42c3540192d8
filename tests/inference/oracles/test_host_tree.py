"""Marginals between cliques of a calibrated tree, with what is kept bounded."""

import itertools

import numpy as np
import pytest

from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.oracles.host_tree import HostTree
from pgmjax.inference.plan.structure import Structure
from tests import models
from tests.models import STRUCTURES


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_every_order_of_every_set(name, cache_bytes):
    structure = STRUCTURES[name]
    tables = models.potentials(structure, seed=5, spread=3.0, zeros=0.2)
    logits = models.joint(structure, tables)
    tree = HostTree(HostModel(Structure(*structure), tuple(tables)), cache_bytes)
    for k in range(1, len(structure[0]) + 1):
        for wanted in itertools.permutations(range(len(structure[0])), k):
            np.testing.assert_allclose(
                tree.marginal(wanted), models.marginal(logits, wanted), rtol=0, atol=1e-13
            )


def test_pairs_of_a_chain_cost_one_product_each():
    """Each new pair adds one message at most: the path between two attributes is not walked again."""
    length = 30
    cliques = tuple((i, i + 1) for i in range(length - 1))
    rng = np.random.default_rng(0)
    tree = HostTree(HostModel(Structure((3,) * length, cliques), tuple(rng.normal(size=(length - 1, 3, 3)))))
    products = []
    plain = tree._product
    tree._product = lambda factors, output: products.append(1) or plain(factors, output)
    pairs = list(itertools.combinations(range(length), 2))
    for pair in pairs:
        tree.marginal(pair)
    assert len(products) <= 3 * len(pairs)  # the message, the pair, its axes


def test_a_grid_of_loops_between_the_attributes():
    sizes = (2, 3, 2, 3, 2, 3, 2, 3, 2)
    cliques = tuple((r * 3 + c, r * 3 + c + 1) for r in range(3) for c in range(2))
    cliques += tuple((r * 3 + c, r * 3 + c + 3) for r in range(2) for c in range(3))
    tables = models.potentials((sizes, cliques), seed=1, spread=2.0)
    logits = models.joint((sizes, cliques), tables)
    tree = HostTree(HostModel(Structure(sizes, cliques), tuple(tables)))
    for wanted in [(0, 8), (8, 2, 6), (6, 0, 8, 2), tuple(range(9))]:
        np.testing.assert_allclose(tree.marginal(wanted), models.marginal(logits, wanted), rtol=0, atol=1e-13)
