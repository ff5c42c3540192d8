"""Estimation over locally consistent tables: its certificate against exact fits and SciPy."""

import itertools

import jax
import numpy as np
import pytest
import scipy.optimize
import scipy.special

import pgmjax as pj
from pgmjax.estimation import losses, region_fit
from pgmjax.estimation.region_fit import InconsistentWarning, fit_local, plan_local
from pgmjax.inference.oracles.belief_propagation import CoverBP
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.inference.plan.structure import Structure
from tests.inference.oracles.test_belief_propagation import LOOPY, consistency, disagreement


def noisy(structure, seed=0, total=100.0, stddev=8.0, queries=None):
    """A domain and noisy marginals of random records over a structure."""
    sizes, cliques = structure
    rng = np.random.default_rng(seed)
    joint = total * rng.dirichlet(np.full(int(np.prod(sizes)), 0.2)).reshape(sizes)
    domain = pj.Domain({f"v{i}": size for i, size in enumerate(sizes)})
    measurements = []
    for clique in cliques:
        table = joint.sum(axis=tuple(v for v in range(len(sizes)) if v not in clique))
        kept = [v for v in range(len(sizes)) if v in clique]
        table = table.transpose([kept.index(v) for v in clique])
        noise = rng.normal(0, stddev, table.shape)
        measurements.append(pj.LinearMeasurement(tuple(f"v{v}" for v in clique), table + noise, stddev))
    return domain, measurements


@pytest.mark.parametrize("name", LOOPY)
def test_the_certificate_bounds_the_exact_optimum(name):
    domain, measurements = noisy(LOOPY[name])
    fit = fit_local(domain, measurements, total=100, tol=2e-5)
    exact = pj.Estimator(dtype="float64", tol=1e-7, max_steps=5000).fit(domain, measurements, total=100)
    assert fit.status is pj.Status.CONVERGED and 0 <= fit.gap <= 2e-5 * max(1, fit.loss) * (1 + 1e-6)
    assert fit.loss - fit.gap <= exact.loss + 1e-9
    assert fit.loss <= exact.loss + fit.gap + 1e-9
    assert fit.residual <= 1e-6
    tables = [fit.model.marginal(m.clique) / 100 for m in measurements]
    assert disagreement(LOOPY[name], tables) <= 1e-6
    loss = sum(
        0.5 * np.sum(((100 * t - np.reshape(m.values, t.shape)) / 8.0) ** 2)
        for t, m in zip(tables, measurements, strict=True)
    )
    np.testing.assert_allclose(fit.loss, loss, rtol=1e-9)


@pytest.mark.parametrize("name", ["triangle", "loop"])
def test_the_optimum_is_that_of_the_quadratic_program(name):
    structure = LOOPY[name]
    domain, measurements = noisy(structure, seed=1, stddev=15.0)
    matrix, right, _ = consistency(structure)
    goal = np.concatenate([np.ravel(m.values) for m in measurements]) / 100

    solved = scipy.optimize.minimize(
        lambda p: 0.5 * np.sum((p - goal) ** 2),
        np.concatenate([np.full(m.values.size, 1 / m.values.size) for m in measurements]),
        jac=lambda p: p - goal,
        constraints={"type": "eq", "fun": lambda p: matrix @ p - right, "jac": lambda p: matrix},
        bounds=[(0, 1)] * len(goal),
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 2000},
    )
    fit = fit_local(domain, measurements, total=100, tol=1e-8, max_steps=5000)
    optimum = solved.fun * (100 / 15.0) ** 2
    assert fit.loss - fit.gap <= optimum + 1e-6
    np.testing.assert_allclose(fit.loss, optimum, rtol=1e-5)


