"""Covering arrays hold every pair, once more than that hardly."""

import itertools

import pytest

from tests import pairwise


@pytest.mark.parametrize("sizes", [(5, 10, 2), (3, 2, 2, 2, 4), (2, 2, 2), (1, 3), (4,), (17, 2, 2)])
def test_every_pair_of_levels_is_there(sizes):
    factors = [[f"{k}{i}" for i in range(size)] for k, size in enumerate(sizes)]
    rows = pairwise.rows(*factors)
    for one, other in itertools.combinations(range(len(sizes)), 2):
        assert {(row[one], row[other]) for row in rows} == set(
            itertools.product(factors[one], factors[other])
        )
    assert {row[0] for row in rows} == set(factors[0]) and len(rows) == len(set(rows))
    assert rows == pairwise.rows(*factors)


def test_there_are_few_of_them():
    assert len(pairwise.rows(range(5), range(10), range(2))) == 50
    assert len(pairwise.rows(range(3), range(2), range(2), range(2), range(4))) <= 14


def test_what_is_not_possible_is_left_out():
    found = pairwise.rows("ab", "cd", "ef", possible=lambda x, y, z: (x, y) != ("a", "c"))
    assert {(x, y) for x, y, _ in found} == {("a", "d"), ("b", "c"), ("b", "d")}
    assert {(y, z) for _, y, z in found} == set(itertools.product("cd", "ef"))
