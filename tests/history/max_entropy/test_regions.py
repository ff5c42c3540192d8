"""Alpha from the noise, and fits of regions where inference does not fit in memory."""

import itertools

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.history import History, MaxEntropy, ProductPrior, builders
from pgmjax.history.max_entropy.fit import alpha_of
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.measurements.noise import DiscreteGaussian, DiscreteLaplace
from pgmjax.model import RegionModel
from pgmjax.model.graphical import GraphicalModel

DOMAIN = pj.Domain({"a": 3, "b": 4, "c": 2, "d": 3})
TOTAL = 400.0


def marginal_history(cliques, distribution, domain=DOMAIN, seed=0):
    rng = np.random.default_rng(seed)
    asked = [pj.queries.marginal(clique) for clique in cliques]
    counts = [rng.dirichlet(np.ones(domain.size(clique))) * TOTAL for clique in cliques]
    noisy = np.round(np.concatenate(counts) + rng.laplace(0, 8, sum(map(len, counts)))).astype(np.int64)
    return History.from_answers(domain, asked, noisy, distribution=distribution)


def product(domain, seed=3):
    rng = np.random.default_rng(seed)
    return ProductPrior(domain, {name: rng.dirichlet(np.full(domain[name], 3.0)) for name in domain})


def test_alpha_is_one_over_the_weight_that_the_scatter_shows():
    """Against the vectors of all 72 cells."""
    asked = builders.random_ranges(DOMAIN, 12, seed=1)
    prior = product(DOMAIN)
    p = np.einsum("i,j,k,l->ijkl", *prior.probabilities).reshape(-1)
    q = History.from_answers(DOMAIN, asked, np.zeros(12, int), stddev=1.0).rows.matrix()
    values = np.round(TOTAL * q @ p + np.random.default_rng(2).normal(0, 30, 12)).astype(int)
    history = History.from_answers(DOMAIN, asked, values, distribution=DiscreteGaussian(20.0))
    variance = history.stddevs**2
    spread = TOTAL**2 * (q**2 @ p - (q @ p) ** 2)
    scatter = np.sum((values - TOTAL * q @ p) ** 2 / variance) - 12
    expected = scatter / np.sum(spread / variance)
    assert alpha_of(history, prior, TOTAL) == pytest.approx(expected)


def test_alpha_of_measured_cells_is_at_most_that_of_the_estimator():
    history = marginal_history([("a", "b")], DiscreteLaplace(5.0))
    noise = history.stddevs[0]
    expected = (noise + 0.4 * TOTAL / 12) / (1.5 * TOTAL)
    assert alpha_of(history, None, TOTAL) == pytest.approx(expected)
    assert alpha_of(history, product(DOMAIN), TOTAL) <= expected * (1 + 1e-9)


def test_alpha_falls_to_little_where_noise_explains_the_scatter():
    asked = builders.random_ranges(DOMAIN, 50, seed=1)
    history = History.from_answers(DOMAIN, asked, np.zeros(50, int), distribution=DiscreteLaplace(5000.0))
    prior = product(DOMAIN)
    noisy = history.rows.mean(prior) * TOTAL
    history = History.from_answers(
        DOMAIN, asked, np.round(noisy).astype(int), distribution=DiscreteLaplace(5000.0)
    )
    alpha = alpha_of(history, prior, TOTAL)
    fit = MaxEntropy(prior=prior).fit(history, TOTAL)
    assert fit.alpha == alpha
    np.testing.assert_allclose(fit.answers, TOTAL * history.rows.mean(prior), atol=2.0)


