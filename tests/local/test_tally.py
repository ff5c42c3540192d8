"""Sums over responses against loops over records; cliques that no group covers."""

import types

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.local import marginals as tallies
from pgmjax.local.marginals import marginals_of
from pgmjax.privacy.response import response_for, unary_for

DOMAIN = Domain({"a": 2, "b": 3, "c": 4, "d": 2})
GROUPS = (("a", "b"), ("c",), ("d",))
DISTRIBUTIONS = (unary_for(6, 1), response_for(4, 1), unary_for(2, 1))
CLIQUES = [("b",), ("c", "a"), ("d", "b"), ("c",), ("b", "c", "d", "a"), ("a", "b")]


def counted(blocks, cliques, groups=GROUPS, distributions=DISTRIBUTIONS):
    """Return the marginals of answers that came in blocks."""
    rows = sum(len(block[0]) for block in blocks)
    responses = types.SimpleNamespace(
        domain=DOMAIN, groups=groups, distributions=distributions, rows=rows, blocks=lambda: blocks
    )
    return marginals_of(responses, cliques)


def block_of(rng, rows):
    return (
        rng.random((rows, 6)) < 0.4,
        rng.integers(0, 4, rows).astype(np.uint8),
        rng.random((rows, 2)) < 0.5,
    )


def by_hand(block, clique):
    """Sum over records of products of numbers, cell by cell."""
    pairs, codes, last = block
    table = np.zeros(DOMAIN.shape_of(clique), dtype=int)
    for row in range(len(codes)):
        bits = pairs[row].reshape(2, 3)
        if "a" not in clique:
            bits = bits.sum(axis=0, keepdims=True)
        if "b" not in clique:
            bits = bits.sum(axis=1, keepdims=True)
        for cell in np.ndindex(table.shape):
            at = dict(zip(clique, cell, strict=True))
            number = 1
            if "a" in at or "b" in at:
                number *= int(bits[at.get("a", 0), at.get("b", 0)])
            if "c" in at:
                number *= int(codes[row] == at["c"])
            if "d" in at:
                number *= int(last[row, at["d"]])
            table[cell] += number
    return table


@pytest.mark.parametrize("entries", [1, 50, 1 << 23], ids=["row by row", "in steps", "at once"])
def test_sums_by_hand(entries, monkeypatch):
    monkeypatch.setattr(tallies, "_ENTRIES", entries)
    rng = np.random.default_rng(0)
    blocks = [block_of(rng, rows) for rows in (13, 1, 6)]
    for clique, marginal in zip(CLIQUES, counted(blocks, CLIQUES), strict=True):
        assert marginal.clique == clique and marginal.rows == 20
        expected = sum(by_hand(block, clique) for block in blocks)
        assert np.array_equal(marginal.counts(), expected)
        assert marginal.sums[(-1,) * marginal.sums.ndim] == 20


def test_categories_are_counted_as_they_are():
    distributions = (response_for(6, 1), response_for(4, 1))
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 6, 500), rng.integers(0, 4, 500)
    block = (first.astype(np.uint8), second.astype(np.uint8))
    pair, one = counted([block], [("c", "b"), ("a",)], GROUPS[:2], distributions)
    expected = np.zeros((4, 3), int)
    np.add.at(expected, (second, first % 3), 1)
    assert np.array_equal(pair.counts(), expected)
    assert np.array_equal(one.counts(), np.bincount(first // 3, minlength=2))


def test_an_attribute_that_was_not_answered_for():
    with pytest.raises(ValueError, match="no responses about 'd', only about 'a', 'b', 'c'"):
        counted([], [("a", "d")], GROUPS[:2], DISTRIBUTIONS[:2])
