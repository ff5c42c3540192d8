"""Regularised approximate fits, against brute force over the joint table or over all consistent tables."""

import functools

import numpy as np
import pytest
import scipy.optimize
import scipy.special

import pgmjax as pj
from pgmjax.estimation import fit_local, fit_mixture, mixture_fit, region_fit, regularisation
from pgmjax.estimation.constraints import StructuralZeros
from tests.estimation.sparse_tables import marginal, measured, sparse_table, squared_loss
from tests.estimation.test_approximate import BYTES
from tests.estimation.test_approximate import DOMAIN as WIDE
from tests.estimation.test_approximate import noisy as approximate_noisy

DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 2})
CHAIN, TRIANGLE = [("a", "b"), ("b", "c")], [("a", "b"), ("b", "c"), ("a", "c")]
TOTAL = 300.0
table = functools.partial(sparse_table, (3, 4, 2), TOTAL)


def relative_entropy(p, q):
    return float(np.sum(scipy.special.rel_entr(p, q)))


def shares_of(reference):
    return {name: reference.marginal((name,)) / TOTAL for name in DOMAIN}


@pytest.mark.parametrize("setting", ["auto", 5.0, 200.0])
def test_on_a_tree_belief_propagation_reaches_the_exact_objective(setting):
    noisy = measured(table(), CHAIN)
    fit = fit_local(DOMAIN, noisy, TOTAL, regularisation=setting, tol=1e-8)
    found = fit.regularisation
    wanted = regularisation.weight_of(setting, DOMAIN, noisy, TOTAL)
    named = pj.Status.WITHIN_NOISE if setting == "auto" else pj.Status.CONVERGED
    assert found.weight == wanted and fit.status is named
    reference = found.reference.marginal(("a", "b", "c")) / TOTAL

    def objective(logits):
        p = np.exp(logits - scipy.special.logsumexp(logits)).reshape(3, 4, 2)
        return squared_loss(noisy, lambda c: TOTAL * marginal(p, c)) + wanted * relative_entropy(p, reference)

    best = scipy.optimize.minimize(
        objective,
        np.log(reference).reshape(-1),
        method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-14, "maxfun": 200_000},
    )
    ours = fit.loss + found.weight * found.divergence
    assert fit.loss == pytest.approx(squared_loss(noisy, fit.model.marginal), rel=1e-9)
    assert ours - fit.gap - 1e-6 <= best.fun <= ours + 1e-4
    joint = scipy.special.softmax(best.x).reshape(3, 4, 2)
    for clique in CHAIN:
        np.testing.assert_allclose(fit.model.marginal(clique), TOTAL * marginal(joint, clique), atol=0.02)
    for name, share in shares_of(found.reference).items():
        np.testing.assert_allclose(fit.model.marginal((name,)) / TOTAL, share, atol=0.01)


@pytest.mark.parametrize("steps", [20, 400])
def test_on_a_loop_the_gap_bounds_the_optimum_over_consistent_tables(steps):
    noisy = measured(table(2), TRIANGLE)
    fit = fit_local(DOMAIN, noisy, TOTAL, regularisation=30.0, tol=1e-8, max_steps=steps)
    shares = shares_of(fit.regularisation.reference)
    alone = [np.outer(shares[a], shares[b]) for a, b in TRIANGLE]
    sizes = np.cumsum([np.size(q) for q in alone])

    def split(x):
        return [t.reshape(q.shape) for t, q in zip(np.split(x, sizes[:-1]), alone, strict=True)]

    def objective(x):
        tables = dict(zip(TRIANGLE, split(x), strict=True))
        apart = sum(relative_entropy(t, q) for t, q in zip(tables.values(), alone, strict=True))
        # every attribute is in two pairs: of the two chains of pairs one is given a and both are given b
        apart -= 0.5 * relative_entropy(tables["a", "b"].sum(1), shares["a"])
        apart -= relative_entropy(tables["a", "b"].sum(0), shares["b"])
        return squared_loss(noisy, lambda c: TOTAL * tables[c]) + 30.0 * apart

    def slope(x):
        tables = dict(zip(TRIANGLE, split(x), strict=True))
        found = {m.clique: TOTAL * (TOTAL * tables[m.clique] - m.values) / 64.0 for m in noisy}
        for clique, q in zip(TRIANGLE, alone, strict=True):
            found[clique] = found[clique] + 30.0 * (np.log(tables[clique] / q) + 1)
        ab = tables["a", "b"]
        found["a", "b"] -= 15.0 * (np.log(ab.sum(1) / shares["a"]) + 1)[:, None]
        found["a", "b"] -= 30.0 * (np.log(ab.sum(0) / shares["b"]) + 1)
        return np.concatenate([found[clique].ravel() for clique in TRIANGLE])

    def disagreements(x):
        ab, bc, ac = split(x)
        parts = [ab.sum(1) - ac.sum(1), ab.sum(0) - bc.sum(1), (bc.sum(0) - ac.sum(0))[:-1], [x.sum() - 3]]
        return np.concatenate(parts)

    start = np.concatenate([q.ravel() for q in alone])
    best = scipy.optimize.minimize(
        objective,
        start,
        jac=slope,
        constraints={"type": "eq", "fun": disagreements},
        bounds=[(1e-12, 1)] * len(start),
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 3000},
    )
    ours = objective(np.concatenate([fit.model.marginal(c).ravel() / TOTAL for c in TRIANGLE]))
    assert ours == pytest.approx(fit.loss + 30.0 * fit.regularisation.divergence, rel=1e-9)
    assert ours - fit.gap - 1e-5 <= best.fun <= ours + 1e-4
    assert (fit.status is pj.Status.CONVERGED) == (steps == 400)