def test_the_loss_leaves_its_tangent_no_faster_than_the_constant_says():
    """By at most the constant times the tables' relative entropies, each times its weight of 1/3.

    Three of the six pairs of attributes hold any one of them. The first of the moves between joint tables is
    that of two cells of about even odds, along which the loss bends most for its entropy.
    """
    sizes, cliques = LOOPY["all pairs of four"]
    domain, measurements = noisy((sizes, cliques))
    with jax.enable_x64(True):
        bound = losses.build("l2", domain, measurements, 100, "float64")
        oracle = CoverBP.build(Structure(sizes, cliques))
        problem = region_fit.LocalObjective.over(oracle, bound, 1.0, [])
        constant = float(region_fit._curvature(problem, losses.L2(), domain, measurements, 100))
    assert oracle.graph.outer == cliques
    np.testing.assert_allclose(oracle.maps.weight, 1 / 3)
    joints = np.random.default_rng(0).dirichlet(np.full(np.prod(sizes), 0.3), (50, 2)).reshape(50, 2, *sizes)
    joints[0] = 0
    joints[0, :, 0, 0, 0, 0], joints[0, :, 1, 1, 1, 1] = (0.5, 0.51), (0.5, 0.49)
    for tables in joints:
        above = entropies = 0.0
        for clique in cliques:
            start, end = (t.sum(axis=tuple(v for v in range(4) if v not in clique)) for t in tables)
            above += 0.5 * np.sum(((end - start) * 100 / 8.0) ** 2)  # of a square, with noise of stddev 8
            entropies += scipy.special.rel_entr(end, start).sum() / 3
        assert above <= constant * entropies


def test_contradictory_pairs_have_a_relaxed_loss_below_every_table():
    """Three values of two kinds cannot differ pairwise, but pseudo-marginals can."""
    domain = pj.Domain({"a": 2, "b": 2, "c": 2})
    opposite = [[0.0, 20.0], [20.0, 0.0]]
    measured = [pj.LinearMeasurement(c, opposite, 1.0) for c in (("a", "b"), ("b", "c"), ("a", "c"))]
    fit = fit_local(domain, measured, total=40)
    exact = pj.Estimator(dtype="float64").fit(domain, measured, total=40)
    assert fit.loss < 1e-3 and exact.loss > 50
    assert fit.loss - fit.gap <= exact.loss - exact.gap


def test_constraints_hold_and_give_no_nan():
    structure = LOOPY["loop"]
    domain, measurements = noisy(structure, seed=2)
    masks = {("v0", "v1"): np.ones((3, 2), bool), ("v0", "v2"): np.ones((3, 4), bool)}
    masks["v0", "v1"][[0, 2], [0, 1]] = False
    masks["v0", "v2"][1, 3] = False
    zeros, across = (pj.StructuralZeros(clique, mask) for clique, mask in masks.items())
    fit = fit_local(domain, measurements, total=100, constraints=[zeros, across])
    exact = pj.Estimator(dtype="float64").fit(domain, measurements, 100, constraints=[zeros, across])
    table = fit.model.marginal(("v0", "v1"))
    assert table[0, 0] == 0 and table[2, 1] == 0 and fit.model.marginal(("v2", "v0"))[3, 1] == 0
    assert np.isfinite(fit.gap) and fit.loss - fit.gap <= exact.loss + 1e-9


def test_nested_cliques_queries_and_free_attributes():
    structure = LOOPY["all pairs of four"]
    domain, measurements = noisy(structure)
    domain = pj.Domain({**domain.sizes, "free": 3})
    measurements.append(pj.LinearMeasurement(("v1",), [50.0, 30.0, 20.0], 2.0))
    prefix = pj.queries.kronecker({"v1": pj.queries.prefix()})
    measurements.append(pj.LinearMeasurement(("v1",), [50.0, 80.0, 100.0], 3.0, query=prefix))
    fit = fit_local(domain, measurements, total=100, tol=1e-5)
    exact = pj.Estimator(dtype="float64", tol=1e-6).fit(domain, measurements, total=100)
    assert fit.status is pj.Status.CONVERGED
    assert fit.loss - fit.gap <= exact.loss <= fit.loss * 1.5
    np.testing.assert_allclose(fit.model.marginal(("free",)), 100 / 3)
    np.testing.assert_allclose(fit.model.answer(prefix), np.cumsum(fit.model.marginal(("v1",))))


def test_losses_with_kinks_and_of_ones_own():
    domain, measurements = noisy(LOOPY["loop"])
    fit = fit_local(domain, measurements, total=100, loss="l1", tol=1e-3, max_steps=3000)
    exact = pj.Estimator(loss="l1", dtype="float64", tol=1e-4, max_steps=3000).fit(domain, measurements, 100)
    assert fit.loss - fit.gap <= exact.loss + 1e-9
    assert fit.gap <= 2e-3 * fit.loss


