"""What may be measured: all subsets of the workload's cliques, as long as the model stays small."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from pgmjax import queries
from pgmjax.data.domain import Domain
from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.structure import Structure
from pgmjax.mechanisms.closure import affordable, downward_closure
from pgmjax.queries.workload import Entry, Workload

DOMAIN = Domain({"a": 2, "b": 3, "c": 4, "d": 5, "e": 6, "f": 7})


def test_weights_by_the_definition():
    entries = [
        Entry(queries.marginal(("c", "a")), Fraction(1, 2)),
        Entry(queries.kronecker({"c": queries.prefix(), "d": queries.total()}), Fraction(3)),
        Entry(queries.marginal(("a", "c", "e"))),
    ]
    found = downward_closure(DOMAIN, Workload(entries))
    subsets = {
        frozenset(r)
        for entry in entries
        for k in range(1, 4)
        for r in itertools.combinations(sorted(entry.clique), k)
    }
    assert {frozenset(clique) for clique in found} == subsets and len(found) == len(subsets)
    for clique, weight in found.items():
        assert list(clique) == sorted(clique)
        expected = sum(entry.weight * len(set(clique) & set(entry.clique)) for entry in entries)
        assert weight == expected
    sizes = [len(clique) for clique in found]
    assert sizes == sorted(sizes)


def test_a_huge_clique_is_refused_before_its_subsets_are_made():
    domain = Domain(dict.fromkeys((f"x{i}" for i in range(60)), 2))
    with pytest.raises(ValueError, match=f"at least {2**60 - 1:,} subsets"):
        downward_closure(domain, Workload.of_marginals([domain.attributes]))


@pytest.mark.parametrize("limit", [1, 60, 150, 400, 10**6])
def test_affordable_models_have_a_real_junction_tree_within_the_limit(limit):
    rng = np.random.default_rng(limit)
    names = DOMAIN.attributes
    everything = [c for k in (1, 2, 3) for c in itertools.combinations(names, k)]
    for _ in range(10):
        held = [everything[i] for i in rng.choice(len(everything), 7, replace=False)]
        kept = affordable(DOMAIN, held, everything, limit)
        for clique in everything:
            cliques = [tuple(names.index(n) for n in c) for c in [*held, clique]]
            covered = sorted({v for c in cliques for v in c})
            number = {v: i for i, v in enumerate(covered)}
            structure = Structure(
                tuple(DOMAIN.shape[v] for v in covered), tuple(tuple(number[v] for v in c) for c in cliques)
            )
            cells = junction_tree.build(structure, junction_tree.best(structure)).cells
            if any(set(clique) <= set(other) for other in held):
                assert clique in kept
            elif clique in kept:
                assert cells <= limit


def test_without_a_limit_that_matters_all_are_affordable():
    everything = list(itertools.combinations(DOMAIN.attributes, 2))
    assert affordable(DOMAIN, [("a",)], everything, 10**9) == everything
