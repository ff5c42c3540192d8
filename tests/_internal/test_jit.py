"""The settings of XLA: each release knows some of them, and none that it does not know is passed on."""

import jax.numpy as jnp
import numpy as np
import pytest

from pgmjax._internal import jit

LEVEL = "xla_backend_optimization_level"


@pytest.fixture
def options(monkeypatch):
    monkeypatch.setattr(jit, "CPU_OPTIONS", {"xla_no_such_thing": False, LEVEL: 1})
    jit._known.cache_clear()
    yield jit.options
    jit._known.cache_clear()


def test_what_xla_does_not_know_is_left_out_alone(options):
    assert options("cpu") == {LEVEL: 1}
    assert options("cpu", long_run=True) is None and options("cuda") is None
    np.testing.assert_allclose(jit.jit(lambda x: jnp.sin(x) + 1)(np.float32(0.5)), np.sin(0.5) + 1, rtol=1e-6)
