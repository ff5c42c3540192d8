"""Kernel PCA against least squares on written-out matrices, with and without a prior and a known total."""

import math

import numpy as np
import pytest

import pgmjax as pj
from pgmjax.history import History, KernelPCA, ProductPrior
from pgmjax.history.kernel import pca
from pgmjax.history.rows import Rows
from pgmjax.queries import Product, marginal, point, total
from tests.history.dense_history import (
    DOMAIN,
    HISTORIES,
    NEW,
    PRIOR,
    PRIORS,
    QUERIES,
    SCALES,
    VALUES,
    Q,
    X,
    explicit,
    sigma,
    weights_of,
)

N = X.sum()
NEW_MATRIX = Rows.of(NEW, DOMAIN).matrix()
BY_NAME = [(noise, prior) for noise in HISTORIES for prior in PRIORS]


def least_squares(history):
    """x_hat = (Sigma^-1/2 Q)^+ Sigma^-1/2 a and the covariance of Q x_hat's noise, by the pseudo-inverse."""
    root = np.linalg.cholesky(sigma(history))
    back = np.linalg.pinv(np.linalg.solve(root, Q), rcond=1e-10) @ np.linalg.inv(root)
    return back @ history.values, Q @ back @ sigma(history) @ back.T @ Q.T


@pytest.mark.parametrize("noise, prior", BY_NAME)
def test_without_bias_it_is_generalised_least_squares(noise, prior):
    """At alpha = infinity, for any prior: equal to 1e-9 of the answers."""
    history = HISTORIES[noise]
    pca = KernelPCA.of(history, PRIORS[prior])
    got = pca.answer(QUERIES)
    estimate, covariance = least_squares(history)
    np.testing.assert_allclose(got.values, Q @ estimate, rtol=0, atol=1e-9 * np.abs(VALUES).max())
    np.testing.assert_allclose(got.stddevs, np.sqrt(np.diag(covariance)), rtol=1e-9)
    assert got.estimable.all()
    assert pca.spectrum.rank == np.linalg.matrix_rank(Q)
    np.testing.assert_allclose(got.distances, 0, atol=1e-6)


