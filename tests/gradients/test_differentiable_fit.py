"""Gradients through a fit against finite differences, closed forms and the estimator."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pgmjax as pj
from pgmjax._internal.jit import cache_size
from pgmjax.gradients import DifferentiableFit
from pgmjax.gradients.answer_coordinates import FitParameters
from pgmjax.queries import marginal
from tests.gradients.cases import (
    ASKED,
    DOMAIN,
    STRUCTURES,
    TOTAL,
    differences,
    fit_of,
    measurements,
    objective,
)

NAMES = [field.name for field in dataclasses.fields(FitParameters)]


def worst(fit, leave_out=()):
    """Largest error of the gradient by a kind of number, relative to its largest component."""
    _, gradient = fit.value_and_gradient(objective)
    slopes = iter(differences(fit))
    errors = {}
    for name in NAMES:
        leaves = jax.tree.leaves(getattr(gradient, name))
        pairs = [(np.ravel(leaf), next(slopes)) for leaf in leaves]
        if pairs and name not in leave_out:
            ours, theirs = (np.concatenate(both) for both in zip(*pairs, strict=True))
            errors[name] = np.abs(ours - theirs).max() / np.abs(theirs).max()
    return errors


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "name", [pytest.param("chain", marks=SLOW), "cycle", pytest.param("star", marks=SLOW)]
)
def test_implicit_gradients_are_those_of_finite_differences(name):
    fit = fit_of(name)
    assert fit.diagnostics().interior
    errors = worst(fit)
    assert set(errors) == set(NAMES)
    assert max(errors.values()) < 1e-5, errors


@SLOW
def test_implicit_gradients_without_a_weight_on_the_prior():
    """With weight 0 the prior is what undetermined answers follow, and nothing else."""
    errors = worst(fit_of("star", prior_weight=0.0), leave_out=("prior_weight",))  # below 0 there is no fit
    assert max(errors.values()) < 1e-5, errors


@pytest.mark.parametrize(("name", "steps"), [("chain", 50), pytest.param("star", 300, marks=SLOW)])
def test_unrolled_gradients_are_those_of_the_same_program(name, steps):
    errors = worst(fit_of(name, "unrolled", max_steps=steps))
    assert max(errors.values()) < 1e-5, errors


def test_unrolled_and_implicit_gradients_meet():
    implicit, unrolled = fit_of("chain"), fit_of("chain", "unrolled", max_steps=3000)
    ours, theirs = (jax.tree.leaves(fit.value_and_gradient(objective)) for fit in (unrolled, implicit))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6 * np.abs(other).max(), rtol=0)


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_fit_is_the_estimators(name):
    noisy = measurements(STRUCTURES[name])
    fit = DifferentiableFit(DOMAIN, noisy, [*ASKED, ("a", "b", "c")], TOTAL)
    estimator = pj.Estimator(
        regularisation="none", tol=1e-13, max_steps=20_000, dtype="float64", progress=False
    )
    model = estimator.fit(DOMAIN, noisy, TOTAL).model
    for clique, answer in zip([*ASKED, ("a", "b", "c")], fit.answers(), strict=True):
        np.testing.assert_allclose(answer, model.marginal(clique), atol=1e-5)


def test_one_clique_has_the_derivative_of_least_squares():
    """No bound touches: answers are the values, moved along the precision's inverse to their total."""
    stddevs = np.array([2.0, 3.0, 5.0])
    noisy = [pj.LinearMeasurement(("a",), [310.0, 330.0, 345.0], stddevs)]
    fit = DifferentiableFit(DOMAIN, noisy, [("a",)], total=1000)
    (slope,) = fit.jacobian()
    share = stddevs**2 / np.sum(stddevs**2)
    np.testing.assert_allclose(slope.values[0], np.eye(3) - share[:, None] * np.ones(3), atol=1e-9)
    np.testing.assert_allclose(slope.total, share, atol=1e-9)
    missed = 1000 - noisy[0].flat_values().sum()
    by_stddev = missed * 2 * stddevs * (np.eye(3) - share[:, None]) / np.sum(stddevs**2)
    np.testing.assert_allclose(slope.stddevs[0], by_stddev, atol=1e-9)
    np.testing.assert_allclose(slope.weights, 0, atol=1e-9)