@pytest.mark.parametrize("setting", ["auto", 20.0])
def test_on_a_tree_a_mixture_reaches_the_exact_objective(setting):
    noisy = measured(table(1), CHAIN)
    fit = fit_mixture(
        DOMAIN, noisy, TOTAL, regularisation=setting, components=50, dtype="float64", max_steps=2000
    )
    weight = fit.regularisation.weight
    assert weight == regularisation.weight_of(setting, DOMAIN, noisy, TOTAL)
    least = 0.15 * 8.0 / TOTAL

    def objective(p):
        shares = [np.maximum(marginal(p, name), least) for name in "abc"]
        reference = np.einsum("i,j,k->ijk", *(share / share.sum() for share in shares))
        return squared_loss(noisy, lambda c: TOTAL * marginal(p, c)) + weight * relative_entropy(p, reference)

    def of_logits(logits):
        return objective(scipy.special.softmax(logits).reshape(3, 4, 2))

    ours = fit.loss + weight * fit.regularisation.divergence
    # of all joint tables with these pairs, that of largest entropy is a chain of conditional distributions
    ab, bc = (fit.model.marginal(c) / TOTAL for c in CHAIN)
    assert ours == pytest.approx(objective(np.einsum("ij,jk->ijk", ab, bc / bc.sum(1)[:, None])), rel=1e-6)
    exact = pj.Estimator(regularisation=setting, dtype="float64").fit(DOMAIN, noisy, TOTAL)
    start = np.log(exact.model.marginal(("a", "b", "c"))).ravel()
    best = scipy.optimize.minimize(of_logits, start, method="L-BFGS-B", options={"maxfun": 100_000})
    assert best.fun - 1e-6 <= ours <= 1.01 * best.fun
    for clique in CHAIN:
        np.testing.assert_allclose(fit.model.marginal(clique), exact.model.marginal(clique), atol=1.0)


@pytest.mark.parametrize("kind", ["local", "mixture"])
def test_it_is_nearer_to_the_table_than_without_in_the_mean(kind):
    domain, pairs = pj.Domain({"a": 3, "b": 4, "c": 5}), [(0, 1), (1, 2), (0, 2)]
    for stddev in (3.0, 10.0, 30.0):
        ratios = []
        for seed in range(6):
            rng = np.random.default_rng(seed)
            joint = rng.multinomial(400, rng.dirichlet(np.full(60, 0.3))).reshape(3, 4, 5)
            exact = {tuple("abc"[v] for v in pair): joint.sum(3 - sum(pair)) for pair in pairs}
            noisy = [
                pj.LinearMeasurement(c, t + rng.normal(0, stddev, t.shape), stddev) for c, t in exact.items()
            ]
            more = {"components": 50} if kind == "mixture" else {}
            fitted = fit_mixture if kind == "mixture" else fit_local
            fits = [
                fitted(domain, noisy, 400, regularisation=setting, **more) for setting in ("none", "auto")
            ]
            errors = [sum(np.abs(f.model.marginal(c) - t).sum() for c, t in exact.items()) for f in fits]
            ratios.append(errors[1] / errors[0])
        assert np.mean(np.log(ratios)) < 0


@pytest.mark.parametrize("steps", [1, 2, 3, 60])
def test_few_steps_still_give_a_model(steps):
    noisy = measured(table(), TRIANGLE)
    for fit in (
        fit_local(DOMAIN, noisy, TOTAL, regularisation="auto", max_steps=steps),
        fit_mixture(DOMAIN, noisy, TOTAL, regularisation="auto", max_steps=steps, components=10),
    ):
        assert fit.steps <= steps and np.isfinite(fit.loss)
        assert (fit.regularisation is None) == (steps == 1)


def test_impossible_cells_stay_so():
    joint = table()
    joint[0, 0] = 0
    mask = np.ones((3, 4), bool)
    mask[0, 0] = False
    noisy = measured(joint, TRIANGLE)
    fit = fit_local(
        DOMAIN, noisy, TOTAL, constraints=[StructuralZeros(("a", "b"), mask)], regularisation="auto"
    )
    assert fit.model.marginal(("a", "b"))[0, 0] == 0 and np.isfinite(fit.loss + fit.gap)
    alone = StructuralZeros(("a",), [True, True, False])
    mixed = fit_mixture(DOMAIN, noisy, TOTAL, constraints=[alone], regularisation="auto", components=20)
    assert mixed.model.marginal(("a",))[2] == 0 and np.isfinite(mixed.loss)
    assert mixed.regularisation.weight > 0


