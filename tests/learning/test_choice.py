"""Training queries: what they cover and how correlated they are."""

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.learning.training_set import COVERING, RANDOM, training_query, validation_query
from pgmjax.queries import Product, all_ranges
from pgmjax.queries.workload import Workload
from pgmjax.strategies import fixed

ADD = Relation.ADD_REMOVE
RANGES = Workload([{"clique": ["x"], "queries": {"x": "all_ranges"}}])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100])
@pytest.mark.parametrize(
    "training, make", [("tree", fixed.h2), ("hb", fixed.hb), ("identity", fixed.identity)]
)
def test_trees_are_those_of_the_strategies(training, make, size):
    domain = Domain({"x": size})
    query = training_query(training, ("x",), domain)
    assert np.array_equal(query.matrix(domain), make(size))


@pytest.mark.parametrize("training", COVERING)
def test_covering_queries_determine_every_cell(training):
    domain = Domain({"x": 16, "y": 3})
    workload = Workload([{"clique": ["x", "y"], "queries": {"x": "prefix"}}])
    matrix = training_query(training, ("x", "y"), domain, workload=workload).matrix(domain)
    assert np.linalg.matrix_rank(matrix) == 48


def test_the_identity_has_the_least_sensitivity_and_all_ranges_the_stated_one():
    """floor((n + 1)^2 / 4) ranges hold the middle cell."""
    for size in (1, 2, 4, 5, 33, 4096):
        domain = Domain({"x": size})
        every = Product({"x": all_ranges()})
        assert every.l1_sensitivity(ADD, domain) == (size + 1) ** 2 // 4
        assert training_query("identity", ("x",), domain).l1_sensitivity(ADD, domain) == 1


def test_opt_0_serves_the_workload_better_than_the_identity():
    domain = Domain({"x": 128})
    query = training_query("opt_0", ("x",), domain, workload=RANGES)
    asked = Product({"x": all_ranges()}).matrix(domain).astype(float)

    def error(matrix, sensitivity):
        return float(sensitivity) ** 2 * np.sum((asked @ np.linalg.pinv(matrix)) ** 2)

    assert query.is_integral(domain)
    assert error(query.matrix(domain).astype(float), query.l1_sensitivity(ADD, domain)) < 0.8 * error(
        np.eye(128), 1
    )


@pytest.mark.parametrize("training", RANDOM)
def test_random_queries_need_a_count(training):
    with pytest.raises(ValueError, match="needs a count"):
        training_query(training, ("x",), Domain({"x": 8}))
    assert training_query(training, ("x",), Domain({"x": 8}), count=5).num_rows(Domain({"x": 8})) == 5


def test_what_is_wrong_is_said():
    domain = Domain({"x": 8, "y": 2})
    with pytest.raises(ValueError, match=r"training.*'all'"):
        training_query("all", ("x",), domain)
    with pytest.raises(ValueError, match="needs a workload"):
        training_query("opt_0", ("y",), domain, workload=RANGES)


@pytest.mark.parametrize("sizes", [{"x": 100}, {"x": 5, "y": 90, "z": 2}, {"x": 1}, {"x": 2, "y": 2}])
def test_validation_ranges_are_few_wide_and_cheap(sizes):
    domain, clique = Domain(sizes), tuple(sizes)
    query = validation_query(clique, domain)
    matrix = query.matrix(domain)
    assert len(matrix) <= 31 and set(np.unique(matrix)) <= {0, 1} and matrix[0].all()
    assert query.l1_sensitivity(ADD, domain) <= 8
    assert len({row.tobytes() for row in matrix}) == len(matrix)
