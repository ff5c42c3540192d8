"""Maximum entropy: closed forms, optimality conditions, and the engine's fit where theory says so."""

import numpy as np
import pytest
from scipy.optimize import minimize

from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.estimation.estimator import Estimator
from pgmjax.estimation.solvers.stopping import Status
from pgmjax.history.history import History
from pgmjax.history.max_entropy.dual import GaussianPenalty, LaplacePenalty
from pgmjax.history.max_entropy.fit import MaxEntropy
from pgmjax.history.prior import ProductPrior
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace

DOMAIN = Domain({"a": 3, "b": 4, "c": 2, "d": 5})
TOTAL = 500
SCALE = 10.0


def ranges(count, seed=0):
    """Random ranges over two attributes each."""
    rng = np.random.default_rng(seed)
    names = DOMAIN.attributes
    asked = []
    for _ in range(count):
        pair = sorted(rng.choice(len(names), 2, replace=False))
        ends = [np.sort(rng.integers(DOMAIN.shape[k], size=2)) for k in pair]
        asked.append(
            q.Product({names[k]: q.range(int(e[0]), int(e[1])) for k, e in zip(pair, ends, strict=True)})
        )
    return asked


def noisy_history(count=25, seed=0, extra=(), distribution=None):
    rng = np.random.default_rng(seed)
    table = rng.multinomial(TOTAL, rng.dirichlet(np.full(DOMAIN.size(), 0.3)))
    asked = [*ranges(count, seed), *extra]
    spread = SCALE * np.sqrt(2)
    empty = History.from_answers(
        DOMAIN, asked, np.zeros(sum(query.num_rows(DOMAIN) for query in asked)), stddev=1.0
    )
    noisy = np.round(empty.rows.matrix() @ table + rng.laplace(0, SCALE, empty.num_rows)).astype(np.int64)
    if distribution is not None:
        return History.from_answers(DOMAIN, asked, noisy, distribution=distribution)
    return laplace(History.from_answers(DOMAIN, asked, noisy, stddev=spread))


def laplace(history):
    """The same answers, said to have Laplace noise of their standard deviations."""
    said = [
        LinearMeasurement(m.clique, m.values, m.stddev, m.query, noise="laplace")
        for m in history.measurements
    ]
    return History(history.domain, said)


def joint(model):
    return model.marginal(DOMAIN.attributes).reshape(-1) / model.total


def divergence(p, p0):
    return float(np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1) / p0), 0)))


@pytest.mark.parametrize(
    ("pi", "beta", "expected"),
    [(0.5, 0.2, 0.34360), (-0.1, 3.0, 0.02089), (1.2, 3.0, 0.89592), (0.35, 3.0, 0.35)],
)
def test_one_query_has_a_closed_form(pi, beta, expected):
    """The weight is logit(pi) - logit(prior), clipped to the box; outside (0, 1) it stands at its end."""
    domain = Domain({"x": 2})
    distribution = DiscreteLaplace(50.0)
    history = History(
        domain, [LinearMeasurement.released(q.Product({"x": q.point(1)}), [1000 * pi], distribution)]
    )
    prior = ProductPrior(domain, {"x": [0.7, 0.3]})
    fit = MaxEntropy(alpha=beta * 50.0 / 1000, prior=prior, tol=1e-13).fit(history, 1000)
    logit = beta * np.sign(pi - 0.5) if not 0 < pi < 1 else np.log(pi / (1 - pi)) - np.log(0.3 / 0.7)
    weight = float(np.clip(logit, -beta, beta))
    mass = 0.3 * np.exp(weight) / (0.7 + 0.3 * np.exp(weight))
    np.testing.assert_allclose(fit.weights, [weight], atol=1e-5)
    np.testing.assert_allclose(fit.model.marginal(("x",))[1] / 1000, mass, atol=1e-6)
    assert mass == pytest.approx(expected, abs=5e-6)


