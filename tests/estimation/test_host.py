"""Fits in NumPy: the same losses, gradients and steps as compiled ones in float64."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pgmjax as pj
from pgmjax import queries
from pgmjax.estimation import losses
from pgmjax.estimation.solvers.objective import Equalities, Objective, Prior
from pgmjax.inference.oracles.contraction import Contraction, HostContraction
from pgmjax.inference.plan.structure import Structure

DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 2, "d": 5})


def measurements(seed=0, stddev=3.0):
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(3, 8)).round(2)
    asked = [
        queries.marginal(("a", "b")),
        queries.kronecker({"b": queries.prefix(), "c": queries.total()}),
        queries.kronecker({"d": queries.compression([0, 1, 1, 2, 0]), "c": queries.identity()}),
        queries.kronecker({"d": queries.all_ranges(), "a": queries.identity()}),
        queries.DenseMatrix(("b", "c"), dense),
        queries.marginal(("b", "a")),
    ]
    return [
        pj.LinearMeasurement(q.clique, rng.normal(20, 9, q.num_rows(DOMAIN)), stddev=stddev, query=q)
        for q in asked
    ]


@pytest.mark.parametrize("name", ["l2", "l1"])
@pytest.mark.parametrize("terms", ["none", "linear", "equalities"])
def test_values_and_gradients_are_those_of_automatic_differentiation(name, terms):
    loss = losses.build(name, DOMAIN, measurements(), 100.0, "float64")
    cliques, shapes = [*loss.cliques], [*loss.shapes]
    length, rng, beside = sum(map(int, map(np.prod, shapes))), np.random.default_rng(1), {}
    if terms == "linear":
        beside = {"prior": Prior(np.float64(1), np.float64(0), rng.normal(size=length))}
    if terms == "equalities":
        target, length = rng.random((4, 5)), length + 20
        term = Equalities.of([*cliques, ("b", "d")], [*shapes, (4, 5)], [(("b", "d"), target)], 7.0)
        multipliers = rng.normal(size=length) * (term.penalty > 0)
        beside = {"equalities": dataclasses.replace(term, multipliers=multipliers)}
    oracle = HostContraction(
        Contraction.build(Structure((3, 4, 2, 5), ((0, 1), (1, 2), (3, 2), (0, 3), (1, 3)))).path,
        padded_length=length + 3,
    )
    problem = Objective.build(oracle, loss, np.float64(1), **beside)
    vector = rng.random(length + 3)
    with jax.enable_x64(True):
        value, gradient = jax.jit(jax.value_and_grad(problem.flat))(jnp.asarray(vector))
    found, slope = problem.value_and_gradient(vector)
    assert isinstance(slope, np.ndarray)
    np.testing.assert_allclose(found, value, rtol=1e-12)
    np.testing.assert_allclose(slope, gradient, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("solver", ["accelerated", "mirror_descent", "dual_averaging"])
@pytest.mark.parametrize("settings", [{}, {"loss": "l1"}, {"regularisation": "none"}], ids=str)
def test_a_fit_on_the_host_is_a_compiled_one_in_float64(solver, settings):
    shared = {"solver": solver, "max_steps": 120, "dtype": "float64", "progress": False, **settings}
    here, there = (
        pj.Estimator(oracle=oracle, **shared).fit(DOMAIN, measurements(), total=100.0)
        for oracle in ("host", "contraction")
    )
    assert isinstance(here.plan.oracle, HostContraction)
    assert here.status is there.status and here.steps == there.steps
    np.testing.assert_allclose(here.loss, there.loss, rtol=1e-7)
    for clique in (("a", "b"), ("d", "c"), ("a", "d")):
        found, expected = here.model.marginal(clique), there.model.marginal(clique)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_side_information_holds_on_the_host():
    zeros = pj.AllowedSet(("a", "c"), [(0, 0), (1, 1), (2, 0), (2, 1)])
    fixed = pj.FixedMarginal(("d",), [10, 20, 30, 25, 15])
    shared = {"max_steps": 400, "tol": 1e-6, "dtype": "float64", "progress": False}
    here, there = (
        pj.Estimator(oracle=oracle, **shared).fit(DOMAIN, measurements(), constraints=[zeros, fixed])
        for oracle in ("host", "contraction")
    )
    assert (here.model.marginal(("a", "c"))[[0, 1], [1, 0]] == 0).all()
    np.testing.assert_allclose(here.model.marginal(("d",)), fixed.counts, rtol=1e-6)
    np.testing.assert_allclose(here.loss, there.loss, rtol=1e-4)


def test_what_the_host_does_not_run_is_refused():
    with pytest.raises(ValueError, match="runs the solvers accelerated, mirror_descent"):
        pj.Estimator(oracle="host", solver="lbfgs")
    with pytest.raises(ValueError, match="one fit at a time"):
        pj.Estimator(oracle="host").fit_batch(DOMAIN, [measurements()] * 2)
    fit = pj.Estimator(solver="lbfgs", max_steps=20, progress=False).fit(DOMAIN, measurements())
    assert not isinstance(fit.plan.oracle, HostContraction)
