"""Moves of single answers against every pair of neighbours of small tables, weights included."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy.sensitivity import shifts_of
from pgmjax.queries import DenseMatrix, Product, WeightedSum, identity, marginal, point, prefix, total

DOMAIN = Domain({"a": 4, "b": 3, "c": 1})
AR, RO = Relation.ADD_REMOVE, Relation.REPLACE_ONE
QUERIES = {
    "marginal": marginal(["a", "b"]),
    "prefix": Product({"a": prefix()}),
    "prefix and marginal": Product({"a": prefix(), "b": identity()}),
    "prefixes": Product({"a": prefix(), "b": prefix()}),
    "one count": Product({"a": point(1), "b": point(0)}),
    "total": Product({"a": total()}),
    "one cell": marginal(["c"]),
    "signed": DenseMatrix(("a",), [[1, -1, 1, -1], [1, 1, -1, -1]]),
    "uneven": DenseMatrix(("a",), [[3, 2, 0, 0], [0, 2, 1, 1]]),
    "multiples": DenseMatrix(("a",), [[5, 0, 0, 0], [0, 5, 0, 0], [0, 0, 2, 5], [0, 0, 5, 2]]),
    "zero column": DenseMatrix(("a",), [[1, 0, 0, 0], [0, 1, 0, 0]]),
    "difference": WeightedSum([(1, Product({"a": point(0)})), (-1, Product({"a": point(1)}))]),
}


def moves(query, relation, max_weight):
    """Every change of the answers that one record can make."""
    columns = query.matrix(DOMAIN).T
    weights = range(1, 2) if max_weight is None else range(max_weight + 1)
    records = [weight * column for weight in weights for column in columns]
    if relation is AR:
        return records
    return [first - second for first, second in itertools.permutations(records, 2)]


@pytest.mark.parametrize("max_weight", [None, 1, 3])
@pytest.mark.parametrize("relation", [AR, RO])
@pytest.mark.parametrize("name", QUERIES)
def test_shifts_bound_every_move_and_sum_to_the_sensitivities(name, relation, max_weight):
    query = QUERIES[name]
    shifts = shifts_of(query, DOMAIN, relation, max_weight)
    if shifts is None:
        return
    assert shifts == tuple(sorted(shifts, reverse=True)) and min(shifts) >= 1
    assert sum(shifts) == query.l1_sensitivity(relation, DOMAIN, max_weight)
    assert sum(s**2 for s in shifts) == query.l2_sensitivity_squared(relation, DOMAIN, max_weight)
    for move in moves(query, relation, max_weight):
        sizes = np.sort(np.abs(move))[::-1]
        bound = np.zeros(max(len(sizes), len(shifts)), int)
        bound[: len(shifts)] = shifts
        assert (sizes <= bound[: len(sizes)]).all()


@pytest.mark.parametrize(
    "name, relation, max_weight, expected",
    [
        ("marginal", AR, None, (1,)),
        ("marginal", RO, None, (1, 1)),
        ("marginal", AR, 7, (7,)),
        ("marginal", RO, 7, (7, 7)),
        ("prefix", AR, None, (1, 1, 1, 1)),
        ("prefix", RO, None, (1, 1, 1)),
        ("prefix and marginal", RO, None, (1,) * 8),
        ("one count", RO, None, (1,)),
        ("one count", AR, 5, (5,)),
        ("total", AR, None, (1,)),
        ("total", RO, None, None),
        ("one cell", RO, None, None),
        ("signed", AR, None, (1, 1)),
        ("uneven", AR, None, None),
        ("multiples", AR, None, (5, 2)),
        ("multiples", RO, None, (5, 5, 2)),
        ("zero column", RO, None, (1, 1)),
        ("difference", AR, None, (1,)),
        ("difference", RO, None, (2,)),
    ],
)
def test_what_is_known(name, relation, max_weight, expected):
    assert shifts_of(QUERIES[name], DOMAIN, relation, max_weight) == expected


def test_large_marginals_need_no_matrix():
    domain = Domain({"x": 2000, "y": 3000})
    assert shifts_of(marginal(["x", "y"]), domain, RO) == (1, 1)
    assert shifts_of(DenseMatrix(("a",), np.ones((2, 4)) / 2), DOMAIN, AR) is None
    assert Fraction(shifts_of(Product({"x": total(), "y": identity()}), domain, AR)[0]) == 1


def test_refusals():
    with pytest.raises(ValueError, match="replace-one"):
        shifts_of(marginal(["a"]), DOMAIN, None)
    with pytest.raises(ValueError, match="max_weight"):
        shifts_of(marginal(["a"]), DOMAIN, AR, 0)
