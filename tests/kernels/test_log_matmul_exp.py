"""Products in log space against sums over all terms in NumPy, float64: values, gradients, zeros, guard."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from pgmjax.kernels import exact_product, fast_product
from pgmjax.kernels.log_matmul_exp import backward, choose_form, forward, log_matmul_exp

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


def runs(form, *tables):
    """Forward and backward of one form, compiled."""
    left, right, weight = tables
    out = jax.jit(forward, static_argnums=2)(left, right, form)
    return out, jax.jit(backward, static_argnums=4)(left, right, out, weight, form)


def assert_true_to_terms(form, shape, zeros):
    for spread in (1.0, 1000.0):
        *tables, out, (by_left, by_right) = random_product(shape, spread, zeros)
        got, gradients = runs(form, *tables)
        tolerance = 2e-6 * max(1, spread)  # rounding of numbers as large as the tables'
        assert_close(got, out, tolerance)
        scale = max(np.abs(by_left).max(), np.abs(by_right).max(), 1)
        assert_close(gradients[0], by_left, tolerance * scale)
        assert_close(gradients[1], by_right, tolerance * scale)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_exact_form_matches_the_sum_of_all_terms(shape):
    for zeros in (0.0, 0.4):
        assert_true_to_terms("exact", shape, zeros)


@pytest.mark.parametrize(("shape", "zeros"), [(SHAPES[0], 0.0), (SHAPES[2], 0.4), (SHAPES[5], 0.0)])
def test_the_guarded_form_matches_the_sum_of_all_terms(shape, zeros):
    assert_true_to_terms("guarded", shape, zeros)


@pytest.mark.parametrize("form", ["exact", "guarded"])
def test_float64(form):
    *tables, out, expected = random_product(SHAPES[3], 100.0, 0.2, "float64")
    with jax.enable_x64(True):
        got, gradients = runs(form, *tables)
    assert got.dtype == np.float64
    assert_close(got, out, 1e-12)
    for gradient, truth in zip(gradients, expected, strict=True):
        assert_close(gradient, truth, 1e-11)


@pytest.mark.parametrize("spread", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("zeros", [0.0, 0.9])
def test_the_fast_form_is_right_or_says_so(spread, zeros):
    """Unclipped entries are right; clipped ones hold an upper bound; zeros are exact."""
    left, right, weight, out, _ = random_product((2, 40, 30, 50), spread, zeros)
    got, clipped = (np.asarray(table) for table in jax.jit(fast_product.fast_forward)(left, right))
    assert (np.isneginf(got) == np.isneginf(out)).all() and not clipped[np.isneginf(out)].any()
    right_or_zero = np.where(clipped, -np.inf, out)
    assert_close(np.where(clipped, -np.inf, got), right_or_zero, 2e-6 * spread)
    assert (got[clipped] >= out[clipped]).all()
    assert clipped.any() == (spread > 1)
    unclipped = np.where(clipped, 0, weight / np.abs(weight).sum()).astype(np.float32)
    terms = left[:, :, :, None].astype(np.float64) + right[:, None].astype(np.float64)
    shares = np.exp(terms - np.where(out == -np.inf, np.inf, out)[:, :, None]) * unclipped[:, :, None]
    factors = jax.jit(fast_product.factored_forward)(left, right)[2]
    every = (weight / np.abs(weight).sum()).astype(np.float32)  # those of clipped entries must not count
    for gradients in (
        jax.jit(fast_product.fast_backward)(left, right, got, unclipped),
        jax.jit(fast_product.factored_backward)(factors, every),
    ):
        for gradient, truth in zip(gradients, (shares.sum(3), shares.sum(1)), strict=True):
            np.testing.assert_allclose(gradient, truth, rtol=0, atol=2e-6 * spread * np.abs(truth).max())


def test_the_clip_limit_bounds_what_underflow_loses():
    """Factors just under the smallest normal number, as many as there are: the worst case of the guard."""
    inner, rows = 64, 400
    depth = np.linspace(0, -140, rows, dtype=np.float32)
    left = np.tile(depth[None, :, None], (1, 1, inner))
    left[:, :, 0] = 0  # sets the row maxima; right has nothing there
    right = np.zeros((1, inner, 2), np.float32)
    right[:, 0, :] = -300
    right[:, 0, 1] = 0
    truth = scipy.special.logsumexp(left[..., None].astype(float) + right[:, None], axis=2)
    got, clipped = (np.asarray(table) for table in jax.jit(fast_product.fast_forward)(left, right))
    assert clipped[0, :, 0].any() and not clipped[0, :, 0].all() and not clipped[0, :, 1].any()
    assert_close(np.where(clipped, 0, got), np.where(clipped, 0, truth), 2e-5)


@pytest.mark.parametrize(("further", "expected"), [(-2, False), (2, True)])
def test_clipping_starts_where_the_docstring_says(further, expected):
    assert 91 < fast_product.clip_gap(1, np.dtype("float32")) < 93
    depth = fast_product.clip_gap(2, np.dtype("float32")) + further
    left = np.array([[[0.0, -depth], [-depth, 0.0]]], np.float32)
    right = np.array([[[0.0, -300.0], [-300.0, 0.0]]], np.float32)
    out, clipped = jax.jit(fast_product.fast_forward)(left, right)
    assert clipped.tolist() == [[[False, expected], [expected, False]]]
    assert out[0, 0, 1] == pytest.approx(-depth, abs=3)


def test_finite_tables_need_no_search_for_zeros():
    left, right, _, out, _ = random_product((1, 9, 8, 7), 1.0)
    got, clipped = jax.jit(fast_product.fast_forward, static_argnames="finite")(left, right, finite=True)
    assert_close(got, out, 2e-6)
    assert not clipped.any()


@pytest.mark.parametrize(
    ("form", "shape"),
    [("exact", (3, 4, 5)), ("exact", (40, 60, 80)), ("fast", (3, 4, 5)), ("guarded", (3, 4, 5))],
)
def test_nothing_finite_gives_minus_infinity_and_no_gradient(form, shape):
    rows, inner, columns = shape
    left = jnp.full((1, rows, inner), -jnp.inf).at[0, 0].set(0)
    right = jnp.zeros((1, inner, columns))
    out, (by_left, by_right) = runs(form, left, right, jnp.ones((1, rows, columns)))
    assert (np.isneginf(out) == (np.arange(rows) > 0)[None, :, None]).all()
    assert not by_left[:, 1:].any()
    np.testing.assert_allclose(by_left[0, 0].sum(), columns, rtol=1e-6)
    np.testing.assert_allclose(by_right, 1 / inner, rtol=1e-6)


@pytest.mark.parametrize("form", ["exact", "fast", "guarded"])
def test_derivatives_of_first_second_and_third_order(form):
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
        got = orders(lambda a, b: log_matmul_exp(a, b, form))(left, right)
        for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(orders(plain)(left, right)), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", ["exact", "guarded"])
def test_rows_of_a_vmapped_batch_are_independent(form):
    """One row needs the exact form, one does not."""
    left, right, _, out, _ = random_product((1, 40, 30, 50), 1.0)
    wide, wider, _, wide_out, _ = random_product((1, 40, 30, 50), 300.0, 0.2, seed=1)

    def value(left, right):
        out = log_matmul_exp(left, right, form)
        return jnp.sum(jnp.where(jnp.isfinite(out), out, 0)), out

    batched = jax.jit(jax.vmap(jax.value_and_grad(value, has_aux=True)))
    (_, got), slopes = batched(np.stack([left, wide]), np.stack([right, wider]))
    assert_close(got[0], out, 2e-6)
    assert_close(got[1], wide_out, 6e-4)
    terms = wide[:, :, :, None].astype(np.float64) + wider[:, None]
    shares = np.exp(terms - np.where(wide_out == -np.inf, np.inf, wide_out)[:, :, None])
    np.testing.assert_allclose(slopes[1], shares.sum(3), rtol=0, atol=1e-2)
    np.testing.assert_allclose(slopes[0].sum((1, 2)), out.size, rtol=1e-5)  # each counts one


@pytest.mark.parametrize("form", ["exact", "fast", "guarded"])
def test_large_products_never_hold_an_array_over_all_terms(form):
    shape = batch, rows, inner, columns = 1, 256, 300, 256
    terms = 4 * batch * rows * inner * columns
    assert np.prod(shape) > exact_product.BROADCAST_CELLS
    left = jax.ShapeDtypeStruct((batch, rows, inner), np.float32)
    right = jax.ShapeDtypeStruct((batch, inner, columns), np.float32)
    out = jax.ShapeDtypeStruct((batch, rows, columns), np.float32)
    for function, tables in ((forward, (left, right)), (backward, (left, right, out, out))):
        compiled = jax.jit(function, static_argnums=len(tables)).lower(*tables, form).compile()
        assert compiled.memory_analysis().temp_size_in_bytes < terms / 10


def test_the_form_is_chosen_by_size():
    assert choose_form(1, 256, 256, 256) == "guarded"
    assert choose_form(1, 8, 8, 8) == "exact"
    assert choose_form(1, 1, 10**6, 10) == "exact"


def test_bad_input_is_refused():
    table = jnp.zeros((1, 2, 3))
    with pytest.raises(ValueError, match="expected a form of auto, exact, fast, guarded, got 'slow'"):
        log_matmul_exp(table, table.swapaxes(1, 2), "slow")
    with pytest.raises(ValueError, match=r"expected shapes \[b, m, k\] and \[b, k, n\], got .*reshape"):
        forward(table, table)
    with pytest.raises(ValueError, match="expected shapes"):
        forward(table[0], table[0])
    with pytest.raises(
        TypeError, match="expected two tables of float32 or of float64, got float32 and int32"
    ):
        forward(table, jnp.zeros((1, 3, 2), jnp.int32))
    with pytest.raises(ValueError, match=r"expected weight of shape \(1, 2, 2\), got \(1, 2, 3\)"):
        backward(table, table.swapaxes(1, 2), jnp.zeros((1, 2, 2)), table)


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