@pytest.mark.parametrize("alpha", [1e-4, 1e-3, 1e-2, 0.1])
def test_weights_in_the_box_meet_their_answers_and_those_at_its_ends_miss_to_their_side(alpha):
    history = noisy_history()
    fit = MaxEntropy(alpha=alpha, tol=1e-10).fit(history, TOTAL)
    box = alpha * TOTAL / SCALE
    residuals = history.values - fit.answers
    inside = np.abs(fit.weights) < box * (1 - 1e-6)
    assert (np.abs(fit.weights) <= box).all()
    np.testing.assert_allclose(residuals[inside] / TOTAL, 0, atol=2e-5)
    at_end = ~inside & (np.abs(residuals) > 1e-2)
    assert (np.sign(residuals[at_end]) == np.sign(fit.weights[at_end])).all()
    assert at_end.any()


@pytest.mark.parametrize("penalty", ["laplace", "gaussian"])
@pytest.mark.parametrize("with_prior", [False, True])
def test_the_objective_is_the_least_and_the_gap_says_so(penalty, with_prior):
    """Primal from the model's joint, written out; optimum from another solver on the dense dual."""
    extra = [q.Product({"d": q.moments(2), "a": q.total()}), q.DenseMatrix(("b", "a"), [list(range(12))])]
    history = noisy_history(12, seed=3, extra=extra)
    alpha = 0.02
    marginals = {"a": [0.2, 0.3, 0.5], "d": [0.1, 0.1, 0.2, 0.3, 0.3]} if with_prior else {}
    prior = ProductPrior(DOMAIN, marginals)
    p0 = np.ones(1)
    for name in DOMAIN.attributes:
        p0 = np.multiply.outer(p0, prior.marginal(name)).reshape(-1)
    fit = MaxEntropy(alpha=alpha, penalty=penalty, prior=prior, tol=1e-11).fit(history, TOTAL)
    matrix, pi = history.rows.matrix(), history.values / TOTAL
    p = joint(fit.model)
    residuals = pi - matrix @ p
    box = np.full(history.num_rows, alpha * TOTAL / SCALE)
    variances = np.full(history.num_rows, 2 * SCALE**2 / (alpha * TOTAL**2))
    if penalty == "laplace":
        loss, variances = float(box @ np.abs(residuals)), 0 * variances
    else:
        loss, box = float(np.sum(residuals**2 / variances) / 2), np.full(history.num_rows, np.inf)
    assert fit.objective == pytest.approx(divergence(p, p0) + loss, abs=1e-9)

    def negative_dual(w):
        weights = p0 * np.exp(matrix.T @ w)
        mean = matrix @ weights / weights.sum()
        return np.log(weights.sum()) - w @ pi + 0.5 * variances @ w**2, mean - pi + variances * w

    bounds = list(zip(-box, box, strict=True))
    found = minimize(
        negative_dual, np.zeros(len(pi)), jac=True, bounds=bounds, method="TNC", options={"maxfun": 20000}
    )
    assert fit.objective - fit.gap <= -found.fun + 1e-7
    assert fit.objective >= -found.fun - 1e-9
    assert fit.gap < 1e-5


def test_without_weight_on_the_answers_the_prior_is_left():
    history = noisy_history()
    prior = ProductPrior(DOMAIN, {"a": [0.2, 0.3, 0.5], "c": [0.75, 0.25]})
    fit = MaxEntropy(alpha=1e-9, prior=prior).fit(history, TOTAL)
    np.testing.assert_allclose(
        fit.model.marginal(("a", "c")), TOTAL * np.outer([0.2, 0.3, 0.5], [0.75, 0.25]), rtol=1e-5
    )


def test_impossible_cells_of_the_prior_stay_impossible():
    history = noisy_history()
    prior = ProductPrior(DOMAIN, {"b": [0.5, 0.5, 0.0, 0.0]})
    fit = MaxEntropy(alpha=0.01, prior=prior).fit(history, TOTAL)
    assert fit.model.marginal(("b",))[2:].tolist() == [0.0, 0.0]
    assert fit.status is Status.CONVERGED


