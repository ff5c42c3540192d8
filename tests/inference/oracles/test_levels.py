"""The level oracle: what the contract of all oracles does not cover.

Its own truths are closed forms: sweeps over chains and stars in NumPy, and sampled structures small
enough for brute force.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgmjax.inference.oracles.chain import Chain
from pgmjax.inference.oracles.levels import Levels
from pgmjax.inference.plan.structure import Structure
from tests import models
from tests.inference.oracles.test_long_chains import chain, reference
from tests.models import STRUCTURES


def random_tree(variables, seed, size=20):
    """Pairs that form a tree, of variables of 2 to `size` values."""
    rng = np.random.default_rng(seed)
    sizes = tuple(int(n) for n in rng.integers(2, size + 1, variables))
    return Structure(sizes, tuple((int(rng.integers(max(0, i - 20), i)), i) for i in range(1, variables)))


def random_junction_tree(variables, seed, size=4):
    """Triples that each share two variables with an earlier one, in any order of axes."""
    rng = np.random.default_rng(seed)
    cliques = [(0, 1, 2)]
    for new in range(3, variables):
        kept = rng.choice(cliques[rng.integers(len(cliques))], 2, replace=False)
        cliques.append(tuple(int(v) for v in rng.permutation([*kept, new])))
    sizes = tuple(int(n) for n in rng.integers(1, size + 1, variables))
    return Structure(sizes, tuple(cliques))


def flat(oracle, tables, dtype=np.float32, padding=np.nan):
    """Tables in one vector; whatever is in its padding must not matter."""
    vector = np.full(oracle.length, padding, dtype)
    joined = np.concatenate([np.ravel(t) for t in tables]).astype(dtype)
    vector[: len(joined)] = joined
    return jnp.asarray(vector)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["pairs", "triples"])
def test_random_trees_against_brute_force(kind, seed):
    structure = random_tree(8, seed, size=4) if kind == "pairs" else random_junction_tree(8, seed, size=3)
    model = (structure.sizes, structure.cliques)
    tables = models.potentials(model, seed=seed, spread=3.0, zeros=0.2)
    logits = models.joint(model, tables)
    with jax.enable_x64(True):
        oracle = Levels.build(structure)
        log_z, marginals = oracle.infer_flat(flat(oracle, tables, np.float64))
        np.testing.assert_allclose(log_z, models.log_partition(logits), atol=1e-9)
        expected = np.concatenate([models.marginal(logits, c).ravel() for c in structure.cliques])
        np.testing.assert_allclose(marginals[: len(expected)], expected, atol=1e-9)
        assert (np.asarray(marginals[: len(expected)])[expected == 0] == 0).all()
        assert (np.asarray(marginals[len(expected) :]) == 0).all()


@pytest.mark.parametrize("leaves", [7, 40, 300])
def test_a_hub_adds_up_any_number_of_messages(leaves):
    rng = np.random.default_rng(leaves)
    structure = Structure((3,) * (leaves + 1), tuple((0, i) for i in range(1, leaves + 1)))
    tables = rng.normal(size=(leaves, 3, 3))
    with jax.enable_x64(True):
        oracle = Levels.build(structure)
        log_z, marginals = oracle.infer_flat(flat(oracle, tables, np.float64))
    hub = np.logaddexp.reduce(tables, axis=2).sum(0)
    np.testing.assert_allclose(log_z, np.logaddexp.reduce(hub), atol=1e-9)
    rows = np.exp(tables - np.logaddexp.reduce(tables, axis=2, keepdims=True))
    expected = np.exp(hub - np.logaddexp.reduce(hub))[:, None] * rows
    np.testing.assert_allclose(marginals[: expected.size], expected.ravel(), atol=1e-9)


@pytest.mark.parametrize("kind", [Levels, Chain])
@pytest.mark.parametrize("spread", [1.0, 100.0, 1000.0])
def test_promise_on_a_chain_of_1000_variables(spread, kind):
    """Absolute error of float32 marginals at most 2e-6 * max(1, spread / 10)."""
    structure = chain(1000)
    rng = np.random.default_rng(0)
    tables = [(spread * rng.normal(size=(4, 4))).astype(np.float32) for _ in structure.cliques]
    oracle = kind.build(structure)
    marginals = oracle.infer_flat(flat(oracle, tables))[1]
    expected = np.concatenate([table.ravel() for table in reference(structure, tables)])
    error = np.abs(np.asarray(marginals, np.float64)[: len(expected)] - expected).max()
    assert error <= 2e-6 * max(1, spread / 10)


def test_structures_of_similar_size_share_one_program():
    """Padded sizes alone key the compiled function: here three random trees, and one chain twice."""
    traces = []

    @jax.jit
    def infer(oracle, vector):
        traces.append(oracle.sizes)
        return oracle.infer_flat(vector)

    def run(structure):
        oracle = Levels.build(structure)
        tables = models.potentials((structure.sizes, structure.cliques))
        log_z, _ = infer(oracle, flat(oracle, tables))
        return float(log_z)

    assert len({run(random_tree(300, seed)) for seed in (1, 2, 4)}) == 3
    assert len(traces) == 1
    run(Structure((4,) * 50, tuple((i, i + 1) for i in range(49))))
    run(Structure((4,) * 50, tuple((i + 1, i) for i in reversed(range(49)))))
    assert len(traces) == 2


def test_a_thousand_cliques_are_no_more_program_than_thirty():
    def size_of(variables):
        oracle = Levels.build(random_tree(variables, 5))
        lowered = jax.jit(lambda o, v: o.infer_flat(v)).lower(oracle, jnp.zeros(oracle.length))
        return lowered.as_text().count("\n")

    assert size_of(1000) <= 1.1 * size_of(30)


def test_all_flat_forms_agree_with_the_forms_on_tables():
    structure = Structure(*STRUCTURES["wide"])
    oracle = Levels.build(structure)
    tables = [jnp.asarray(t, jnp.float32) for t in models.potentials(STRUCTURES["wide"])]
    vector = flat(oracle, tables)
    log_z, marginals = oracle.infer_flat(vector)
    expected_log_z, expected = oracle.infer(tables)
    assert float(log_z) == float(expected_log_z)
    assert float(oracle.maximum_flat(vector)) == float(oracle.maximum(tables))
    np.testing.assert_array_equal(marginals, flat(oracle, expected, padding=0))


def test_gradients_in_the_padding_are_zero():
    structure = Structure(*STRUCTURES["wide"])
    oracle = Levels.build(structure)
    used = sum(structure.cells(c) for c in structure.cliques)
    assert oracle.length > used
    vector = flat(oracle, models.potentials(STRUCTURES["wide"]), padding=0)
    for form in (
        lambda v: oracle.infer_flat(v)[0],
        oracle.maximum_flat,
        lambda v: jnp.sum(oracle.infer_flat(v)[1] ** 2),
    ):
        assert (np.asarray(jax.jit(jax.grad(form))(vector))[used:] == 0).all()


def test_gradient_of_the_maximum_is_the_most_likely_state():
    structure = STRUCTURES["wide"]
    tables = models.potentials(structure, seed=4)
    oracle = Levels.build(Structure(*structure))
    gradient = jax.grad(oracle.maximum)([jnp.asarray(t, jnp.float32) for t in tables])
    best = np.unravel_index(models.joint(structure, tables).argmax(), structure[0])
    for clique, found in zip(structure[1], gradient, strict=True):
        expected = np.zeros(found.shape)
        expected[tuple(best[v] for v in clique)] = 1
        np.testing.assert_array_equal(found, expected)


def test_second_derivatives_differentiate_again():
    """Twice reverse mode: the third derivative of the log-partition against differences."""
    structure = STRUCTURES["chain"]
    with jax.enable_x64(True):
        oracle = Levels.build(Structure(*structure))
        vector = flat(oracle, models.potentials(structure), np.float64, padding=0)
        rng = np.random.default_rng(0)
        weights, along = (jnp.asarray(rng.normal(size=oracle.length)) for _ in range(2))

        @jax.jit
        def slope(v):
            return jnp.vdot(along, jax.grad(lambda u: jnp.vdot(weights, oracle.infer_flat(u)[1]))(v))

        found = jnp.vdot(weights, jax.jit(jax.grad(slope))(vector))
        step = 1e-5
        expected = (slope(vector + step * weights) - slope(vector - step * weights)) / (2 * step)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_loops_run_on_the_device():
    structure = STRUCTURES["loop"]
    oracle = Levels.build(Structure(*structure))
    vector = flat(oracle, models.potentials(structure), padding=0)

    @jax.jit
    def descend(oracle, vector):
        def step(_, v):
            return v - 0.1 * oracle.infer_flat(v)[1]

        return jax.lax.fori_loop(0, 3, step, vector)

    expected = vector
    for _ in range(3):
        expected = expected - 0.1 * oracle.infer_flat(expected)[1]
    np.testing.assert_allclose(descend(oracle, vector), expected, atol=1e-6)


def test_variables_in_no_clique_and_models_without_cliques():
    oracle = Levels.build(Structure((3, 5), ((0,),)))
    log_z, (marginal,) = oracle.infer([jnp.zeros(3)])
    assert float(log_z) == pytest.approx(np.log(15), abs=1e-6)
    np.testing.assert_allclose(marginal, 1 / 3, atol=1e-7)
    assert float(Levels.build(Structure((), ())).log_partition([])) == 0


def test_a_transformed_oracle_says_where_its_structure_is():
    oracle = jax.tree_util.tree_map(lambda leaf: leaf, Levels.build(Structure(*STRUCTURES["chain"])))
    with pytest.raises(ValueError, match=r"lost its structure: .*Levels\.build"):
        _ = oracle.structure
    tables = [jnp.asarray(t, jnp.float32) for t in models.potentials(STRUCTURES["chain"])]
    assert np.isfinite(oracle.infer(tables)[0])


def test_forecast_counts_padding_and_names_the_largest_tables():
    forecast = Levels.build(chain(100)).forecast
    assert forecast.inputs == 99 * 16
    assert forecast.largest == 16
    assert forecast.work >= 2 * forecast.inputs
    assert "levels" in forecast.method
    larger = Levels.build(chain(400)).forecast
    assert larger.operations == forecast.operations
    assert larger.seconds > 2 * forecast.seconds
