"""Slices add up to the whole: against brute force, in float64 and float32, with zeros."""

import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgmjax.inference.ops import sweep
from pgmjax.inference.oracles import Contraction, Sliced
from pgmjax.inference.plan import slicing
from pgmjax.inference.plan.structure import Structure
from tests import models
from tests.models import STRUCTURES


@pytest.mark.parametrize("slices", [2, 5])
@pytest.mark.parametrize("name", STRUCTURES)
def test_slices_match_brute_force(name, slices):
    structure = STRUCTURES[name]
    oracle = Sliced(slicing.plan(Structure(*structure), 10**9, min_slices=slices))
    assert oracle.plan.slices >= slices
    tables = models.potentials(structure, seed=3, spread=3.0, zeros=0.3)
    logits = models.joint(structure, tables)
    with jax.enable_x64(True):
        arrays = [jnp.asarray(t) for t in tables]
        (log_z, marginals), largest = jax.jit(lambda t: (oracle.infer(t), oracle.maximum(t)))(arrays)
        np.testing.assert_allclose(log_z, models.log_partition(logits), atol=1e-9)
        np.testing.assert_allclose(largest, logits.max(), atol=1e-9)
        for clique, found in zip(structure[1], marginals, strict=True):
            expected = models.marginal(logits, clique)
            np.testing.assert_allclose(found, expected, atol=1e-9)
            assert (np.asarray(found)[expected == 0] == 0).all()


def test_large_products_in_slices_equal_those_at_once(monkeypatch):
    monkeypatch.setattr(sweep, "LARGE", 1000)
    sweep.large.cache_clear()
    sizes, cliques = (12, 14, 13, 11), ((0, 1), (1, 2), (2, 3), (3, 0))
    structure = Structure(sizes, cliques)
    tables = [jnp.asarray(t, jnp.float32) for t in models.potentials((sizes, cliques), seed=1)]
    whole = Contraction.build(structure)
    assert sweep.large(whole.path)
    for fast in (False, True):
        oracle = Sliced(slicing.plan(structure, 10**9, min_slices=3), fast)
        log_z, marginals = oracle.infer(tables)
        np.testing.assert_allclose(log_z, whole.infer(tables)[0], rtol=1e-6)
        for found, expected in zip(marginals, whole.infer(tables)[1], strict=True):
            np.testing.assert_allclose(found, expected, atol=2e-6)
    sweep.large.cache_clear()


def test_nothing_possible_is_minus_infinity_never_nan():
    structure = STRUCTURES["chain"]
    oracle = Sliced(slicing.plan(Structure(*structure), 10**9, min_slices=2))
    tables = [jnp.asarray(t) for t in models.potentials(structure)]
    tables[1] = jnp.full_like(tables[1], -jnp.inf)
    log_z, marginals = oracle.infer(tables)
    assert log_z == -jnp.inf
    assert all((np.asarray(m) == 0).all() for m in marginals)


def test_slices_shared_by_eight_devices_equal_those_of_one():
    """In a process of its own, since the number of devices is fixed when JAX starts."""
    code = """
        import itertools, jax, numpy as np, pgmjax as pj
        domain = pj.Domain({c: 4 for c in "abcd"})
        rng = np.random.default_rng(0)
        measured = [pj.LinearMeasurement(c, rng.random((4, 4)) * 100, 5.0)
                    for c in itertools.combinations("abcd", 2)]
        mesh = jax.make_mesh((8,), ("slices",))
        estimator = pj.Estimator(max_steps=60, dtype="float64", tol=0.0)
        one = estimator.fit(domain, measured, total=800.0)
        many = estimator.fit(domain, measured, total=800.0, mesh=mesh)
        oracle = many.plan.oracle
        assert isinstance(oracle, pj.oracles.Sliced) and oracle.mesh.size == 8 and oracle.plan.slices >= 8
        assert (one.steps, one.status) == (many.steps, many.status)
        np.testing.assert_allclose(many.loss, one.loss, rtol=1e-9)
        for a, b in zip(one.model.potentials.tables, many.model.potentials.tables):
            np.testing.assert_allclose(a, b, atol=1e-6)
        point = rng.normal(size=oracle.length)
        with jax.enable_x64(True):  # also backwards, through the loop of every device
            slope = jax.jit(jax.grad(lambda p: oracle.infer_flat(p)[0]))(point)
            np.testing.assert_allclose(slope, jax.jit(oracle.infer_flat)(point)[1], atol=1e-12)
        """
    flags = "--xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