def test_large_alpha_is_the_engines_l1_fit():
    """Both minimise the sum of magnitudes; maximum entropy only breaks ties."""
    history = noisy_history(20, seed=1)
    scaled = MaxEntropy(alpha=20.0, tol=1e-7).fit(history, TOTAL)
    engine = Estimator(loss="l1", tol=1e-6, max_steps=20000, dtype="float64").fit(
        DOMAIN, history.measurements, total=TOTAL
    )
    found = np.sum(np.abs(scaled.answers - history.values) / history.stddevs)
    # the entropy may cost the fit at most its own range over the weight of the answers
    room = (np.log(DOMAIN.size()) + scaled.gap) / (20.0 * np.sqrt(2))
    assert engine.loss - engine.gap <= found + 1e-6
    assert found <= engine.loss + room


def test_large_alpha_with_the_gaussian_penalty_is_the_engines_l2_fit():
    history = noisy_history(20, seed=1)
    scaled = MaxEntropy(alpha=100.0, penalty="gaussian", tol=1e-7).fit(history, TOTAL)
    engine = Estimator(regularisation="none", loss="l2", tol=1e-9, max_steps=20000, dtype="float64").fit(
        DOMAIN, history.measurements, total=TOTAL
    )
    found = 0.5 * np.sum(((scaled.answers - history.values) / history.stddevs) ** 2)
    assert engine.loss - engine.gap <= found + 1e-6
    assert found <= engine.loss + (np.log(DOMAIN.size()) + scaled.gap) / 100.0
    predicted = np.concatenate([engine.model.answer(query).reshape(-1) for query in history.queries])
    np.testing.assert_allclose(scaled.answers, predicted, atol=history.stddevs.max() / 4)


def test_a_full_covariance_weighs_correlated_answers():
    """Closed form on one binary attribute: two answers with one error count as one."""
    domain = Domain({"x": 2})
    query = q.Product({"x": q.point(1)})
    once = History.from_answers(domain, [query], [700], stddev=20.0)
    covariance = 400 * np.array([[1.0, 1 - 1e-9], [1 - 1e-9, 1.0]])
    twice = History.from_answers(domain, [query, query], [700, 700], covariance=covariance)
    fits = [
        MaxEntropy(alpha=0.01, penalty="gaussian", tol=1e-12).fit(history, 1000).model.marginal(("x",))
        for history in (once, twice)
    ]
    np.testing.assert_allclose(fits[0], fits[1], atol=1e-3)


def test_scales_come_from_the_distribution_that_was_drawn():
    """A discrete Laplace distribution's scale is not its standard deviation over the root of two."""
    history = noisy_history(3, distribution=DiscreteLaplace(1.0))
    box = MaxEntropy(alpha=0.5).dual(history, TOTAL).penalty.box
    np.testing.assert_allclose(box, 0.5 * TOTAL)
    history = noisy_history(3, distribution=DiscreteGaussian(0.7))
    curvature = MaxEntropy(alpha=0.5, penalty="gaussian").dual(history, TOTAL).penalty.curvature
    np.testing.assert_allclose(curvature, 0.7**2 / TOTAL**2 / 0.5)


def test_a_warm_start_at_the_optimum_ends_at_once():
    history = noisy_history()
    estimator = MaxEntropy(alpha=0.01, tol=1e-8)
    fit = estimator.fit(history, TOTAL)
    again = estimator.fit(history, TOTAL, warm_start=fit.weights)
    assert again.steps <= 2 and again.objective == pytest.approx(fit.objective, abs=1e-8)


def test_single_precision_gives_the_same_model():
    history = noisy_history()
    one = MaxEntropy(alpha=0.01, dtype="float32", tol=1e-5).fit(history, TOTAL)
    two = MaxEntropy(alpha=0.01, tol=1e-8).fit(history, TOTAL)
    rounding = 16 * np.finfo(np.float32).eps  # of the sums that make the objective and the gap
    assert abs(one.objective - two.objective) <= one.gap + two.gap + rounding
    assert one.gap < 1e-3


def test_the_model_samples_and_answers_new_queries():
    history = noisy_history()
    fit = MaxEntropy(alpha=0.01).fit(history, TOTAL)
    columns = fit.model.sample(50_000, seed=1)
    found = np.bincount(columns["b"], minlength=4) / 50_000
    np.testing.assert_allclose(found, fit.model.marginal(("b",)) / TOTAL, atol=0.02)
    query = q.Product({"a": q.point(1), "d": q.range(1, 3)})
    assert fit.model.answer(query).shape == (1, 1)


