"""Sets of parents against brute force over all of them; degrees against the paper's formula."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.inference.plan.growth import candidate_cells
from pgmjax.mechanisms import parent_sets
from pgmjax.mechanisms.parent_sets import AttributeLevels, Candidate
from pgmjax.queries import Product, compression, identity

MANY = 10**6


def brute_force(sizes, room):
    """All maximal sets, by comparing every set that fits with every other one."""
    names = list(sizes)
    options = [[None, *range(len(sizes[name]))] for name in names]
    fitting = []
    for levels in itertools.product(*options):
        cells = math.prod(
            sizes[n][level] for n, level in zip(names, levels, strict=True) if level is not None
        )
        if cells <= room:
            fitting.append(levels)

    def finer(one, other):
        """Whether `other` is at least as fine everywhere, and not the same."""
        fine = (
            [9 if level is None else level for level in one],
            [9 if level is None else level for level in other],
        )
        return one != other and all(b <= a for a, b in zip(*fine, strict=True))

    best = [each for each in fitting if not any(finer(each, other) for other in fitting)]
    return {
        tuple((n, level) for n, level in zip(names, each, strict=True) if level is not None) for each in best
    }


@pytest.mark.parametrize("seed", range(12))
def test_maximal_sets_are_those_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    sizes = {}
    for name in "abcde"[: rng.integers(1, 6)]:
        steps = sorted(rng.choice(np.arange(2, 12), rng.integers(1, 4), replace=False).tolist(), reverse=True)
        sizes[name] = tuple(steps)
    for room in (1, 2, 7, 24, 100, 10**6):
        found = [each for each in parent_sets.maximal_sets(sizes, room) if each is not None]
        assert len(found) == len(set(found)) and set(found) == brute_force(sizes, room)
        drawn = parent_sets._drawn(sizes, room, 5)
        assert drawn and len(drawn) <= 5 and set(drawn) <= set(found)


def test_candidates_by_cells():
    levels = AttributeLevels(Domain({"a": 4, "b": 2, "c": 3, "d": 30}), {"a": ((0, 0, 1, 1),)})
    found = parent_sets.parents_of_cells(levels, ["a", "b"], ["c", "d"], 12, MANY)
    assert set(found) == {
        Candidate("c", (("a", 0),)),
        Candidate("c", (("a", 1), ("b", 0))),
        Candidate("d"),  # no parents for a child that has too many cells alone
    }
    assert levels.query(found[0]).shape(levels.domain)[-1] == 3
    merged = levels.query(Candidate("c", (("a", 1), ("b", 0))))
    assert merged == Product({"a": compression([0, 0, 1, 1]), "b": identity(), "c": identity()})
    assert levels.sizes("a") == (4, 2) and merged.clique == ("a", "b", "c")


def test_candidates_of_a_degree():
    few = parent_sets.parents_of_degree(["a"], ["b", "c"], 2, MANY)
    assert few == [Candidate("b", (("a", 0),)), Candidate("c", (("a", 0),))]
    found = parent_sets.parents_of_degree(["a", "b", "c"], ["d", "e"], 2, MANY)
    assert len(found) == len(set(found)) == 6 and {len(each.parents) for each in found} == {2}
    assert parent_sets.parents_of_degree(["a"], ["b"], 0, MANY) == [Candidate("b")]


def test_too_many_candidates_are_thinned_for_every_child_alike():
    names = [f"x{i}" for i in range(40)]
    domain = Domain(dict.fromkeys(names, 2))
    levels = AttributeLevels(domain, {})
    for found in (
        parent_sets.parents_of_degree(names[:30], names[30:], 5, 200),
        parent_sets.parents_of_cells(levels, names[:30], names[30:], 64, 200),
    ):
        assert len(found) == len(set(found)) == 200
        assert {sum(each.child == name for each in found) for name in names[30:]} == {20}
        assert {len(each.parents) for each in found} == {5}
    again = parent_sets.parents_of_cells(levels, names[:30], names[30:], 64, 200)
    assert again == found
    assert len(parent_sets.parents_of_cells(levels, names[:6], names[30:], 4, 20)) == 20
    wide = [f"y{i}" for i in range(300)]
    many = parent_sets.parents_of_cells(
        AttributeLevels(Domain(dict.fromkeys(wide, 2)), {}), wide[:290], wide[290:], 64, 50
    )
    assert len(many) == 50 and {len(each.parents) for each in many} == {5}


def test_candidates_that_make_the_model_too_large_are_left_out():
    domain = Domain({"a": 10, "b": 10, "c": 10, "d": 10})
    network = [Candidate("a"), Candidate("b", (("a", 0),)), Candidate("c", (("b", 0),))]
    given = [
        Candidate("d", (("a", 0),)),
        Candidate("d", (("a", 0), ("c", 0))),  # closes a loop: cells of three attributes
        Candidate("d", (("a", 0), ("b", 0))),
    ]
    cells = candidate_cells(domain, [c.clique for c in network], [c.clique for c in given])
    assert cells.tolist() == [300, 2000, 1100]
    assert parent_sets.candidates_that_fit(domain, network, given, 1100) == [given[0], given[2]]
    assert parent_sets.candidates_that_fit(domain, network, given, 299) == [Candidate("d")]


GRID = list(itertools.product([100, 5_000, 48_842], [2, 5, 16], ["1/10", "7/10", "3"], [1, 4, 6]))


@pytest.mark.parametrize("records, attributes, epsilon, theta", GRID)
def test_the_degree_is_the_largest_that_the_formula_of_the_paper_allows(records, attributes, epsilon, theta):
    epsilon = Fraction(epsilon)
    allowed = [0]
    for k in range(1, attributes):
        if Fraction(records) * epsilon / ((attributes - k) * 2 ** (k + 2)) >= theta:
            allowed.append(k)

    def noise(marginals):
        return Fraction(2 * marginals) / epsilon

    assert parent_sets.useful_degree(records, attributes, Fraction(theta), noise) == max(allowed)
    cells = parent_sets.useful_cells(records, attributes, Fraction(theta), noise)
    assert cells <= records * epsilon / (2 * attributes * theta) < cells + 1


def test_degrees_worked_out_by_hand():
    def noise(marginals):
        return Fraction(2 * marginals) / Fraction("0.7")

    # 1000 * 0.7 / ((5 - k) 2^(k + 2)): 21.875, 14.58, 10.94, 10.94 for k = 1..4
    degrees = [
        parent_sets.useful_degree(1000, 5, Fraction(t), noise) for t in ("10.9", "10.94", "14", "20", "22")
    ]
    assert degrees == [4, 2, 2, 1, 0]
