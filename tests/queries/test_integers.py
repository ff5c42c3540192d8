"""Exact answers beyond 64 bits against Python's own integers, and saturation that moves nothing apart."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmjax import queries
from pgmjax.data.domain import Domain
from pgmjax.queries import integers

DOMAIN = Domain({"a": 4, "b": 3})
ENTRY = st.integers(-(2**30), 2**30)
COUNTS = st.lists(st.integers(0, 2**49), min_size=4, max_size=4)


@given(st.lists(st.lists(ENTRY, min_size=4, max_size=4), min_size=1, max_size=5), COUNTS)
def test_a_matrix(rows, counts):
    query = queries.DenseMatrix(("a",), np.array(rows, dtype=np.int64))
    exact = [sum(entry * count for entry, count in zip(row, counts, strict=True)) for row in rows]
    found = integers.answers(query, DOMAIN, np.array(counts, dtype=np.int64))
    assert [int(value) for value in found] == exact


@given(
    st.lists(st.integers(0, 2**48), min_size=12, max_size=12), st.integers(1, 2**14), st.integers(1, 2**14)
)
def test_sums_of_products(counts, first, second):
    prefix, total = queries.prefix(), queries.total()
    terms = [
        (first, queries.Product({"a": prefix, "b": total})),
        (-second, queries.Product({"a": queries.identity(), "b": total})),
    ]
    table = np.array(counts, dtype=np.int64).reshape(4, 3)
    sums = [sum(int(v) for v in row) for row in table]
    exact = [first * sum(sums[: i + 1]) - second * sums[i] for i in range(4)]
    found = integers.answers(queries.WeightedSum(terms), DOMAIN, table)
    assert [int(value) for value in found] == exact


def test_small_answers_stay_int64():
    found = integers.answers(queries.marginal(["a"]), DOMAIN, np.array([1, 2, 3, 4]))
    assert found.dtype == np.int64 and found.tolist() == [1, 2, 3, 4]


def test_the_largest_entry_counts_terms_that_cancel():
    one = queries.Product({"a": queries.identity()})
    query = queries.WeightedSum([(2**20, one), (-(2**20), one)])
    assert integers.largest_entry(query, DOMAIN) == 2**21
    assert integers.largest_entry(queries.marginal(["a"]), DOMAIN) == 1


def test_entries_beyond_the_limit_are_refused():
    integers.check_entries(queries.DenseMatrix(("a",), np.full((1, 4), 2**30)), DOMAIN)
    with pytest.raises(ValueError, match="above the limit of 1,073,741,824 for queries that are measured"):
        integers.check_entries(queries.DenseMatrix(("a",), np.full((1, 4), 2**30 + 1)), DOMAIN)


@given(st.lists(st.integers(-(2**60), 2**60), min_size=1, max_size=4), st.integers(1, 2**40))
def test_products_and_sums_are_exact(values, factor):
    array = np.array(values, dtype=np.int64)
    assert [int(each) for each in integers.times(array, factor)] == [value * factor for value in values]
    assert integers.total(array) == sum(values)
    assert integers.total(integers.times(array, factor)) == sum(values) * factor


@given(st.integers(-(2**80), 2**80), st.integers(-(2**80), 2**80))
def test_saturation_moves_nothing_apart(first, second):
    low, high = integers.saturated(np.array([first, second], dtype=object), 2**53 - 1)
    assert abs(int(low) - int(high)) <= abs(first - second)
    assert abs(int(low)) < 2**53 and (int(low) == first or abs(first) >= 2**53)
