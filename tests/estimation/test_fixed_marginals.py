"""Fits under fixed marginals and zeros against convex programs over the joint (SciPy), gap and all."""

import jax.numpy as jnp
import numpy as np
import pytest

import pgmjax as pj
from tests.joint_programs import (
    CASES,
    CLIQUES,
    DOMAIN,
    EMPTY,
    JOINT,
    NOISY,
    RNG,
    TOTAL,
    ZEROS,
    A,
    B,
    assert_honoured,
    cells,
    least_absolute,
    least_squares,
)
from tests.optimum import to_optimum
from tests.solver_names import SOLVERS


@pytest.mark.parametrize("constraints", CASES.values(), ids=CASES.keys())
def test_squared_loss(constraints):
    optimum, joint = least_squares(constraints)
    fit = to_optimum(dtype="float64", tol=1e-6, max_steps=5000).fit(DOMAIN, NOISY, constraints=constraints)
    assert fit.status is pj.Status.CONVERGED and fit.model.total == TOTAL
    assert fit.gap <= 1e-6 * fit.loss
    assert -1e-6 <= fit.loss - optimum <= fit.gap + 1e-6
    assert_honoured(fit.model, constraints)
    for m in NOISY:
        np.testing.assert_allclose(
            fit.model.marginal(m.clique).ravel(), cells(m.clique) @ joint.ravel(), atol=0.2
        )


def test_default_settings_certify():
    fit = to_optimum().fit(DOMAIN, NOISY, constraints=[ZEROS, A, B])
    assert fit.status is pj.Status.CONVERGED
    assert fit.loss - least_squares([ZEROS, A, B])[0] <= fit.gap + 1e-6 <= 1e-4 * fit.loss + 1e-6
    assert_honoured(fit.model, [ZEROS, A, B])


@pytest.mark.parametrize("solver", [name for name in SOLVERS if name != "accelerated"])
def test_every_solver(solver):
    estimator = to_optimum(solver=solver, dtype="float64", tol=1e-5, max_steps=5000)
    fit = estimator.fit(DOMAIN, NOISY, constraints=[A, B])
    assert fit.status is pj.Status.CONVERGED
    assert -1e-6 <= fit.loss - least_squares([A, B])[0] <= fit.gap + 1e-6
    assert_honoured(fit.model, [A, B])


def test_absolute_loss():
    fit = to_optimum(loss="l1", dtype="float64", max_steps=4000).fit(DOMAIN, NOISY, constraints=[ZEROS, A, B])
    optimum = least_absolute([ZEROS, A, B])
    assert fit.status is pj.Status.CONVERGED
    assert -1e-6 <= fit.loss - optimum <= fit.gap <= 1e-4 * fit.loss
    assert_honoured(fit.model, [ZEROS, A, B])


def test_a_loss_of_ones_own():
    def loss(marginals):
        return sum(
            0.5 * jnp.sum((jnp.ravel(marginals[m.clique]) - m.flat_values()) ** 2) / 400 for m in NOISY
        )

    estimator = to_optimum(loss=pj.losses.Custom(loss), dtype="float64", tol=1e-6, max_steps=5000)
    fit = estimator.fit(DOMAIN, NOISY, constraints=[A, B])
    assert -1e-6 <= fit.loss - least_squares([A, B])[0] <= fit.gap + 1e-6 <= 1e-4
    assert_honoured(fit.model, [A, B])


def test_an_end_too_early_is_feasible_and_certified_all_the_same():
    fit = to_optimum(dtype="float64", max_steps=10).fit(DOMAIN, NOISY, constraints=[ZEROS, A, B])
    assert fit.status is pj.Status.MAX_STEPS and fit.steps == 10
    assert_honoured(fit.model, [ZEROS, A, B])
    assert 0 < fit.loss - least_squares([ZEROS, A, B])[0] <= fit.gap


def test_rows_of_a_batch():
    rows = [NOISY, [pj.LinearMeasurement(m.clique, m.values + 5, 10.0) for m in NOISY]]
    estimator = to_optimum(dtype="float64", tol=1e-6, max_steps=3000)
    many = estimator.fit_batch(DOMAIN, rows, constraints=[A, B])
    for row, fit in zip(rows, many, strict=True):
        alone = estimator.fit(DOMAIN, row, constraints=[A, B])
        assert fit.status is alone.status is pj.Status.CONVERGED
        assert fit.loss == pytest.approx(alone.loss, rel=2e-6)
        assert_honoured(fit.model, [A, B])
    with pytest.raises(ValueError, match=r"\('a',\).*1,000"):
        estimator.fit_batch(DOMAIN, rows, [1000.0, 900.0], constraints=[A, B])


def test_without_measurements_the_margins_make_the_table():
    """Independent where nothing else is known; with a prior Deming and Stephan's table."""
    fit = to_optimum(dtype="float64").fit(DOMAIN, [], constraints=[A, B])
    product = np.outer(A.counts, B.counts) / TOTAL
    np.testing.assert_allclose(fit.model.marginal(("a", "b")), product, rtol=1e-9)
    seed = RNG.dirichlet(np.ones(12)).reshape(3, 4)
    prior = pj.GraphicalModel.from_potentials(DOMAIN, {("b", "a"): np.log(seed).T})
    fit = to_optimum(dtype="float64").fit(DOMAIN, [], constraints=[A, B], prior=prior)
    table = seed
    for _ in range(1000):
        table = table * (A.counts / table.sum(1))[:, None]
        table = table * (B.counts / table.sum(0))
    np.testing.assert_allclose(fit.model.marginal(("a", "b")), table, rtol=1e-8)
    assert fit.loss < 1e-12 and fit.status is pj.Status.CONVERGED


