"""Marginals of many cliques at once are those that the model gives one by one."""

import itertools

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.model.graphical import GraphicalModel, many_marginals

SIZES = {"a": 3, "b": 2, "c": 4, "d": 1, "e": 3, "f": 2, "g": 2}
DOMAIN = Domain(SIZES)
STRUCTURES = {
    "nothing": [],
    "singles": [("a",), ("b",)],
    "chain": [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("f", "g")],
    "star": [("c", name) for name in "abdefg"],
    "loop": [("a", "b"), ("b", "c"), ("c", "e"), ("e", "a")],
    "forest": [("g", "a"), ("b", "c", "e"), ("e", "f")],
    "triples": [("a", "b", "c"), ("c", "e", "d"), ("f", "e", "g"), ("b", "g")],
}


def made(cliques, seed=0, spread=3.0):
    rng = np.random.default_rng(seed)
    tables = {clique: spread * rng.normal(size=DOMAIN.shape_of(clique)) for clique in cliques}
    return GraphicalModel.from_potentials(DOMAIN, tables, total=1000.0)


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("spread", [1.0, 300.0], ids=["mild", "extreme"])
def test_every_marginal_is_that_of_the_joint_table(name, spread):
    model = made(STRUCTURES[name], spread=spread)
    everything = tuple(DOMAIN.attributes)
    joint = np.zeros(DOMAIN.shape)
    for clique, table in model.potentials.items():
        joint = joint + table.transpose(np.argsort([everything.index(v) for v in clique])).reshape(
            [SIZES[v] if v in clique else 1 for v in everything]
        )
    joint = np.exp(joint - joint.max())
    joint *= 1000.0 / joint.sum()
    cliques = [c for k in (1, 2, 3, 7) for c in itertools.combinations(everything[::-1], k)]
    for clique, table in zip(cliques, many_marginals(model, cliques), strict=True):
        gone = tuple(i for i, v in enumerate(everything) if v not in clique)
        expected = joint.sum(axis=gone).transpose()  # the cliques stand in reverse order
        np.testing.assert_allclose(table, expected, rtol=0, atol=1e-8, err_msg=str(clique))


def test_a_shuffled_order_of_attributes():
    model = made(STRUCTURES["triples"])
    for clique in itertools.permutations("ceg"):
        np.testing.assert_allclose(
            many_marginals(model, [clique])[0], model.marginal(clique), rtol=1e-10, atol=1e-10
        )


def test_impossible_cells_stay_exact_zeros():
    table = np.zeros((3, 2))
    table[0] = -np.inf
    model = GraphicalModel.from_potentials(DOMAIN, {("a", "b"): table, ("b", "c"): np.ones((2, 4))})
    for found in many_marginals(model, [("a", "c"), ("a",), ("g", "a")]):
        assert np.isfinite(found).all() and found.sum() == pytest.approx(1)
        zero = found.transpose() if found.shape[0] == 2 else found
        assert (zero[0] == 0).all()


def test_an_unknown_attribute_is_named():
    with pytest.raises(ValueError, match="'z'"):
        many_marginals(made([]), [("a", "z")])
