"""Region graphs and counting numbers against direct set arithmetic and brute-force entropies."""

import itertools

import numpy as np
import pytest

from pgmjax.inference.plan.regions import cover, index_maps, one_per_attribute, region_graph, trees
from pgmjax.inference.plan.structure import Structure
from tests.models import STRUCTURES

MORE = {
    "cycle": ((2,) * 5, tuple((i, (i + 1) % 5) for i in range(5))),
    "all pairs of four": ((2, 3, 2, 2), tuple(itertools.combinations(range(4), 2))),
    "all triples of four": ((2, 3, 2, 2), tuple(itertools.combinations(range(4), 3))),
    "all triples of five": ((2, 2, 3, 2, 2), tuple(itertools.combinations(range(5), 3))),
    "chain of triples": ((2, 3, 2, 2, 3), ((0, 1, 2), (1, 2, 3), (2, 3, 4))),
}
ALL = STRUCTURES | MORE
JUNCTION_TREES = (
    "chain",
    "star",
    "disconnected",
    "nested",
    "one",
    "size one",
    "repeated",
    "chain of triples",
)


def graph_of(name, inner="intersections"):
    return region_graph(Structure(*ALL[name]), inner)


@pytest.mark.parametrize("name", ALL)
def test_outer_regions_are_the_maximal_cliques(name):
    graph = graph_of(name)
    cliques = [set(c) for c in ALL[name][1]]
    assert {frozenset(r) for r in graph.outer} == {
        frozenset(c) for c in cliques if not any(c < other for other in cliques)
    }
    assert len({frozenset(r) for r in graph.outer}) == len(graph.outer)
    for clique, holder in zip(cliques, graph.holder, strict=True):
        assert clique <= set(graph.outer[holder])


@pytest.mark.parametrize("name", ALL)
def test_inner_regions_are_all_intersections(name):
    graph = graph_of(name)
    outer = [frozenset(r) for r in graph.outer]
    wanted = {
        frozenset.intersection(*chosen)
        for k in range(2, len(outer) + 1)
        for chosen in itertools.combinations(outer, k)
    } - {frozenset()}
    assert {frozenset(r) for r in graph.inner} == wanted
    for part, above in zip(graph.inner, graph.above, strict=True):
        assert above == tuple(i for i, r in enumerate(outer) if set(part) <= r)


@pytest.mark.parametrize("name", ALL)
def test_bethes_inner_regions_are_shared_attributes(name):
    graph = graph_of(name, "attributes")
    shared = [v for v in range(len(ALL[name][0])) if sum(v in r for r in graph.outer) > 1]
    assert sorted(graph.inner) == [(v,) for v in shared]


def test_an_unknown_kind_of_inner_region_is_refused():
    with pytest.raises(ValueError, match="inner must be one of"):
        region_graph(Structure((2,), ((0,),)), "pairs")


@pytest.mark.parametrize("inner", ["intersections", "attributes"])
@pytest.mark.parametrize("name", ALL)
def test_every_attribute_counts_once(name, inner):
    graph = graph_of(name, inner)
    numbers = one_per_attribute(graph)
    for v in range(len(ALL[name][0])):
        count = sum(c for c, r in zip(numbers.outer, graph.outer, strict=True) if v in r)
        count += sum(c for c, r in zip(numbers.inner, graph.inner, strict=True) if v in r)
        assert count == 1


def entropies(name, seed):
    """Entropy of a random joint distribution, and of any of its marginals."""
    sizes, _ = ALL[name]
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.full(int(np.prod(sizes)), 0.3)).reshape(sizes)

    def entropy(variables):
        table = joint.sum(axis=tuple(v for v in range(len(sizes)) if v not in variables))
        return -(table[table > 0] * np.log(table[table > 0])).sum()

    return entropy


def approximate(graph, numbers, entropy):
    outer = sum(c * entropy(r) for c, r in zip(numbers.outer, graph.outer, strict=True))
    return outer + sum(c * entropy(r) for c, r in zip(numbers.inner, graph.inner, strict=True))


@pytest.mark.parametrize("choose", [cover, trees])
@pytest.mark.parametrize("name", ALL)
def test_the_entropy_is_bounded_from_above(name, choose):
    graph = graph_of(name)
    numbers = choose(graph)
    assert numbers.conditional is not None and (numbers.outer > 0).all()
    for seed in range(20):
        entropy = entropies(name, seed)
        assert approximate(graph, numbers, entropy) >= entropy(range(len(ALL[name][0]))) - 1e-12


@pytest.mark.parametrize("name", ALL)
def test_trees_are_conditional_entropies(name):
    """Each region's number holds its conditional ones, and inner regions have no other."""
    graph = graph_of(name)
    numbers = trees(graph)
    used = np.zeros(len(graph.outer))
    for j, above in enumerate(graph.above):
        assert (numbers.conditional[j] >= 0).all()
        assert numbers.inner[j] == pytest.approx(-numbers.conditional[j].sum())
        used[list(above)] += numbers.conditional[j]
    assert (used <= numbers.outer + 1e-12).all()


@pytest.mark.parametrize("name", JUNCTION_TREES)
def test_trees_are_kikuchis_numbers_on_junction_trees(name):
    graph = graph_of(name)
    np.testing.assert_allclose(trees(graph).outer, 1)
    np.testing.assert_allclose(trees(graph).inner, one_per_attribute(graph).inner, atol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_colours_touch_no_cell_twice_and_agreement_is_complete(name):
    """All edges of inner regions that are not implied by larger ones stand in the maps, each once."""
    graph = graph_of(name)
    maps = index_maps(graph, one_per_attribute(graph))
    edges = 0
    for block in maps.blocks:
        for cells, weight, edge in zip(block.cells, block.weight, block.edge, strict=True):
            touched = cells[cells < maps.length]
            assert len(set(touched.tolist())) == len(touched)
            edges += len(set(edge[weight > 0].tolist()))
    counted = [
        len(above)
        for number, above in zip(one_per_attribute(graph).inner, graph.above, strict=True)
        if number != 0
    ]
    assert edges >= sum(counted)


def test_the_number_of_blocks_does_not_grow_with_the_cliques():
    counts = []
    for n in (10, 40):
        pairs = tuple(itertools.combinations(range(n), 2))
        graph = region_graph(Structure((3,) * n, pairs))
        counts.append(len(index_maps(graph, cover(graph)).blocks))
    assert counts == [1, 1]