def test_no_weight_is_the_optimum_and_a_large_one_the_product():
    noisy = measured(table(), TRIANGLE)
    plain = fit_local(DOMAIN, noisy, TOTAL)
    none = fit_local(DOMAIN, noisy, TOTAL, regularisation=0)
    assert none.loss == plain.loss and none.regularisation is None
    for model in (
        fit_local(DOMAIN, noisy, TOTAL, regularisation=1e6).model,
        fit_mixture(DOMAIN, noisy, TOTAL, regularisation=1e6, components=20).model,
    ):
        product = np.outer(model.marginal(("a",)), model.marginal(("b",))) / TOTAL
        np.testing.assert_allclose(model.marginal(("a", "b")), product, atol=1.0)


def test_an_estimator_hands_its_setting_on():
    noisy, total = approximate_noisy()
    for choice in ("convex", "mixture"):
        settings = {"max_bytes": BYTES, "max_steps": 30, "progress": False, "approximate": choice}
        fits = {
            setting: pj.Estimator(regularisation=setting, **settings).fit(WIDE, noisy, total)
            for setting in ("none", "auto", 12.0)
        }
        assert {fit.method for fit in fits.values()} != {"exact"}
        assert fits["none"].regularisation is None and fits["none"].optimum_gap == fits["none"].gap
        assert fits["auto"].regularisation.weight == regularisation.weight_of("auto", WIDE, noisy, total)
        assert fits[12.0].regularisation.weight == 12.0 and fits[12.0].optimum_gap is None
        own = pj.Estimator(loss="l1", regularisation="auto", **settings).fit(WIDE, noisy, total)
        assert own.regularisation is None


@pytest.mark.parametrize("fitter", [fit_local, fit_mixture])
def test_without_a_tolerance_it_ends_where_noise_hides_the_rest(fitter):
    noisy = measured(table(), TRIANGLE)
    ended = fitter(DOMAIN, noisy, TOTAL, tol=None, progress=False)
    longer = fitter(DOMAIN, noisy, TOTAL, tol=0.0, progress=False)
    visible = np.sqrt(sum(one.values.size for one in noisy) / 2)
    certified = ended.gap <= 0.01 * max(1, ended.loss)
    assert ended.status is (pj.Status.CONVERGED if certified else pj.Status.WITHIN_NOISE)
    assert ended.steps < longer.steps
    assert ended.loss <= longer.loss + 0.05 * visible


@pytest.mark.parametrize("fitted", [fit_local, fit_mixture])
def test_where_it_is_not_defined_it_is_off_or_refused(fitted):
    noisy = measured(table(), TRIANGLE)
    assert fitted(DOMAIN, noisy, TOTAL, loss="l1", regularisation="auto", max_steps=20).regularisation is None
    with pytest.raises(ValueError, match="needs loss='l2'"):
        fitted(DOMAIN, noisy, TOTAL, loss="l1", regularisation=3.0)
    for wrong in ("much", -1.0, float("nan"), 1e13, None, True):
        with pytest.raises((TypeError, ValueError), match="regularisation"):
            fitted(DOMAIN, noisy, TOTAL, regularisation=wrong)
    one_way = [pj.LinearMeasurement(("a",), [100.0, 90.0, 110.0], 5.0)]
    assert fitted(DOMAIN, one_way, TOTAL, regularisation="auto").regularisation is None


def test_the_forecasts_of_memory_count_the_pull():
    cells = sum(DOMAIN.size(c) for c in TRIANGLE)
    plain, pulled = (region_fit.plan_local(DOMAIN, TRIANGLE, pulled=p).peak_bytes for p in (False, True))
    assert pulled - plain == 8 * region_fit.PULLED * cells
    plain, pulled = (mixture_fit.forecast_bytes(DOMAIN, TRIANGLE, 10, "float32", p) for p in (False, True))
    assert pulled > plain
    noisy = measured(table(), TRIANGLE)
    limit = {"max_bytes": plain, "components": 10}
    assert fit_mixture(DOMAIN, noisy, TOTAL, max_steps=10, **limit).components == 10
    with pytest.raises(pj.ModelTooLargeError):
        fit_mixture(DOMAIN, noisy, TOTAL, regularisation="auto", **limit)


@pytest.mark.parametrize(
    "wrong",
    [
        {"a": [0.5, 0.5]},
        {"a": [0.5, 0.5], "b": [1.0, 0.0, 0.0]},
        {"a": [0.5, 0.5], "b": [1.5, -0.5]},
        {"a": [0.5, 0.5], "b": [0.5, 0.4]},
        {"a": [0.5, 0.5], "b": [float("nan"), 1.0]},
        [0.5, 0.5],
    ],
)
def test_a_wrong_reference_is_refused(wrong):
    domain = pj.Domain({"a": 2, "b": 2})
    noisy = [pj.LinearMeasurement(("a", "b"), [[5.0, 1.0], [2.0, 8.0]], stddev=3.0)]
    with pytest.raises(ValueError, match="reference"):
        pj.estimation.fit_local(domain, noisy, 16, regularisation=2.0, reference=wrong)