@pytest.mark.parametrize("noise, prior", BY_NAME)
@pytest.mark.parametrize("alpha", [0.5, 30.0, 1e4])
def test_at_finite_alpha_it_is_the_ridge_form(noise, prior, alpha):
    """Against the explicit solution on all 120 cells, values and noise, for new queries too."""
    history = HISTORIES[noise]
    got = KernelPCA.of(history, PRIORS[prior]).answer([*QUERIES, *NEW], alpha)
    matrix = np.concatenate([Q, NEW_MATRIX])
    combination = matrix @ explicit(history, PRIORS[prior], alpha)
    np.testing.assert_allclose(got.values, combination @ VALUES, rtol=0, atol=1e-9 * np.abs(VALUES).max())
    spread = np.sqrt(np.diag(combination @ sigma(history) @ combination.T))
    np.testing.assert_allclose(got.stddevs, spread, rtol=1e-8)
    asked = (combination @ Q - matrix) ** 2 @ weights_of(PRIORS[prior])
    np.testing.assert_allclose(got.distances, np.sqrt(asked), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("noise, prior", BY_NAME)
@pytest.mark.parametrize("total", [None, N])
@pytest.mark.parametrize("alpha", [3.0, math.inf])
def test_fitted_is_the_answer_to_the_own_rows(noise, prior, total, alpha):
    pca = KernelPCA.of(HISTORIES[noise], PRIORS[prior], total)
    expected, got = pca.answer(QUERIES, alpha), pca.fitted(alpha)
    np.testing.assert_allclose(got.values, expected.values, rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(got.stddevs, expected.stddevs, rtol=1e-8)
    np.testing.assert_allclose(got.distances, expected.distances, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(got.estimable, expected.estimable)


def test_the_weights_give_orthonormal_eigenqueries_and_the_estimates():
    pca = KernelPCA.of(HISTORIES["independent"], PRIOR)
    eigenqueries = pca.weights @ Q
    inner = (eigenqueries * weights_of(PRIOR)) @ eigenqueries.T
    np.testing.assert_allclose(inner, np.eye(len(inner)), atol=1e-10)
    np.testing.assert_allclose(pca.weights @ VALUES, pca.estimates, rtol=1e-8, atol=1e-6)
    spread = (pca.weights * SCALES**2) @ pca.weights.T
    np.testing.assert_allclose(spread * pca.eigenvalues, np.eye(len(inner)), atol=1e-6)


@pytest.mark.parametrize("prior", PRIORS)
def test_what_is_not_estimable_is_said_and_answered_by_the_nearest(prior):
    """The answer is that of the projection onto the queries' span under the prior's inner product."""
    got = KernelPCA.of(HISTORIES["independent"], PRIORS[prior]).answer(NEW)
    rank = np.linalg.matrix_rank(Q)
    inside = [np.linalg.matrix_rank(np.vstack([Q, row])) == rank for row in NEW_MATRIX]
    assert got.estimable.tolist() == inside and not all(inside)
    half = np.sqrt(weights_of(PRIORS[prior]))
    basis = np.linalg.svd(Q * half, full_matrices=False)[2][:rank]
    nearest = ((NEW_MATRIX * half) @ basis.T @ basis) / half
    estimate = least_squares(HISTORIES["independent"])[0]
    np.testing.assert_allclose(got.values, nearest @ estimate, rtol=0, atol=1e-8 * np.abs(VALUES).max())


@pytest.mark.parametrize("noise, prior", BY_NAME)
@pytest.mark.parametrize("alpha", [2.0, 300.0])
def test_a_known_total_is_the_limit_of_a_precise_universal_query(noise, prior, alpha):
    """The exact limit against a universal row of standard deviation 1e-5 in the dense solution."""
    history = HISTORIES[noise]
    got = KernelPCA.of(history, PRIORS[prior], total=N).answer(NEW, alpha)
    longer = np.vstack([Q, np.ones(Q.shape[1])])
    covariance = np.zeros((len(longer), len(longer)))
    covariance[:-1, :-1], covariance[-1, -1] = sigma(history), 1e-10
    cells = weights_of(PRIORS[prior])
    inner = (longer * cells) @ longer.T + covariance / alpha**2
    columns = (longer * cells) @ NEW_MATRIX.T
    combination = np.linalg.solve(inner, columns)
    answers = np.append(VALUES, N)
    np.testing.assert_allclose(got.values, combination.T @ answers, rtol=1e-6)
    spread = np.sqrt(np.diag(combination.T @ covariance @ combination))
    np.testing.assert_allclose(got.stddevs, spread, rtol=1e-4)


@pytest.mark.parametrize("prior", PRIORS)
def test_without_trust_in_answers_a_known_total_gives_the_prior(prior):
    """As alpha falls to 0 the answer is n times the prior's mean: the limit of the total is taken first."""
    pca = KernelPCA.of(HISTORIES["independent"], PRIORS[prior], total=N)
    got = pca.answer([*QUERIES, *NEW], 1e-9)
    expected = N * np.concatenate([Q, NEW_MATRIX]) @ weights_of(PRIORS[prior])
    np.testing.assert_allclose(got.values, expected, rtol=1e-9)
    np.testing.assert_allclose(got.stddevs, 0, atol=1e-9)


def test_the_order_of_the_limits_matters():
    """With a universal row of variance 1e-6 in the history, alpha = 1e-3 gives half of the prior's answer."""
    universal = Product({"a": total()})
    history = HISTORIES["independent"].append(pj.LinearMeasurement(("a",), [N], stddev=1e-3, query=universal))
    got = KernelPCA.of(history, PRIOR).answer(NEW, 1e-3)
    prior = N * NEW_MATRIX @ weights_of(PRIOR)
    np.testing.assert_allclose(got.values, prior / 2, rtol=1e-4)
    exact = KernelPCA.of(history, PRIOR, total=N).answer(NEW, 1e-3)
    np.testing.assert_allclose(exact.values, prior, rtol=1e-4)


def test_a_known_total_with_nothing_else_answers_from_the_prior():
    universal = pj.LinearMeasurement(("a",), [N + 3], stddev=1.0, query=Product({"a": total()}))
    for history in (History(DOMAIN, []), History(DOMAIN, [universal])):
        got = KernelPCA.of(history, PRIOR, total=N).answer(NEW)
        np.testing.assert_allclose(got.values, N * NEW_MATRIX @ weights_of(PRIOR), rtol=1e-12)
        np.testing.assert_array_equal(got.stddevs, 0)
        assert not got.estimable.any()


def test_two_answers_to_one_query_are_averaged_by_their_precision():
    asked = Product({"a": point(1)})
    history = History.from_answers(DOMAIN, [asked, asked], [100.0, 110.0], stddev=[2.0, 4.0])
    got = KernelPCA.of(history).answer(asked)
    np.testing.assert_allclose(got.values, (100 * 4 + 110 * 1) / 5, rtol=1e-12)
    np.testing.assert_allclose(got.stddevs, math.sqrt(1 / (1 / 4 + 1 / 16)), rtol=1e-12)


def test_the_engine_agrees_where_theory_says_so():
    """Weighted least squares inside the polytope: the engine's L2 fit is the same at alpha = infinity."""
    domain = pj.Domain({"a": 3, "b": 2})
    measured = [
        pj.LinearMeasurement(("a", "b"), [300.0, 210.0, 150.0, 90.0, 120.0, 130.0], stddev=5.0),
        pj.LinearMeasurement(("a",), [498.0, 251.0, 243.0], stddev=3.0),
    ]
    pca = KernelPCA.of(History(domain, measured), total=1000.0)
    fit = pj.Estimator(regularisation="none", dtype="float64", tol=1e-12, max_steps=5000).fit(
        domain, measured, total=1000.0
    )
    got = pca.answer(marginal(["a", "b"])).values
    np.testing.assert_allclose(got, fit.model.marginal(("a", "b")).reshape(-1), atol=1e-4)


@pytest.mark.parametrize("alpha", [0.0, -1.0, math.nan])
def test_alpha_must_be_positive(alpha):
    pca = KernelPCA.of(HISTORIES["independent"])
    with pytest.raises(ValueError, match="alpha"):
        pca.answer(NEW, alpha)


def test_bad_input_is_said():
    pca = KernelPCA.of(HISTORIES["independent"])
    with pytest.raises(TypeError, match="queries must be queries or Rows, got int"):
        pca.answer(3)
    with pytest.raises(TypeError, match=r"alpha.*str"):
        pca.answer(NEW, "1")
    with pytest.raises(ValueError, match="rows must be over"):
        pca.answer(Rows.of([marginal(["z"])], pj.Domain({"z": 2})))
    with pytest.raises(ValueError, match=r"prior.*Domain\(\{z"):
        KernelPCA.of(HISTORIES["independent"], ProductPrior.uniform(pj.Domain({"z": 2})))
    with pytest.raises(ValueError, match=r"total.*-1"):
        KernelPCA.of(HISTORIES["independent"], total=-1.0)


def test_a_decomposition_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(pca, "available_bytes", lambda: 10_000)
    with pytest.raises(ValueError, match=r"use Ridge\.fit"):
        KernelPCA.of(HISTORIES["independent"])
