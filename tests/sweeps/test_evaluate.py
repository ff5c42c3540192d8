"""Errors against the truth: right by hand, and marked as not private."""

import math

import numpy as np
import pytest

from pgmjax import queries
from pgmjax.data.dataset import Dataset
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.estimation.estimator import Estimator
from pgmjax.mechanisms import Marginals
from pgmjax.privacy.seeded import SeededBackend
from pgmjax.queries.workload import Workload
from pgmjax.sweeps.evaluate import WorkloadEvaluation, workload_error

DOMAIN = Domain({"a": 3, "b": 2})
DATA = Dataset.from_columns(DOMAIN, {"a": [0, 1, 2, 2], "b": [0, 1, 1, 0]})


class Uniform:
    """A stand-in for a model that says 4 / 6 in every cell."""

    def answer(self, query):
        return query.apply(np.full(DOMAIN.shape_of(query.clique), 4 / DOMAIN.size(query.clique)))


def test_error_by_hand():
    workload = Workload.of_marginals([("a",), ("b",), ("b", "a")])
    found = workload_error(DATA, Uniform(), workload)
    # a: |1 - 4/3| + |1 - 4/3| + |2 - 4/3| = 4/3 over 4; b: exact; (b, a): four cells of 1, two of 0
    assert found.per_entry == pytest.approx([1 / 3, 0, (4 / 3 + 4 / 3) / 4], rel=1e-14)
    assert found.error == pytest.approx(np.mean(found.per_entry), rel=1e-14)


def test_it_is_marked_as_not_private():
    found = workload_error(DATA, Uniform(), Workload.of_marginals([("a",)]))
    assert found.private is False
    with pytest.raises(TypeError):
        WorkloadEvaluation(0.0, (), private=True)
    for text in (WorkloadEvaluation.__doc__, workload_error.__doc__):
        assert "not private" in text.lower()


def test_answers_that_are_truly_zero():
    empty = Dataset.from_columns(DOMAIN, {"a": [0, 0], "b": [0, 0]})

    class Exact:
        def answer(self, query):
            return np.zeros(1)

    workload = Workload([queries.Product({"a": queries.point(2)})])
    assert workload_error(empty, Exact(), workload).error == 0
    assert workload_error(empty, Uniform(), workload).error == math.inf


def test_a_release_is_taken_as_its_model():
    workload = Workload.of_marginals([("a", "b")])
    settings = {"backend": SeededBackend(0, insecure=True), "estimator": Estimator(max_steps=200)}
    near = Marginals(epsilon=50, relation=Relation.REPLACE_ONE, **settings).run(DATA, workload)
    alone = workload_error(DATA, near.model, workload).error
    assert workload_error(DATA, near, workload).error == pytest.approx(alone, rel=1e-12)
    assert workload_error(DATA, near, workload).error < 0.01


def test_a_workload_of_another_domain_is_refused():
    with pytest.raises(ValueError, match="zip"):
        workload_error(DATA, Uniform(), Workload.of_marginals([("zip",)]))
