"""Every oracle against brute force in plain NumPy: values, gradients, zeros, transformations."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmjax.inference import oracles
from pgmjax.inference.plan.structure import Structure
from tests import models
from tests.models import STRUCTURES

KINDS = [oracles.kind(name) for name in oracles.names()]
pytestmark = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@jax.jit
def infer(oracle, tables):
    """One program for all tests of a structure; one by one, operations take far longer to compile."""
    return oracle.infer(tables)


@jax.jit
def scalars(oracle, tables):
    return oracle.log_partition(tables), oracle.maximum(tables)


def build(kind, structure):
    return kind.build(Structure(*structure))


@pytest.mark.parametrize("name", STRUCTURES)
def test_matches_brute_force_in_float64(kind, name):
    """With zeros and without: the same program."""
    structure = STRUCTURES[name]
    oracle = build(kind, structure)
    for zeros in (0.0, 0.4):
        tables = models.potentials(structure, seed=1, spread=3.0, zeros=zeros)
        logits = models.joint(structure, tables)
        with jax.enable_x64(True):
            arrays = [jnp.asarray(t) for t in tables]
            log_z, marginals = infer(oracle, arrays)
            chex.assert_rank(log_z, 0)
            chex.assert_trees_all_equal_shapes_and_dtypes(tuple(arrays), marginals)
            np.testing.assert_allclose(log_z, models.log_partition(logits), atol=1e-9)
            again, largest = scalars(oracle, arrays)
            np.testing.assert_allclose(again, log_z, atol=1e-12)
            np.testing.assert_allclose(largest, logits.max(), atol=1e-9)
            for clique, found in zip(structure[1], marginals, strict=True):
                expected = models.marginal(logits, clique)
                np.testing.assert_allclose(found, expected, atol=1e-9)
                assert (np.asarray(found)[expected == 0] == 0).all()


def test_variables_in_no_clique_count_as_states(kind):
    structure = ((2, 3, 4, 5), ((0,), (2, 0)))
    oracle, tables = build(kind, structure), models.potentials(structure)
    wanted = models.log_partition(models.joint(structure, tables))
    with jax.enable_x64(True):
        arrays = [jnp.asarray(t) for t in tables]
        np.testing.assert_allclose(infer(oracle, arrays)[0], wanted, atol=1e-12)
    plan = oracles.plan(Structure(*structure), tuple("abcd"), kind.name, itemsize=8)
    np.testing.assert_allclose(plan.infer(tables)[0], wanted, atol=1e-12)


def test_gradient_of_the_log_partition_is_the_marginals(kind):
    structure = STRUCTURES["wide"]
    oracle = build(kind, structure)
    with jax.enable_x64(True):
        tables = [jnp.asarray(t) for t in models.potentials(structure, zeros=0.3)]
        gradient = jax.jit(jax.grad(oracle.log_partition))(tables)
        for found, expected in zip(gradient, infer(oracle, tables)[1], strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-12)
            assert (np.asarray(found)[np.asarray(expected) == 0] == 0).all()


def test_log_partition_and_marginals_differentiate_together(kind):
    """Differences in float64 against reverse mode through the oracle itself."""
    structure = STRUCTURES["loop"]
    oracle = build(kind, structure)
    with jax.enable_x64(True):
        tables = tuple(jnp.asarray(t) for t in models.potentials(structure))
        weights = models.potentials(structure, seed=9)

        @jax.jit
        @jax.value_and_grad
        def score(tables):
            log_z, marginals = oracle.infer(tables)
            return 2 * log_z + sum(jnp.vdot(w, m) for w, m in zip(weights, marginals, strict=True))

        gradient = score(tables)[1]
        rng = np.random.default_rng(0)
        direction = tuple(jnp.asarray(rng.normal(size=t.shape)) for t in tables)
        step = 1e-6
        plus = score(tuple(t + step * d for t, d in zip(tables, direction, strict=True)))[0]
        minus = score(tuple(t - step * d for t, d in zip(tables, direction, strict=True)))[0]
        slope = sum(jnp.vdot(g, d) for g, d in zip(gradient, direction, strict=True))
        np.testing.assert_allclose(slope, (plus - minus) / (2 * step), rtol=1e-7)


def test_gradients_stay_finite_with_zeros(kind):
    structure = STRUCTURES["loop"]
    oracle = build(kind, structure)
    tables = tuple(jnp.asarray(t, jnp.float32) for t in models.potentials(structure, zeros=0.5))
    gradient = jax.jit(jax.grad(lambda t: sum(jnp.sum(m**2) for m in oracle.infer(t)[1])))(tables)
    chex.assert_tree_all_finite(gradient)
    chex.assert_trees_all_equal_shapes_and_dtypes(tables, gradient)


def test_impossible_models_are_minus_infinity_never_nan(kind):
    structure = STRUCTURES["chain"]
    tables = [jnp.asarray(t) for t in models.potentials(structure)]
    tables[1] = jnp.full_like(tables[1], -jnp.inf)
    oracle = build(kind, structure)
    log_z, marginals = infer(oracle, tables)
    assert log_z == -jnp.inf
    assert all((np.asarray(m) == 0).all() for m in marginals)
    assert scalars(oracle, tables) == (-jnp.inf, -jnp.inf)


def test_constants_change_nothing(kind):
    structure = STRUCTURES["star"]
    oracle = build(kind, structure)
    with jax.enable_x64(True):
        tables = [jnp.asarray(t) for t in models.potentials(structure)]
        shifted = [t + 1000.0 * (i + 1) for i, t in enumerate(tables)]
        z, before = infer(oracle, tables)
        z_shifted, after = infer(oracle, shifted)
        np.testing.assert_allclose(z_shifted - z, 6000.0, atol=1e-9)
        for a, b in zip(before, after, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-11)


def test_rows_of_a_batch_do_not_touch(kind):
    structure = STRUCTURES["wide"]
    oracle = build(kind, structure)
    rows = [models.potentials(structure, seed=s, spread=10.0**s) for s in range(3)]
    stacked = tuple(jnp.stack([jnp.asarray(row[i]) for row in rows]) for i in range(len(rows[0])))
    batched = jax.jit(jax.vmap(oracle.infer))(stacked)[1]
    for b, row in enumerate(rows):
        for found, expected in zip(batched, infer(oracle, [jnp.asarray(t) for t in row])[1], strict=True):
            np.testing.assert_allclose(found[b], expected, atol=2e-6)


def test_one_trace_for_two_models(kind):
    structure = STRUCTURES["loop"]
    count = 0

    def counted(oracle, tables):
        nonlocal count
        count += 1
        return oracle.infer(tables)

    compiled = jax.jit(counted)
    for seed in (0, 1):  # planned twice: equal plans are one program
        compiled(build(kind, structure), [jnp.asarray(t) for t in models.potentials(structure, seed)])
    assert count == 1


@pytest.mark.parametrize("spread", [1.0, 30.0, 1000.0])
def test_float32_promise_on_small_models(kind, spread):
    """Absolute error of float32 marginals at most 2e-6 * max(1, spread / 10)."""
    for name, structure in STRUCTURES.items():
        tables = [t.astype(np.float32) for t in models.potentials(structure, seed=5, spread=spread)]
        marginals = infer(build(kind, structure), [jnp.asarray(t) for t in tables])[1]
        logits = models.joint(structure, [t.astype(np.float64) for t in tables])
        for clique, found in zip(structure[1], marginals, strict=True):
            error = np.abs(np.asarray(found, np.float64) - models.marginal(logits, clique)).max()
            assert error <= 2e-6 * max(1, spread / 10), name
            assert abs(float(found.sum()) - 1) < 1e-5


@settings(max_examples=15, deadline=None, derandomize=True)  # each compiles anew
@given(seed=st.integers(0, 10**6), data=st.data())
def test_order_of_cliques_attributes_and_labels_does_not_matter(kind, seed, data):
    sizes, cliques = STRUCTURES["wide"]
    tables = models.potentials((sizes, cliques), seed=seed, zeros=0.2)
    order = data.draw(st.permutations(range(len(cliques))))
    renamed = data.draw(st.permutations(range(len(sizes))))  # variable v becomes renamed[v]
    new_sizes = [0] * len(sizes)
    for v, w in enumerate(renamed):
        new_sizes[w] = sizes[v]
    new_cliques, new_tables = [], []
    for i in order:
        axes = data.draw(st.permutations(range(len(cliques[i]))))
        new_cliques.append(tuple(renamed[cliques[i][a]] for a in axes))
        new_tables.append(tables[i].transpose(axes))
    with jax.enable_x64(True):
        before = infer(build(kind, (sizes, cliques)), [jnp.asarray(t) for t in tables])
        turned = build(kind, (tuple(new_sizes), tuple(new_cliques)))
        after = infer(turned, [jnp.asarray(t) for t in new_tables])
        np.testing.assert_allclose(before[0], after[0], atol=1e-10)
        for place, i in enumerate(order):
            axes = [new_cliques[place].index(renamed[v]) for v in cliques[i]]
            np.testing.assert_allclose(after[1][place].transpose(axes), before[1][i], atol=1e-12)
