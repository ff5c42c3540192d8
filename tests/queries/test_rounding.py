"""Real queries on a grid: exact integers, whose sensitivity is that of the rounded matrix itself."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.data.relation import Relation
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.queries.rounding import Quantised, quantise

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


def exactly(matrix):
    return [[Fraction(x) for x in row] for row in np.asarray(matrix).tolist()]


def rounded(matrix, bits):
    """Halves to even, by Python's own rounding of fractions."""
    return [[round(x * 2**bits) for x in row] for row in exactly(matrix)]


def brute_force(matrix, relation, power):
    """Largest column, or largest difference of two columns, in Python's integers."""
    columns = list(zip(*np.asarray(matrix, dtype=object).tolist(), strict=True))
    if relation is REPLACE:
        columns = [[x - y for x, y in zip(a, b, strict=True)] for a in columns for b in columns]
    return max(sum(abs(x) ** power for x in column) for column in columns)


def sensitivities(query, domain, relation):
    return query.l1_sensitivity(relation, domain), query.l2_sensitivity_squared(relation, domain)


def haar(n):
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


def hierarchy(n):
    rows, width = [], n
    while width >= 1:
        rows += [[int(s <= a < s + width) for a in range(n)] for s in range(0, n, width)]
        width //= 2
    return np.array(rows)


@pytest.mark.parametrize(
    ("matrix", "add", "replace"),
    [
        (haar(64), (7, 7), (12, 14)),
        (hierarchy(64), (7, 7), (12, 12)),
        ([[1, -1]], (1, 1), (2, 4)),
    ],
    ids=["haar", "h2", "signed"],
)
@pytest.mark.parametrize("form", ["block", "dense"])
def test_strategies_of_half_the_size_have_half_the_known_sensitivities(matrix, add, replace, form):
    domain = Domain({"a": np.shape(matrix)[1]})
    half = np.array(matrix) / 2
    query = q.DenseMatrix(("a",), half) if form == "dense" else q.Product({"a": q.matrix(half)})
    for bits in (1, 16):
        made = quantise(query, domain, bits)
        assert made.error_bound == 0 and made.scale == 2**bits
        unit = 2 ** (bits - 1)
        for relation, (first, second) in ((ADD, add), (REPLACE, replace)):
            assert sensitivities(made.query, domain, relation) == (first * unit, second * unit**2)


@pytest.mark.parametrize("bits", [6, 16, 20])
def test_an_orthonormal_wavelet_is_exact_after_rounding(bits):
    wavelet = haar(64) / np.sqrt((haar(64) ** 2).sum(axis=1, keepdims=True))
    domain = Domain({"a": 64})
    query = quantise(q.DenseMatrix(("a",), wavelet), domain, bits).query
    matrix = rounded(wavelet, bits)
    assert query.matrix(domain).tolist() == matrix
    for relation in (ADD, REPLACE):
        assert sensitivities(query, domain, relation) == tuple(
            brute_force(matrix, relation, p) for p in (1, 2)
        )


numbers = st.floats(-4, 4, allow_nan=False)
matrices = st.integers(2, 5).flatmap(
    lambda n: st.lists(st.lists(numbers, min_size=n, max_size=n), min_size=1, max_size=4)
)


@given(matrices, st.integers(0, 20), st.sampled_from(["block", "dense"]))
@settings(max_examples=150, deadline=None)
def test_rounding_is_exact_and_the_sensitivity_that_of_the_rounded_integers(matrix, bits, form):
    domain = Domain({"a": len(matrix[0])})
    query = q.DenseMatrix(("a",), matrix) if form == "dense" else q.Product({"a": q.matrix(matrix)})
    expected = rounded(matrix, bits)
    if query.is_integral(domain):
        assert quantise(query, domain, bits) == Quantised(query, 0, Fraction(0))
        return
    if any(any(row) and not any(whole) for row, whole in zip(matrix, expected, strict=True)):
        with pytest.raises(ValueError, match="round to zero"):
            quantise(query, domain, bits)
        return
    made = quantise(query, domain, bits)
    assert made.query.is_integral(domain) and made.query.matrix(domain).dtype == np.int64
    assert made.query.matrix(domain).tolist() == expected
    error = max(
        abs(x - Fraction(y, 2**bits))
        for row, whole in zip(exactly(matrix), expected, strict=True)
        for x, y in zip(row, whole, strict=True)
    )
    assert error == made.error_bound <= Fraction(1, 2 ** (bits + 1))
    for relation in (ADD, REPLACE):
        assert sensitivities(made.query, domain, relation) == tuple(
            brute_force(expected, relation, p) for p in (1, 2)
        )


