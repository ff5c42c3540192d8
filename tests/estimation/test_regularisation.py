"""Regularised fits, against brute force over the joint table, dense least squares and simulated tables."""

import functools

import numpy as np
import pytest
import scipy.optimize

import pgmjax as pj
from pgmjax.estimation import regularisation
from pgmjax.estimation.constraints import FixedMarginal, StructuralZeros
from pgmjax.measurements.noise import DiscreteGaussian
from tests.estimation.sparse_tables import marginal, measured, sparse_table, squared_loss
from tests.optimum import to_optimum

DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 5})
PAIRS = [("a", "b"), ("b", "c"), ("a", "c")]
TOTAL = 400.0
table = functools.partial(sparse_table, (3, 4, 5), TOTAL)


@pytest.mark.parametrize("setting", ["auto", 3.0, 100.0])
def test_the_objective_and_its_gap_are_those_of_brute_force(setting):
    noisy = measured(table(), PAIRS, 8.0)
    fit = pj.Estimator(regularisation=setting, dtype="float64", tol=1e-7).fit(DOMAIN, noisy, TOTAL)
    found = fit.regularisation
    assert found.weight == setting or setting == "auto"
    joint = fit.model.marginal(("a", "b", "c")) / TOTAL
    reference = found.reference.marginal(("a", "b", "c")) / TOTAL
    one_way = [joint.sum(axis=axes) for axes in ((1, 2), (0, 2), (0, 1))]
    wanted = [reference.sum(axis=axes) for axes in ((1, 2), (0, 2), (0, 1))]
    np.testing.assert_allclose(np.einsum("i,j,k->ijk", *wanted), reference, rtol=1e-9)
    assert max(abs(p - q).max() for p, q in zip(one_way, wanted, strict=True)) < 0.01

    def objective(logits):
        p = np.exp(logits - scipy.special.logsumexp(logits)).reshape(joint.shape)
        apart = np.sum(p * np.log(p / reference))
        return squared_loss(noisy, lambda c: TOTAL * marginal(p, c)) + found.weight * apart

    ours = fit.loss + found.weight * np.sum(joint * np.log(joint / reference))
    assert fit.loss == pytest.approx(squared_loss(noisy, lambda c: TOTAL * marginal(joint, c)), rel=1e-6)
    assert found.divergence == pytest.approx(np.sum(joint * np.log(joint / reference)), rel=1e-4)
    best = scipy.optimize.minimize(
        objective, np.log(joint).reshape(-1), method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-14}
    ).fun
    assert ours - fit.gap - 1e-6 <= best <= ours + 1e-6
    assert fit.gap <= 1e-7 * max(1.0, ours) and fit.optimum_gap is None


def test_it_is_nearer_to_the_table_than_the_optimum_in_the_mean():
    for stddev in (3.0, 10.0, 30.0):
        ratios = []
        for seed in range(12):
            joint = table(seed)
            noisy = measured(joint, PAIRS, stddev, seed + 100)
            models = [
                pj.Estimator(regularisation=r).fit(DOMAIN, noisy, TOTAL).model for r in ("none", "auto")
            ]
            errors = [sum(np.abs(m.marginal(c) - marginal(joint, c)).sum() for c in PAIRS) for m in models]
            ratios.append(errors[1] / errors[0])
        assert np.mean(np.log(ratios)) < 0


def test_a_weight_of_zero_is_the_optimum_and_a_large_one_the_product():
    noisy = measured(table(), PAIRS, 5.0)
    optimum = to_optimum().fit(DOMAIN, noisy, TOTAL)
    none = to_optimum(regularisation=0).fit(DOMAIN, noisy, TOTAL)
    assert none.loss == optimum.loss and none.regularisation is None and none.optimum_gap == none.gap
    model = pj.Estimator(regularisation=1e6).fit(DOMAIN, noisy, TOTAL).model
    product = np.outer(model.marginal(("a",)), model.marginal(("b",))) / TOTAL
    np.testing.assert_allclose(model.marginal(("a", "b")), product, atol=0.1)


