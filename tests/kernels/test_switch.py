"""Kernels are off until switched on, run on GPUs only, and a checkout imports them uninstalled."""

import os
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from pgmjax import kernels
from pgmjax.inference.ops import exact_product
from pgmjax.kernels import switch

ROOT = pathlib.Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def nothing_kept(tmp_path, monkeypatch):
    """No test reads the cache folder of whoever runs it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    switch._kept_for.cache_clear()
    yield
    switch._kept_for.cache_clear()


def test_kernels_are_off_until_switched_on_and_need_a_gpu():
    assert not kernels.kernels_in_use("gpu")
    with kernels.using_kernels():
        assert kernels.kernels_in_use("gpu") and not kernels.kernels_in_use("cpu")
        with kernels.using_kernels(False):
            assert not kernels.kernels_in_use("gpu")
    assert not kernels.kernels_in_use("gpu")


def test_the_switch_reaches_functions_that_are_compiled_already():
    traced = []

    @jax.jit
    def function(x):
        traced.append(kernels.kernels_in_use("gpu"))
        return x

    function(1.0)
    with kernels.using_kernels():
        function(1.0)
    function(1.0)
    assert traced == [False, True]


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """JAX says it runs on a GPU; programs that were lowered before are forgotten."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    exact_product._lowered.cache_clear()
    exact_product._say_fallback.cache_clear()
    yield
    exact_product._lowered.cache_clear()
    exact_product._say_fallback.cache_clear()


def test_operations_take_the_kernels_where_they_are_in_use(monkeypatch, as_on_a_gpu):
    """The kernel itself is stood in for."""
    from pgmjax.kernels import log_matmul_exp

    monkeypatch.setattr(log_matmul_exp, "log_matmul_exp", lambda left, right: left + 1)
    monkeypatch.setattr(log_matmul_exp, "log_matmul_exp_backward", lambda *tables: tables[0] + 2)
    table = jnp.zeros((1, 64, 64))
    with kernels.using_kernels():
        assert exact_product.exact_forward(table, table)[0, 0, 0] == 1
        assert exact_product.exact_backward(table, table, table, table)[0, 0, 0] == 2
        assert exact_product.exact_forward(table[:, :2, :2], table[:, :2, :2]).shape == (1, 2, 2)
    assert exact_product.exact_forward(table, table)[0, 0, 0] == pytest.approx(np.log(64))


def test_a_kernel_that_does_not_lower_falls_back_to_xla_and_says_so_once(caplog, as_on_a_gpu):
    """The device is a CPU in truth, for which Pallas lowers nothing."""
    left, right = np.random.default_rng(0).normal(size=(2, 1, 64, 64)).astype(np.float32)
    out = scipy.special.logsumexp(left[:, :, :, None] + right[:, None], axis=2)
    with kernels.using_kernels(), caplog.at_level("WARNING", logger="pgmjax"):
        got = [jax.jit(exact_product.exact_forward)(left, right) for _ in range(2)]
        exact_product.exact_forward(left[:, 1:], right)
        by_left, _ = exact_product.exact_backward(left, right, out, np.ones_like(out))
    np.testing.assert_allclose(got[1], out, rtol=0, atol=1e-5)
    np.testing.assert_allclose(by_left.sum(2), np.full((1, 64), 64), rtol=1e-5)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2 and "log_matmul_exp does not lower" in said[0] and "_backward" in said[1]


@pytest.mark.skipif(not (ROOT / "kernels").is_dir(), reason="the tests run apart from the source tree")
def test_a_bare_checkout_imports_its_kernels(tmp_path):
    """No installation: the checkout's folder is all that is on the path."""
    code = "import pgmjax.kernels.log_matmul_exp as k; print(k.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert pathlib.Path(run.stdout.strip()).resolve() == ROOT / "kernels" / "log_matmul_exp.py"
