"""The kernel equals Q D Q^T, whichever way its parts are worked out."""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.history import History, kernel
from pgmjax.history import rows as rows_module
from pgmjax.history.kernel import inner_products as module
from pgmjax.history.kernel.inner_products import KernelProduct, squared_norms
from pgmjax.history.rows import Rows
from pgmjax.queries import marginal
from tests.history import dense

DOMAIN = dense.DOMAIN
ROWS = dense.mixed_rows()
MATRIX = dense.matrix_of(dense.mixed_queries())
PRIOR, JOINT = dense.prior_of()
EXACT = {"atol": 1e-13, "rtol": 0}


def expected(which=slice(None), others=slice(None), joint=JOINT):
    return (MATRIX[which] * joint) @ MATRIX[others].T


@pytest.mark.parametrize("by_terms", [None, True, False], ids=["by cost", "equation 12", "equation 15"])
@pytest.mark.parametrize("chunk", [4_000_000, 1])
def test_kernel_is_that_of_the_matrix(monkeypatch, by_terms, chunk):
    if by_terms is not None:
        monkeypatch.setattr(module, "by_terms", lambda *sizes: by_terms)
    monkeypatch.setattr(module, "_CHUNK_NUMBERS", chunk)
    np.testing.assert_allclose(kernel(ROWS, None, PRIOR), expected(), **EXACT)
    some = [5, 0, 21, 7]
    np.testing.assert_allclose(kernel(ROWS.take(some), ROWS, PRIOR), expected(some), **EXACT)
    np.testing.assert_allclose(kernel(ROWS, ROWS.take(some), PRIOR), expected(others=some), **EXACT)


def test_many_terms_a_row_in_sums_and_matrix_products(monkeypatch):
    monkeypatch.setattr(module, "_MAX_GRAM", 0)
    monkeypatch.setattr(module, "_MANY_TERMS", 1)
    np.testing.assert_allclose(kernel(ROWS, None, PRIOR), expected(), **EXACT)


def test_without_prior_it_is_q_qt_over_n():
    uniform = np.full(DOMAIN.size(), 1 / DOMAIN.size())
    np.testing.assert_allclose(kernel(ROWS), expected(joint=uniform), **EXACT)


def test_it_is_exactly_symmetric():
    result = kernel(ROWS, None, PRIOR)
    np.testing.assert_array_equal(result, result.T)


def test_products_with_vectors(monkeypatch):
    vector = np.random.default_rng(1).normal(size=ROWS.num_rows)
    some = [5, 0, 21, 7]
    for few in (None, True, False):
        if few is not None:
            monkeypatch.setattr(rows_module, "_few", lambda *given, few=few: few)
        whole = KernelProduct(ROWS, None, PRIOR)
        np.testing.assert_allclose(whole.apply(vector), expected() @ vector, **EXACT)
        part = KernelProduct(ROWS.take(some), ROWS, PRIOR)
        np.testing.assert_allclose(part.apply(vector), expected(some) @ vector, **EXACT)


def test_squared_norms_are_the_diagonal():
    np.testing.assert_allclose(squared_norms(ROWS, PRIOR), np.diagonal(expected()), **EXACT)
    np.testing.assert_allclose(squared_norms(ROWS), (MATRIX**2).mean(axis=1), **EXACT)


def test_thirty_attributes_of_a_thousand_codes():
    """10^90 cells: the kernel of two-way cells, from counts of equal codes."""
    domain = pj.Domain({f"x{i}": 1000 for i in range(30)})
    first, second = (Rows.of(marginal([name]), domain) for name in ("x3", "x7"))
    np.testing.assert_allclose(kernel(first), np.eye(1000) / 1000, atol=1e-18)
    np.testing.assert_allclose(kernel(first, second), 1e-6, rtol=1e-12)


def test_bad_input():
    other = Rows.of(marginal(["a"]), pj.Domain({"a": 3}))
    with pytest.raises(ValueError, match=r"Domain\(\{a"):
        kernel(ROWS, other)
    with pytest.raises(ValueError, match="prior"):
        kernel(ROWS, None, dense.prior_of(domain=pj.Domain({"a": 3}))[0])
    turned = pj.Domain(dict(reversed(DOMAIN.sizes.items())))
    with pytest.raises(ValueError, match="prior"):
        kernel(ROWS, None, dense.prior_of(domain=turned)[0])
    with pytest.raises(TypeError, match=r"a kernel is of Rows, got History: give history.rows"):
        kernel(History(DOMAIN, []))
    with pytest.raises(TypeError, match="the prior must be a ProductPrior, got dict"):
        kernel(ROWS, None, {})
    with pytest.raises(ValueError, match="expected a vector of"):
        KernelProduct(ROWS).apply(np.zeros(3))


def test_no_rows():
    none = Rows.of([], DOMAIN)
    assert kernel(none).shape == (0, 0) and kernel(none, ROWS).shape == (0, ROWS.num_rows)
    assert KernelProduct(ROWS, none).apply([]).shape == (ROWS.num_rows,)
