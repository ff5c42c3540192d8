"""Products in log space against sums over all terms in NumPy, float64: values, gradients, zeros."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from pgmjax.kernels import exact_product, fast_product
from pgmjax.kernels.exact_product import log_matmul_exp

SHAPES = [
    (1, 1, 1, 1),
    (3, 5, 7, 2),  # one broadcast
    (1, 60, 30, 50),  # a loop over k, tiles of one
    (2, 100, 40, 9),  # few columns: transposed
    (1, 3, 9001, 4),  # wide tiles of k, ragged
    (1, 700, 3, 801),  # backward in blocks of rows, ragged
    (5, 200, 5, 300),  # an entry of the batch at a time
]


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


def exact_runs(left, right, weight):
    """Forward and backward, compiled."""
    out = jax.jit(exact_product.exact_forward)(left, right)
    return out, jax.jit(exact_product.exact_backward)(left, right, out, weight)


def fast_runs(left, right, weight):
    """Forward and backward, compiled."""
    out, _, factors = jax.jit(fast_product.fast_forward)(left, right)
    return out, jax.jit(fast_product.fast_backward)(factors, weight)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_exact_form_matches_the_sum_of_all_terms(shape):
    for zeros in (0.0, 0.4):
        for spread in (1.0, 1000.0):
            *tables, out, (by_left, by_right) = random_product(shape, spread, zeros)
            got, gradients = exact_runs(*tables)
            tolerance = 2e-6 * max(1, spread)  # rounding of numbers as large as the tables'
            assert_close(got, out, tolerance)
            scale = max(np.abs(by_left).max(), np.abs(by_right).max(), 1)
            assert_close(gradients[0], by_left, tolerance * scale)
            assert_close(gradients[1], by_right, tolerance * scale)


@pytest.mark.parametrize(("runs", "spread", "zeros"), [(exact_runs, 100.0, 0.2), (fast_runs, 10.0, 0.0)])
def test_float64(runs, spread, zeros):
    left, right, weight, out, expected = random_product(SHAPES[3], spread, zeros, "float64")
    scale = np.abs(weight).sum() if runs is fast_runs else 1.0
    with jax.enable_x64(True):
        got, gradients = runs(left, right, weight / scale)
    assert got.dtype == np.float64
    assert_close(got, out, 1e-12)
    for gradient, truth in zip(gradients, expected, strict=True):
        assert_close(gradient, truth / scale, 1e-11 / scale)


@pytest.mark.parametrize("spread", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("zeros", [0.0, 0.9])
def test_the_fast_form_is_right_or_says_so(spread, zeros):
    """Unclipped entries are right; clipped ones, zeros among them, hold an upper bound."""
    left, right, weight, out, _ = random_product((2, 40, 30, 50), spread, zeros)
    got, clipped, factors = jax.jit(fast_product.fast_forward)(left, right)
    got, clipped = np.asarray(got), np.asarray(clipped)
    assert clipped[np.isneginf(out)].all()
    right_or_zero = np.where(clipped, -np.inf, out)
    assert_close(np.where(clipped, -np.inf, got), right_or_zero, 2e-6 * spread)
    assert (got[clipped] >= out[clipped]).all()
    assert clipped.any() == (spread > 1 or zeros > 0)
    unclipped = np.where(clipped, 0, weight / np.abs(weight).sum()).astype(np.float32)
    terms = left[:, :, :, None].astype(np.float64) + right[:, None].astype(np.float64)
    shares = np.exp(terms - np.where(out == -np.inf, np.inf, out)[:, :, None]) * unclipped[:, :, None]
    every = (weight / np.abs(weight).sum()).astype(np.float32)  # those of clipped entries must not count
    gradients = jax.jit(fast_product.fast_backward)(factors, every)
    for gradient, truth in zip(gradients, (shares.sum(3), shares.sum(1)), strict=True):
        np.testing.assert_allclose(gradient, truth, rtol=0, atol=2e-6 * spread * np.abs(truth).max())


def test_the_clip_limit_bounds_what_underflow_loses():
    """One term that is kept and many just under the smallest normal number: the worst case of the guard."""
    inner, rows = 64, 400
    left = np.tile(np.linspace(0, -140, rows, dtype=np.float32)[None, :, None], (1, 1, inner))
    left[:, :, 0] = 0  # sets the row maxima
    right = np.zeros((1, inner, 42), np.float32)
    right[:, 0] = [-300, 0, *np.linspace(-120, -80, 40)]
    truth = scipy.special.logsumexp(left[..., None].astype(float) + right[:, None], axis=2)
    got, clipped = map(np.asarray, jax.jit(fast_product.fast_forward)(left, right)[:2])
    assert clipped[0, :, 0].any() and not clipped[0, :, 0].all() and not clipped[0, :, 1].any()
    assert_close(np.where(clipped, 0, got), np.where(clipped, 0, truth), 2e-5)


@pytest.mark.parametrize(("further", "expected"), [(-2, False), (2, True)])
def test_clipping_starts_where_the_docstring_says(further, expected):
    depth = 92 - np.log(2) + further  # of two terms
    left = np.array([[[0.0, -depth], [-depth, 0.0]]], np.float32)
    right = np.array([[[0.0, -300.0], [-300.0, 0.0]]], np.float32)
    out, clipped, _ = jax.jit(fast_product.fast_forward)(left, right)
    assert clipped.tolist() == [[[False, expected], [expected, False]]]
    assert out[0, 0, 1] == pytest.approx(-depth, abs=3)


@pytest.mark.parametrize("shape", [(3, 4, 5), (40, 60, 80)])
def test_nothing_finite_gives_minus_infinity_and_no_gradient(shape):
    rows, inner, columns = shape
    left = jnp.full((1, rows, inner), -jnp.inf).at[0, 0].set(0)
    right = jnp.zeros((1, inner, columns))
    out, (by_left, by_right) = exact_runs(left, right, jnp.ones((1, rows, columns)))
    assert (np.isneginf(out) == (np.arange(rows) > 0)[None, :, None]).all()
    assert not by_left[:, 1:].any()
    np.testing.assert_allclose(by_left[0, 0].sum(), columns, rtol=1e-6)
    np.testing.assert_allclose(by_right, 1 / inner, rtol=1e-6)


def test_derivatives_of_first_second_and_third_order():
    def plain(left, right):
        return jax.nn.logsumexp(left[:, :, :, None] + right[:, None], axis=2)

    def slope(function):
        def value(left, right):
            return jnp.sum(jnp.cos(function(left, right)) * jnp.arange(1.0, 7).reshape(2, 1, 3))

        return lambda left, right: sum(jnp.sum(jnp.sin(g)) for g in jax.grad(value, (0, 1))(left, right))

    def orders(function):
        second = jax.grad(slope(function), (0, 1))
        third = jax.grad(lambda *t: sum(jnp.sum(jnp.sin(g)) for g in second(*t)), (0, 1))
        return jax.jit(lambda *t: (slope(function)(*t), second(*t), third(*t)))

    with jax.enable_x64(True):
        left, right, *_ = random_product((2, 1, 4, 3), 1.0, dtype="float64")
        got = orders(log_matmul_exp)(left, right)
        for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(orders(plain)(left, right)), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


def test_rows_of_a_vmapped_batch_are_independent():
    left, right, _, out, _ = random_product((1, 40, 30, 50), 1.0)
    wide, wider, _, wide_out, _ = random_product((1, 40, 30, 50), 300.0, 0.2, seed=1)

    def value(left, right):
        out = log_matmul_exp(left, right)
        return jnp.sum(jnp.where(jnp.isfinite(out), out, 0)), out

    batched = jax.jit(jax.vmap(jax.value_and_grad(value, has_aux=True)))
    (_, got), slopes = batched(np.stack([left, wide]), np.stack([right, wider]))
    assert_close(got[0], out, 2e-6)
    assert_close(got[1], wide_out, 6e-4)
    terms = wide[:, :, :, None].astype(np.float64) + wider[:, None]
    shares = np.exp(terms - np.where(wide_out == -np.inf, np.inf, wide_out)[:, :, None])
    np.testing.assert_allclose(slopes[1], shares.sum(3), rtol=0, atol=1e-2)
    np.testing.assert_allclose(slopes[0].sum((1, 2)), out.size, rtol=1e-5)  # each counts one


@pytest.mark.parametrize("runs", [exact_runs, fast_runs])
def test_large_products_never_hold_an_array_over_all_terms(runs):
    shape = batch, rows, inner, columns = 1, 256, 300, 256
    terms = 4 * batch * rows * inner * columns
    assert np.prod(shape) > exact_product.BROADCAST_CELLS
    left = jax.ShapeDtypeStruct((batch, rows, inner), np.float32)
    right = jax.ShapeDtypeStruct((batch, inner, columns), np.float32)
    weight = jax.ShapeDtypeStruct((batch, rows, columns), np.float32)
    compiled = jax.jit(runs).lower(left, right, weight).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < terms / 10


@pytest.mark.parametrize("shape", [(1, 3, 4, 5), (2, 300, 40, 700), (3, 700, 20, 9), (5, 40, 90, 60)])
def test_max_plus_is_the_largest_term(shape):
    batch, rows, inner, columns = shape
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(batch, rows, inner)), rng.normal(size=(batch, inner, columns))
    left[rng.random(left.shape) < 0.2] = -np.inf
    left[0, 0] = -np.inf
    found = exact_product.max_plus(jnp.asarray(left, jnp.float32), jnp.asarray(right, jnp.float32))
    for b in range(batch):
        for m in range(0, rows, max(1, rows // 7)):
            expected = np.max(left[b, m, :, None] + right[b], axis=0)
            np.testing.assert_allclose(found[b, m], expected, rtol=1e-6, atol=1e-6)
