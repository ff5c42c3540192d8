"""Sensitivities against brute force over all columns and pairs, in exact arithmetic."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.queries import columns as exact
from pgmjax.queries import sensitivity

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


def brute_force(matrix, relation, power):
    """The definition, in fractions: largest column, or largest difference of two columns."""
    columns = [[Fraction(x) for x in column] for column in np.asarray(matrix).T.tolist()]
    if relation is REPLACE:
        columns = [[x - y for x, y in zip(a, b, strict=True)] for a in columns for b in columns]
    return max(sum(abs(x) ** power for x in column) for column in columns)


def sensitivities(query, domain, relation, max_weight=None):
    return (
        query.l1_sensitivity(relation, domain, max_weight),
        query.l2_sensitivity_squared(relation, domain, max_weight),
    )


def haar(n):
    """Rows of the unnormalised Haar wavelet."""
    rows = [np.ones(n, int)]
    width = n
    while width > 1:
        for start in range(0, n, width):
            row = np.zeros(n, int)
            row[start : start + width // 2] = 1
            row[start + width // 2 : start + width] = -1
            rows.append(row)
        width //= 2
    return np.array(rows)


def binary_hierarchy(n):
    """All nodes of the binary tree over n cells."""
    rows = []
    width = n
    while width >= 1:
        rows += [[int(s <= a < s + width) for a in range(n)] for s in range(0, n, width)]
        width //= 2
    return np.array(rows)


@pytest.mark.parametrize(
    ("matrix", "add", "replace"),
    [
        (haar(64), (7, 7), (12, 14)),
        (binary_hierarchy(64), (7, 7), (12, 12)),
        ([[1, -1]], (1, 1), (2, 4)),
        (np.eye(6, dtype=int), (1, 1), (2, 2)),
        ([[1, 0, 1, 1]], (1, 1), (1, 1)),
        ([[0.25, 0.5, 1.0, 0.0]], (1, 1), (1, 1)),
        ([[-1, 0.5, 1]], (1, 1), (2, 4)),
    ],
    ids=["haar", "h2", "signed", "identity", "count", "linear in [0,1]", "linear in [-1,1]"],
)
@pytest.mark.parametrize("form", ["block", "dense"])
def test_figures_known_from_the_literature(matrix, add, replace, form):
    domain = Domain({"a": np.shape(matrix)[1]})
    query = q.Product({"a": q.matrix(matrix)}) if form == "block" else q.DenseMatrix(("a",), matrix)
    assert sensitivities(query, domain, ADD) == add
    assert sensitivities(query, domain, REPLACE) == replace
    assert all(not isinstance(value, float) for value in sensitivities(query, domain, REPLACE))


@pytest.mark.parametrize("clique", [("a",), ("a", "b"), ("b", "c", "a")])
def test_marginals_of_any_size_have_closed_forms(clique):
    domain = Domain({"a": 10**6, "b": 1, "c": 10**5})
    query = q.marginal(clique)
    assert sensitivities(query, domain, ADD) == (1, 1)
    assert sensitivities(query, domain, REPLACE) == (2, 2)


def test_blocks_on_a_large_attribute():
    domain = Domain({"a": 10**5})
    for block, add, replace in [
        (q.identity(), (1, 1), (2, 2)),
        (q.total(), (1, 1), (0, 0)),
        (q.point(7), (1, 1), (1, 1)),
        (q.range(0, 99), (1, 1), (1, 1)),
        (q.prefix(), (10**5, 10**5), (10**5 - 1, 10**5 - 1)),
        (q.mean(), (10**5 - 1, (10**5 - 1) ** 2), (10**5 - 1, (10**5 - 1) ** 2)),
        (q.compression(np.arange(10**5) // 10), (1, 1), (2, 2)),
    ]:
        query = q.Product({"a": block})
        assert sensitivities(query, domain, ADD) == add
        assert sensitivities(query, domain, REPLACE) == replace


def test_large_products_of_prefixes_are_exact():
    domain = Domain({"a": 85, "b": 100, "c": 99, "d": 40})
    cdf = q.Product({"a": q.prefix(), "b": q.prefix()})
    assert sensitivities(cdf, domain, REPLACE) == (8499, 8499)
    kept = q.Product({"a": q.prefix(), "d": q.identity(), "c": q.total()})
    assert sensitivities(kept, domain, REPLACE) == (170, 170)
    three = q.Product({"a": q.prefix(), "b": q.prefix(), "c": q.prefix()})
    assert sensitivities(three, domain, REPLACE) == (85 * 100 * 99 - 1,) * 2


def test_products_of_wavelets_and_hierarchies_are_exact():
    """Against all pairs of joint columns at 16 x 16; the larger ones were compared once the same way."""
    small = q.Product({"a": q.matrix(haar(16)), "b": q.matrix(binary_hierarchy(16))})
    domain = Domain({"a": 16, "b": 16})
    explicit = q.DenseMatrix(("a", "b"), small.matrix(domain))
    assert sensitivities(small, domain, REPLACE) == sensitivities(explicit, domain, REPLACE)
    domain = Domain({"a": 64, "b": 64})
    wavelets = q.Product({"a": q.matrix(haar(64)), "b": q.matrix(haar(64))})
    assert sensitivities(wavelets, domain, REPLACE) == (94, 98)
    trees = q.Product({"a": q.matrix(binary_hierarchy(64)), "b": q.matrix(binary_hierarchy(64))})
    assert sensitivities(trees, domain, REPLACE) == (96, 96)


def test_columns_of_equal_size_and_product_lie_farther_apart_without_a_common_row():
    """The first two columns are orthogonal by signs, the third to both for want of a common row."""
    block = q.matrix([[1, 1, 0], [1, -1, 0], [0, 0, 1], [0, 0, 1]])
    for count in (1, 2, 3):
        domain = Domain(dict.fromkeys("abc"[:count], 3))
        query = q.Product(dict.fromkeys("abc"[:count], block))
        assert query.l1_sensitivity(REPLACE, domain) == 2 * 2**count
        assert brute_force(query.matrix(domain), REPLACE, 1) == 2 * 2**count


def test_factors_of_many_columns_go_in_chunks(monkeypatch):
    rng = np.random.default_rng(4)
    factors = [(q.matrix(rng.integers(-1, 2, (5, 12))), 12), (q.matrix(rng.integers(-2, 3, (4, 10))), 10)]
    matrix = sensitivity.kronecker_matrix([block.matrix(size) for block, size in factors])
    monkeypatch.setattr(sensitivity, "_CHUNK", 3)
    for power in (1, 2):
        truth = max((abs(matrix - matrix[:, j : j + 1]) ** power).sum(0).max() for j in range(120))
        assert sensitivity.product_max_distance(tuple(factors), power) == truth


@pytest.mark.parametrize(
    "blocks",
    [
        [q.matrix([[2**40, -1, 5]]), q.matrix([[2**40, 3, -(2**39)]])],
        [q.matrix([[2**25, -1, 5]]), q.matrix([[2**25, 3, -(2**24)]])],
        [q.matrix([[0.1, -1, 5]]), q.matrix([[0.3, 3, -7]])],
        [q.matrix([[1, -1, 5]]), q.moments(3), q.prefix()],
    ],
)
@pytest.mark.parametrize(
    "limits", [{}, {"_MAX_PAIRS": 0}, {"_MAX_FACTOR_ENTRIES": 0}, {"_MAX_JOINT_ENTRIES": 0}]
)
def test_numbers_or_tables_out_of_reach_are_bounded_never_too_small(blocks, limits, monkeypatch):
    for name, value in limits.items():
        monkeypatch.setattr(sensitivity, name, value)
    joint = [[Fraction(x) for x in row] for row in [[1]]]
    for block in blocks:
        entries = [[Fraction(x) for x in row] for row in block.matrix(3).tolist()]
        joint = [[x * y for x in row for y in other] for row in joint for other in entries]
    columns = list(zip(*joint, strict=True))
    for power in (1, 2):
        norm = max(sum(abs(x) ** power for x in column) for column in columns)
        truth = max(
            sum(abs(x - y) ** power for x, y in zip(a, b, strict=True)) for a in columns for b in columns
        )
        got = Fraction(sensitivity.product_max_distance(tuple((block, 3) for block in blocks), power))
        assert truth <= got <= norm * 2**power * (1 + Fraction(1, 10**9))


small_blocks = st.one_of(
    st.sampled_from(
        [q.identity(), q.total(), q.prefix(), q.all_ranges(), q.point(0), q.mean(), q.moments(2)]
    ),
    st.sampled_from([q.range(0, 1), q.subset([1]), q.ranges([(0, 0), (0, 1)])]),
    st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=1, max_size=4).map(q.matrix),
    st.sampled_from([q.compression([0, 1, 0]), q.compression([1, 1, 1]), q.matrix([[0.5, -0.25, 1.5]])]),
)


@given(st.lists(small_blocks, min_size=1, max_size=3), st.sampled_from([ADD, REPLACE]))
@settings(max_examples=80, deadline=None)
def test_products_are_exact_by_brute_force(blocks, relation):
    domain = Domain(dict.fromkeys("abc"[: len(blocks)], 3))
    query = q.Product(dict(zip("abc", blocks, strict=False)))
    matrix = query.matrix(domain)
    got = sensitivities(query, domain, relation)
    assert got == (brute_force(matrix, relation, 1), brute_force(matrix, relation, 2))
    assert not any(isinstance(value, float) for value in got)


@given(st.lists(small_blocks, min_size=2, max_size=3))
@settings(max_examples=60, deadline=None)
def test_products_too_large_for_pairs_of_cells_are_exact_or_bounded(blocks):
    """The same products with the comparison of all joint columns switched off."""
    bound = [(block, 3) for block in blocks]
    matrix = sensitivity.kronecker_matrix([block.matrix(3) for block in blocks])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sensitivity, "_joint", lambda factors, power: None)
        squared = sensitivity.product_max_distance(tuple(bound), 2)
        first = sensitivity.product_max_distance(tuple(bound), 1)
    assert squared == brute_force(matrix, REPLACE, 2)
    truth = brute_force(matrix, REPLACE, 1)
    assert truth <= first <= 2 * brute_force(matrix, ADD, 1)
    if all(np.isin(block.matrix(3), [-1, 0, 1]).all() for block in blocks):
        assert first == truth


@given(
    st.lists(
        st.tuples(
            st.integers(-3, 3), st.sampled_from([q.prefix(), q.identity(), q.matrix(-np.eye(3, dtype=int))])
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from([1, Fraction(1, 2), Fraction(1, 8)]),
    st.sampled_from([ADD, REPLACE]),
)
@settings(max_examples=40, deadline=None)
def test_weighted_sums_are_exact_by_brute_force(terms, unit, relation):
    domain = Domain({"a": 3, "b": 2})
    query = q.WeightedSum(
        [(float(c * unit), q.Product({"a": block, "b": q.identity()})) for c, block in terms]
    )
    matrix = query.matrix(domain)
    got = sensitivities(query, domain, relation)
    assert got == (brute_force(matrix, relation, 1), brute_force(matrix, relation, 2))


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_floats_are_never_too_small(relation):
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(6, 7))
    exactly = [brute_force(matrix, relation, power) for power in (1, 2)]
    assert list(sensitivities(q.DenseMatrix(("a",), matrix), Domain({"a": 7}), relation)) == exactly
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "_MAX_PYTHON_WORK", 0)
        rounded = sensitivities(q.DenseMatrix(("a",), matrix), Domain({"a": 7}), relation)
    for value, truth in zip(rounded, exactly, strict=True):
        assert isinstance(value, float | Fraction)
        assert truth <= Fraction(value) <= truth * (1 + Fraction(1, 10**9))


def test_sums_with_floats_of_floats_are_bounded():
    domain = Domain({"a": 4})
    block = q.matrix([[0.1, 0.2, -0.3, 0.4]])
    query = q.WeightedSum([(0.7, q.Product({"a": block})), (-0.2, q.Product({"a": q.mean([1, 1, 0.1, 2])}))])
    terms = [[Fraction(x) for x in row] for row in ([0.1, 0.2, -0.3, 0.4], [1.0, 1.0, 0.1, 2.0])]
    row = [Fraction(0.7) * x - Fraction(0.2) * y for x, y in zip(*terms, strict=True)]
    for relation, power in itertools.product([ADD, REPLACE], [1, 2]):
        differences = row if relation is ADD else [x - y for x in row for y in row]
        assert max(abs(x) for x in differences) ** power <= Fraction(
            sensitivities(query, domain, relation)[power - 1]
        )
    single = q.WeightedSum([(0.5, q.Product({"a": block}))])
    assert math.isclose(single.l1_sensitivity(REPLACE, domain), 0.35)


def test_too_many_columns_fall_back_to_the_bound():
    domain = Domain({"a": 5000})
    many = q.Product({"a": q.ranges([(0, 9), (5, 20)])})
    assert sensitivities(many, domain, REPLACE) == (4, 4)
    signed = q.Product({"a": q.matrix(np.resize([1, -1, 0], (2, 5000)))})
    assert sensitivities(signed, domain, ADD) == (2, 2)
    assert sensitivities(signed, domain, REPLACE) == (4, 8)  # columns that are alike are compared once
    rng = np.random.default_rng(0)
    dense = q.DenseMatrix(
        ("a",), np.where(np.arange(5000) % 2, 1, -1) * rng.permutation(5000) * np.ones((2, 1), int)
    )
    add = sensitivities(dense, domain, ADD)
    assert sensitivities(dense, domain, REPLACE) == (2 * add[0], 4 * add[1])


def test_4096_columns_are_compared():
    rng = np.random.default_rng(1)
    matrix = rng.integers(-1, 2, size=(20, 4096))
    columns = np.unique(matrix, axis=1).astype(float)
    products = columns.T @ columns
    squares = np.diag(products)
    truth = (squares[:, None] + squares - 2 * products).max()
    got = sensitivities(q.DenseMatrix(("a",), matrix), Domain({"a": 4096}), REPLACE)
    assert got[1] == truth
    assert got[0] == max(abs(matrix - matrix[:, j : j + 1]).sum(0).max() for j in range(4096))


@pytest.mark.parametrize("form", [q.total(), q.identity(), q.mean()])
def test_weights_scale_and_a_record_may_get_weight_zero(form):
    """All pairs of one record of weight 0..W, by brute force over the matrix's columns."""
    domain = Domain({"a": 4})
    query = q.Product({"a": form})
    matrix = query.matrix(domain)
    for most in (1, 3):
        states = [w * column for w in range(most + 1) for column in matrix.T]
        for power, got in enumerate(sensitivities(query, domain, REPLACE, most), start=1):
            assert got == max((abs(x - y) ** power).sum() for x in states for y in states)
        for power, got in enumerate(sensitivities(query, domain, ADD, most), start=1):
            assert got == max((abs(x) ** power).sum() for x in states)


