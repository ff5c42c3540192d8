"""The relative entropy over regions, against sums over all joint states."""

import itertools

import jax
import numpy as np
import pytest

from pgmjax.estimation.region_fit import RegionDivergence, counting_numbers
from pgmjax.inference.plan.regions import region_graph
from pgmjax.inference.plan.structure import Structure

SIZES = (2, 3, 2, 4)
JUNCTION_TREES = {
    "chain": ((0, 1), (1, 2), (2, 3)),
    "star": ((1, 0), (1, 2), (1, 3)),
    "triples": ((0, 1, 2), (1, 2, 3)),
    "axes in another order": ((2, 1, 0), (3, 2, 1)),
    "apart": ((0, 1), (2, 3)),
    "one": ((0, 1, 2, 3),),
}
LOOPS = {
    "triangle": ((0, 1), (1, 2), (0, 2), (3,)),
    "loop": ((0, 1), (1, 2), (2, 3), (3, 0)),
    "all pairs": tuple(itertools.combinations(range(4), 2)),
    "all triples": tuple(itertools.combinations(range(4), 3)),
}


def product(structure, cliques, scale, seed=0):
    """A joint distribution that is a product of random factors on cliques."""
    rng = np.random.default_rng(seed)
    logs = np.zeros(structure.sizes)
    for clique in cliques:
        table = scale * rng.normal(size=structure.shape(sorted(clique)))
        logs = logs + table.reshape([n if v in clique else 1 for v, n in enumerate(structure.sizes)])
    joint = np.exp(logs - logs.max())
    return joint / joint.sum()


def marginal(joint, clique):
    kept = sorted(clique)
    table = joint.sum(axis=tuple(v for v in range(joint.ndim) if v not in clique))
    return table.transpose([kept.index(v) for v in clique])


def own_product(joint):
    shares = [marginal(joint, (v,)) for v in range(joint.ndim)]
    return shares, np.einsum("a,b,c,d->abcd", *shares)


def value(graph, joint, shares):
    with jax.enable_x64(True):
        held = RegionDivergence.of(graph, counting_numbers(graph))
        outer = np.concatenate([marginal(joint, region).ravel() for region in graph.outer])
        logs = np.concatenate([np.log(share) for share in shares])
        return float(held.cross_entropy(outer, logs) - held.entropy(outer)), held, outer


@pytest.mark.parametrize("name", JUNCTION_TREES)
def test_on_a_junction_tree_it_is_the_relative_entropy(name):
    structure = Structure(SIZES, JUNCTION_TREES[name])
    joint = product(structure, structure.cliques, 1.5)
    shares = [np.random.default_rng(5).dirichlet(np.ones(n)) for n in SIZES]
    found, held, outer = value(region_graph(structure), joint, shares)
    wanted = np.sum(joint * np.log(joint / np.einsum("a,b,c,d->abcd", *shares)))
    assert found == pytest.approx(wanted, rel=1e-12)
    np.testing.assert_allclose(held.share, 1, atol=1e-12)
    one_way = np.concatenate([marginal(joint, (v,)) for v in range(4)])
    with jax.enable_x64(True):
        np.testing.assert_allclose(held.one_way(outer), one_way, rtol=1e-12)


@pytest.mark.parametrize("name", ["triangle", "loop", "all pairs"])
def test_over_pairs_it_is_the_sum_of_their_mutual_informations(name):
    structure = Structure(SIZES, LOOPS[name])
    joint = product(structure, [tuple(range(4))], 1.0)
    shares, _ = own_product(joint)
    wanted = 0.0
    for pair in LOOPS[name]:
        table = marginal(joint, pair)
        if len(pair) == 2:
            wanted += np.sum(table * np.log(table / np.outer(*(shares[v] for v in pair))))
    assert value(region_graph(structure), joint, shares)[0] == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("name", ["triangle", "loop", "all pairs"])
def test_weak_dependence_of_pairs_is_right_to_second_order(name):
    structure = Structure(SIZES, LOOPS[name])
    ratios = []
    for scale in (0.1, 0.01):
        joint = product(structure, structure.cliques, scale)
        shares, alone = own_product(joint)
        exact = np.sum(joint * np.log(joint / alone))
        ratios.append(value(region_graph(structure), joint, shares)[0] / exact)
    # the error is of third order, so that the ratio is off by the scale's order
    assert abs(ratios[1] - 1) < 0.02 and abs(ratios[1] - 1) < 0.3 * abs(ratios[0] - 1)


@pytest.mark.parametrize("name", [*JUNCTION_TREES, *LOOPS])
def test_it_is_convex_in_the_tables_and_never_negative(name):
    structure = Structure(SIZES, (JUNCTION_TREES | LOOPS)[name])
    graph, rng = region_graph(structure), np.random.default_rng(3)
    cells = [structure.cells(region) for region in graph.outer]
    for seed in range(5):
        joint = product(structure, [tuple(range(4))], 2.0, seed)
        shares, _ = own_product(joint)
        found, held, _ = value(graph, joint, shares)
        assert found > -1e-12
        one, other = (np.concatenate([rng.dirichlet(np.full(n, 0.3)) for n in cells]) for _ in range(2))
        with jax.enable_x64(True):
            ends = [float(held.entropy(v)) for v in (one, other, (one + other) / 2)]
        assert ends[2] >= (ends[0] + ends[1]) / 2 - 1e-12


def test_values_of_the_reference_have_a_least_probability():
    structure = Structure((3, 2), ((0, 1),))
    graph = region_graph(structure)
    held = RegionDivergence.of(graph, counting_numbers(graph))
    table = np.array([[0.5, 0.4], [0.0, 0.0], [0.05, 0.05]], np.float32)
    found = np.exp(held.floored(jax.numpy.asarray(table.ravel()), np.float32(0.2)))
    wanted = np.concatenate([np.array([0.9, 0.2, 0.2]) / 1.3, np.array([0.55, 0.45])])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    gradient = jax.grad(held.entropy)(jax.numpy.asarray(table.ravel()))
    assert np.isfinite(gradient).all()  # empty cells too
