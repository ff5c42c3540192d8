"""Chains instead of inference: curvature against the covariance written out, ends against the exact one."""

import math

import jax
import numpy as np
import pytest

from pgmjax import queries as q
from pgmjax.data.domain import Domain
from pgmjax.estimation.solvers.stopping import Status
from pgmjax.history.history import History
from pgmjax.history.max_entropy.ascent import Sample
from pgmjax.history.max_entropy.dual import Features
from pgmjax.history.max_entropy.fit import MaxEntropy
from pgmjax.history.prior import ProductPrior
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.model.graphical import GraphicalModel

DOMAIN = Domain({"a": 3, "b": 4, "c": 2, "d": 5})
TOTAL = 5000


def history(count=20, seed=0):
    rng = np.random.default_rng(seed)
    table = rng.multinomial(TOTAL, rng.dirichlet(np.full(DOMAIN.size(), 0.3)))
    names = DOMAIN.attributes
    asked = [q.Product({"a": q.total(), "d": q.moments(2)})]
    for _ in range(count):
        pair = rng.choice(4, 2, replace=False)
        ends = [np.sort(rng.integers(DOMAIN.shape[k], size=2)) for k in pair]
        asked.append(
            q.Product({names[k]: q.range(int(e[0]), int(e[1])) for k, e in zip(pair, ends, strict=True)})
        )
    empty = History.from_answers(DOMAIN, asked, np.zeros(count + 2), stddev=1.0)
    noisy = empty.rows.matrix() @ table + rng.laplace(0, 50.0, empty.num_rows)
    spread = 50.0 * np.sqrt(2)
    return History(
        DOMAIN,
        [
            LinearMeasurement(m.clique, some, spread, m.query, noise="laplace")
            for m, some in zip(empty.measurements, np.split(noisy, np.arange(2, count + 2)), strict=True)
        ],
    )


def test_curvature_is_the_covariance_of_the_features_in_the_sample():
    rows = history().rows
    features = Features.of(rows)
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(size, size=300) for size in DOMAIN.shape])
    places = [[DOMAIN.attributes.index(name) for name in clique] for clique in features.cliques]
    cells = [
        np.ravel_multi_index(codes[p], DOMAIN.shape_of(c))
        for p, c in zip(places, features.cliques, strict=True)
    ]
    sample = Sample(features, cells)
    entries = rows.evaluate(codes.T)
    np.testing.assert_allclose(sample.means, entries.mean(axis=0))
    covariance = np.cov(entries.T, bias=True)
    direction = rng.normal(size=rows.num_rows)
    product, square = sample.curved(direction)
    np.testing.assert_allclose(product, covariance @ direction, atol=1e-10)
    assert square == pytest.approx(direction @ covariance @ direction)


@pytest.mark.parametrize("penalty", ["laplace", "gaussian"])
def test_newton_with_sampled_curvature_ends_at_the_exact_optimum(penalty):
    given = history()
    prior = ProductPrior(DOMAIN, {"a": [0.2, 0.3, 0.5]})
    exact = MaxEntropy(alpha=0.01, penalty=penalty, prior=prior, tol=1e-8).fit(given, TOTAL)
    found = MaxEntropy(alpha=0.01, penalty=penalty, prior=prior, tol=1e-4, solver="newton").fit(given, TOTAL)
    assert found.status is Status.CONVERGED
    assert found.steps < 10 < exact.steps
    assert found.objective == pytest.approx(exact.objective, abs=1e-4)


def test_chains_alone_come_close_to_the_exact_optimum():
    given = history()
    settings = MaxEntropy(alpha=0.01, tol=1e-8)
    exact = settings.fit(given, TOTAL)
    found = MaxEntropy(alpha=0.01, solver="chains", chain_steps=24).fit(given, TOTAL)
    assert found.status is Status.MAX_STEPS and math.isinf(found.gap)
    assert found.objective == pytest.approx(exact.objective, abs=0.03)
    dual = settings.dual(given, TOTAL)
    assert dual.at(found.weights).value == pytest.approx(exact.objective, abs=0.01)
    # 16 samples of 5000 chains: a share is known to 0.0018 of one standard deviation
    np.testing.assert_allclose(found.answers[2:] / TOTAL, exact.answers[2:] / TOTAL, atol=0.02)
    columns = found.sample(1000, seed=3)
    assert {len(column) for column in columns.values()} == {1000}


def test_what_does_not_plan_is_left_to_chains():
    given = history(4)
    with pytest.raises(ModelTooLargeError):
        MaxEntropy(solver="newton", oracle="contraction", max_bytes=1000).fit(given, TOTAL)
    found = MaxEntropy(oracle="contraction", max_bytes=1000, chains=500, chain_steps=2).fit(given, TOTAL)
    assert math.isinf(found.gap)


def test_a_model_that_cannot_be_walked_through_is_sampled_by_chains(monkeypatch):
    given = history(4)
    fit = MaxEntropy(alpha=0.01).fit(given, TOTAL)

    def refuse(*_, **__):
        raise ModelTooLargeError("too large")

    monkeypatch.setattr(GraphicalModel, "sample", refuse)
    columns = fit.sample(20_000, seed=1, sweeps=20)
    found = np.bincount(columns["d"], minlength=5) / 20_000
    np.testing.assert_allclose(found, fit.model.marginal(("d",)) / TOTAL, atol=5 * 0.5 / np.sqrt(20_000))


def test_a_seed_gives_the_same_fit():
    settings = MaxEntropy(alpha=0.01, solver="chains", chains=200, chain_steps=3, seed=4)
    one, two = (settings.fit(history(4), TOTAL).weights for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_chains_go_on_from_weights_that_are_given():
    given = history()
    exact = MaxEntropy(alpha=0.01, tol=1e-8).fit(given, TOTAL)
    found = MaxEntropy(alpha=0.01, solver="chains", chain_steps=4).fit(given, TOTAL, warm_start=exact.weights)
    assert found.objective == pytest.approx(exact.objective, abs=0.03)


def test_settings_of_chains_are_checked():
    with pytest.raises(ValueError, match=r"solver.*'auto'.*'exact'.*'newton'"):
        MaxEntropy(solver="sgd")
    for name in ("chains", "chain_steps"):
        with pytest.raises(ValueError, match=name):
            MaxEntropy(**{name: 1})


def test_no_flag_of_jax_is_changed():
    MaxEntropy(solver="chains", chains=100, chain_steps=2).fit(history(2), TOTAL)
    assert not jax.config.jax_enable_x64