def test_steps_may_run_out():
    fit = MaxEntropy(alpha=1.0, max_steps=3, tol=0.0).fit(noisy_history(), TOTAL)
    assert fit.status is Status.MAX_STEPS and fit.steps == 3 and fit.gap > 0


@pytest.mark.parametrize("alpha", [0.0, -1.0])
def test_alpha_must_be_positive(alpha):
    with pytest.raises(ValueError, match="alpha"):
        MaxEntropy(alpha=alpha)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match=r"penalty.*'auto'.*'laplace'.*'gaussian'"):
        MaxEntropy(penalty="huber")
    with pytest.raises(TypeError, match="prior must be a ProductPrior"):
        MaxEntropy(prior={"a": [1.0]})
    with pytest.raises(ValueError, match=r"total.*0"):
        MaxEntropy().fit(noisy_history(2), 0)
    with pytest.raises(TypeError, match=r"history must be a History, got .*: write History\("):
        MaxEntropy().fit([], TOTAL)
    with pytest.raises(ValueError, match="the history has no answers"):
        MaxEntropy().fit(History(DOMAIN, []), TOTAL)
    with pytest.raises(ValueError, match="one finite weight a row, 2, got shape"):
        MaxEntropy().fit(noisy_history(2), TOTAL, warm_start=[0.0])
    labelled = Domain({name: [f"{name}{code}" for code in range(DOMAIN[name])] for name in DOMAIN})
    turned = Domain(dict(reversed(DOMAIN.sizes.items())))
    for other in (Domain({"x": 2}), labelled, turned):
        prior = ProductPrior(other, {})
        with pytest.raises(ValueError, match="the prior must be over the history's domain"):
            MaxEntropy(prior=prior).fit(noisy_history(2), TOTAL)
        with pytest.raises(ValueError, match="the prior must be over the history's domain"):
            MaxEntropy(prior=prior).plan(noisy_history(2))
    with pytest.raises(TypeError, match="history must be a History"):
        MaxEntropy().fit(TOTAL, noisy_history(2))
    few = noisy_history(2)
    settings = MaxEntropy(alpha=1e60, dtype="float32", solver="exact")
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match="not finite at its starting"):
        settings.fit(few, TOTAL, warm_start=np.full(few.num_rows, 1e39))


def test_a_laplace_penalty_of_correlated_noise_is_refused():
    history = History.from_answers(
        Domain({"x": 2}), [q.marginal(["x"])], [5, 7], covariance=np.array([[2.0, 1.0], [1.0, 2.0]])
    )
    with pytest.raises(ValueError, match="for independent noise"):
        MaxEntropy(penalty="laplace").fit(history, 12)


def test_the_penalty_is_that_of_the_noise():
    domain, asked = Domain({"x": 2}), q.marginal(["x"])
    covariance = np.array([[2.0, 1.0], [1.0, 2.0]])
    correlated = History.from_answers(domain, [asked], [5, 7], covariance=covariance)
    laplace = History.from_answers(domain, [asked], [5, 7], distribution=DiscreteLaplace(2.0))
    gaussian = History.from_answers(domain, [asked], [5, 7], distribution=DiscreteGaussian(2.0))
    kinds = [type(MaxEntropy().dual(each, 12).penalty) for each in (correlated, laplace, gaussian)]
    assert kinds == [GaussianPenalty, LaplacePenalty, GaussianPenalty]
    assert isinstance(MaxEntropy(penalty="laplace").dual(gaussian, 12).penalty, LaplacePenalty)
    for first in (correlated, gaussian):
        mixed = first.append(laplace)
        with pytest.raises(ValueError, match=r"of the distributions gaussian, laplace, .* name the one to "):
            MaxEntropy().dual(mixed, 12)
        assert isinstance(MaxEntropy(penalty="gaussian").dual(mixed, 12).penalty, GaussianPenalty)


def test_a_model_beyond_memory_is_refused_with_figures():
    with pytest.raises(ModelTooLargeError):
        MaxEntropy(solver="exact", oracle="contraction", max_bytes=1000).fit(noisy_history(), TOTAL)
