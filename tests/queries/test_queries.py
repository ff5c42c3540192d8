"""Products, weighted sums and joint matrices: answers against explicit matrices, structure, messages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.queries.spec import as_query

DOMAIN = Domain({"a": 3, "b": 4, "c": 2})
QUERIES = {
    "marginal": q.marginal(("b", "a")),
    "cdf": q.Product({"a": q.prefix(), "b": q.prefix()}),
    "mixed": q.Product({"c": q.matrix([[1, -1]]), "a": q.all_ranges(), "b": q.total()}),
    "mean": q.Product({"a": q.mean([0.1, 0.5, 0.7]), "c": q.identity()}),
    "sum": q.WeightedSum(
        [
            (1, q.Product({"a": q.point(0), "b": q.prefix()})),
            (-2, q.Product({"b": q.identity(), "a": q.range(1, 2)})),
        ]
    ),
    "sum-float": q.WeightedSum([(0.5, q.Product({"a": q.prefix()})), (0.1, q.Product({"a": q.identity()}))]),
    "dense": q.DenseMatrix(("a", "c"), [[1, 0, -1, 0, 2, 0], [0, 1, 1, 0, 0, 0]]),
    "dense-float": q.DenseMatrix(("c",), [[0.25, 0.75]]),
}
CASES = pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())


def explicit(query):
    """The matrix from its definition, by Kronecker products in float64."""
    if isinstance(query, q.DenseMatrix):
        return query.entries.array.astype(float)
    result = 0
    for coefficient, blocks in query.factors(DOMAIN):
        matrix = np.ones((1, 1))
        for name in query.clique:
            matrix = np.kron(matrix, blocks[name].matrix(DOMAIN[name]))
        result = result + coefficient * matrix
    return result


@CASES
def test_answers_are_the_matrix_times_the_cells(query):
    table = np.random.default_rng(0).integers(0, 1000, DOMAIN.shape_of(query.clique))
    expected = explicit(query) @ table.reshape(-1)
    answers = query.apply(table)
    assert answers.shape == query.shape(DOMAIN)
    assert query.num_rows(DOMAIN) == len(expected)
    np.testing.assert_allclose(answers.reshape(-1), expected, rtol=1e-14)
    np.testing.assert_allclose(query.matrix(DOMAIN), explicit(query), rtol=1e-15)
    assert (query.matrix(DOMAIN).dtype == np.int64) == query.is_integral(DOMAIN)
    assert (answers.dtype == np.int64) == query.is_integral(DOMAIN)
    assert query.is_nonnegative(DOMAIN) <= bool((explicit(query) >= 0).all())
    np.testing.assert_allclose(
        jax.jit(lambda t: query.apply(t, jnp))(jnp.asarray(table, jnp.float32)).reshape(-1),
        expected,
        rtol=1e-5,
    )


@CASES
def test_queries_are_static_under_jit(query):
    traces = []

    @jax.jit
    def answer(table):
        traces.append(1)
        return query.apply(table, jnp)

    def static(asked, table):
        traces.append(1)
        return asked.apply(table, jnp)

    run = jax.jit(static, static_argnums=0)
    table = jnp.ones(DOMAIN.shape_of(query.clique))
    again = as_query(query.clique, query)
    run(query, table)
    run(again, table)
    assert traces == [1] and hash(query) == hash(again)


@CASES
def test_reordering_permutes_the_axes_of_the_answers(query):
    order = tuple(reversed(query.clique))
    if isinstance(query, q.DenseMatrix):
        assert query.reorder(query.clique) is query
        return
    table = np.random.default_rng(1).random(DOMAIN.shape_of(query.clique))
    np.testing.assert_allclose(query.reorder(order).apply(table.T), query.apply(table).T, rtol=1e-14)
    assert query.reorder(order).reorder(query.clique) == query


@given(st.permutations(["a", "b", "c"]), st.integers(0, 10))
@settings(max_examples=15, deadline=None)
def test_products_do_not_depend_on_the_order_of_attributes(order, seed):
    rng = np.random.default_rng(seed)
    blocks = {"a": q.prefix(), "b": q.matrix(rng.integers(-3, 4, (5, 4))), "c": q.total()}
    table = rng.integers(0, 50, (3, 4, 2))
    query = q.Product({name: blocks[name] for name in order})
    expected = q.Product(blocks).apply(table)
    axes = ["abc".index(name) for name in order]
    np.testing.assert_array_equal(query.apply(table.transpose(axes)), expected.transpose(axes))


def test_factored_form():
    query = q.Product({"a": q.prefix(), "c": q.total()})
    assert query.factors(DOMAIN) == [(1, {"a": q.prefix(), "c": q.total()})]
    assert [c for c, _ in QUERIES["sum"].factors(DOMAIN)] == [1, -2]
    assert q.DenseMatrix(("c",), [[1, 2]]).factors(DOMAIN) == [(1, {"c": q.matrix([[1, 2]])})]
    assert q.kronecker({"a": q.prefix()}) == q.Product({"a": q.prefix()})


def test_as_query_takes_what_users_write():
    clique = ("a", "b")
    assert as_query(clique) == q.marginal(clique)
    assert as_query(clique, {"b": "prefix"}) == q.Product({"a": q.identity(), "b": q.prefix()})
    assert as_query(("a",), q.prefix()) == as_query(("a",), "prefix") == q.Product({"a": q.prefix()})
    assert as_query(("a",), [[1, 0, 0]]) == q.Product({"a": q.matrix([[1, 0, 0]])})
    assert as_query(clique, np.eye(12)) == q.DenseMatrix(clique, np.eye(12))
    assert as_query(("b", "a"), q.Product({"a": q.prefix(), "b": q.total()})).blocks == (
        q.total(),
        q.prefix(),
    )


def test_large_matrices_are_refused():
    domain = Domain({"a": 10_000, "b": 10_000})
    with pytest.raises(ValueError, match=r"100,000,000 x 100,000,000 entries, above the limit.*apply"):
        q.marginal(("a", "b")).matrix(domain)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: q.Product({}), ValueError, "clique"),
        (lambda: q.Product([q.prefix()]), TypeError, "mapping of attribute names to query blocks, got list"),
        (lambda: q.Product({"a": "prefix"}), TypeError, "attribute 'a' must be a block such as.*got str"),
        (lambda: q.marginal("age"), TypeError, r"write \('age',\)"),
        (lambda: q.marginal(("a", "a")), ValueError, "twice"),
        (lambda: q.marginal(("a", "z")).check(DOMAIN), ValueError, "'z'"),
        (lambda: q.Product({"a": q.point(3)}).check(DOMAIN), ValueError, r"'a'.*0\.\.2"),
        (
            lambda: q.marginal(("a",)).apply(np.ones((3, 4))),
            ValueError,
            r"an axis for each of \('a',\), got.*\(3, 4\)",
        ),
        (lambda: q.marginal(("a",)).reorder(("b",)), ValueError, "in another order, got"),
        (lambda: q.WeightedSum([]), ValueError, "at least one term"),
        (lambda: q.WeightedSum([q.marginal(("a",))]), TypeError, "pair .*got Product"),
        (lambda: q.WeightedSum([(1, q.prefix())]), TypeError, "queries.Product, got Prefix"),
        (lambda: q.WeightedSum([(np.nan, q.marginal(("a",)))]), ValueError, "term.*nan"),
        (
            lambda: q.WeightedSum([(1, q.marginal(("a",))), (1, q.marginal(("b",)))]),
            ValueError,
            "same attributes, got.*queries.total",
        ),
        (
            lambda: q.WeightedSum([(1, q.marginal(("a",))), (1, q.Product({"a": q.total()}))]).check(DOMAIN),
            ValueError,
            "must have the same rows",
        ),
        (
            lambda: q.DenseMatrix(("a", "b"), np.eye(3)).check(DOMAIN),
            ValueError,
            "must have 12 columns, got 3",
        ),
        (
            lambda: q.DenseMatrix(("a", "b"), np.eye(12)).apply(np.ones(12)),
            ValueError,
            "with 12 cells, got shape",
        ),
        (
            lambda: q.DenseMatrix(("a", "b"), np.eye(12)).reorder(("b", "a")),
            ValueError,
            "columns in the order",
        ),
        (lambda: q.DenseMatrix(("a", "b"), np.eye(12)).factors(DOMAIN), ValueError, "no product of factors"),
        (lambda: q.DenseMatrix(("a",), [1, 2]), ValueError, r"matrix.*2.*\(2,\)"),
        (lambda: as_query(("a", "b"), q.prefix()), ValueError, "fits one attribute, but the clique is"),
        (lambda: as_query(("a",), {"b": "prefix"}), ValueError, r"\['b'\], which are not in the clique"),
        (lambda: as_query(("a",), q.marginal(("b",))), ValueError, "query is on .*but the clique is"),
        (lambda: as_query(("a",), 3), TypeError, "must be a block, a mapping.*got int"),
    ],
)
def test_bad_input(make, error, message):
    with pytest.raises(error, match=message):
        make()
