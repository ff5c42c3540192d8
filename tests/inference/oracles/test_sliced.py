"""Slices add up to the whole: against brute force, in float64 and float32, with zeros."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgmjax.inference.oracles.contraction import Contraction
from pgmjax.inference.oracles.sliced import Sliced
from pgmjax.inference.plan import contraction, slicing
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
    monkeypatch.setattr(contraction, "LARGE", 1000)
    sizes, cliques = (12, 14, 13, 11), ((0, 1), (1, 2), (2, 3), (3, 0))
    structure = Structure(sizes, cliques)
    tables = [jnp.asarray(t, jnp.float32) for t in models.potentials((sizes, cliques), seed=1)]
    whole = Contraction.build(structure)
    assert contraction.large(whole.path)
    for fast in (False, True):
        oracle = Sliced(slicing.plan(structure, 10**9, min_slices=3), fast)
        log_z, marginals = oracle.infer(tables)
        np.testing.assert_allclose(log_z, whole.infer(tables)[0], rtol=1e-6)
        for found, expected in zip(marginals, whole.infer(tables)[1], strict=True):
            np.testing.assert_allclose(found, expected, atol=2e-6)


def test_nothing_possible_is_minus_infinity_never_nan():
    structure = STRUCTURES["chain"]
    oracle = Sliced(slicing.plan(Structure(*structure), 10**9, min_slices=2))
    tables = [jnp.asarray(t) for t in models.potentials(structure)]
    tables[1] = jnp.full_like(tables[1], -jnp.inf)
    log_z, marginals = oracle.infer(tables)
    assert log_z == -jnp.inf
    assert all((np.asarray(m) == 0).all() for m in marginals)
