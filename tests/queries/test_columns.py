"""Column norms and distances of large integers against Python's own, where 64 bits would wrap around."""

from fractions import Fraction

import numpy as np
import pytest

from pgmjax import queries
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.queries import columns as exact
from pgmjax.queries.rounding import quantise


def python_column(matrix, power):
    """The largest column norm in Python's own integers."""
    return max(sum(abs(int(entry)) ** power for entry in column) for column in matrix.T)


def python_distance(matrix, power):
    """The largest distance of two columns in Python's own integers."""
    columns = [[int(entry) for entry in column] for column in matrix.T]
    return max(
        sum(abs(one - two) ** power for one, two in zip(columns[i], columns[j], strict=True))
        for i in range(len(columns))
        for j in range(i)
    )


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("bits", [29, 40, 53, 62])
def test_large_integers_never_wrap_around(bits, power):
    """Just above the work that Python's own integers are given: squares would wrap from 2^29 on."""
    matrix = np.random.default_rng(bits).integers(-(2**bits), 2**bits, (100, 105))
    assert matrix.size * matrix.shape[1] > 10**6
    exact_column, column = python_column(matrix, power), exact.max_column(matrix, power)
    assert exact_column <= Fraction(column) <= exact_column * (1 + Fraction(1, 10**9))
    distance = exact.max_distance(matrix, power)
    if distance is None:
        assert np.abs(matrix).max() >= 2**53
    else:
        truth = python_distance(matrix, power)
        assert truth <= Fraction(distance) <= truth * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("bits", [30, 52, 62])
def test_column_norms_of_many_large_integers(bits, power):
    matrix = np.random.default_rng(bits).integers(-(2**bits), 2**bits, (300, 4000))
    truth = python_column(matrix, power)
    assert truth <= Fraction(exact.max_column(matrix, power)) <= truth * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("relation", list(Relation))
def test_a_finely_quantised_query_keeps_its_sensitivity(relation):
    """A real 100 x 110 query on the finest grid that is measured, against Python's own integers."""
    real = np.random.default_rng(5).uniform(-1, 1, (100, 110))
    grid = quantise(queries.DenseMatrix(("a",), real), Domain({"a": 110}), bits=30)
    matrix = grid.query.matrix(Domain({"a": 110}))
    truth = (python_column if relation is Relation.ADD_REMOVE else python_distance)(matrix, 2)
    found = grid.query.l2_sensitivity_squared(relation, Domain({"a": 110}))
    assert truth <= Fraction(found) <= truth * (1 + Fraction(1, 10**9))
