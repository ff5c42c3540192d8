"""Every solver on the same cases in float64: one optimum, a true certificate, no NaN."""

import dataclasses
import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import pgmjax as pj
from pgmjax._internal import jit
from pgmjax.estimation import losses, solvers
from pgmjax.estimation.solvers import loop
from pgmjax.estimation.solvers.objective import Objective
from pgmjax.estimation.solvers.stopping import StoppingRule
from tests.optimum import to_optimum

NAMES = solvers.names()
DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 2, "d": 5})
CASES = {
    "chain": [("a", "b"), ("b", "c"), ("c", "d")],
    "loop": [("a", "b"), ("b", "c"), ("c", "a"), ("d",)],
    "overlapping": [("a", "b", "c"), ("b", "a"), ("d", "c")],
}


def noisy(cliques, seed=0, total=1000.0, stddev=20.0):
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.ones(DOMAIN.size())).reshape(DOMAIN.shape) * total
    result = []
    for clique in cliques:
        axes = tuple(i for i, name in enumerate(DOMAIN.attributes) if name not in clique)
        kept = [name for name in DOMAIN.attributes if name in clique]
        exact = joint.sum(axis=axes).transpose([kept.index(name) for name in clique])
        result.append(pj.LinearMeasurement(clique, exact + stddev * rng.normal(size=exact.shape), stddev))
    return result


def reference(measurements, total=1000.0):
    """Optimum of the L2 loss over joint distributions, by SLSQP-free non-negative least squares.

    The total is a row of large weight, so that the optimum over the simplex is that of NNLS.
    """
    cells = np.indices(DOMAIN.shape).reshape(4, -1)
    rows, values = [], []
    for m in measurements:
        code = np.ravel_multi_index(
            [cells[DOMAIN.attributes.index(n)] for n in m.clique], DOMAIN.shape_of(m.clique)
        )
        rows.append((np.arange(m.values.size)[:, None] == code[None, :]) / m.stddev)
        values.append(m.values.ravel() / m.stddev)
    a, y = np.concatenate(rows), np.concatenate(values)
    heavy = 1e4
    x, _ = scipy.optimize.nnls(
        np.vstack([a, heavy * np.ones(a.shape[1]) / total]), np.append(y, heavy), maxiter=100_000
    )
    return 0.5 * float(np.sum((a @ x - y) ** 2))


@pytest.fixture(scope="module")
def optima():
    return {name: reference(noisy(cliques)) for name, cliques in CASES.items()}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("solver", NAMES)
def test_meets_the_optimum_that_nnls_finds(solver, case, optima):
    estimator = to_optimum(solver=solver, dtype="float64", max_steps=8000, tol=1e-6)
    fit = estimator.fit(DOMAIN, noisy(CASES[case]), total=1000)
    assert fit.status is pj.Status.CONVERGED
    assert fit.gap <= 1e-6 * max(1, fit.loss)
    assert fit.loss - optima[case] <= fit.gap + 1e-5  # the heavy row binds the total to about 1e-5
    assert fit.loss >= optima[case] - 1e-3


@pytest.mark.parametrize("solver", NAMES)
def test_l1_solvers_agree(solver):
    estimator = to_optimum(loss="l1", solver=solver, dtype="float64", max_steps=8000, tol=1e-5)
    fit = estimator.fit(DOMAIN, noisy(CASES["chain"]), total=1000)
    best = to_optimum(loss="l1", dtype="float64", max_steps=8000, tol=1e-7).fit(
        DOMAIN, noisy(CASES["chain"]), total=1000
    )
    assert fit.status is pj.Status.CONVERGED
    assert -1e-6 <= fit.loss - best.loss <= fit.gap


@pytest.mark.parametrize("solver", ["accelerated", "mirror_descent", "lbfgs"])
def test_any_convex_function(solver):
    """The fourth powers of deviations from 1 are least, for a total of 120, at the uniform marginal."""
    custom = pj.losses.Custom(
        lambda marginals: jnp.sum((marginals["a", "b"] - 1.0) ** 4), cliques=(("a", "b"),)
    )
    estimator = to_optimum(loss=custom, solver=solver, dtype="float64", max_steps=4000, tol=1e-5)
    fit = estimator.fit(DOMAIN, [], total=120)
    np.testing.assert_allclose(fit.model.marginal(("a", "b")), 10.0, rtol=1e-2)
    assert fit.loss == pytest.approx(12 * 9.0**4, rel=1e-4)


