"""Sensitivities carry norm and relation, come from the object, and do not mix."""

from fractions import Fraction

import numpy as np
import pytest

from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.privacy.sensitivity import NORMS, Sensitivity

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
DOMAIN = Domain({"a": 3, "b": 2})


@pytest.mark.parametrize(
    ("query", "add", "replace"),
    [
        (q.marginal(("a", "b")), (1, 1, 1), (2, 2, 1)),
        (q.Product({"a": q.prefix()}), (3, 3, 1), (2, 2, 1)),
        (q.DenseMatrix(("b",), [[1, -1]]), (1, 1, 1), (2, 4, 2)),
        (q.Product({"b": q.total()}), (1, 1, 1), (0, 0, 0)),
    ],
)
def test_what_is_computed_from_a_query(query, add, replace):
    for relation, expected in ((ADD, add), (REPLACE, replace)):
        for norm, value in zip(NORMS, expected, strict=True):
            assert Sensitivity.of(query, DOMAIN, relation, norm) == Sensitivity(value, norm, relation)
    assert Sensitivity.of(q.marginal(("a",)), DOMAIN, REPLACE, "linf", 3).value == 3
    assert Sensitivity.of(q.marginal(("a",)), DOMAIN, "add-remove", "l2_squared", 3).value == 9


def test_upper_bounds_that_are_no_integers_are_rounded_up(monkeypatch):
    for bound, value in ((2.0000001, 3), (Fraction(5, 2), 3), (2.0, 2), (2.0**60, 2**60)):
        monkeypatch.setattr(q.Product, "_max_column", lambda self, domain, power, bound=bound: bound)
        got = Sensitivity.of(q.marginal(("a",)), DOMAIN, ADD, "l1")  # a query remembers its own
        assert got.value == value and isinstance(got.value, int)


def test_stacked_answers_add_up_and_single_ones_do_not():
    queries = [q.marginal(("a",)), q.DenseMatrix(("b",), [[1, -2]]), q.Product({"a": q.mean()})]
    matrices = [query.matrix(DOMAIN.project(query.clique)) for query in queries]
    cells = [(a, b) for a in range(3) for b in range(2)]
    columns = np.array([[*matrices[0][:, a], *matrices[1][:, b], *matrices[2][:, a]] for a, b in cells])
    for relation in (ADD, REPLACE):
        moves = columns if relation is ADD else (columns[:, None] - columns).reshape(36, -1)
        exact = [abs(moves).sum(1).max(), (moves**2).sum(1).max(), abs(moves).max()]
        for norm, truth in zip(NORMS, exact, strict=True):
            parts = [Sensitivity.of(query, DOMAIN, relation, norm) for query in queries]
            assert {(part.norm, part.relation) for part in parts} == {(norm, relation)}
            if norm == "linf":
                assert max(part.value for part in parts) == truth
            else:
                assert sum(part.value for part in parts) >= truth


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((1.5, "l1", ADD), TypeError, r"sensitivity.*float 1\.5"),
        ((True, "l1", ADD), TypeError, "sensitivity.*bool"),
        ((-1, "l1", ADD), ValueError, "-1"),
        ((1, "l2", ADD), ValueError, "sensitivity.*'l1'.*'l2_squared'.*'linf'"),
        ((1, "l1", None), ValueError, "replace-one"),
    ],
)
def test_bad_parts_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Sensitivity(*arguments)


def test_only_integral_queries_that_fit_have_one():
    with pytest.raises(ValueError, match=r"not integral.*queries\.quantise"):
        Sensitivity.of(q.DenseMatrix(("b",), [[0.5, 1.0]]), DOMAIN, ADD, "l1")
    with pytest.raises(ValueError, match="'z'"):
        Sensitivity.of(q.marginal(("z",)), DOMAIN, ADD, "l1")
    with pytest.raises(TypeError, match=r"queries\.Query, got int"):
        Sensitivity.of(3, DOMAIN, ADD, "l1")
    with pytest.raises(ValueError, match=r"'l1'.*'l2_squared'.*'linf'"):
        Sensitivity.of(q.marginal(("a",)), DOMAIN, ADD, "l2")
    with pytest.raises(ValueError, match="replace-one"):
        Sensitivity.of(q.marginal(("a",)), DOMAIN, None, "l1")