@given(
    st.lists(
        st.sampled_from([q.identity(), q.prefix(), q.mean([0.5, -1.25, 1 / 3]), q.moments(2, [0.1, 0.7, -1])])
        | matrices.filter(lambda m: len(m[0]) == 3).map(q.matrix),
        min_size=1,
        max_size=3,
    ),
    st.integers(8, 24),
)
@settings(max_examples=80, deadline=None)
def test_products_stay_products_within_the_stated_error(blocks, bits):
    domain = Domain(dict.fromkeys("abc"[: len(blocks)], 3))
    query = q.Product(dict(zip("abc", blocks, strict=False)))
    if query.is_integral(domain):
        return
    try:
        made = quantise(query, domain, bits)
    except ValueError as error:
        assert "round to zero" in str(error)
        return
    assert isinstance(made.query, q.Product) and made.scale == 2**bits
    for old, new in zip(query.blocks, made.query.blocks, strict=True):
        assert new is old if old.is_integral(3) else new.kind == "matrix"
    wanted, got = [[Fraction(1)]], exactly(made.query.matrix(domain))
    for block in blocks:
        entries = exactly(block.matrix(3))
        wanted = [[x * y for x in row for y in other] for row in wanted for other in entries]
    for row, whole in zip(wanted, got, strict=True):
        assert all(abs(x - y / 2**bits) <= made.error_bound for x, y in zip(row, whole, strict=True))
    if sum(not block.is_integral(3) for block in blocks) == 1:
        scale = math.prod(int(np.abs(b.matrix(3)).max()) for b in blocks if b.is_integral(3))
        assert made.error_bound <= scale * Fraction(1, 2 ** (bits + 1))


@pytest.mark.parametrize("coefficient", [1, -3])
def test_factors_that_stay_enlarge_the_error_of_the_one_that_is_rounded(coefficient):
    domain = Domain({"a": 3, "b": 2})
    thirds, whole = q.matrix([[1 / 3, 2 / 3, 1.0]]), q.matrix([[7, -2]])
    product = q.Product({"a": thirds, "b": whole})
    query = product if coefficient == 1 else q.WeightedSum([(coefficient, product)])
    made = quantise(query, domain, 8)
    (got,) = exactly(made.query.matrix(domain))
    wanted = [coefficient * Fraction(x) * y for x in (1 / 3, 2 / 3, 1.0) for y in (7, -2)]
    assert made.error_bound == max(abs(x - y / 256) for x, y in zip(wanted, got, strict=True)) > 0


def test_bits_go_where_they_are_needed():
    domain = Domain({"a": 2, "b": 2, "c": 2})
    halves, thirds = q.matrix([[0.5, 1.0]]), q.matrix([[1 / 3, 1.0]])
    query = q.Product({"a": halves, "b": thirds, "c": q.identity()})
    made = quantise(query, domain, 9)
    first, second, third = made.query.blocks
    assert first.matrix(2).tolist() == [[1, 2]] and third == q.identity()
    assert second.matrix(2).tolist() == [[round(256 / 3), 256]]
    small = quantise(q.Product({"a": q.matrix([[1e-3, 2e-3]]), "b": q.matrix([[300.0, 1.5]])}), domain, 12)
    assert all(block.matrix(2).all() for block in small.query.blocks)


def test_sums_stay_sums():
    domain = Domain({"a": 3, "b": 2})
    one = q.Product({"a": q.prefix(), "b": q.identity()})
    other = q.Product({"a": q.matrix(np.eye(3) / 3), "b": q.identity()})
    query = q.WeightedSum([(0.3, one), (-2, other), (1, one)])
    made = quantise(query, domain, 10)
    assert isinstance(made.query, q.WeightedSum)
    assert made.query.coefficients == (round(0.3 * 1024), -2, 1024)
    assert made.query.products[0] == one and made.query.is_integral(domain)
    wanted = [
        [Fraction(0.3) * x + x - 2 * y for x, y in zip(*rows, strict=True)]
        for rows in zip(exactly(one.matrix(domain)), exactly(other.matrix(domain)), strict=True)
    ]
    got = exactly(made.query.matrix(domain))
    gaps = np.abs(np.array(wanted) - np.array(got) / 1024).ravel()
    assert 0 < max(gaps) <= made.error_bound < Fraction(2, 1024)
    for relation in (ADD, REPLACE):
        assert sensitivities(made.query, domain, relation) == tuple(
            brute_force(made.query.matrix(domain), relation, p) for p in (1, 2)
        )


