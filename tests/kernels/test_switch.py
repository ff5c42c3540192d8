"""Kernels are off until switched on, run on GPUs only, and a checkout imports them uninstalled."""

import os
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from pgmjax import kernels
from pgmjax.inference.ops import exact_product

ROOT = pathlib.Path(__file__).parent.parent.parent


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


def test_operations_take_the_kernels_where_they_are_in_use(monkeypatch):
    """As on a GPU; the kernel itself is stood in for."""
    from pgmjax.kernels import log_matmul_exp

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(log_matmul_exp, "log_matmul_exp", lambda left, right: "forward")
    monkeypatch.setattr(log_matmul_exp, "log_matmul_exp_backward", lambda *tables: "backward")
    table = jnp.zeros((1, 64, 64))
    with kernels.using_kernels():
        assert exact_product.exact_forward(table, table) == "forward"
        assert exact_product.exact_backward(table, table, table, table) == "backward"
        assert exact_product.exact_forward(table[:, :2, :2], table[:, :2, :2]).shape == (1, 2, 2)
    assert exact_product.exact_forward(table, table).shape == (1, 64, 64)


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