@pytest.mark.parametrize("solver", NAMES)
def test_one_trace_for_two_settings(solver):
    """Numeric settings and measured values are leaves: the second fit compiles nothing."""
    build = {"lbfgs": {"patience": 50}}.get(solver, {"patience": 700})
    other = dataclasses.replace(solvers.build(solver), **build)
    measured = noisy(CASES["chain"])
    to_optimum(solver=solvers.build(solver), max_steps=50).fit(DOMAIN, measured, total=1000)
    before = jit.cache_size(loop._block)
    to_optimum(solver=other, max_steps=50).fit(DOMAIN, noisy(CASES["chain"], seed=4), total=990)
    assert jit.cache_size(loop._block) == before


@pytest.mark.parametrize("solver", NAMES)
@pytest.mark.parametrize(("total", "stddev"), [(100, 1e-3), (100, 1e3), (1e9, 1e-3), (1e9, 1e3)], ids=str)
def test_extreme_measurements_give_no_nan_in_float32(solver, total, stddev):
    measured = noisy(CASES["loop"], total=total, stddev=stddev)
    fit = to_optimum(solver=solver, max_steps=300, tol=0.0).fit(DOMAIN, measured, total=total)
    assert fit.status is not pj.Status.NOT_FINITE
    chex.assert_tree_all_finite((fit.loss, fit.gap, tuple(fit.model.potentials.tables)))
    uniform = losses.build("l2", DOMAIN, measured, total, "float32").exact(
        [np.full(DOMAIN.shape_of(m.clique), 1 / DOMAIN.size(m.clique)) for m in measured]
    )
    assert fit.loss <= uniform * (1 + 1e-6)


@pytest.mark.parametrize("solver", ["accelerated", "mirror_descent"])
def test_the_loss_falls(solver):
    """In float64 the loss after each block of steps never lies above an earlier one."""
    with jax.enable_x64(True):
        bound = losses.build("l2", DOMAIN, noisy(CASES["loop"]), 1000.0, "float64")
        oracle = to_optimum().plan(DOMAIN, bound.cliques).oracle
        problem = Objective.build(oracle, bound, np.asarray(bound.lipschitz()))
        seen = []
        start = np.zeros(oracle.length)
        loop.run_single(
            loop.solve_steps(
                problem,
                solvers.build(solver),
                start,
                stop=StoppingRule(tol=-1, max_steps=400),
                block=5,
                watch=lambda steps, loss, gap, point: seen.append(loss),
            )
        )
    assert all(b <= a + 1e-9 for a, b in itertools.pairwise(seen))
    assert seen[-1] < seen[0]


def test_certificate_bounds_the_true_distance(optima):
    """At every stage of a fit: loss - gap <= optimum."""
    for steps in (1, 5, 20, 100):
        fit = to_optimum(dtype="float64", max_steps=steps, tol=0.0).fit(
            DOMAIN, noisy(CASES["loop"]), total=1000
        )
        assert fit.loss - fit.gap <= optima["loop"] + 1e-5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("weight", [0.0, 5.0])
def test_the_certificate_of_a_linear_loss_is_the_distance_itself(weight, dtype):
    """The least of <g, p> over all p is at a cell, and of <g, p> + w KL(p || q) it is -w log E_q exp(-g / w).

    A certificate makes nothing but the loss linear: here nothing is lost by that, wherever the fit ends.
    """
    rng = np.random.default_rng(6)
    cliques = (("a", "b"), ("b", "c"))
    # whole numbers, which float32 holds too
    prices = {c: rng.integers(0, 20, DOMAIN.shape_of(c)).astype(float) for c in cliques}
    cost = prices["a", "b"][:, :, None, None] + prices["b", "c"][None, :, :, None]
    # a prior that makes likelier what is dearer
    tables = {("b", "a"): prices["a", "b"].T / 4, ("c", "d"): rng.normal(size=DOMAIN.shape_of(("c", "d")))}
    prior = pj.GraphicalModel.from_potentials(DOMAIN, tables)
    q = np.exp(tables["b", "a"].T[:, :, None, None] + tables["c", "d"])
    q /= q.sum()
    optimum = -weight * np.log(np.sum(q * np.exp(-cost / weight))) if weight else cost.min()

    loss = pj.losses.Custom(
        lambda marginals: sum(jnp.vdot(prices[c].astype(np.float32), marginals[c]) for c in cliques),
        cliques=cliques,
    )
    fit = to_optimum(loss=loss, dtype=dtype, max_steps=2, tol=0.0).fit(
        DOMAIN, [], total=1, prior=prior, prior_weight=weight
    )
    p = fit.model.marginal(("a", "b", "c", "d"))
    reached = float(np.sum(p * cost) + weight * np.sum(p * np.log(p / q)))
    assert reached - optimum > 0.1
    assert fit.gap == pytest.approx(reached - optimum, rel=1e-12)


