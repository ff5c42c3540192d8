"""The chain oracle: what the contract of all oracles does not cover; float32 is in `test_levels`."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pgmjax as pj
from pgmjax.inference import oracles
from pgmjax.inference.oracles.chain import Chain
from pgmjax.inference.oracles.levels import Levels
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.inference.plan.structure import Structure
from tests import models


def rows(seed):
    """Two rows of triples with leaves, of sizes that differ, and a variable in no clique; shuffled."""
    rng = np.random.default_rng(seed)
    count, leaves, alone = int(rng.integers(5, 40)), 4, 1
    cut = count // 2
    triples = [(i, i + 1, i + 2) for i in range(count - 2) if not cut - 2 <= i < cut]
    ends = [(int(rng.integers(count)), count + i) for i in range(leaves)]
    cliques = [tuple(int(v) for v in rng.permutation(clique)) for clique in (*triples, *ends)]
    cliques = [cliques[i] for i in rng.permutation(len(cliques))]
    sizes = tuple(int(n) for n in rng.integers(1, 5, count + leaves + alone))
    return Structure(sizes, tuple(cliques))


@pytest.mark.parametrize("seed", range(4))
def test_rows_with_leaves_agree_with_levels(seed):
    structure = rows(seed)
    with jax.enable_x64(True):
        model = (structure.sizes, structure.cliques)
        tables = [jnp.asarray(t) for t in models.potentials(model, seed=seed, spread=5.0, zeros=0.2)]
        log_z, marginals = jax.jit(Chain.infer)(Chain.build(structure), tables)
        expected_log_z, expected = jax.jit(Levels.infer)(Levels.build(structure), tables)
        np.testing.assert_allclose(log_z, expected_log_z, rtol=1e-13)
        for found, right in zip(marginals, expected, strict=True):
            np.testing.assert_allclose(found, right, atol=1e-11)
        largest = Chain.build(structure).maximum(tables)
        np.testing.assert_allclose(largest, Levels.build(structure).maximum(tables), rtol=1e-13)


def test_structures_of_one_size_share_one_program():
    traces = []

    @jax.jit
    def infer(oracle, vector):
        traces.append(oracle.sizes)
        return oracle.infer_flat(vector)

    pairs = [(i, i + 1) for i in range(49)]
    for cliques in (pairs, pairs[::-1], [(j, i) for i, j in pairs]):
        oracle = Chain.build(Structure((4,) * 50, tuple(cliques)))
        infer(oracle, jnp.zeros(oracle.length))
    assert len(traces) == 1


def test_a_program_grows_with_the_logarithm_of_the_number_of_cliques():
    def size_of(count):
        oracle = Chain.build(Structure((3,) * count, tuple((i, i + 1) for i in range(count - 1))))
        lowered = jax.jit(lambda o, v: o.infer_flat(v)).lower(oracle, jnp.zeros(oracle.length))
        return lowered.as_text().count("\n")

    sizes = [size_of(count) for count in (65, 129, 257)]  # one level more each
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0]


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_long_rows_are_multiplied_by_pairs_where_launches_count(platform, monkeypatch):
    """Only off a CPU, and only where the product's work is worth it."""
    row, row_names = named((10,) * 500, [(i, i + 1) for i in range(499)])
    hub, hub_names = named((10,) * 500, [(0, i) for i in range(1, 500)])  # four levels already
    wide, wide_names = named((40,) * 500, [(i, i + 1, i + 2) for i in range(498)])  # 1,600 states
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    assert type(oracles.plan(row, row_names).oracle) is (Levels if platform == "cpu" else Chain)
    assert type(oracles.plan(hub, hub_names).oracle) is Levels
    assert type(oracles.plan(wide, wide_names, max_bytes=10**12).oracle) is not Chain


def named(sizes, cliques):
    return Structure.named(
        {str(i): size for i, size in enumerate(sizes)}, [tuple(map(str, c)) for c in cliques]
    )


def test_matrices_that_do_not_fit_are_refused_before_they_are_written():
    structure, names = named((10,) * 200, [(i, i + 1, i + 2, i + 3) for i in range(197)])
    with pytest.raises(ModelTooLargeError, match=r"matrices of 1,000 states .* do not"):
        oracles.plan(structure, names, "chain", max_bytes=10**8)
    with pytest.raises(ModelTooLargeError, match="number cells with 32 bits"):
        Chain.build(Structure((100,) * 200, tuple((i, i + 1, i + 2) for i in range(198))))


def test_a_transformed_oracle_says_where_its_structure_is():
    oracle = jax.tree_util.tree_map(lambda leaf: leaf, Chain.build(Structure((2, 2), ((0, 1),))))
    with pytest.raises(ValueError, match=r"Chain\.build"):
        _ = oracle.structure


def test_a_fit_by_pairs_meets_the_optimum_of_a_fit_by_levels():
    names = [f"a{i}" for i in range(30)]
    rng = np.random.default_rng(0)
    noisy = [
        pj.LinearMeasurement(pair, 1000 * rng.dirichlet(np.ones(9)).reshape(3, 3), 20.0)
        for pair in itertools.pairwise(names)
    ]
    domain = pj.Domain(dict.fromkeys(names, 3))
    fits = [
        pj.Estimator(oracle=oracle, tol=1e-4, max_steps=3000, regularisation="none").fit(
            domain, noisy, total=1000
        )
        for oracle in ("levels", "chain")
    ]
    assert all(fit.status is pj.Status.CONVERGED for fit in fits)
    assert abs(fits[0].loss - fits[1].loss) <= max(fit.gap for fit in fits)