@pytest.mark.parametrize("steps", [1, 2, 3, 60])
def test_few_steps_still_give_a_model(steps):
    noisy = measured(table(), PAIRS, 5.0)
    fit = pj.Estimator(regularisation="auto", max_steps=steps).fit(DOMAIN, noisy, TOTAL)
    assert fit.steps <= steps and np.isfinite(fit.loss) and np.isfinite(fit.gap)
    assert (fit.regularisation is None) == (steps == 1)


def test_noise_above_all_counts_and_the_largest_weight_give_a_model():
    noisy = measured(table(), PAIRS, 1e7)
    assert np.isfinite(pj.Estimator(regularisation="auto").fit(DOMAIN, noisy, TOTAL).loss)
    heavy = pj.Estimator(regularisation=regularisation.LARGEST).fit(
        DOMAIN, measured(table(), PAIRS, 5.0), TOTAL
    )
    assert np.isfinite(heavy.loss) and heavy.regularisation.divergence < 1e-6


def test_rows_of_a_batch_are_single_fits():
    rows = [measured(table(), PAIRS, stddev, 7) for stddev in (2.0, 9.0, 40.0)]
    estimator = pj.Estimator(regularisation="auto")
    batch = estimator.fit_batch(DOMAIN, rows, TOTAL)
    for row, fitted in zip(rows, batch, strict=True):
        alone = estimator.fit(DOMAIN, row, TOTAL)
        assert fitted.regularisation.weight == alone.regularisation.weight
        for clique in PAIRS:
            np.testing.assert_allclose(fitted.model.marginal(clique), alone.model.marginal(clique), atol=0.05)


def test_constraints_hold():
    joint = table()
    joint[0, 0] = 0
    fixed = FixedMarginal(("c",), joint.sum(axis=(0, 1)))
    mask = np.ones((3, 4), bool)
    mask[0, 0] = False
    model = (
        pj.Estimator(regularisation="auto")
        .fit(DOMAIN, measured(joint, PAIRS, 6.0), constraints=[fixed, StructuralZeros(("a", "b"), mask)])
        .model
    )
    np.testing.assert_allclose(model.marginal(("c",)), fixed.counts, rtol=1e-6)
    assert model.marginal(("a", "b"))[0, 0] == 0


def test_the_automatic_weight_by_its_formula():
    domain = pj.Domain({"a": 10, "b": 20})
    noisy = [pj.LinearMeasurement(("a", "b"), np.zeros((10, 20)), stddev=4.0)]
    assert regularisation.weight_of("auto", domain, noisy, 600.0) == pytest.approx(1.5 * 600 / (4 + 0.4 * 3))
    twice = [*noisy, *noisy]  # the same answers again: half the variance
    wanted = 1.5 * 600 / (4 / np.sqrt(2) + 0.4 * 3)
    assert regularisation.weight_of("auto", domain, twice, 600.0) == pytest.approx(wanted)
    one_way = [pj.LinearMeasurement(("a",), np.zeros(10), stddev=4.0)]
    assert regularisation.weight_of("auto", domain, one_way, 600.0) == 0
    assert pj.Estimator(regularisation="auto").fit(domain, one_way, 600.0).regularisation is None


def test_the_noise_of_a_cell_is_that_of_least_squares():
    blocks = {"a": pj.queries.prefix(), "b": pj.queries.identity()}
    query = pj.queries.kronecker(blocks)
    domain = pj.Domain({"a": 6, "b": 3})
    one = pj.LinearMeasurement(("a", "b"), np.zeros((6, 3)), stddev=2.0, query=query)
    matrix = query.matrix(domain)
    dense = np.linalg.inv(matrix.T @ matrix / 4.0)
    variance, cells = regularisation.measured_cells(one, domain)
    assert variance == pytest.approx(np.mean(np.diag(dense))) and cells == 18