def test_averaged_marginals_have_the_rate_that_is_proved():
    """After t steps the loss is at most 4 K D / (t (t + 1)) above the optimum.

    D is the relative entropy of the optimum to the start. The loss of a difference of two cells bends as much
    as its constant K says, so that longer steps would overshoot.
    """
    difference = pj.queries.DenseMatrix(("c",), [[1, -1]])
    measured = [pj.LinearMeasurement(("c",), [1.0], 2.0, difference)]
    with jax.enable_x64(True):
        bound = losses.build("l2", DOMAIN, measured, 100.0, "float64")
        oracle = to_optimum().plan(DOMAIN, bound.cliques).oracle
        problem = Objective.build(oracle, bound, np.asarray(bound.lipschitz()))
        solver = solvers.build("dual_averaging")
        state, step = solver.start(problem, np.zeros(oracle.length)), jax.jit(solver.step)
        seen = []
        for _ in range(41):
            state = step(problem, state)
            seen.append(np.asarray(state.average)[:2])
    optimum = np.array([0.505, 0.495])  # there the loss is 0
    entropy = np.sum(optimum * np.log(2 * optimum))
    for t, (one, other) in enumerate(seen[1:], 1):
        loss = 0.5 * ((100 * (one - other) - 1) / 2.0) ** 2
        assert loss <= 4 * (100 / 2.0) ** 2 * entropy / (t * (t + 1))


def test_dual_averaging_needs_a_known_constant():
    custom = pj.losses.Custom(lambda m: jnp.sum(m["a",] ** 2), cliques=(("a",),))
    with pytest.raises(ValueError, match="needs the Lipschitz constant"):
        to_optimum(loss=custom, solver="dual_averaging").fit(DOMAIN, [], total=10)


def test_a_loss_that_is_not_finite_ends_in_the_status():
    custom = pj.losses.Custom(lambda m: jnp.sum(m["a",]) * jnp.nan, cliques=(("a",),))
    fit = to_optimum(loss=custom).fit(DOMAIN, [], total=10)
    assert fit.status is pj.Status.NOT_FINITE
    assert np.isnan(fit.loss) and np.isnan(fit.gap)
    np.testing.assert_allclose(fit.model.marginal(("a",)), 10 / 3)  # the starting point, still a model


@pytest.mark.slow
@pytest.mark.parametrize("stddev", [1e-3, 1.0, 1e3])
def test_ten_thousand_steps_in_float32(stddev):
    measured = noisy(CASES["loop"], total=1e5, stddev=stddev)
    short = to_optimum(max_steps=1000, tol=0.0).fit(DOMAIN, measured, total=1e5)
    long = to_optimum(max_steps=10_000, tol=0.0).fit(DOMAIN, measured, total=1e5)
    assert np.isfinite(long.loss)
    assert long.loss <= short.loss * (1 + 1e-5)


@pytest.mark.parametrize("solver", NAMES)
def test_a_fit_whose_programs_are_those_of_a_gpu_meets_the_same_optimum(solver, optima, monkeypatch):
    """Scalars in one vector, steps of a level together, a compiled-in number of steps."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    fit = to_optimum(solver=solver, dtype="float64", max_steps=8000, tol=1e-6).fit(
        DOMAIN, noisy(CASES["loop"]), total=1000
    )
    assert fit.status is pj.Status.CONVERGED
    assert fit.gap <= 1e-6 * max(1, fit.loss)
    assert -1e-3 <= fit.loss - optima["loop"] <= fit.gap + 1e-5
