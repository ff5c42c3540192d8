"""Vectors of queries against their matrices."""

import dataclasses

import numpy as np
import pytest

from pgmjax.data.domain import Domain
from pgmjax.learning.encodings import ENCODINGS, CellWeights, Corners, Encoding, Factors, as_encoding
from pgmjax.queries import DenseMatrix, Product, WeightedSum, all_ranges, marginal, prefix, subset
from pgmjax.queries.random import distinct_ranges

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
ABC = ("a", "b", "c")
QUERIES = [
    marginal(("a", "b")),
    marginal(("c", "a")),
    Product({"b": prefix(), "c": all_ranges()}),
    Product({"c": subset([0, 3])}),
    DenseMatrix(("c", "b"), np.arange(16).reshape(2, 8) % 3 - 1),
    WeightedSum([(2, Product({"a": prefix()})), (-1, marginal(("a",)))]),
]


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
@pytest.mark.parametrize("clique", [ABC, ("c", "a", "b")])
def test_cells_answer_as_the_query_does(query, clique):
    """A vector of weights of cells, times the table of all attributes, is the answer."""
    table = np.random.default_rng(0).integers(0, 50, DOMAIN.shape_of(clique))
    encoded = CellWeights().encode(query, DOMAIN, clique)
    rest = tuple(axis for axis, name in enumerate(clique) if name not in query.clique)
    kept = [name for name in clique if name in query.clique]
    asked = table.sum(axis=rest).transpose([kept.index(name) for name in query.clique])
    assert np.array_equal(encoded @ table.reshape(-1), query.apply(asked).reshape(-1))


@pytest.mark.parametrize("query", QUERIES[:4], ids=range(4))
def test_factors_multiply_to_cells(query):
    encoded = Factors().encode(query, DOMAIN, ABC)
    parts = np.split(encoded, np.cumsum(DOMAIN.shape)[:-1], axis=1)
    products = np.einsum("ra,rb,rc->rabc", *parts).reshape(len(encoded), -1)
    assert np.array_equal(products, CellWeights().encode(query, DOMAIN, ABC))


def test_a_coefficient_is_kept_in_factors():
    query = WeightedSum([(3, Product({"a": prefix()}))])
    parts = np.split(Factors().encode(query, DOMAIN, ("a", "b")), [3], axis=1)
    assert np.array_equal(
        np.einsum("ra,rb->rab", *parts).reshape(3, -1), CellWeights().encode(query, DOMAIN, ("a", "b"))
    )


def test_boxes_in_a_matrix_are_recognised():
    query = distinct_ranges(DOMAIN, ABC, 40, seed=3)
    assert isinstance(query, DenseMatrix)
    low, above = np.moveaxis(Corners().encode(query, DOMAIN, ABC).reshape(40, 3, 2), 2, 0) * [3, 2, 4]
    codes = [np.arange(size) for size in DOMAIN.shape]
    inside = [
        (code >= low[:, axis, None] - 1e-9) & (code < above[:, axis, None] - 1e-9)
        for axis, code in enumerate(codes)
    ]
    boxes = np.einsum("ra,rb,rc->rabc", *[each.astype(int) for each in inside]).reshape(40, -1)
    assert np.array_equal(boxes, query.matrix(DOMAIN))


def test_an_attribute_that_is_not_asked_is_its_whole_range():
    assert Corners().encode(Product({"b": prefix()}), DOMAIN, ABC).tolist() == [
        [0, 1, 0, 0.5, 0, 1],
        [0, 1, 0, 1, 0, 1],
    ]


REFUSED = [
    (Corners(), QUERIES[3], ABC, "takes ranges only"),
    (Factors(), QUERIES[4], ABC, "no products"),
    (Factors(), QUERIES[5], ABC, "no products"),
    (CellWeights(), QUERIES[0], ("b", "c"), "asks for \\['a'\\]"),
]


@pytest.mark.parametrize("encoding, query, clique, words", REFUSED, ids=range(4))
def test_what_an_encoding_cannot_tell_is_refused(encoding, query, clique, words):
    with pytest.raises(ValueError, match=words):
        encoding.encode(query, DOMAIN, clique)


def test_too_many_numbers_are_refused_before_they_are_made():
    with pytest.raises(ValueError, match="above the limit"):
        CellWeights().encode(marginal(("x",)), Domain({"x": 10_000}), ("x",))


def test_an_encoding_must_keep_its_word():
    @dataclasses.dataclass(frozen=True)
    class Short(Encoding):
        name = "short"

        def dimensions(self, domain, clique):
            return 2

        def _encode(self, query, domain, clique):
            return np.zeros((query.num_rows(domain), 1))

    with pytest.raises(ValueError, match="must give 3 x 2 finite numbers"):
        Short().encode(marginal(("a",)), DOMAIN, ABC)


def test_names():
    for name, kind in ENCODINGS.items():
        assert as_encoding(name) == kind() == as_encoding(kind())
    with pytest.raises(ValueError, match=r"'cells'.*'factors'.*'corners'"):
        as_encoding("corner")
    with pytest.raises(TypeError, match="name or an Encoding"):
        as_encoding(3)