def test_a_range_is_one_coarse_cell():
    domain = pj.Domain({"a": 10, "b": 20})
    asked = [
        pj.queries.Product({"a": pj.queries.range(0, 4), "b": pj.queries.range(k, k + 3)}) for k in (2, 8)
    ]
    noisy = [pj.LinearMeasurement.released(q, [100], DiscreteGaussian(4.0)) for q in asked]
    variance, cells = regularisation.measured_cells(noisy[0], domain)
    assert variance == pytest.approx(16.0, rel=1e-6) and cells == pytest.approx(200 / (5 * 4))
    assert regularisation.noise_of(domain, noisy) == pytest.approx((4.0, 10.0))


def test_a_prior_and_other_losses_switch_it_off():
    noisy = measured(table(), PAIRS, 5.0)
    prior = pj.GraphicalModel.from_potentials(DOMAIN, {}, TOTAL)
    for settings, given in [({}, {"prior": prior}), ({"loss": "l1"}, {})]:
        fit = pj.Estimator(regularisation="auto", **settings).fit(DOMAIN, noisy, TOTAL, **given)
        assert fit.regularisation is None


@pytest.mark.parametrize("wrong", ["much", -1.0, float("nan"), float("inf"), 1e13, None, [1.0], True])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises((TypeError, ValueError), match="regularisation"):
        pj.Estimator(regularisation=wrong)


def test_weights_need_the_squared_loss_and_no_prior():
    with pytest.raises(ValueError, match="needs loss='l2'"):
        pj.Estimator(regularisation=2.0, loss="l1")
    prior = pj.GraphicalModel.from_potentials(DOMAIN, {}, TOTAL)
    with pytest.raises(ValueError, match="both pull"):
        pj.Estimator(regularisation=2.0).fit(DOMAIN, measured(table(), PAIRS, 5.0), TOTAL, prior=prior)


def test_error_bars_of_a_pulled_fit_claim_nothing_that_the_pull_breaks():
    noisy = measured(table(), PAIRS, 5.0)
    estimator = pj.Estimator(regularisation="auto")
    fit = estimator.fit(DOMAIN, noisy, TOTAL)
    with pytest.raises(ValueError, match="regularisation"):
        pj.uncertainty.error_bars(fit, noisy, PAIRS[:1], method="laplace", total=TOTAL)
    bars = pj.uncertainty.error_bars(
        fit, noisy, PAIRS[:1], method="bootstrap", draws=4, total=TOTAL, estimator=estimator
    )
    assert np.isnan(bars.intervals).all() and np.isfinite(bars.stddevs).all()
    alike = pj.uncertainty.error_bars(fit, noisy, PAIRS[:1], method="bootstrap", draws=4, total=TOTAL)
    np.testing.assert_allclose(
        alike.stddevs, bars.stddevs, rtol=0.05
    )  # its own weight, if no estimator is given
    linear = pj.uncertainty.error_bars(fit, noisy, PAIRS[:1], total=TOTAL)
    plain = pj.uncertainty.error_bars(pj.Estimator().fit(DOMAIN, noisy, TOTAL), noisy, PAIRS[:1], total=TOTAL)
    np.testing.assert_array_equal(linear.intervals, plain.intervals)


def test_a_first_reference_is_the_earlier_models_one_way_marginals():
    model = pj.GraphicalModel.from_potentials(DOMAIN, {("a", "b"): np.log(table().sum(axis=2))}, TOTAL)
    found = regularisation.reference_of(model, [("a", "b")], 1e-6)
    assert set(found) == {"a", "b"}
    for name, log in found.items():
        wanted = marginal(table(), (name,)) / table().sum()
        assert np.exp(log) == pytest.approx(np.ravel(wanted), rel=1e-12)
    assert regularisation.reference_of(None, PAIRS, 1e-6) == {}
    assert regularisation.reference_of(model, PAIRS, 1e-6) == {}  # it knows nothing of c


