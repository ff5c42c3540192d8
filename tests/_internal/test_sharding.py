"""Rows and slices on 8 virtual devices, against one device. Each test runs in a process of its own."""

import os
import subprocess
import sys
import textwrap

import jax
import numpy as np
import pytest

import pgmjax as pj
from pgmjax._internal import sharding

COMMON = """
import jax, jax.numpy as jnp, numpy as np
import pgmjax as pj
from pgmjax import sharding

domain = pj.Domain({"a": 3, "b": 4, "c": 2})
rng = np.random.default_rng(0)
joint = rng.dirichlet(np.ones(24)).reshape(3, 4, 2)

def row(seed, total, stddev):
    rng = np.random.default_rng(seed)
    noisy = [table * total + rng.normal(size=table.shape) * stddev for table in (joint.sum(2), joint.sum(0))]
    return [pj.LinearMeasurement(c, y, stddev) for c, y in zip((("a", "b"), ("b", "c")), noisy)]

totals = [10.0 ** (2 + seed % 4) for seed in range(11)]
rows = [row(seed, total, 1.0 + seed) for seed, total in enumerate(totals)]
"""


def in_process(code: str, devices: int = 8, seconds: int = 120) -> str:
    """What Python code prints in a process with so many virtual CPU devices."""
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", COMMON + textwrap.dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_rows_on_eight_devices_end_as_on_one():
    """11 rows, so that some devices have more than others; the numbers are those of one device."""
    out = in_process("""
        mesh = jax.make_mesh((8,), ("rows",))
        estimator = pj.Estimator(max_steps=300)
        one = estimator.fit_batch(domain, rows, totals)
        many = estimator.fit_batch(domain, rows, totals, mesh=mesh)
        assert many.status.tolist() == one.status.tolist()
        assert many.steps.tolist() == one.steps.tolist()
        np.testing.assert_allclose(many.loss, one.loss, rtol=1e-6)
        for a, b in zip(one, many):
            np.testing.assert_allclose(a.model.marginal(("a", "c")), b.model.marginal(("a", "c")), rtol=1e-5)
        print(len(jax.devices()), len(many))
    """)
    assert out.split() == ["8", "11"]


def test_a_mesh_of_two_axes_and_float64():
    """All axes of a mesh count as one; L1 stages work there too."""
    out = in_process("""
        mesh = jax.make_mesh((4, 2), ("x", "y"))
        estimator = pj.Estimator(loss="l1", dtype="float64", max_steps=200)
        one = estimator.fit_batch(domain, rows[:3], totals[:3])
        many = estimator.fit_batch(domain, rows[:3], totals[:3], mesh=mesh)
        assert many.steps.tolist() == one.steps.tolist()
        np.testing.assert_allclose(many.loss, one.loss, rtol=1e-9)
        print("same")
    """)
    assert out.strip() == "same"


def test_every_device_holds_its_own_rows():
    """The slots really are cut along the mesh: each of 8 devices holds 2 of 16."""
    out = in_process("""
        from pgmjax.estimation.solvers import batch as batched
        held = []
        turn = batched._Program.turn
        def watched(self, *arguments):
            found = turn(self, *arguments)
            leaf = self.slots.state.candidate
            part = leaf.addressable_shards[0].data
            held.append((leaf.shape[0], len(leaf.sharding.device_set), part.shape[0]))
            return found
        batched._Program.turn = watched
        pj.Estimator(max_steps=50).fit_batch(domain, rows, totals, mesh=jax.make_mesh((8,), ("rows",)))
        print(*held[0])
    """)
    assert out.split() == ["16", "8", "2"]


SLICES = """
def run(mesh, count):
    table = jnp.asarray(np.random.default_rng(1).normal(size=(count, 3, 4)) * 20, jnp.float32)

    def one_slice(table, i):
        part = table[i]
        value = jax.nn.logsumexp(part)
        own = jnp.exp(part - value)
        return value, {"summed": own, "placed": jnp.zeros((count, 3)).at[i].set(own.sum(1))}

    call = jax.jit(lambda t: sharding.over_slices(mesh, lambda i: one_slice(t, i), count))
    return call(table), np.asarray(table, np.float64)
"""


def test_slices_on_eight_devices_give_the_whole_model():
    """19 slices on 8 devices (the last has none) against the joint in float64, and on one device."""
    out = in_process(
        SLICES
        + textwrap.dedent("""
        for mesh in (None, jax.make_mesh((8,), ("slices",)), jax.make_mesh((2, 4), ("x", "y"))):
            (value, tables), table = run(mesh, 19)
            top = table.max()
            log_partition = top + np.log(np.exp(table - top).sum())
            joint = np.exp(table - log_partition)
            np.testing.assert_allclose(value, log_partition, rtol=1e-6)
            np.testing.assert_allclose(tables["summed"], joint.sum(0), atol=2e-6)
            np.testing.assert_allclose(tables["placed"], joint.sum(2), atol=2e-6)
        print("same")
    """)
    )
    assert out.strip() == "same"


def test_slices_that_are_impossible_count_nothing():
    def one_slice(i):
        value = jax.numpy.where(i == 1, 2.0, -jax.numpy.inf)
        return value, jax.numpy.ones(2) * i

    value, tables = sharding.over_slices(None, one_slice, 3)
    assert float(value) == 2.0
    np.testing.assert_array_equal(tables, [1.0, 1.0])
    value, tables = sharding.over_slices(None, lambda i: (-jax.numpy.inf * (i + 1.0), jax.numpy.ones(2)), 3)
    assert float(value) == -np.inf
    assert np.isfinite(tables).all()


def test_rows_are_padded_to_the_devices():
    mesh = jax.make_mesh((1,), ("rows",))
    assert sharding.padded(5, mesh) == 5
    assert sharding.padded(5, None) == 5


def test_a_mesh_must_be_a_mesh():
    with pytest.raises(
        TypeError, match=r"mesh must be a jax.sharding.Mesh or None, got list: write jax.make_mesh"
    ):
        pj.Estimator().fit_batch(pj.Domain({"a": 2}), [[pj.LinearMeasurement(("a",), [1, 2], 1.0)]], mesh=[1])