def test_a_warning_where_tables_do_not_agree(monkeypatch):
    from pgmjax.estimation import region_fit as module

    monkeypatch.setattr(module, "END_SWEEPS", 0)
    monkeypatch.setattr(module, "STEP_SWEEPS", 1)
    domain, measurements = noisy(LOOPY["grid"], stddev=30.0)
    with pytest.warns(InconsistentWarning, match="agree to"):
        fit = fit_local(domain, measurements, total=100, max_steps=3)
    assert fit.residual > 1e-6


def test_memory_is_refused_with_figures():
    with pytest.raises(ModelTooLargeError, match=r"\(a, b\).*1,000,000"):
        plan_local(pj.Domain({"a": 1000, "b": 1000}), [("a", "b")], max_bytes=1_000_000)


@pytest.mark.slow
def test_all_pairs_of_forty_attributes_which_no_exact_plan_fits():
    count, size = 40, 5
    pairs = list(itertools.combinations(range(count), 2))
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 3, 5000)
    columns = [
        np.where(rng.random(5000) < 0.4, (hidden + i) % size, rng.integers(0, size, 5000))
        for i in range(count)
    ]
    domain = pj.Domain({f"v{i}": size for i in range(count)})
    measurements = []
    for a, b in pairs:
        counts = np.histogram2d(columns[a], columns[b], bins=[np.arange(size + 1)] * 2)[0]
        noise = rng.normal(0, 50, counts.shape)
        measurements.append(pj.LinearMeasurement((f"v{a}", f"v{b}"), counts + noise, 50.0))
    with pytest.raises(ModelTooLargeError):
        pj.Estimator(max_bytes=10**9).plan(domain, [m.clique for m in measurements])
    fit = fit_local(domain, measurements, total=5000, max_bytes=10**9)
    assert fit.status is pj.Status.CONVERGED and fit.residual <= 1e-6
    assert fit.gap <= 1e-4 * fit.loss
    noise_only = 0.5 * len(pairs) * size**2
    assert fit.loss < noise_only  # the truth is consistent, so the best consistent tables fit better


def test_cliques_stand_in_any_order_of_attributes():
    domain = pj.Domain({"a": 2, "b": 3, "c": 2})
    rng = np.random.default_rng(0)
    tables = {c: rng.uniform(1, 9, domain.shape_of(c)) for c in itertools.permutations("abc", 2)}
    measured = [pj.LinearMeasurement(c, t, 1.0) for c, t in tables.items()]
    fit = fit_local(domain, measured, total=30)
    np.testing.assert_allclose(fit.model.marginal(("a", "b")), fit.model.marginal(("b", "a")).T)


def test_a_function_as_loss_over_several_cliques_is_that_of_the_same_measurements():
    domain, measurements = noisy(LOOPY["triangle"])
    goal = {m.clique: np.reshape(m.values, domain.shape_of(m.clique)) for m in measurements}

    def squares(marginals):
        return sum(0.5 * ((marginals[clique] - goal[clique]) ** 2).sum() / 64 for clique in goal)

    known = fit_local(domain, measurements, total=100, tol=1e-6)
    single = [pj.LinearMeasurement(("v0",), np.full(domain.sizes["v0"], 1.0), 1.0)]
    named = pj.losses.Custom(squares, cliques=tuple(goal))
    for loss, given in ((squares, measurements), (named, single)):
        fit = fit_local(domain, given, total=100, loss=loss, tol=1e-6)
        assert fit.status is pj.Status.CONVERGED
        assert abs(fit.loss - known.loss) <= fit.gap + known.gap + 1e-9
        assert fit.loss - fit.gap <= known.loss


@pytest.mark.parametrize(
    ("wrong", "kind", "said"),
    [
        ({"max_steps": 0}, ValueError, "max_steps.*0"),
        ({"tol": "small"}, TypeError, "tol.*str"),
        ({"tol": -1}, ValueError, "tol.*-1"),
        ({"total": 0}, ValueError, "total.*0"),
        ({"total": "many"}, TypeError, "total.*str"),
    ],
)
def test_bad_settings_are_told(wrong, kind, said):
    domain, measurements = noisy(LOOPY["triangle"])
    with pytest.raises(kind, match=said):
        fit_local(domain, measurements, **wrong)
    with pytest.raises(TypeError, match=r"domain must be a pgmjax\.Domain, got dict: write fit_local"):
        fit_local({"v0": 2}, measurements)
