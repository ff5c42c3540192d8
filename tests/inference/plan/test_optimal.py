"""Exhaustive and local search against all trees, counted one by one."""

import itertools
import math

import numpy as np
import pytest

from pgmjax.inference.plan.merges import optimal_merges, refined_merges

STORED = 7.0


def random_tables(seed, count, variables=5):
    rng = np.random.default_rng(seed)
    sizes = tuple(int(s) for s in rng.integers(2, 9, variables))
    tables = [
        frozenset(int(v) for v in rng.choice(variables, rng.integers(1, 4), replace=False))
        for _ in range(count)
    ]
    return tables, sizes, frozenset(int(v) for v in np.nonzero(rng.random(variables) < 0.2)[0])


def weight_of(tables, outside, sizes, merges):
    """Weight of a sequence of products, from its definition."""
    alive, weight = dict(enumerate(tables)), 0.0
    for number, (left, right) in enumerate(merges, start=len(tables)):
        union = alive.pop(left) | alive.pop(right)
        needed = outside.union(*alive.values())
        alive[number] = union & needed
        weight += math.prod(sizes[v] for v in union)
        weight += STORED * math.prod(sizes[v] for v in alive[number])
    assert len(alive) == 1
    return weight


def least_weight(tables, outside, sizes):
    """Over every sequence of products."""
    if len(tables) == 1:
        return 0.0
    best = math.inf
    for i, j in itertools.combinations(range(len(tables)), 2):
        rest = [t for n, t in enumerate(tables) if n not in (i, j)]
        union = tables[i] | tables[j]
        kept = union & outside.union(*rest)
        own = math.prod(sizes[v] for v in union)
        own += STORED * math.prod(sizes[v] for v in kept)
        best = min(best, own + least_weight([*rest, kept], outside, sizes))
    return best


def prepared(seed, count):
    """Tables without variables that they alone hold, as the search expects them."""
    tables, sizes, outside = random_tables(seed, count)
    shared = {v for v in range(len(sizes)) if sum(v in t for t in tables) > 1} | outside
    return [t & shared for t in tables], sizes, outside


@pytest.mark.parametrize("seed", range(12))
def test_finds_the_least_weight_of_all_orders(seed):
    tables, sizes, outside = prepared(seed, 5)
    wanted = least_weight(tables, outside, sizes)
    weight, merges = optimal_merges(tables, outside, sizes, STORED, math.inf)
    assert weight == wanted == weight_of(tables, outside, sizes, merges)
    assert optimal_merges(tables, outside, sizes, STORED, wanted * (1 + 1e-9))[0] == wanted
    assert optimal_merges(tables, outside, sizes, STORED, wanted) is None


def test_gives_up_after_so_many_pairs():
    tables, sizes, outside = prepared(0, 12)
    assert optimal_merges(tables, outside, sizes, STORED, math.inf, max_pairs=1000) is None


def test_more_variables_than_a_table_of_products_holds():
    rng = np.random.default_rng(0)
    tables = [frozenset(int(v) for v in rng.choice(30, 12, replace=False)) for _ in range(6)]
    shared = {v for v in range(30) if sum(v in t for t in tables) > 1}
    tables = [t & shared for t in tables]
    weight, merges = optimal_merges(tables, frozenset(), (2,) * 30, STORED, math.inf)
    assert weight == weight_of(tables, frozenset(), (2,) * 30, merges)


@pytest.mark.parametrize("seed", range(8))
def test_local_search_never_loses(seed, monkeypatch):
    monkeypatch.setattr("pgmjax.inference.plan.merges.PART", 4)
    tables, sizes, outside = prepared(seed, 12)
    chain = [(0, 1), *((n, 10 + n) for n in range(2, 12))]
    before = weight_of(tables, outside, sizes, chain)
    after = weight_of(tables, outside, sizes, refined_merges(tables, outside, sizes, chain, STORED))
    assert optimal_merges(tables, outside, sizes, STORED, after * (1 + 1e-9))[0] <= after <= before


def test_local_search_of_a_whole_is_exhaustive():
    tables, sizes, outside = prepared(3, 6)
    chain = [(0, 1), (2, 6), (3, 7), (4, 8), (5, 9)]
    found = refined_merges(tables, outside, sizes, chain, STORED)
    assert weight_of(tables, outside, sizes, found) == least_weight(tables, outside, sizes)