def test_two_measurements_of_a_clique_are_weighted():
    """Weights act as precisions do."""
    values, weights = [[300.0, 700.0], [320.0, 680.0]], np.array([1.0, 3.0])
    noisy = [pj.LinearMeasurement(("b",), value, 5.0) for value in values]
    fit = DifferentiableFit(DOMAIN, noisy, [("b",)], total=1000)
    (slope,) = fit.jacobian(dataclasses.replace(fit.parameters, weights=weights))
    np.testing.assert_allclose(slope.weights[0], [-20 * 3 / 16, 20 * 1 / 16], atol=1e-8)


@pytest.mark.slow
def test_rows_of_a_batch_are_the_fits_alone():
    for method in ("implicit", "unrolled"):
        fit = fit_of("chain", method, max_steps=60)
        first, tree = jax.tree.flatten(fit.parameters)
        rows = [jax.tree.unflatten(tree, [leaf * factor for leaf in first]) for factor in (1.0, 1.01, 0.99)]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *rows)
        with jax.enable_x64(True):
            gradient = jax.jit(jax.vmap(jax.grad(lambda n, fit=fit: objective(fit(n)))))(stacked)
        for at, row in enumerate(rows):
            alone = fit.value_and_gradient(objective, row)[1]
            for one, other in zip(jax.tree.leaves(gradient), jax.tree.leaves(alone), strict=True):
                np.testing.assert_allclose(one[at], other, rtol=1e-6, atol=1e-7 * np.abs(other).max())


@pytest.mark.slow
def test_one_program_serves_all_numbers_and_forward_mode_agrees():
    fit = fit_of("chain")
    fit.answers()
    other = jax.tree.map(lambda leaf: leaf * 1.01, fit.parameters)
    fit.answers(other)
    assert cache_size(fit._compiled) == 1
    along = jax.tree.map(
        lambda leaf: np.random.default_rng(leaf.size).normal(size=leaf.shape), fit.parameters
    )
    for method in ("implicit", "unrolled"):
        fit = fit_of("chain", method, max_steps=60)
        gradient = fit.value_and_gradient(objective)[1]
        with jax.enable_x64(True):
            move = jax.jit(lambda n, t, fit=fit: jax.jvp(lambda p: objective(fit(p)), (n,), (t,))[1])
            forward = float(move(fit._arrays(fit.parameters), fit._arrays(along)))
        backward = sum(jax.tree.leaves(jax.tree.map(lambda g, t: np.sum(g * t), gradient, along)))
        assert forward == pytest.approx(backward, rel=1e-7)


def test_no_gradient_where_cells_are_held_at_nothing():
    noisy = [pj.LinearMeasurement(("a", "b"), [[-30, 40], [50, 60], [2, 90]], 4.0)]
    fit = DifferentiableFit(DOMAIN, noisy, [("a",)], total=220)
    about = fit.diagnostics()
    assert not about.interior and about.smallest < 1e-6 and about.slope > 0.1
    _, gradient = fit.value_and_gradient(lambda answers: answers[0][1])
    assert np.isnan(gradient.values[0]).all()
    unrolled = DifferentiableFit(DOMAIN, noisy, [("a",)], total=220, method="unrolled", max_steps=300)
    assert not unrolled.diagnostics().interior
    _, gradient = unrolled.value_and_gradient(lambda answers: answers[0][1])
    assert np.isfinite(gradient.values[0]).all()


def test_no_gradient_where_the_steps_run_out():
    fit = fit_of("chain", max_steps=2)
    assert not fit.diagnostics().interior
    assert np.isnan(fit.value_and_gradient(objective)[1].values[0]).all()


def test_second_derivatives_are_refused():
    noisy = [pj.LinearMeasurement(("a",), [310.0, 330.0, 345.0], 2.0)]
    fit = DifferentiableFit(DOMAIN, noisy, [("a",)], 1000.0, method="unrolled", max_steps=3)
    with jax.enable_x64(True), pytest.raises(NotImplementedError, match="differentiated once"):
        jax.hessian(lambda total: fit(dataclasses.replace(fit.parameters, total=total))[0][0])(1000.0)


@pytest.mark.slow
def test_float32_needs_no_context():
    fit = DifferentiableFit(DOMAIN, measurements(STRUCTURES["chain"]), ASKED, TOTAL, dtype="float32")
    exact = DifferentiableFit(DOMAIN, measurements(STRUCTURES["chain"]), ASKED, TOTAL)
    gradient = jax.jit(jax.grad(lambda numbers: objective(fit(numbers))))(fit.parameters)
    expected = exact.value_and_gradient(objective)[1].values[0]
    assert gradient.values[0].dtype == jnp.float32
    np.testing.assert_allclose(gradient.values[0], expected, atol=0.01 * np.abs(expected).max())


