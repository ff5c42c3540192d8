"""The fused log-sum-exp, interpreted on the CPU against SciPy, and lowered for CUDA."""

import jax
import numpy as np
import pytest
import scipy.special

from pgmjax.kernels.log_sum_exp import log_sum_exp

CASES = {
    "middle axis": ([(5, 7, 1), (1, 7, 6)], (1,)),
    "three tables, two axes": ([(3, 4, 1, 1), (1, 4, 5, 1), (3, 1, 5, 6)], (1, 2)),
    "last axis, more cells than a program's": ([(20, 1, 3), (1, 30, 3)], (2,)),
    "every axis": ([(5, 1), (1, 4)], (0, 1)),
    "one cell": ([(1, 1)], (0,)),
}


@pytest.mark.parametrize(("shapes", "axes"), CASES.values(), ids=CASES)
def test_interpreted_kernel_matches_scipy(shapes, axes):
    rng = np.random.default_rng(0)
    tables = [(10 * rng.normal(size=shape)).astype(np.float32) for shape in shapes]
    tables[0][rng.random(shapes[0]) < 0.3] = -np.inf
    expected = scipy.special.logsumexp(sum(table.astype(np.float64) for table in tables), axis=axes)
    got = log_sum_exp(tables, axes, interpret=True)
    assert (np.isneginf(got) == np.isneginf(expected)).all()
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)


def test_kernel_lowers_for_cuda_without_a_gpu(h100):
    shapes, axes = CASES["three tables, two axes"]
    tables = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    unchecked = [jax.export.DisabledSafetyCheck.custom_call("__gpu$xla.gpu.triton")]
    function = jax.jit(lambda *tables: log_sum_exp(tables, axes))
    exported = jax.export.export(function, platforms=["cuda"], disabled_checks=unchecked)
    assert "triton" in exported(*tables).mlir_module()
