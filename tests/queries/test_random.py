"""Random queries: different, equally likely, and as correlated as was computed elsewhere."""

import numpy as np
import pytest
from scipy import stats

from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.queries import DenseMatrix
from pgmjax.queries.random import distinct_ranges, random_subsets, ranges_there_are

SMALL = Domain({"a": 4, "b": 3})


def test_all_ranges_come_once():
    query = distinct_ranges(SMALL, ("a",), 10, seed=5)
    assert len(set(query.blocks[0].bounds)) == 10
    assert query.l1_sensitivity(Relation.ADD_REMOVE, SMALL) == 6  # Table II of the paper


def test_boxes_are_products_of_ranges():
    query = distinct_ranges(SMALL, ("a", "b"), ranges_there_are(SMALL, ("a", "b")))
    assert isinstance(query, DenseMatrix)
    rows = {row.tobytes() for row in query.matrix(SMALL)}
    a, b = (distinct_ranges(SMALL, (name,), count).matrix(SMALL) for name, count in (("a", 10), ("b", 6)))
    assert rows == {np.kron(first, second).tobytes() for first in a for second in b}


def test_the_first_ones_do_not_depend_on_the_number():
    many = distinct_ranges(Domain({"x": 500}), ("x",), 3000, seed=2).blocks[0].bounds
    assert distinct_ranges(Domain({"x": 500}), ("x",), 70, seed=2).blocks[0].bounds == many[:70]
    assert distinct_ranges(Domain({"x": 500}), ("x",), 70, seed=3).blocks[0].bounds != many[:70]


def test_every_range_is_equally_likely():
    """The first range of 4,000 fixed seeds: a chi-square test that fails once in 10^7."""
    first = [distinct_ranges(SMALL, ("a",), 1, seed=seed).blocks[0].bounds[0] for seed in range(4000)]
    counts = np.unique(first, axis=0, return_counts=True)[1]
    assert len(counts) == 10 and stats.chisquare(counts).pvalue > 1e-7


def test_sensitivity_of_many_random_ranges():
    """Mean of 20 seeds against known figures over 65,536 cells: 28.2 at 50 ranges, 54 (sd 4.4) at 100."""
    domain = Domain({"x": 65536})
    for number, mean, spread in ((50, 28.2, 3.0), (100, 54.0, 4.4)):
        found = [
            distinct_ranges(domain, ("x",), number, seed=seed).l1_sensitivity(Relation.ADD_REMOVE, domain)
            for seed in range(20)
        ]
        assert abs(np.mean(found) - mean) < 4 * spread / np.sqrt(20)


def test_subsets_hold_half_of_the_cells():
    drawn = random_subsets(Domain({"x": 1000}), ("x",), 200, seed=1).matrix(Domain({"x": 1000}))
    assert set(np.unique(drawn)) == {0, 1}
    assert abs(drawn.mean() - 0.5) < 5 * 0.5 / np.sqrt(drawn.size)


def test_more_than_there_are_is_refused():
    with pytest.raises(ValueError, match=r"\b10\b"):
        distinct_ranges(SMALL, ("a",), 11)
    with pytest.raises(ValueError, match=r"number of queries"):
        distinct_ranges(SMALL, ("a",), 0)
    with pytest.raises(ValueError, match="above the limit"):
        random_subsets(Domain({"x": 10**6}), ("x",), 100)
    with pytest.raises(ValueError, match="above the limit"):
        distinct_ranges(Domain({"x": 10**4, "y": 10**4}), ("x", "y"), 2)