def test_a_warm_start_needs_no_part_without_a_pull_and_ends_where_a_cold_one_does():
    noisy = measured(table(), PAIRS, 4.0)
    estimator = pj.Estimator(progress=False)
    cold = estimator.fit(DOMAIN, noisy, total=TOTAL)
    warm = estimator.fit(DOMAIN, noisy, total=TOTAL, warm_start=cold.model)
    assert warm.steps <= 150 and warm.regularisation.weight == cold.regularisation.weight
    objectives = [
        fit.loss + fit.regularisation.weight * fit.regularisation.divergence for fit in (cold, warm)
    ]
    assert abs(objectives[0] - objectives[1]) < 0.1 * np.sqrt(sum(m.values.size for m in noisy) / 2)


@pytest.mark.parametrize("solver", ["auto", "mirror_descent", "dual_averaging", "lbfgs"])
def test_the_end_by_default_leaves_less_to_gain_than_noise_hides(solver):
    noisy = measured(table(), PAIRS, 3.0)
    best = to_optimum(dtype="float64", tol=1e-10, max_steps=20_000).fit(DOMAIN, noisy, TOTAL)
    fit = pj.Estimator(regularisation="none", solver=solver, max_steps=20_000).fit(DOMAIN, noisy, TOTAL)
    values = sum(m.values.size for m in noisy)
    assert fit.status in (pj.Status.CONVERGED, pj.Status.WITHIN_NOISE)
    assert (fit.status is pj.Status.CONVERGED) == (fit.gap <= 0.01 * max(1, fit.loss))
    assert fit.loss - best.loss <= 0.02 * np.sqrt(values / 2) + best.gap


def test_columns_that_follow_from_one_another_are_pulled_less():
    domain, rng = pj.Domain({"age": 40, "group": 5, "job": 30}), np.random.default_rng(0)
    ages = rng.multinomial(40_000, rng.dirichlet(np.ones(40)))
    counts = np.zeros((40, 5, 30))
    for age, people in enumerate(ages):
        counts[age, age // 8] = rng.multinomial(people, rng.dirichlet(np.full(30, 0.3)))
    noisy = [pj.LinearMeasurement(("age", "group", "job"), counts + rng.normal(0, 4, counts.shape), 4.0)]
    usual = regularisation.weight_of("auto", domain, noisy, 40_000.0)
    fits = [pj.Estimator(regularisation=r).fit(domain, noisy, 40_000.0) for r in ("auto", usual)]
    assert fits[0].regularisation.weight < usual
    errors = [abs(fit.model.marginal(("age", "group", "job")) - counts).sum() for fit in fits]
    assert errors[0] < errors[1]


def test_the_estimated_error_is_near_the_error_of_a_single_table():
    domain, rng = pj.Domain({"a": 60, "b": 50}), np.random.default_rng(1)
    counts = 30_000 * np.outer(rng.dirichlet(np.ones(60)), rng.dirichlet(np.ones(50)))
    counts *= rng.lognormal(0, 0.3, counts.shape)
    total, noisy = (
        counts.sum(),
        [pj.LinearMeasurement(("a", "b"), counts + rng.normal(0, 5, counts.shape), stddev=5.0)],
    )
    for weight in (1000.0, 5000.0):
        model = pj.Estimator(regularisation=weight).fit(domain, noisy, total).model
        shares = [model.marginal(("a", "b")) / total]
        found = regularisation.estimated_error(domain, noisy, [("a", "b")], shares, weight, total)
        error = np.sqrt(np.mean((model.marginal(("a", "b")) - counts) ** 2)) / 5
        mean = np.mean(abs(model.marginal(("a", "b")) - counts)) / 5
        assert 0.9 * mean < found < 1.1 * error
    sums = [
        pj.LinearMeasurement(
            ("a", "b"), [total], 1.0, pj.queries.kronecker({"a": pj.queries.total(), "b": pj.queries.total()})
        )
    ]
    assert regularisation.estimated_error(domain, sums, [("a", "b")], shares, 1.0, total) == np.inf
