"""Sweeps in the form that they have off a CPU, where a launch costs more than some padding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgmjax.inference.ops import sweep
from pgmjax.inference.oracles.contraction import Contraction
from pgmjax.inference.plan.structure import Structure
from pgmjax.kernels.log_sum_exp import largest_and_sum
from tests import models
from tests.models import STRUCTURES

BRANCHES = ((2, 3, 4, 3, 2, 5, 3, 2), ((0, 1, 2), (3, 1), (2, 4), (2, 5), (4, 6), (4, 7), (7, 3)))
EVERY = {**STRUCTURES, "branches": BRANCHES}


@pytest.fixture
def elsewhere(monkeypatch):
    """Plans and programs are those of a GPU; they run on the CPU."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


@pytest.mark.parametrize("name", EVERY)
def test_levels_reduced_together_match_brute_force(name, elsewhere):
    structure = EVERY[name]
    oracle = Contraction.build(Structure(*structure))
    with jax.enable_x64(True):
        infer = jax.jit(lambda tables: (oracle.infer(tables), oracle.maximum(tables)))
        for zeros in (0.0, 0.4):
            tables = models.potentials(structure, seed=1, spread=3.0, zeros=zeros)
            (log_z, marginals), largest = infer([jnp.asarray(t) for t in tables])
            logits = models.joint(structure, tables)
            np.testing.assert_allclose(log_z, models.log_partition(logits), atol=1e-9)
            np.testing.assert_allclose(largest, logits.max(), atol=1e-9)
            for clique, found in zip(structure[1], marginals, strict=True):
                expected = models.marginal(logits, clique)
                np.testing.assert_allclose(found, expected, atol=1e-9)
                assert (np.asarray(found)[expected == 0] == 0).all()


def test_derivatives_are_those_of_the_form_of_a_cpu(monkeypatch):
    path_of = Contraction.build(Structure(*BRANCHES))
    with jax.enable_x64(True):
        tables = tuple(jnp.asarray(t) for t in models.potentials(BRANCHES, zeros=0.2))
        weights = models.potentials(BRANCHES, seed=9)

        def gradient():
            def score(tables):
                log_z, marginals = path_of.infer(tables)
                return 2 * log_z + sum(jnp.vdot(w, m) for w, m in zip(weights, marginals, strict=True))

            return jax.jit(jax.grad(score))(tables)

        expected = gradient()
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
        for found, right in zip(gradient(), expected, strict=True):
            np.testing.assert_allclose(found, right, atol=1e-12)


def test_leaves_of_one_level_are_reduced_together(elsewhere):
    structure = Structure((3,) * 11, tuple((0, i) for i in range(1, 11)))
    path = Contraction.build(structure).path
    leaves = [n for n, step in enumerate(path.steps) if len(step.operands) == 1]
    assert len(leaves) > 5 and sweep._levels(path)[0][: len(leaves)] == leaves
    assert set(leaves) <= set(sweep._together(path, sweep._levels(path)[0]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_largest_entry_and_the_sum_in_one_pass(dtype, monkeypatch):
    rng = np.random.default_rng(0)
    table = 30 * rng.normal(size=(3, 7, 5, 4)).astype(dtype)
    table[rng.random(table.shape) < 0.3] = -np.inf
    table[0, :, 0] = -np.inf
    with jax.enable_x64(True):
        change = jnp.asarray(rng.normal(size=table.shape).astype(dtype))
        axes = ((1,), (0, 3), (0, 1, 2, 3))
        expected = [both(jnp.asarray(table), change, each) for each in axes]
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
        for each, right in zip(axes, expected, strict=True):
            for a, b in zip(both(jnp.asarray(table), change, each), right, strict=True):
                np.testing.assert_allclose(a, b, rtol=20 * np.finfo(dtype).eps)


def both(table, change, axes):
    (top, total), (_, slope) = jax.jvp(lambda t: largest_and_sum(t, axes), (table,), (change,))
    rows = jax.vmap(lambda t: largest_and_sum(t, axes))(table[None])
    np.testing.assert_array_equal(rows[0][0], top)
    return top, total, slope
