"""What is learned together, and encodings that cannot tell queries apart."""

import dataclasses

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.learning.encodings import CellWeights, Corners, Encoding, Factors
from pgmjax.learning.training_set import MAX_JOINT_CELLS, Lesson, learned_together
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
    assert learned_together([("b", "a"), ("d",)], DOMAIN, CellWeights()) == {
        ("a", "b", "d"): (("a", "b", "d"),)
    }


def test_many_are_learned_set_by_set():
    asked = [("b", "a"), ("a",), ("c", "b"), ("b", "c"), ("d", "c")]
    cliques = (("a", "b"), ("b", "c"), ("c", "d"))
    assert learned_together(asked, DOMAIN, CellWeights()) == {each: (each,) for each in cliques}
    assert learned_together(asked, DOMAIN, Factors()) == {("a", "b", "c", "d"): cliques}
    assert learned_together(asked, DOMAIN, CellWeights(), "joint") == {tuple("abcd"): (tuple("abcd"),)}
    assert learned_together([("a", "b"), ("d",)], DOMAIN, CellWeights(), "cliques") == {
        ("a", "b"): (("a", "b"),),
        ("d",): (("d",),),
    }
    with pytest.raises(ValueError, match="universe must be one of"):
        learned_together(asked, DOMAIN, CellWeights(), "all")


def test_queries_that_look_the_same_are_refused():
    query = Product({"a": ranges([(0, 1), (1, 2), (0, 3)])})
    with pytest.raises(ValueError, match="indistinguishable: 3 different ones have 2 vectors"):
        Lesson.of(("a",), [query], Volume(), DOMAIN)
    for encoding in (CellWeights(), Factors(), Corners()):
        assert len(Lesson.of(("a",), [query], encoding, DOMAIN).encodings) == 3


def test_the_same_query_may_stand_twice():
    twice = DenseMatrix(("b",), [[1, 0, 0], [1, 0, 0], [0, 1, 0]])
    assert len(Lesson.of(("b",), [twice], Factors(), DOMAIN).encodings) == 3


def test_large_weights_are_scaled_and_small_ones_are_not():
    queries = [Product({"b": matrix([[8, -2, 0], [4, 4, 4]])}), marginal(("b",))]
    lesson = Lesson.of(("b",), queries, CellWeights(), DOMAIN)
    assert lesson.scales.tolist() == [8, 8, 1, 1, 1]
    assert np.array_equal(lesson.encodings[:2], [[1, -0.25, 0], [0.5, 0.5, 0.5]])
    assert set(Lesson.of(("b",), queries[1:], Corners(), DOMAIN).scales) == {1.0}
