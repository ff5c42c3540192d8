"""Priors: closed forms, convex programs over the joint, and what is refused."""

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.estimation.problem import SideInformation
from tests import joint_programs as cases
from tests.optimum import to_optimum
from tests.solver_names import SOLVERS

DOMAIN, NOISY, TOTAL = cases.DOMAIN, cases.NOISY, cases.TOTAL
JOINT = np.random.default_rng(1).dirichlet(np.ones(24)).reshape(DOMAIN.shape)
PRIOR = pj.GraphicalModel.from_potentials(DOMAIN, {("a", "b", "c"): np.log(JOINT) + 3.0}, total=7.0)


def divergence(p, q):
    return float(np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1) / q), 0)))


def joint_of(model):
    return model.marginal(("a", "b", "c")) / model.total


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_pair_measured_exactly_replaces_that_of_the_prior(dtype):
    """Of all with the measured pair the nearest to q is pair(a, b) q(c | a, b)."""
    pair = cases.JOINT.sum(2) + 1
    measured = pj.LinearMeasurement(("b", "a"), pair.T, 0.01)
    fit = to_optimum(dtype=dtype, tol=1e-8, max_steps=5000).fit(DOMAIN, [measured], prior=PRIOR)
    expected = pair[:, :, None] * JOINT / JOINT.sum(2, keepdims=True)
    np.testing.assert_allclose(fit.model.marginal(("a", "b", "c")), expected, rtol=1e-3, atol=1e-3)
    assert fit.model.total == pytest.approx(pair.sum())


def test_a_product_and_a_saved_model_are_priors(tmp_path):
    marginals = [np.array([0.2, 0.5, 0.3]), np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.9, 0.1])]
    product = pj.GraphicalModel.from_potentials(
        DOMAIN, {(n,): np.log(m) for n, m in zip("abc", marginals, strict=True)}
    )
    product.save(tmp_path / "m")
    pair = np.array([[30.0, 10], [20, 5], [5, 30]])
    estimator = to_optimum(dtype="float64", tol=1e-12, max_steps=5000)
    fit = estimator.fit(DOMAIN, [pj.LinearMeasurement(("a", "c"), pair, 1.0)], prior=pj.load(tmp_path / "m"))
    expected = pair[:, None, :] * marginals[1][None, :, None]
    np.testing.assert_allclose(fit.model.marginal(("a", "b", "c")), expected, rtol=1e-5)
    alone = estimator.fit(DOMAIN, [pj.LinearMeasurement(("c",), [8.0, 4.0], 1.0)], prior=product)
    np.testing.assert_allclose(alone.model.marginal(("a",)), 12 * marginals[0], rtol=1e-9)


def test_a_prior_over_other_cliques_than_are_measured():
    chain = {
        ("a", "c"): np.log(JOINT.sum(1)),
        ("c", "b"): np.log(JOINT.sum(0).T / JOINT.sum((0, 1))[:, None]),
    }
    prior = pj.GraphicalModel.from_potentials(DOMAIN, chain)
    wanted = np.array([10.0, 20, 30, 40])
    fit = to_optimum(dtype="float64", tol=1e-12, max_steps=3000).fit(
        DOMAIN, [pj.LinearMeasurement(("b",), wanted, 1.0)], prior=prior
    )
    q = joint_of(prior)
    np.testing.assert_allclose(
        joint_of(fit.model), q * (wanted / 100 / q.sum((0, 2)))[None, :, None], rtol=1e-6
    )


@pytest.mark.parametrize("weight", [0.5, 50.0])
@pytest.mark.parametrize("name", ["none", "zeros"])
def test_the_weighted_sum_is_minimised(weight, name):
    constraints = cases.CASES.get(name, [])
    optimum, expected = cases.least_squares(constraints, weight, JOINT)
    settings = {"constraints": constraints, "prior": PRIOR, "prior_weight": weight}
    fit = to_optimum(dtype="float64", tol=1e-6, max_steps=5000).fit(DOMAIN, NOISY, TOTAL, **settings)
    reached = fit.loss + weight * divergence(joint_of(fit.model), JOINT)
    assert fit.status is pj.Status.CONVERGED and fit.gap <= 1e-6 * reached
    assert -1e-5 <= reached - optimum <= fit.gap + 1e-5
    np.testing.assert_allclose(fit.model.marginal(("a", "b", "c")), expected, atol=0.05)
    residual = np.concatenate([fit.model.marginal(m.clique).ravel() for m in NOISY]) / 20 - cases.VALUES
    assert fit.loss == pytest.approx(0.5 * residual @ residual, rel=1e-9)  # of the measurements alone
    cases.assert_honoured(fit.model, constraints)


@pytest.mark.parametrize(
    ("solver", "dtype"), [*((solver, "float64") for solver in SOLVERS), ("accelerated", "float32")]
)
def test_every_solver(solver, dtype):
    optimum, _ = cases.least_squares([], 5.0, JOINT)
    fit = to_optimum(solver=solver, dtype=dtype, max_steps=5000).fit(
        DOMAIN, NOISY, TOTAL, prior=PRIOR, prior_weight=5.0
    )
    reached = fit.loss + 5 * divergence(joint_of(fit.model), JOINT)
    assert fit.status is pj.Status.CONVERGED
    assert -1e-6 <= reached - optimum <= fit.gap + 1e-6 <= 2e-4 * optimum