def test_integral_queries_are_left_alone():
    domain = Domain({"a": 4})
    for query in (q.marginal(("a",)), q.Product({"a": q.mean()}), q.DenseMatrix(("a",), [[1, -1, 0, 3]])):
        assert quantise(query, domain) == Quantised(query, 0, Fraction(0))
        again = quantise(quantise(query, domain).query, domain)
        assert again.query is query and again.scale == 1


def test_answers_are_read_back_and_measured_as_they_are():
    domain = Domain({"a": 3})
    made = quantise(q.Product({"a": q.mean([0.25, 0.5, 1.0])}), domain, bits=8)
    table = np.array([4, 0, 7])
    answers = made.query.apply(table)
    assert answers.dtype == np.int64 and made.unscale(answers).tolist() == [8.0]
    measured = LinearMeasurement(("a",), answers, 3.0, made.query)
    measured.validate(domain)
    assert measured.values.dtype == np.int64


@pytest.mark.parametrize(
    ("entries", "bits", "message"),
    [
        ([[1.5, 0.0]], -1, r"0\.\.32.*-1"),
        ([[1.5, 0.0]], 33, r"0\.\.32.*33"),
        ([[2.0**20 + 0.5, 0.0]], 16, r"has entries above 2\^30.*: at most 9 bits fit"),
        ([[2.0**12 + 0.5] * 2, [-(2.0**12) - 0.5] * 2], 20, "at most 17 bits fit"),
        ([[1e300, 0.5]], 16, "nothing is measured: divide the query by a constant"),
        ([[1e-3, 0.0], [1.0, 0.5]], 4, r"1 of 2 rows of.*round to zero with 4 bits.*: 9 bits would keep"),
        ([[1e-3, -1e-3]], 4, r"all of 1 rows of.*nothing but noise: 9 bits would keep them, or leave"),
        ([[2.0**-11, 0.0]], 10, "11 bits would keep them"),
        ([[1e-15, 0.0], [1.0, 0.5]], 16, "multiply the query by a constant, or leave them out"),
    ],
)
@pytest.mark.parametrize("form", ["block", "dense"])
def test_what_cannot_be_rounded_is_refused(entries, bits, message, form):
    query = q.DenseMatrix(("a",), entries) if form == "dense" else q.Product({"a": q.matrix(entries)})
    with pytest.raises(ValueError, match=message):
        quantise(query, Domain({"a": 2}), bits)


def test_sums_that_vanish_or_overflow_are_refused():
    domain = Domain({"a": 3})
    one = q.Product({"a": q.prefix()})
    with pytest.raises(ValueError, match="all of 1 coefficients of the query on"):
        quantise(q.WeightedSum([(1, one), (1e-6, one)]), domain)
    with pytest.raises(ValueError, match=r"all rows of the query on \('a',\) round to zero"):
        quantise(q.WeightedSum([(1, one), (-1 - 1e-9, one)]), domain)
    with pytest.raises(ValueError, match="at most 3 bits fit"):
        quantise(q.WeightedSum([(2.0**26 + 0.5, one)]), domain)
    with pytest.raises(ValueError, match="divide the query"):
        quantise(q.WeightedSum([(2**52, one), (0.5, one)]), domain)


def test_only_queries_that_fit_the_domain():
    with pytest.raises(TypeError, match=r"must be a queries\.Query, got list"):
        quantise([[0.5]], Domain({"a": 1}))
    with pytest.raises(TypeError, match="float"):
        quantise(q.DenseMatrix(("a",), [[0.5]]), Domain({"a": 1}), bits=8.5)
    with pytest.raises(ValueError, match=r"\('a',\).*2.*1"):
        quantise(q.DenseMatrix(("a",), [[0.5]]), Domain({"a": 2}))
