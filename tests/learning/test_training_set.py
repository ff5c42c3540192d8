"""What is learned together, and encodings that cannot tell queries apart."""

import dataclasses

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.learning.encodings import CellWeights, Corners, Encoding, Factors
from pgmjax.learning.training_set import MAX_JOINT_CELLS, TrainingSet, group_cliques
from pgmjax.queries import DenseMatrix, Product, marginal, matrix, ranges

DOMAIN = Domain({"a": 20, "b": 3, "c": 500, "d": 2})


@dataclasses.dataclass(frozen=True)
class Volume(Encoding):
    """How many cells a query holds: many look the same."""

    name = "volume"

    def dimensions(self, domain, clique):
        return 1

    def _encode(self, query, domain, clique):
        return CellWeights().encode(query, domain, clique).sum(axis=1, keepdims=True)


def test_few_cells_are_learned_together():
    assert DOMAIN.size(("a", "b", "d")) <= MAX_JOINT_CELLS < DOMAIN.size()
    assert group_cliques([("b", "a"), ("d",)], DOMAIN, CellWeights()) == {("a", "b", "d"): (("a", "b", "d"),)}


def test_many_are_learned_set_by_set():
    asked = [("b", "a"), ("a",), ("c", "b"), ("b", "c"), ("d", "c")]
    cliques = (("a", "b"), ("b", "c"), ("c", "d"))
    assert group_cliques(asked, DOMAIN, CellWeights()) == {each: (each,) for each in cliques}
    assert group_cliques(asked, DOMAIN, Factors()) == {("a", "b", "c", "d"): cliques}
    assert group_cliques(asked, DOMAIN, CellWeights(), "joint") == {tuple("abcd"): (tuple("abcd"),)}
    assert group_cliques([("a", "b"), ("d",)], DOMAIN, CellWeights(), "cliques") == {
        ("a", "b"): (("a", "b"),),
        ("d",): (("d",),),
    }
    with pytest.raises(ValueError, match=r"universe.*'all'"):
        group_cliques(asked, DOMAIN, CellWeights(), "all")


def test_queries_that_look_the_same_are_refused():
    query = Product({"a": ranges([(0, 1), (1, 2), (0, 3)])})
    with pytest.raises(ValueError, match="indistinguishable: 3 different ones have 2 vectors"):
        TrainingSet.of(("a",), [query], Volume(), DOMAIN)
    for encoding in (CellWeights(), Factors(), Corners()):
        assert len(TrainingSet.of(("a",), [query], encoding, DOMAIN).encodings) == 3


def test_the_same_query_may_stand_twice():
    twice = DenseMatrix(("b",), [[1, 0, 0], [1, 0, 0], [0, 1, 0]])
    assert len(TrainingSet.of(("b",), [twice], Factors(), DOMAIN).encodings) == 3


def test_large_weights_are_scaled_and_small_ones_are_not():
    queries = [Product({"b": matrix([[8, -2, 0], [4, 4, 4]])}), marginal(("b",))]
    training_set = TrainingSet.of(("b",), queries, CellWeights(), DOMAIN)
    assert training_set.scales.tolist() == [8, 8, 1, 1, 1]
    assert np.array_equal(training_set.encodings[:2], [[1, -0.25, 0], [0.5, 0.5, 0.5]])
    assert set(TrainingSet.of(("b",), queries[1:], Corners(), DOMAIN).scales) == {1.0}
