"""Accuracy of every oracle on random structures: brute force in float64, and the promises of float32.

Large products, which small models do not have, are forced by lowering the sizes from which a step
counts as one. Fast products may be wrong, but never silently: their error bound says so.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgmjax.inference import oracles
from pgmjax.inference.oracles.contraction import Contraction
from pgmjax.inference.plan import contraction
from pgmjax.inference.plan.structure import Structure
from tests import models

KINDS = [oracles.kind(name) for name in oracles.names()]
SEEDS = [pytest.param([0, 1], id="two"), pytest.param(range(2, 12), marks=pytest.mark.slow, id="ten more")]
SPREADS = [1.0, 30.0, 1000.0]
LOOP = ((5, 4, 6), ((0, 1), (1, 2), (2, 0)))


def promise(spread):
    """Absolute error of float32 marginals that is promised."""
    return 2e-6 * max(1, spread / 10)


@functools.cache
def random_structure(seed):
    """Three to six variables of 1 to 4 values, in up to seven cliques of up to three, some of them twice."""
    rng = np.random.default_rng(1000 + seed)
    count = int(rng.integers(3, 7))
    cliques = [
        tuple(int(v) for v in rng.permutation(count)[: rng.integers(1, 4)]) for _ in range(rng.integers(2, 7))
    ]
    cliques += [(v,) for v in range(count) if all(v not in clique for clique in cliques)]
    cliques.append(cliques[0][::-1])
    return tuple(int(n) for n in rng.integers(1, 5, count)), tuple(cliques)


@functools.cache
def random_model(seed, spread, zeros):
    """Structure, potentials rounded to float32, and the logits of the joint table in float64."""
    structure = random_structure(seed)
    tables = [t.astype(np.float32) for t in models.potentials(structure, seed, spread, zeros)]
    return structure, tables, models.joint(structure, [t.astype(np.float64) for t in tables])


def errors(structure, logits, marginals):
    """Largest absolute error of the marginals; impossible cells must be exactly zero."""
    worst = 0.0
    for clique, found in zip(structure[1], marginals, strict=True):
        expected = models.marginal(logits, clique)
        assert (np.asarray(found)[np.isneginf(largest(logits, clique))] == 0).all()
        worst = max(worst, float(np.abs(np.asarray(found, np.float64) - expected).max()))
    return worst


def largest(logits, clique):
    """The largest logit of each cell of a clique; minus infinity where it is impossible."""
    kept = [i for i in range(logits.ndim) if i in clique]
    table = logits.max(axis=tuple(i for i in range(logits.ndim) if i not in clique))
    return table.transpose([kept.index(v) for v in clique])


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_random_models_in_float64(kind, seeds):
    for seed in seeds:
        oracle = kind.build(Structure(*random_structure(seed)))
        with jax.enable_x64(True):
            ask = jax.jit(lambda tables, oracle=oracle: (oracle.infer(tables), oracle.maximum(tables)))
            for spread, zeros in ((1.0, 0.0), (3.0, 0.3), (30.0, 0.0), (1000.0, 0.2)):
                structure, tables, logits = random_model(seed, spread, zeros)
                (value, marginals), most = ask([jnp.asarray(t, jnp.float64) for t in tables])
                assert errors(structure, logits, marginals) <= 1e-9
                np.testing.assert_allclose(value, models.log_partition(logits), rtol=1e-14, atol=1e-9)
                np.testing.assert_allclose(most, logits.max(), rtol=1e-14, atol=1e-9)


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_float32_promise_on_random_models(kind, seeds):
    for seed in seeds:
        oracle = kind.build(Structure(*random_structure(seed)))
        infer = jax.jit(oracle.infer)
        for spread in SPREADS:
            for zeros in (0.0, 0.3):
                structure, tables, logits = random_model(seed, spread, zeros)
                value, marginals = infer([jnp.asarray(t) for t in tables])
                assert errors(structure, logits, marginals) <= promise(spread)
                assert all(abs(float(m.sum()) - 1) < 1e-5 for m in marginals)
                np.testing.assert_allclose(value, models.log_partition(logits), rtol=1e-6, atol=1e-5)


@pytest.fixture
def all_products_large(monkeypatch):
    """Every step that is a product counts as a large one."""
    monkeypatch.setattr(contraction, "LARGE", 1)
    monkeypatch.setattr(contraction, "SIDE", 1)


def forced(structure, fast):
    oracle = Contraction.build(Structure(*structure), fast=fast)
    assert contraction.large(oracle.path)
    return oracle


def with_products(seeds):
    """Those of the random structures whose path has a product."""
    return [s for s in seeds if contraction.large(Contraction.build(Structure(*random_structure(s))).path)]


@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_large_products_in_exact_form(all_products_large, count):
    seeds = with_products(range(20))[:count]
    assert len(seeds) == count
    for seed in seeds:
        oracle = forced(random_structure(seed), fast=False)
        for dtype, bound in ((np.float32, promise), (np.float64, lambda spread: 1e-9)):
            with jax.enable_x64(dtype == np.float64):
                infer = jax.jit(oracle.infer_with_error)
                for spread in SPREADS:
                    for zeros in (0.0, 0.3):
                        structure, tables, logits = random_model(seed, spread, zeros)
                        _, marginals, error_bound = infer([jnp.asarray(t, dtype) for t in tables])
                        assert float(error_bound) == 0
                        assert errors(structure, logits, marginals) <= bound(spread)


def loop_model(seed, spread, offset):
    """Three pairs in a loop; the closing pair lifts what the product of the others leaves lowest."""
    rng = np.random.default_rng(seed)
    tables = [spread * rng.normal(size=[LOOP[0][v] for v in c]) for c in LOOP[1]]
    product = np.logaddexp.reduce(tables[0][:, :, None] + tables[1][None], axis=1)
    tables[2] = tables[2] - offset * (product.T - product.max())
    tables = [t.astype(np.float32) for t in tables]
    return tables, models.joint(LOOP, [t.astype(np.float64) for t in tables])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fast_products_are_right_or_say_that_they_may_not_be(all_products_large, dtype):
    """Over 240 models: where the bound is rounding the promise holds; `Plan.infer` is right in any case."""
    oracle, names = forced(LOOP, fast=True), ("a", "b", "c")
    plan = oracles.Plan(oracle, names, np.dtype(dtype).itemsize, copies=4, max_bytes=None)
    eps, sure, inaccurate, wrong = np.finfo(dtype).eps, 0, 0, 0
    wide = 1 if dtype == "float32" else 10  # float64 underflows ten times further down
    with jax.enable_x64(dtype == "float64"):
        ask = jax.jit(oracle.infer_with_error)
        for spread in (1.0, 10.0, 30.0, 100.0, 300.0, 1000.0):
            limit = promise(spread) if dtype == "float32" else 1e-9
            for seed in range(10):
                for offset in (0.0, 0.5, 1.0, 2.0):
                    tables, logits = loop_model(seed, wide * spread, offset)
                    value, marginals, error_bound = ask([jnp.asarray(t, dtype) for t in tables])
                    error = errors(LOOP, logits, marginals)
                    assert np.isfinite(error)
                    if float(error_bound) <= eps:
                        sure += 1
                        assert error <= limit
                        np.testing.assert_allclose(value, models.log_partition(logits), rtol=1e-6, atol=1e-4)
                    else:
                        inaccurate += 1
                        wrong += error > limit
                    assert errors(LOOP, logits, plan.infer(tables)[1]) <= limit
    assert sure >= 40 and inaccurate >= 40 and wrong >= 10  # the guard is needed, and not always on


@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_fast_products_on_random_structures(all_products_large, count):
    for seed in with_products(range(20))[:count]:
        oracle = forced(random_structure(seed), fast=True)
        ask = jax.jit(oracle.infer_with_error)
        for spread in SPREADS:
            structure, tables, logits = random_model(seed, spread, 0.0)
            _, marginals, error_bound = ask([jnp.asarray(t) for t in tables])
            if float(error_bound) <= np.finfo(np.float32).eps:
                assert errors(structure, logits, marginals) <= promise(spread)


def test_a_plan_with_fast_products_takes_structural_zeros(all_products_large):
    oracle = forced(LOOP, fast=True)
    plan = oracles.Plan(oracle, ("a", "b", "c"), 4, copies=4, max_bytes=None)
    tables = [t.astype(np.float32) for t in models.potentials(LOOP, seed=7, spread=3.0, zeros=0.4)]
    logits = models.joint(LOOP, [t.astype(np.float64) for t in tables])
    value, marginals = plan.infer(tables)
    assert errors(LOOP, logits, marginals) <= promise(3.0)
    np.testing.assert_allclose(value, models.log_partition(logits), rtol=1e-6, atol=1e-5)


def test_derivatives_of_large_products_with_impossible_rows_are_the_marginals():
    """A row that is impossible in both of its tables: the log-sum of nothing has derivative 0, not NaN."""
    rng = np.random.default_rng(0)
    oracle = Contraction.build(Structure((40, 40, 40), ((0, 1), (1, 2), (0, 2))))
    tables = [rng.normal(size=(40, 40)) for _ in range(3)]
    tables[0][3, :] = tables[2][3, :] = -np.inf
    tables = tuple(map(jnp.asarray, tables))
    slopes, marginals = jax.grad(lambda t: oracle.infer(t)[0])(tables), oracle.infer(tables)[1]
    for slope, marginal in zip(slopes, marginals, strict=True):
        np.testing.assert_allclose(slope, marginal, atol=1e-6)