def test_the_default_fits_new_queries_better_than_much_or_little_trust_in_the_answers():
    """Ranges over a table of dependent attributes, noise of 4 % of the records, converged fits."""
    rng = np.random.default_rng(0)
    a, b = rng.binomial(19, 0.4, 5000), rng.binomial(9, 0.6, 5000)
    domain = pj.Domain({"a": 20, "b": 10, "c": 10})
    data = pj.Dataset.from_columns(domain, {"a": a, "b": b, "c": np.minimum(9, (a + b) // 3)})
    asked, new = builders.random_ranges(domain, 200, seed=1), builders.random_ranges(domain, 200, seed=2)

    def truth(queries):
        return np.array([q.apply(data.marginals([q.clique])[0]).item() for q in queries], float)

    noisy = np.round(truth(asked) + rng.laplace(0, 200, 200)).astype(np.int64)
    history = History.from_answers(domain, asked, noisy, distribution=DiscreteLaplace(200.0))
    errors = {}
    for alpha in (None, 1.0, 0.004):
        fit = MaxEntropy(alpha=alpha, max_steps=3000).fit(history, 5000)
        assert fit.status is pj.Status.CONVERGED
        answers = np.array([np.ravel(fit.model.answer(q))[0] for q in new])
        errors[alpha] = np.sqrt(np.mean((answers - truth(new)) ** 2))
    assert errors[None] < 0.9 * errors[1.0] and errors[None] < 0.6 * errors[0.004]


@pytest.mark.parametrize("given", [True, False])
def test_regions_of_a_tree_are_the_exact_solution(given):
    """On a junction tree the relative entropy over regions is exact: the same optimum by another way."""
    history = marginal_history([("a", "b"), ("b", "c"), ("c", "d")], DiscreteGaussian(8.0))
    prior = product(DOMAIN) if given else None
    found = MaxEntropy(alpha=0.02, prior=prior, solver="regions", max_steps=3000).fit(history, TOTAL)
    assert isinstance(found.model, RegionModel)
    if not given:  # the reference is the fit's own product
        shares = {name: found.model.marginal((name,)) / TOTAL for name in DOMAIN}
        prior = ProductPrior(DOMAIN, {name: share / share.sum() for name, share in shares.items()})
    exact = MaxEntropy(alpha=0.02, prior=prior, penalty="gaussian", tol=1e-9).fit(history, TOTAL)
    assert isinstance(exact.model, GraphicalModel)
    # by the squared distance that the objective's curvature allows at the certified gap
    np.testing.assert_allclose(found.answers, exact.answers, atol=0.3)
    np.testing.assert_allclose(found.weights, exact.weights, atol=0.02 * TOTAL * 0.3 / 64 + 1e-6)
    assert found.objective == pytest.approx(exact.objective, abs=max(found.gap, 1e-6) + 1e-3)
    assert found.gap < 0.01


def test_a_value_that_the_prior_excludes_stays_impossible():
    history = marginal_history([("a", "b"), ("b", "c")], DiscreteGaussian(8.0))
    prior = ProductPrior(DOMAIN, {"a": [0.5, 0.5, 0.0]})
    found = MaxEntropy(prior=prior, solver="regions").fit(history, TOTAL)
    assert found.model.marginal(("a",))[2] == 0 and not np.any(found.sample(200)["a"] == 2)


def test_all_pairs_that_take_too_long_are_fitted_by_regions_and_drawn():
    domain = pj.Domain({f"x{k}": 4 for k in range(20)})
    pairs = list(itertools.combinations(domain.attributes, 2))
    rng = np.random.default_rng(0)
    columns = {"x0": rng.integers(0, 4, 400)}
    for k in range(1, 20):  # a chain, each value like the one before or not
        columns[f"x{k}"] = np.where(rng.random(400) < 0.5, columns[f"x{k - 1}"], rng.integers(0, 4, 400))
    counts = pj.Dataset.from_columns(domain, columns).marginals(pairs)
    noisy = np.round(np.concatenate([c.reshape(-1) for c in counts]) + rng.laplace(0, 8, 16 * 190))
    history = History.from_answers(
        domain,
        [pj.queries.marginal(pair) for pair in pairs],
        noisy.astype(np.int64),
        distribution=DiscreteLaplace(8.0),
    )
    fit = MaxEntropy(max_bytes=16_000_000, max_steps=50).fit(history, TOTAL)
    assert isinstance(fit.model, RegionModel) and np.isfinite(fit.gap) and 0 < fit.alpha < 1
    rows = fit.sample(2000, seed=1)
    made = pj.Dataset.from_columns(domain, rows).marginals(pairs)
    missed = [
        np.abs(m / 2000 - fit.model.marginal(p) / TOTAL).sum() for p, m in zip(pairs, made, strict=True)
    ]
    independent = 16 * np.sqrt(2 / np.pi / 16 / 2000)  # of rows drawn from uniform tables
    assert np.mean(missed) < 0.5 * independent


def test_another_penalty_is_left_to_chains():
    """Exact inference is refused, the regions would fit."""
    domain = pj.Domain({f"x{k}": 4 for k in range(12)})
    history = marginal_history(list(itertools.combinations(domain, 2)), DiscreteLaplace(5.0), domain)
    few = {"oracle": "contraction", "max_bytes": 16_000_000, "chains": 100, "chain_steps": 2, "max_steps": 5}
    assert isinstance(MaxEntropy(alpha=0.01, **few).fit(history, TOTAL).model, RegionModel)
    fit = MaxEntropy(alpha=0.01, penalty="laplace", **few).fit(history, TOTAL)
    assert isinstance(fit.model, GraphicalModel) and np.isinf(fit.gap)
    assert np.abs(fit.weights).max() <= 0.01 * TOTAL / 5.0 * (1 + 1e-9)


def test_without_memory_for_regions_chains_take_the_penalty_of_the_noise():
    history = marginal_history([("a", "b"), ("b", "c")], DiscreteLaplace(5.0))
    few = {"oracle": "contraction", "max_bytes": 1000, "chains": 200, "chain_steps": 2}
    fit = MaxEntropy(alpha=0.01, **few).fit(history, TOTAL)
    assert np.isinf(fit.gap) and np.abs(fit.weights).max() <= 0.01 * TOTAL / 5.0 * (1 + 1e-9)


def test_regions_refuse_what_they_cannot_do():
    laplace = marginal_history([("a", "b")], DiscreteLaplace(5.0))
    with pytest.raises(ValueError, match="solver='chains'"):
        MaxEntropy(solver="regions", penalty="laplace").fit(laplace, TOTAL)
    with pytest.raises(ModelTooLargeError):
        MaxEntropy(solver="regions", max_bytes=100).fit(laplace, TOTAL)
    for wrong in (0, -1.0, float("nan"), "much"):
        with pytest.raises((TypeError, ValueError), match="alpha"):
            MaxEntropy(alpha=wrong)