def test_a_measured_marginal_may_be_fixed_too_and_warm_starts_go_on():
    fixed = pj.FixedMarginal(("b", "a"), (JOINT.sum(2) + 1).T / (JOINT.sum() + 12) * TOTAL)
    estimator = to_optimum(dtype="float64", tol=1e-6, max_steps=3000)
    first = estimator.fit(DOMAIN, NOISY, constraints=[fixed])
    assert -1e-6 <= first.loss - least_squares([fixed])[0] <= first.gap + 1e-6
    again = estimator.fit(DOMAIN, NOISY, constraints=[fixed], warm_start=first.model)
    assert again.loss == pytest.approx(first.loss, rel=1e-5)
    assert_honoured(again.model, [fixed])


def test_conflicts_are_named_by_fit_and_batch():
    wrong = pj.FixedMarginal(("b",), [300, 300, 150, 250])
    pair = pj.FixedMarginal(("a", "b"), np.outer(A.counts, B.counts) / TOTAL)
    for call in (
        lambda: to_optimum().fit(DOMAIN, NOISY, constraints=[ZEROS, pair, wrong]),
        lambda: to_optimum().fit_batch(DOMAIN, [NOISY], constraints=[ZEROS, pair, wrong]),
    ):
        with pytest.raises(ValueError, match=r"FixedMarginal over \('a', 'b'\) and \('b',\)"):
            call()
    with pytest.raises(ValueError, match=r"\('b',\).*1,000.*999"):
        to_optimum().fit(DOMAIN, NOISY, total=999.0, constraints=[B])


def test_a_plan_counts_what_is_known():
    plan = to_optimum().plan(DOMAIN, CLIQUES, [EMPTY, B])
    names = plan.attributes
    cliques = [tuple(names[v] for v in clique) for clique in plan.oracle.structure.cliques]
    assert cliques == [*CLIQUES, ("a", "c"), ("b",), ("a", "c")]


def test_a_corner_that_no_potentials_reach_is_no_convergence():
    """The margins leave the cell (0, 1) empty without saying so: its potential would fall for ever."""
    domain = pj.Domain({"a": 2, "b": 2})
    noisy = pj.LinearMeasurement(("a", "b"), [[40.0, 10.0], [5.0, 45.0]], 5.0)
    triangle = pj.StructuralZeros(("a", "b"), [[True, True], [False, True]])
    halves = [pj.FixedMarginal((name,), [50, 50]) for name in "ab"]
    estimator = to_optimum(dtype="float64", max_steps=50)
    fit = estimator.fit(domain, [noisy], constraints=[triangle, *halves])
    assert fit.status is pj.Status.MAX_STEPS
    np.testing.assert_allclose(fit.model.marginal(("a", "b")), [[50, 0], [0, 50]], atol=0.1)
    assert np.isfinite(fit.loss) and np.isfinite(fit.gap)


@pytest.mark.parametrize("weight", [1e4, 1e8])
def test_a_heavy_prior_beside_fixed_marginals_is_certified(weight):
    """The prices are as large as the weight; each round's better lower bound counts as progress."""
    prior = pj.GraphicalModel.from_potentials(DOMAIN, {("a", "b", "c"): RNG.normal(size=DOMAIN.shape) * 2})
    q = prior.marginal(("a", "b", "c")) / prior.total
    fit = to_optimum(dtype="float64").fit(DOMAIN, NOISY, constraints=[A, B], prior=prior, prior_weight=weight)
    p = fit.model.marginal(("a", "b", "c")) / TOTAL
    reached = fit.loss + weight * float(np.sum(p * np.log(p / q)))
    assert fit.status is pj.Status.CONVERGED and fit.gap <= 1e-4 * reached
    optimum, _ = least_squares([A, B], weight, q) if weight < 1e5 else (reached, None)
    assert -1e-6 * reached <= reached - optimum <= fit.gap + 1e-6 * reached
    assert_honoured(fit.model, [A, B])


def test_rows_without_measurements_are_fitted_as_single_ones():
    many = to_optimum(dtype="float64").fit_batch(DOMAIN, [[], []], constraints=[A, B])
    alone = to_optimum(dtype="float64").fit(DOMAIN, [], constraints=[A, B])
    for fit in many:
        assert fit.status is alone.status and fit.model.total == TOTAL
        np.testing.assert_allclose(
            fit.model.marginal(("a", "b")), alone.model.marginal(("a", "b")), rtol=1e-9
        )


def test_a_total_that_is_no_number_is_refused_beside_a_fixed_marginal():
    with pytest.raises(TypeError, match=r"total.*str"):
        to_optimum().fit(DOMAIN, NOISY, "1000", constraints=[B])
    with pytest.raises(ValueError, match="finite"):
        to_optimum().fit(DOMAIN, NOISY, float("nan"), constraints=[B])
