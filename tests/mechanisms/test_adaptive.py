"""Rounds' budgets: exact, doubled in noise's terms where nothing was learnt, and the rest in the last.

What may be measured: all subsets of the workload's cliques, as long as the model stays small and memory
holds it. Repeated answers to a marginal are averaged.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from pgmjax import queries
from pgmjax.data.domain import Domain
from pgmjax.estimation.estimator import Estimator
from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.structure import Structure
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.mechanisms.adaptive import averaged
from pgmjax.mechanisms.aim import Round, is_noise
from pgmjax.mechanisms.candidates import affordable, check_cells, downward_closure
from pgmjax.queries import marginal
from pgmjax.queries.workload import Entry, Workload

SMALL = Domain({"a": 2, "b": 3, "one": 1})
NINE_TENTHS = Fraction(9, 10)


@pytest.mark.parametrize("unit, factor", [("rho", 4), ("epsilon", 2)])
def test_annealing_halves_noise(unit, factor):
    now = Round.of(Fraction(1, 80), NINE_TENTHS, unit)
    assert (now.choose, now.measure) == (Fraction(1, 800), Fraction(9, 800))
    after = now.next(Fraction(1), anneal=True)
    assert (after.choose, after.measure) == (factor * now.choose, factor * now.measure) and not after.last
    assert now.next(Fraction(1)) == now


@pytest.mark.parametrize("unit", ["rho", "epsilon"])
@pytest.mark.parametrize("anneal", [False, True])
def test_the_last_round_takes_all_that_is_left(unit, anneal):
    now = Round.of(Fraction(1, 80), NINE_TENTHS, unit)
    cost = now.next(Fraction(1), anneal).cost
    for left in (Fraction(1, 10**6), cost, 2 * cost):
        last = now.next(left, anneal)
        assert last.last and last.cost == left and last.measure == NINE_TENTHS * left
    assert not now.next(2 * cost + Fraction(1, 10**12), anneal).last


@pytest.mark.parametrize("quiet", [lambda i: True, lambda i: False, lambda i: i % 3 == 0])
@pytest.mark.parametrize("rounds", [1, 2, 7, 224])
def test_any_course_ends_with_exactly_the_budget(quiet, rounds):
    left, number = Fraction(5, 7), 0
    now = Round.of(left / rounds, NINE_TENTHS, "rho").next(left)
    while True:
        left, number = left - now.cost, number + 1
        assert left >= 0 and number <= rounds
        if now.last:
            break
        now = now.next(left, quiet(number))
    assert left == 0


@pytest.mark.parametrize(
    "distribution, size", [(DiscreteGaussian(10.0), np.sqrt(2 / np.pi) * 10), (DiscreteLaplace(10.0), 9.983)]
)
def test_a_move_within_the_expected_noise_is_noise(distribution, size):
    """Only the model's two answers and the distribution count, not the noisy values."""
    before = np.array([[10.0, 20.0], [30.0, 40.0]])
    within = 0.99 * size * np.array([[1, -1], [1, 1]])
    beyond = 4.01 * size * np.array([[1, 0], [0, 0]])
    for values in ([0, 0, 0, 0], [1000, -1000, 5, 7]):
        measurement = LinearMeasurement.released(marginal(["a", "b"]), values, distribution)
        assert is_noise(before, before + within, measurement)
        assert not is_noise(before, before + beyond, measurement)


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
            cells = junction_tree.build(structure, junction_tree.best_elimination(structure)).cells
            if any(set(clique) <= set(other) for other in held):
                assert clique in kept
            elif clique in kept:
                assert cells <= limit


def test_without_a_limit_that_matters_all_are_affordable():
    everything = list(itertools.combinations(DOMAIN.attributes, 2))
    assert affordable(DOMAIN, [("a",)], everything, 10**9) == everything


def test_merged_measurements_have_the_same_optimum():
    rng = np.random.default_rng(1)
    distributions = [DiscreteLaplace(3.0), DiscreteLaplace(7.0), DiscreteLaplace(3.0), DiscreteLaplace(1.0)]
    cliques = [("a", "b"), ("b",), ("a", "b"), ("a", "b")]
    parts = [
        LinearMeasurement.released(marginal(c), rng.integers(0, 90, SMALL.size(c)), distribution)
        for c, distribution in zip(cliques, distributions, strict=True)
    ]
    together, apart = averaged(SMALL, parts)
    assert [m.clique for m in together] == [("b",), ("a", "b")]

    def loss(measurements, table):
        marginals = {("a", "b"): table, ("b",): table.sum(axis=0)}
        parts = [(marginals[m.clique].reshape(-1) - m.flat_values()) / m.row_stddevs() for m in measurements]
        return 0.5 * sum(float(part @ part) for part in parts)

    tables = [rng.uniform(0, 100, (2, 3)) for _ in range(4)]
    differences = [loss(parts, table) - loss(together, table) for table in tables]
    assert differences == pytest.approx([apart] * 4, rel=1e-9)


def test_a_limit_beyond_the_memory_is_refused():
    with pytest.raises(ValueError, match=r"max_cells.*1,000,000"):
        check_cells(1_000_000, Estimator(max_bytes=1_000_000))
    check_cells(1000, Estimator(max_bytes=1_000_000))
