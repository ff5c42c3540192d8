"""Products in log space against sums over all terms in NumPy, float64: values, gradients, zeros, guard."""

import jax
import numpy as np
import pytest
import scipy.special

from pgmjax.ops.log_matmul_exp import backward, forward

SHAPES = [
    (1, 1, 1, 1),
    (3, 5, 7, 2),  # one broadcast
    (1, 60, 30, 50),  # a loop over k, tiles of one
    (2, 100, 40, 9),  # few columns: transposed
    (1, 3, 9001, 4),  # wide tiles of k, ragged
    (1, 700, 3, 801),  # backward in blocks of rows, ragged
    (5, 200, 5, 300),  # an entry of the batch at a time
]
IDENTITY = {"float32": 2e-6, "float64": 1e-14}


def random_product(shape, spread, zeros=0.0, dtype="float32", seed=0):
    """Tables, signed weights, and the true result with its two gradients in float64."""
    batch, rows, inner, columns = shape
    rng = np.random.default_rng(seed)
    left = (spread * rng.normal(size=(batch, rows, inner))).astype(dtype)
    right = (spread * rng.normal(size=(batch, inner, columns))).astype(dtype)
    left[rng.random(left.shape) < zeros] = -np.inf
    right[rng.random(right.shape) < zeros] = -np.inf
    weight = rng.normal(size=(batch, rows, columns)).astype(dtype)
    terms = left[:, :, :, None].astype(np.float64) + right[:, None].astype(np.float64)
    with np.errstate(divide="ignore"):
        out = scipy.special.logsumexp(terms, axis=2)
    shares = np.exp(terms - np.where(out == -np.inf, np.inf, out)[:, :, None]) * weight[:, :, None]
    return left, right, weight, out, (shares.sum(3), shares.sum(1))


def assert_close(got, expected, tolerance):
    got = np.asarray(got)
    assert (np.isneginf(got) == np.isneginf(expected)).all()
    finite = np.isfinite(expected)
    np.testing.assert_allclose(got[finite], expected[finite], rtol=0, atol=tolerance)


def runs(form, *tables):
    """Forward and backward of one form, compiled."""
    left, right, weight = tables
    out = jax.jit(forward, static_argnums=2)(left, right, form)
    return out, jax.jit(backward, static_argnums=4)(left, right, out, weight, form)


@pytest.mark.parametrize("form", ["exact", "guarded"])
@pytest.mark.parametrize("zeros", [0.0, 0.4])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_and_gradients_match_the_sum_of_all_terms(shape, zeros, form):
    for spread in (1.0, 1000.0):
        *tables, out, (by_left, by_right) = random_product(shape, spread, zeros)
        got, gradients = runs(form, *tables)
        tolerance = 2e-6 * max(1, spread)  # rounding of numbers as large as the tables'
        assert_close(got, out, tolerance)
        scale = max(np.abs(by_left).max(), np.abs(by_right).max(), 1)
        assert_close(gradients[0], by_left, tolerance * scale)
        assert_close(gradients[1], by_right, tolerance * scale)


@pytest.mark.parametrize("form", ["exact", "guarded", "auto"])
@pytest.mark.parametrize("shape", SHAPES[1:4])
def test_float64(shape, form):
    *tables, out, expected = random_product(shape, 100.0, 0.2, "float64")
    with jax.enable_x64(True):
        got, gradients = runs(form, *tables)
    assert got.dtype == np.float64
    assert_close(got, out, 1e-12)
    for gradient, truth in zip(gradients, expected, strict=True):
        assert_close(gradient, truth, 1e-11)