def test_bad_input_is_refused():
    noisy = measurements(STRUCTURES["chain"])
    fit = DifferentiableFit(DOMAIN, noisy, ASKED, TOTAL)
    with pytest.raises(ValueError, match="enable_x64"):
        fit(fit.parameters)
    with pytest.raises(TypeError, match="parameters must be FitParameters"):
        fit.answers({"values": 1})
    with pytest.raises(ValueError, match="have the shapes of"):
        fit.answers(dataclasses.replace(fit.parameters, weights=np.ones(3)))
    with pytest.raises(ValueError, match=r"method.*'exact'"):
        DifferentiableFit(DOMAIN, noisy, ASKED, TOTAL, method="exact")
    with pytest.raises(TypeError, match=r"domain.*dict"):
        DifferentiableFit({"a": 3}, noisy, ASKED, TOTAL)
    with pytest.raises(TypeError, match=r"prior.*list"):
        DifferentiableFit(DOMAIN, noisy, ASKED, TOTAL, prior=[1])
    with pytest.raises(ValueError, match=r"prior_weight.*-1"):
        DifferentiableFit(DOMAIN, noisy, ASKED, TOTAL, prior_weight=-1)
    elsewhere = pj.GraphicalModel.from_potentials(pj.Domain({"a": 3}), {("a",): np.zeros(3)})
    with pytest.raises(ValueError, match="domain of the fit"):
        DifferentiableFit(DOMAIN, noisy, ASKED, TOTAL, prior=elsewhere)
    holes = pj.GraphicalModel.from_potentials(DOMAIN, {("a",): np.array([0, 0, -np.inf])})
    with pytest.raises(ValueError, match="impossible cells"):
        DifferentiableFit(DOMAIN, noisy, ASKED, TOTAL, prior=holes)
    with pytest.raises(ValueError, match="query"):
        DifferentiableFit(DOMAIN, noisy, [], TOTAL)
    with pytest.raises(TypeError, match=r"queries.*Product"):
        DifferentiableFit(DOMAIN, noisy, marginal(("a",)), TOTAL)


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("weights", np.zeros(2), "weights of the parameters must be > 0"),
        ("total", -5.0, "total of the parameters must be > 0"),
        ("prior_weight", -1.0, "prior_weight of the parameters must be >= 0"),
        ("values", (np.full(4, np.nan), np.ones(2)), "values of the parameters must be finite"),
        ("stddevs", (np.float64(0), np.float64(1)), "stddevs of the parameters must be > 0"),
    ],
)
def test_numbers_that_no_fit_has_are_refused(name, wrong, said):
    domain = pj.Domain({"a": 2, "b": 2})
    noisy = [
        pj.LinearMeasurement(("a", "b"), [3, 4, 5, 6], 1.0),
        pj.LinearMeasurement(("a",), [7, 9], 1.0),
    ]
    fit = DifferentiableFit(domain, noisy, [("b",)], 18.0)
    changed = dataclasses.replace(fit.parameters, **{name: wrong})
    for ask in (fit.answers, fit.diagnostics, fit.jacobian):
        with pytest.raises(ValueError, match=said):
            ask(changed)


@pytest.mark.parametrize("weight", [0.0, 20.0])
def test_prior_and_its_weight_mean_what_they_mean_to_an_estimator(weight):
    domain = pj.Domain({"a": 3, "b": 2, "c": 2})
    rng = np.random.default_rng(4)
    prior = pj.GraphicalModel.from_potentials(
        domain, {("a", "b"): rng.normal(size=(3, 2)), ("b", "c"): rng.normal(size=(2, 2))}
    )
    noisy = [pj.LinearMeasurement(("a", "b"), rng.uniform(20, 60, (3, 2)), 5.0)]
    fit = DifferentiableFit(domain, noisy, [("a", "c"), ("b",)], 250.0, prior, weight)
    exact = pj.Estimator(
        regularisation="none", dtype="float64", tol=1e-12, max_steps=5000, progress=False
    ).fit(domain, noisy, 250.0, prior=prior, prior_weight=weight)
    for answer, clique in zip(fit.answers(), [("a", "c"), ("b",)], strict=True):
        np.testing.assert_allclose(answer, exact.model.marginal(clique), rtol=0, atol=1e-4)
