"""How far one answer can move, against brute force over rows and pairs of columns in exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.queries import columns

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE

BLOCKS = [
    q.identity(),
    q.total(),
    q.prefix(),
    q.all_ranges(),
    q.point(0),
    q.mean(),
    q.mean([-1.0, 0.5, 0.25]),
    q.moments(2),
    q.moments(3, [0.5, -2, 1]),
    q.range(0, 1),
    q.range(0, 2),
    q.subset([1]),
    q.subset([0, 1, 2]),
    q.ranges([(0, 0), (0, 1)]),
    q.ranges([(0, 2), (0, 2)]),
    q.compression([0, 1, 0]),
    q.compression([1, 1, 1]),
    q.matrix([[0.5, -0.25, 1.5]]),
    q.matrix([[0, 0, 0]]),
    q.matrix([[-2, -2, -2], [-1, 0, 0]]),
]


def exactly(matrix):
    return [[Fraction(x) for x in row] for row in np.asarray(matrix).tolist()]


def truth(rows, relation, weights=(1,)):
    """The definition: one record of any allowed weight comes or goes, or becomes another."""
    moves = []
    for row in rows:
        states = [w * x for w in weights for x in row]
        moves += [abs(x - y) for x in states for y in states] if relation is REPLACE else map(abs, states)
    return max(moves)


def kronecker(blocks, sizes):
    joint = [[Fraction(1)]]
    for block, size in zip(blocks, sizes, strict=True):
        joint = [
            [x * y for x in row for y in other] for row in joint for other in exactly(block.matrix(size))
        ]
    return joint


@pytest.mark.parametrize(
    ("matrix", "add", "replace"),
    [
        ([[1, 0, 1, 1]], 1, 1),
        ([[0.25, 0.5, 1.0, 0.0]], 1, 1),
        ([[-1, 0.5, 1]], 1, 2),
        ([[1, 1, 1]], 1, 0),
        ([[3, 3, 1], [-4, -3, -4]], 4, 2),
        ([[-5, 0], [0, 4]], 5, 5),
        ([[2**62, -(2**62)]], 2**62, 2**63),
        ([[-(2**63), 2**63 - 1]], 2**63, 2**64 - 1),
        ([[1e300, 1e-300]], Fraction(1e300), Fraction(1e300) - Fraction(1e-300)),
    ],
)
@pytest.mark.parametrize("form", ["block", "dense", "sum"])
def test_figures_known_without_computing(matrix, add, replace, form):
    domain = Domain({"a": np.shape(matrix)[1]})
    query = q.DenseMatrix(("a",), matrix) if form == "dense" else q.Product({"a": q.matrix(matrix)})
    if form == "sum":
        query = q.WeightedSum([(-1, query)])
    assert query.linf_sensitivity(ADD, domain) == add
    assert query.linf_sensitivity(REPLACE, domain) == replace
    assert not isinstance(query.linf_sensitivity(REPLACE, domain), float)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_blocks_without_their_matrix_agree_with_it(size):
    forms = [q.identity(), q.total(), q.prefix(), q.all_ranges(), q.point(0), q.mean(), q.moments(3)]
    forms += [q.range(0, size - 1), q.subset([size - 1]), q.ranges([(0, size - 1), (0, size // 2)])]
    forms += [q.compression([2] * size), q.compression(np.arange(size) // 2)]
    for block in forms:
        got = columns.entry_and_spread(block.row_extremes(size))
        rows = exactly(block.matrix(size))
        assert got == (truth(rows, ADD), truth(rows, REPLACE)), block


@given(st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=3), st.sampled_from([ADD, REPLACE]))
@settings(max_examples=60, deadline=None)
def test_products_are_exact_by_brute_force(blocks, relation):
    domain = Domain(dict.fromkeys("abc"[: len(blocks)], 3))
    query = q.Product(dict(zip("abc", blocks, strict=False)))
    assert query.linf_sensitivity(relation, domain) == truth(kronecker(blocks, [3] * len(blocks)), relation)


@given(
    st.lists(
        st.lists(st.lists(st.integers(-4, 4), min_size=2, max_size=2), min_size=1, max_size=6),
        min_size=2,
        max_size=4,
    ),
    st.sampled_from([ADD, REPLACE]),
)
@settings(max_examples=40, deadline=None)
def test_products_of_signed_matrices_are_exact_and_bounded_without_the_pairs(matrices, relation):
    blocks = [q.matrix(matrix) for matrix in matrices]
    domain = Domain(dict.fromkeys("abcd"[: len(blocks)], 2))
    query = q.Product(dict(zip("abcd", blocks, strict=False)))
    known = truth(kronecker(blocks, [2] * len(blocks)), relation)
    assert query.linf_sensitivity(relation, domain) == known
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "_MAX_PAIRS", 0)
        bound = query.linf_sensitivity(relation, domain)
    assert known <= bound
    if relation is ADD:
        assert bound == known


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.sampled_from(BLOCKS[:3])), min_size=1, max_size=3),
    st.sampled_from([1, Fraction(1, 2), Fraction(1, 8)]),
    st.sampled_from([ADD, REPLACE]),
    st.sampled_from([None, 1, 3]),
)
@settings(max_examples=60, deadline=None)
def test_sums_are_exact_by_brute_force(terms, unit, relation, most):
    domain = Domain({"a": 3, "b": 2})
    rows = {len(block.matrix(3)) for _, block in terms}
    terms = [(c, block) for c, block in terms if len(block.matrix(3)) == min(rows)]
    query = q.WeightedSum(
        [(float(c * unit), q.Product({"a": block, "b": q.identity()})) for c, block in terms]
    )
    weights = (1,) if most is None else range(most + 1)
    assert query.linf_sensitivity(relation, domain, most) == truth(
        exactly(query.matrix(domain)), relation, weights
    )


def test_sums_of_floats_are_bounded_by_their_terms():
    domain = Domain({"a": 4})
    rows = [[0.1, 0.2, -0.3, 0.4]], [[1.0, 1.0, 0.1, 2.0]]
    query = q.WeightedSum(
        [(0.7, q.Product({"a": q.matrix(rows[0])})), (-0.2, q.Product({"a": q.matrix(rows[1])}))]
    )
    terms = [exactly(row)[0] for row in rows]
    row = [Fraction(0.7) * x - Fraction(0.2) * y for x, y in zip(*terms, strict=True)]
    for relation in (ADD, REPLACE):
        bound = Fraction(query.linf_sensitivity(relation, domain))
        by_terms = Fraction(0.7) * truth(terms[:1], relation) + Fraction(0.2) * truth(terms[1:], relation)
        assert truth([row], relation) <= bound == by_terms


def test_large_attributes_need_no_matrix():
    domain = Domain({"a": 10**6, "b": 1, "c": 10**5})
    for query in (
        q.marginal(("a", "b", "c")),
        q.Product({"a": q.prefix(), "c": q.all_ranges()}),
        q.Product({"a": q.compression(np.arange(10**6) // 10), "b": q.total(), "c": q.total()}),
    ):
        assert query.linf_sensitivity(ADD, domain) == query.linf_sensitivity(REPLACE, domain) == 1
    assert q.Product({"a": q.total(), "c": q.total()}).linf_sensitivity(REPLACE, domain) == 0


@pytest.mark.parametrize("form", [q.total(), q.identity(), q.mean(), q.matrix([[3, 4, -1, 3]])])
def test_weights_scale_and_a_record_may_get_weight_zero(form):
    domain = Domain({"a": 4})
    query = q.Product({"a": form})
    for most in (1, 3):
        for relation in (ADD, REPLACE):
            known = truth(exactly(form.matrix(4)), relation, range(most + 1))
            assert query.linf_sensitivity(relation, domain, most) == known


def test_the_relation_must_be_named_and_the_query_fit():
    query, domain = q.marginal(("a",)), Domain({"a": 2})
    with pytest.raises(ValueError, match="replace-one"):
        query.linf_sensitivity(None, domain)
    with pytest.raises(ValueError, match=r"max_weight.*0"):
        query.linf_sensitivity(ADD, domain, 0)
    with pytest.raises(ValueError, match="'a'"):
        query.linf_sensitivity(ADD, Domain({"b": 2}))
