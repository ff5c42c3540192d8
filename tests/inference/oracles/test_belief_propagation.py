"""Belief propagation on region graphs against brute force, and against SciPy's convex optimiser."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from pgmjax.inference.oracles.belief_propagation import ConvexBP, CoverBP, LoopyBP
from pgmjax.inference.plan.structure import Structure
from tests import models
from tests.inference.plan.test_regions import ALL

GRID = (
    (2,) * 9,
    tuple((v, v + 1) for v in range(9) if v % 3 < 2) + tuple((v, v + 3) for v in range(6)),
)
LOOPY = {
    "grid": GRID,
    **{name: ALL[name] for name in ("loop", "triangle", "wide", "all pairs of four")},
    "all triples of four": ALL["all triples of four"],
}
TREES = {
    **{name: ALL[name] for name in ("chain", "star", "disconnected", "chain of triples")},
    "a variable in no clique": ((2, 3, 4), ((2, 0),)),
}


def settled(kind, structure, tables, **settings):
    """Beliefs in float64, as NumPy arrays."""
    with jax.enable_x64(True):
        oracle = kind.build(Structure(*structure), **{"tol": 1e-12, "max_sweeps": 3000} | settings)
        return jax.tree.map(np.asarray, oracle.propagate([jnp.asarray(table) for table in tables]))


def highest(structure, tables):
    """The bound on the largest sum, in float64; it is the same for every kind."""
    with jax.enable_x64(True):
        return float(LoopyBP.build(Structure(*structure)).maximum([jnp.asarray(table) for table in tables]))


def disagreement(structure, marginals):
    """Largest L1 distance of two cliques' marginals on what they share."""
    worst = 0.0
    for (one, p), (two, q) in itertools.combinations(zip(structure[1], marginals, strict=True), 2):
        both = [v for v in one if v in two]
        if both:
            sums = [
                table.sum(axis=tuple(i for i, v in enumerate(c) if v not in both)).transpose(
                    np.argsort(np.argsort([both.index(v) for v in c if v in both]))
                )
                for c, table in ((one, p), (two, q))
            ]
            order = [[v for v in c if v in both] for c in (one, two)]
            second = sums[1].transpose([order[1].index(v) for v in order[0]])
            worst = max(worst, np.abs(sums[0] - second).sum())
    return worst


def test_no_kind_runs_the_program_of_another():
    """JAX takes dataclasses of the same fields for one structure, and by a rare chance runs the wrong one."""
    structure = Structure(*LOOPY["loop"])
    treedefs = [jax.tree.structure(kind.build(structure)) for kind in (LoopyBP, ConvexBP, CoverBP)]
    assert all(one != other for one, other in itertools.combinations(treedefs, 2))


@pytest.mark.parametrize("kind", [LoopyBP, ConvexBP])
@pytest.mark.parametrize("name", TREES)
def test_both_are_exact_on_junction_trees(name, kind):
    structure = TREES[name]
    for zeros in (0.0, 0.3):
        tables = models.potentials(structure, seed=3, spread=2.0, zeros=zeros)
        logits = models.joint(structure, tables)
        found = settled(kind, structure, tables)
        np.testing.assert_allclose(found.log_partition, models.log_partition(logits), atol=1e-10)
        for clique, table in zip(structure[1], found.marginals, strict=True):
            np.testing.assert_allclose(table, models.marginal(logits, clique), atol=1e-10)


def test_bethes_form_is_exact_on_a_tree():
    structure = TREES["chain"]
    tables = models.potentials(structure, seed=4)
    found = settled(LoopyBP, structure, tables, inner="attributes")
    logits = models.joint(structure, tables)
    np.testing.assert_allclose(found.log_partition, models.log_partition(logits), atol=1e-10)


@pytest.mark.parametrize("kind", [ConvexBP, CoverBP])
@pytest.mark.parametrize("name", LOOPY)
def test_convex_log_partition_bounds_from_above_converged_or_not(name, kind):
    structure = LOOPY[name]
    for seed, zeros in itertools.product(range(3), (0.0, 0.3)):
        tables = models.potentials(structure, seed=seed, spread=1.5, zeros=zeros)
        exact = models.log_partition(models.joint(structure, tables))
        for sweeps in (0, 1, 3, 3000):
            found = settled(kind, structure, tables, max_sweeps=sweeps)
            assert found.log_partition >= exact - 1e-10


@pytest.mark.parametrize("kind", [LoopyBP, ConvexBP, CoverBP])
@pytest.mark.parametrize("name", LOOPY)
def test_converged_tables_agree(name, kind):
    structure = LOOPY[name]
    found = settled(kind, structure, models.potentials(structure, seed=1))
    assert found.residual <= 1e-12 and found.sweeps < 3000
    assert disagreement(structure, found.marginals) <= 1e-11
    np.testing.assert_allclose([table.sum() for table in found.marginals], 1, atol=1e-12)


@pytest.mark.parametrize("name", ["loop", "triangle", "all pairs of four"])
def test_loopy_is_close_where_potentials_are_weak(name):
    structure = LOOPY[name]
    tables = models.potentials(structure, seed=1, spread=0.2)
    logits = models.joint(structure, tables)
    found = settled(LoopyBP, structure, tables)
    assert abs(found.log_partition - models.log_partition(logits)) < 2e-3
    for clique, table in zip(structure[1], found.marginals, strict=True):
        assert np.abs(table - models.marginal(logits, clique)).max() < 5e-3


