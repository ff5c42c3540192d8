"""A GPU to lower programs for, where there is none."""

import jax
import pytest


@pytest.fixture
def h100():
    """From 0.11 on JAX asks which GPU a Triton program is for."""
    device = jax.sharding.AbstractDevice(device_kind="NVIDIA H100", num_cores=None, platform="gpu")
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((1,), ("x",), abstract_device=device)):
        yield
