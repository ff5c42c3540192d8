"""Rows in factored form agree with queries written out over all cells."""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.history.rows import Rows
from pgmjax.queries import DenseMatrix, Product, marginal, mean, point, prefix
from tests.history import dense

DOMAIN = dense.DOMAIN
QUERIES = dense.mixed_queries()
ROWS = Rows.of(QUERIES, DOMAIN)
MATRIX = dense.matrix_of(QUERIES)


def test_entries_are_those_of_the_queries():
    np.testing.assert_allclose(ROWS.matrix(), MATRIX, rtol=0, atol=1e-14)
    assert ROWS.num_rows == len(MATRIX) == len(ROWS)


def test_a_product_has_one_term_a_row_and_a_joint_matrix_no_more_than_its_shorter_side():
    assert Rows.of(marginal(["a", "b"]), DOMAIN).num_terms == 12
    assert Rows.of(DenseMatrix(("d", "b"), np.ones((1, 20))), DOMAIN).num_terms == 4


def test_vectors_are_kept_once_and_ones_come_first():
    rows = Rows.of([marginal(["a"]), marginal(["a", "b"]), Product({"a": point(1)})], DOMAIN)
    assert [len(vectors) for vectors in rows.vectors] == [4, 5, 1, 1]
    assert all((vectors[0] == 1).all() for vectors in rows.vectors)
    assert rows.groups[0].attributes == (0,) and rows.groups[1].attributes == (0, 1)


def test_zero_rows_have_no_term_and_stay_rows():
    rows = Rows.of([DenseMatrix(("a", "b"), np.zeros((2, 12))), marginal(["c"])], DOMAIN)
    assert rows.num_rows == 4 and rows.num_terms == 2
    np.testing.assert_array_equal(rows.mean()[:2], 0)


EVEN = np.arange(len(MATRIX)) % 2 == 0


@pytest.mark.parametrize("which", [slice(3, 9), [5, 0, 5], EVEN, slice(0, 0)], ids=str)
def test_some_rows(which):
    np.testing.assert_allclose(ROWS.take(which).matrix(), MATRIX[which], rtol=0, atol=1e-14)


def test_rows_after_rows():
    other = Rows.of(marginal(["d", "c"]), DOMAIN)
    both = ROWS.take([4, 2]).concatenated(other, ROWS)
    expected = np.concatenate([MATRIX[[4, 2]], other.matrix(), MATRIX])
    np.testing.assert_allclose(both.matrix(), expected, rtol=0, atol=1e-14)


def test_rows_over_other_domains_are_not_put_together():
    with pytest.raises(ValueError, match=r"Domain\("):
        ROWS.concatenated(Rows.of(marginal(["a"]), pj.Domain({"a": 3})))


def test_means_and_values_at_cells():
    prior, joint = dense.prior_of()
    np.testing.assert_allclose(ROWS.mean(prior), MATRIX @ joint, rtol=0, atol=1e-14)
    np.testing.assert_allclose(ROWS.mean(), MATRIX.mean(axis=1), rtol=0, atol=1e-14)
    cells = np.random.default_rng(0).integers(0, DOMAIN.shape, size=(17, 4))
    expected = MATRIX[:, np.ravel_multi_index(cells.T, DOMAIN.shape)].T
    np.testing.assert_allclose(ROWS.evaluate(cells), expected, rtol=0, atol=1e-14)


def test_extremes_are_those_of_the_entries():
    low, high = ROWS.extremes()
    np.testing.assert_allclose(low, MATRIX.min(axis=1), rtol=0, atol=1e-14)
    np.testing.assert_allclose(high, MATRIX.max(axis=1), rtol=0, atol=1e-14)
    np.testing.assert_allclose(ROWS.largest(), np.abs(MATRIX).max(axis=1), rtol=0, atol=1e-14)


def test_extremes_of_products_with_signs():
    query = Product({"a": pj.queries.matrix([[-1, 2, 0]]), "b": pj.queries.matrix([[3, -5, 1, 1]])})
    low, high = Rows.of(query, DOMAIN).extremes()
    assert (low[0], high[0]) == (-10, 6)


def test_extremes_of_many_cells_are_bounds(monkeypatch):
    monkeypatch.setattr("pgmjax.history.rows.MAX_JOINT_CELLS", 1)
    low, high = ROWS.extremes()
    assert (low <= MATRIX.min(axis=1) + 1e-12).all() and (high >= MATRIX.max(axis=1) - 1e-12).all()


def test_a_thousand_attributes():
    domain = pj.Domain({f"x{i}": 10 for i in range(1000)})
    rows = Rows.of([Product({f"x{i}": mean(), f"x{i + 1}": prefix()}) for i in range(0, 50)], domain)
    np.testing.assert_allclose(rows.mean()[:10], 4.5 * np.arange(1, 11) / 10)
    with pytest.raises(ValueError, match=r"the matrix of 500 rows over .* use the kernel"):
        rows.matrix()


def test_what_is_no_query_is_refused():
    with pytest.raises(ValueError, match="'a'"):
        Rows.of(["a"], DOMAIN)
    with pytest.raises(TypeError, match=r"pgmjax\.queries.*int"):
        Rows.of([1], DOMAIN)
    with pytest.raises(ValueError, match="'z'"):
        Rows.of(marginal(["z"]), DOMAIN)
    with pytest.raises(ValueError, match=r"9.*'a'"):
        Rows.of(Product({"a": point(9)}), DOMAIN)