@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_a_gap_holds_wherever_the_fit_ends(loss):
    settings = {"prior": PRIOR, "prior_weight": 3.0}
    best = to_optimum(loss=loss, dtype="float64", tol=1e-5, max_steps=20_000).fit(
        DOMAIN, NOISY, TOTAL, **settings
    )
    assert best.status is pj.Status.CONVERGED
    least = best.loss + 3 * divergence(joint_of(best.model), JOINT) - best.gap
    for steps in (1, 5, 30):
        fit = to_optimum(loss=loss, max_steps=steps).fit(DOMAIN, NOISY, TOTAL, **settings)
        assert fit.loss + 3 * divergence(joint_of(fit.model), JOINT) - fit.gap <= least + best.gap + 1e-6


def test_a_uniform_prior_of_a_weight_and_an_ever_heavier_one():
    uniform = pj.GraphicalModel.from_potentials(DOMAIN, {})
    estimator = to_optimum(dtype="float64", tol=1e-8, max_steps=5000)
    fit = estimator.fit(DOMAIN, NOISY, TOTAL, prior=uniform, prior_weight=20.0)
    optimum, _ = cases.least_squares([], 20.0)
    flat = np.full(DOMAIN.shape, 1 / 24)
    assert fit.loss + 20 * divergence(joint_of(fit.model), flat) == pytest.approx(optimum, abs=1e-5)
    heavy = estimator.fit(DOMAIN, NOISY, TOTAL, prior=PRIOR, prior_weight=1e8)
    np.testing.assert_allclose(joint_of(heavy.model), JOINT, atol=1e-5)


def test_zeros_of_the_prior_stay_zeros():
    possible = np.ones(DOMAIN.shape, bool)
    possible[0, 1], possible[2, :, 1] = False, False
    prior = pj.GraphicalModel.from_potentials(
        DOMAIN, {("a", "b", "c"): np.where(possible, np.log(JOINT), -np.inf)}
    )
    for weight in (0.0, 2.0):
        fit = to_optimum().fit(DOMAIN, NOISY, TOTAL, prior=prior, prior_weight=weight)
        table = fit.model.marginal(("a", "b", "c"))
        assert (table[~possible] == 0).all() and (table[possible] > 0).all()
        assert np.isfinite(fit.gap)
    with pytest.raises(ValueError, match="the prior's zeros"):
        to_optimum().fit(DOMAIN, NOISY, prior=prior, constraints=[pj.AllowedSet(("a", "b"), [(0, 1)])])


def test_warm_starts_and_batches():
    estimator = to_optimum(dtype="float64", tol=1e-6, max_steps=3000)
    settings = {"prior": PRIOR, "prior_weight": 2.0}
    first = estimator.fit(DOMAIN, NOISY, TOTAL, **settings)
    again = estimator.fit(DOMAIN, NOISY, TOTAL, warm_start=first.model, **settings)
    assert again.steps <= first.steps
    np.testing.assert_allclose(joint_of(again.model), joint_of(first.model), atol=1e-5)
    start = SideInformation.of(DOMAIN, [], PRIOR).start(first.model)
    product = np.exp(start.potentials["a", "b", "c"])
    rest = [
        np.exp(t).reshape(s) for t, s in zip(start.potentials.tables[:2], ((3, 4, 1), (1, 4, 2)), strict=True)
    ]
    found = product * rest[0] * rest[1] * JOINT
    np.testing.assert_allclose(found / found.sum(), joint_of(first.model), rtol=1e-9)
    many = estimator.fit_batch(DOMAIN, [NOISY, NOISY[::1]], TOTAL, **settings)
    for fit in many:
        np.testing.assert_allclose(joint_of(fit.model), joint_of(first.model), atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"prior": 3}, TypeError, "prior.*GraphicalModel.*int"),
        ({"prior_weight": 1.0}, ValueError, "prior_weight needs a prior"),
        ({"prior": PRIOR, "prior_weight": -1.0}, ValueError, "prior_weight.*-1"),
        (
            {"prior": pj.GraphicalModel.from_potentials(pj.Domain({"a": 3}), {})},
            ValueError,
            "prior must be a model over the same domain",
        ),
    ],
)
def test_bad_input(settings, error, message):
    with pytest.raises(error, match=message):
        to_optimum().fit(DOMAIN, NOISY, TOTAL, **settings)
    with pytest.raises(error, match=message):
        to_optimum().fit_batch(DOMAIN, [NOISY], TOTAL, **settings)


def test_one_constraint_needs_no_list():
    noisy = [pj.LinearMeasurement(("a",), [3.0, 4.0], 1.0)]
    only = pj.StructuralZeros(("a",), [True, False])
    model = to_optimum().fit(pj.Domain({"a": 2}), noisy, 7.0, constraints=only).model
    assert sorted(model.marginal(("a",))) == [0, 7]


@pytest.mark.parametrize(
    ("constraints", "said"),
    [
        (None, "constraints.*NoneType"),
        ([3], "got int"),
    ],
)
def test_a_plan_and_a_fit_refuse_what_is_no_list_of_constraints(constraints, said):
    domain = pj.Domain({"a": 2})
    noisy = [pj.LinearMeasurement(("a",), [3.0, 4.0], 1.0)]
    with pytest.raises(TypeError, match=said):
        to_optimum().plan(domain, [("a",)], constraints)
    with pytest.raises(TypeError, match=said):
        to_optimum().fit(domain, noisy, constraints=constraints)


@pytest.mark.parametrize("approximate", [False, "convex", "mixture"])
def test_memory_that_is_no_number_is_refused(approximate):
    noisy = [pj.LinearMeasurement(("a",), [3.0, 4.0], 1.0)]
    with pytest.raises(TypeError, match="max_bytes"):
        to_optimum(max_bytes="x", approximate=approximate).fit(pj.Domain({"a": 2}), noisy)