def consistency(structure):
    """Equations of locally consistent tables, written out: (matrix, right-hand side, slices)."""
    sizes, cliques = structure
    starts = np.cumsum([0, *(int(np.prod([sizes[v] for v in c])) for c in cliques)])
    rows, right = [], []
    for i, _ in enumerate(cliques):
        row = np.zeros(starts[-1])
        row[starts[i] : starts[i + 1]] = 1
        rows.append(row)
        right.append(1.0)
    for (i, one), (j, two) in itertools.combinations(enumerate(cliques), 2):
        both = [v for v in one if v in two]
        for values in itertools.product(*(range(sizes[v]) for v in both)) if both else ():
            row = np.zeros(starts[-1])
            for sign, k, clique in ((1, i, one), (-1, j, two)):
                for n, cell in enumerate(itertools.product(*(range(sizes[v]) for v in clique))):
                    if all(cell[clique.index(v)] == x for v, x in zip(both, values, strict=True)):
                        row[starts[k] + n] += sign
            rows.append(row)
            right.append(0.0)
    # rows that others imply make SciPy's solver fail: an orthogonal basis of them stands for all
    left, values, basis = np.linalg.svd(np.array(rows), full_matrices=False)
    kept = values > 1e-9
    return basis[kept], (left.T @ np.array(right))[kept] / values[kept], starts


@pytest.mark.parametrize("name", ["triangle", "loop", "all pairs of four"])
def test_the_maximum_is_bounded_as_well_as_linear_programming_bounds_it(name):
    structure = LOOPY[name]
    matrix, right, _ = consistency(structure)
    for seed in range(4):
        tables = models.potentials(structure, seed=seed)
        flat = np.concatenate([table.ravel() for table in tables])
        program = scipy.optimize.linprog(-flat, A_eq=matrix, b_eq=right, bounds=(0, 1))
        most = highest(structure, tables)
        assert most >= models.joint(structure, tables).max() - 1e-9
        assert -program.fun - 1e-9 <= most <= -program.fun + 1e-3


@pytest.mark.parametrize("kind", [ConvexBP, CoverBP])
@pytest.mark.parametrize("name", ["triangle", "loop"])
def test_beliefs_solve_the_convex_program(name, kind):
    """SciPy maximises expected potentials plus the approximate entropy over consistent tables."""
    structure = ((2,) * len(ALL[name][0]), ALL[name][1])
    tables = models.potentials(structure, seed=2)
    flat = np.concatenate([table.ravel() for table in tables])
    matrix, right, starts = consistency(structure)
    graph = kind.build(Structure(*structure)).graph
    numbers = kind._numbers(graph)
    assert graph.outer == structure[1]

    def entropy(p):
        return -np.sum(p * np.log(np.maximum(p, 1e-300)))

    def value(p):
        parts = [p[a:b].reshape(2, 2) for a, b in itertools.pairwise(starts)]
        total = flat @ p + sum(c * entropy(t) for c, t in zip(numbers.outer, parts, strict=True))
        for number, part, above in zip(numbers.inner, graph.inner, graph.above, strict=True):
            clique = structure[1][above[0]]
            total += number * entropy(parts[above[0]].sum(axis=1 - clique.index(part[0])))
        return -total

    solved = scipy.optimize.minimize(
        value,
        np.full(len(flat), 0.25),
        constraints={"type": "eq", "fun": lambda p: matrix @ p - right, "jac": lambda p: matrix},
        bounds=[(1e-9, 1)] * len(flat),
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    found = settled(kind, structure, tables)
    np.testing.assert_allclose(np.concatenate([t.ravel() for t in found.marginals]), solved.x, atol=2e-6)
    np.testing.assert_allclose(found.log_partition, -solved.fun, atol=1e-9)


@pytest.mark.parametrize("kind", [LoopyBP, ConvexBP, CoverBP])
def test_zeros_and_impossible_models_give_no_nan(kind):
    structure = LOOPY["loop"]
    for seed in range(5):
        tables = models.potentials(structure, seed=seed, zeros=0.5)
        logits = models.joint(structure, tables)
        found = settled(kind, structure, tables, max_sweeps=200)
        most = highest(structure, tables)
        assert np.isfinite(found.log_partition) and np.isfinite(most) and most >= logits.max() - 1e-9
        for clique, table in zip(structure[1], found.marginals, strict=True):
            assert np.isfinite(table).all()
            assert (table[np.isneginf(tables[structure[1].index(clique)])] == 0).all()
    tables[1] = np.full_like(tables[1], -np.inf)
    found = settled(kind, structure, tables)
    assert found.log_partition == -np.inf and highest(structure, tables) == -np.inf
    assert all((table == 0).all() for table in found.marginals)


@pytest.mark.parametrize("kind", [LoopyBP, ConvexBP, CoverBP])
def test_float32_is_close_to_float64(kind):
    structure = LOOPY["grid"]
    tables = models.potentials(structure, seed=1)
    truth = settled(kind, structure, tables)
    value, marginals = kind.build(Structure(*structure)).infer([jnp.asarray(t, jnp.float32) for t in tables])
    assert value.dtype == jnp.float32
    np.testing.assert_allclose(value, truth.log_partition, atol=1e-4)
    for found, expected in zip(marginals, truth.marginals, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-5)


def test_the_forecast_is_of_the_regions():
    oracle = LoopyBP.build(Structure(*GRID))
    assert oracle.forecast.largest == 4 and oracle.forecast.inputs == 48
    assert "12 outer regions" in oracle.details[0]
