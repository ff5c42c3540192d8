"""The kernels of the log-space product: interpreted on the CPU against NumPy, and lowered for CUDA."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from pgmjax.kernels import log_matmul_exp as kernels
from pgmjax.kernels.log_matmul_exp import block_size, log_matmul_exp, log_matmul_exp_backward

SHAPES = {
    "one cell": (1, 1, 1, 1),
    "whole blocks": (1, 32, 16, 48),
    "ragged edges": (2, 33, 9, 17),
    "smaller than a block": (3, 5, 7, 2),
    "long sum": (1, 2, 131, 3),
    "a row times a column": (4, 1, 20, 1),
}


def random_product(shape, zeros, dtype):
    batch, rows, inner, columns = shape
    rng = np.random.default_rng(sum(shape))
    left = (20 * rng.normal(size=(batch, rows, inner))).astype(dtype)
    right = (20 * rng.normal(size=(batch, inner, columns))).astype(dtype)
    left[rng.random(left.shape) < zeros] = -np.inf
    right[rng.random(right.shape) < zeros] = -np.inf
    left[0, 0] = -np.inf if zeros else left[0, 0]
    weight = rng.random(size=(batch, rows, columns)).astype(dtype)
    terms = left[:, :, :, None].astype(np.float64) + right[:, None].astype(np.float64)
    with np.errstate(divide="ignore"):
        out = scipy.special.logsumexp(terms, axis=2)
    shares = np.exp(terms - np.where(out == -np.inf, np.inf, out)[:, :, None]) * weight[:, :, None]
    return (left, right, weight), out, (shares.sum(3), shares.sum(1))


def assert_matches(tables, out, gradients, tolerance):
    left, right, weight = tables
    got = log_matmul_exp(left, right, block=16, interpret=True)
    assert got.dtype == left.dtype and (np.isneginf(got) == np.isneginf(out)).all()
    finite = np.isfinite(out)
    np.testing.assert_allclose(np.asarray(got)[finite], out[finite], rtol=0, atol=100 * tolerance)
    by_side = log_matmul_exp_backward(left, right, got, weight, block=16, interpret=True)
    for gradient, expected in zip(by_side, gradients, strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=100 * tolerance * max(1, expected.max()))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_interpreted_kernels_match_the_sum_of_all_terms(shape):
    for zeros in (0.0, 0.5):
        assert_matches(*random_product(shape, zeros, np.float32), tolerance=2e-7)


@pytest.mark.parametrize("shape", ["ragged edges", "long sum"])
def test_interpreted_kernels_in_float64(shape):
    with jax.enable_x64(True):
        assert_matches(*random_product(SHAPES[shape], 0.3, np.float64), tolerance=1e-15)


def test_gradients_of_slabs_of_columns_are_those_of_the_whole(monkeypatch):
    """33 columns in three slabs, as where the sums over blocks of columns would take too much memory."""
    monkeypatch.setattr(kernels, "PARTIAL_CELLS", 1)
    assert_matches(*random_product((2, 9, 5, 33), 0.3, np.float32), tolerance=2e-7)


def test_rows_of_a_vmapped_batch_are_independent():
    (left, right, _), out, _ = random_product((3, 5, 4, 6), 0.0, np.float32)
    stacked = jnp.stack([left, 2 * left]), jnp.stack([right, right])
    got = jax.vmap(lambda a, b: log_matmul_exp(a, b, block=16, interpret=True))(*stacked)
    np.testing.assert_allclose(got[0], out, rtol=0, atol=2e-5)


@pytest.mark.parametrize("shared", [False, True])
def test_gradients_of_a_vmapped_batch_are_those_of_each_row(shared):
    """Against the sum of all terms in float64, with zeros and ragged edges, perhaps of one right table."""
    rows, (_, common, _) = [], random_product((2, 7, 19, 21), 0.0, np.float32)[0]
    for number, zeros in enumerate((0.0, 0.4, 0.0)):
        left, right, weight = random_product((2, 7, 19, 21), zeros, np.float32)[0]
        left, right = left * np.float32(1 + number), common if shared else right
        with np.errstate(divide="ignore"):
            out = scipy.special.logsumexp(np.float64(left[:, :, :, None]) + right[:, None], axis=2)
        rows.append((left, right, out.astype(np.float32), weight))
    stacked = [np.stack(each) for each in zip(*rows, strict=True)]
    if shared:
        stacked[1] = common

    def gradients(left, right, out, weight):
        return log_matmul_exp_backward(left, right, out, weight, block=16, interpret=True)

    found = jax.vmap(gradients, in_axes=(0, None if shared else 0, 0, 0))(*stacked)
    for number, row in enumerate(rows):
        left, right, out, weight = (np.asarray(each, np.float64) for each in row)
        out = np.where(np.isneginf(out), np.inf, out)
        shares = np.exp(left[:, :, :, None] + right[:, None] - out[:, :, None]) * weight[:, :, None]
        for one, expected in zip(found, (shares.sum(3), shares.sum(1)), strict=True):
            assert one.dtype == np.float32
            np.testing.assert_allclose(one[number], expected, rtol=0, atol=2e-5 * max(1, expected.max()))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 256, 256, 256), (3, 41, 70, 30), (1, 1, 1, 1)])
def test_kernels_lower_for_cuda_without_a_gpu(shape, dtype, h100):
    batch, rows, inner, columns = shape
    with jax.enable_x64(dtype == "float64"):
        left = jax.ShapeDtypeStruct((batch, rows, inner), dtype)
        right = jax.ShapeDtypeStruct((batch, inner, columns), dtype)
        out = jax.ShapeDtypeStruct((batch, rows, columns), dtype)
        for function, arguments in (
            (log_matmul_exp, (left, right)),
            (log_matmul_exp_backward, (left, right, out, out)),
        ):
            unchecked = [jax.export.DisabledSafetyCheck.custom_call("__gpu$xla.gpu.triton")]
            exported = jax.export.export(jax.jit(function), platforms=["cuda"], disabled_checks=unchecked)
            assert "triton" in exported(*arguments).mlir_module()


def test_blocks_shrink_where_programs_would_be_few():
    assert block_size(1, 256, 256) == 16
    assert block_size(1, 2000, 3000) == 32