def test_the_relation_must_be_named_and_weights_be_integers():
    query, domain = q.marginal(("a",)), Domain({"a": 2})
    with pytest.raises(ValueError, match="replace-one"):
        query.l1_sensitivity(None, domain)
    with pytest.raises(ValueError, match=r"max_weight.*0"):
        query.l1_sensitivity(ADD, domain, 0)
    with pytest.raises(ValueError, match="'a'"):
        query.l1_sensitivity(ADD, Domain({"b": 2}))


def test_neighbouring_tables_move_answers_by_at_most_the_sensitivity():
    """Sixty random pairs: the measured distance never passes, and somewhere reaches, the sensitivity."""
    rng = np.random.default_rng(5)
    domain = Domain({"a": 4, "b": 3})
    query = q.Product({"a": q.prefix(), "b": q.matrix([[1, -1, 0], [0, 2, 1]])})
    reached = {ADD: 0, REPLACE: 0}
    for _ in range(60):
        table = rng.integers(1, 5, (4, 3))
        removed, added = rng.integers(12, size=2)
        for relation in (ADD, REPLACE):
            other = table.copy()
            other.flat[removed] -= 1
            if relation is REPLACE:
                other.flat[added] += 1
            moved = abs(query.apply(other) - query.apply(table)).sum()
            assert moved <= query.l1_sensitivity(relation, domain)
            reached[relation] = max(reached[relation], moved)
    assert reached[ADD] == query.l1_sensitivity(ADD, domain)


@pytest.mark.parametrize(
    "values", [[0.1, 0.3], [5e-324, 1.0], [1e300, -1e-300], [0.0, 0.0], [2.0**60, 3.0], [1.5, -0.75]]
)
def test_floats_are_scaled_to_integers_without_loss(values):
    integers, exponent = exact.scaled(np.array([values]))
    assert [Fraction(int(i), 2**exponent) for i in integers[0]] == [Fraction(v) for v in values]
