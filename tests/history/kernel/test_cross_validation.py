"""Cross-validation against histories that really lack the fold, and against the error it estimates."""

import numpy as np
import pytest

from pgmjax.history import CrossValidation, History, KernelPCA, ProductPrior, kernel
from pgmjax.history.rows import Rows
from pgmjax.queries import Product, range
from tests import pairwise
from tests.history.dense_history import DOMAIN, HISTORIES, PRIORS, VALUES, Q, X, sigma, weights_of

N = X.sum()


def predicted(history, prior, total, fold, alpha):
    """The dense ridge answers to a fold from the others, and how they combine the others."""
    others = np.setdiff1d(np.arange(len(VALUES)), fold)
    cells = weights_of(prior)
    inner = (Q * cells) @ Q.T
    answers = VALUES
    if total is not None:
        means = Q @ cells
        inner, answers = inner - np.outer(means, means), VALUES - total * means
    matrix = inner[np.ix_(others, others)] + sigma(history)[np.ix_(others, others)] / alpha**2
    combination = np.linalg.solve(matrix, inner[np.ix_(others, fold)]).T
    return VALUES[fold] - answers[fold] + combination @ answers[others], combination, others


@pytest.mark.parametrize(
    ("noise", "prior", "total", "alpha", "kind"),
    pairwise.rows(list(HISTORIES), list(PRIORS), [None, N], [0.5, 50.0], ["4 folds", "leave one out"]),
)
def test_residuals_are_those_of_histories_without_the_fold(noise, prior, total, alpha, kind):
    history, prior = HISTORIES[noise], PRIORS[prior]
    pca = KernelPCA.of(history, prior, total)
    made = CrossValidation.k_fold(pca, 4, seed=1) if kind == "4 folds" else CrossValidation.leave_one_out(pca)
    assert sorted(np.concatenate(made.folds).tolist()) == list(np.arange(len(VALUES)))
    residuals, shared = np.empty(len(VALUES)), np.zeros(len(VALUES))
    for fold in made.folds:
        values, combination, others = predicted(history, prior, total, fold, alpha)
        residuals[fold] = VALUES[fold] - values
        shared[fold] = np.diag(combination @ sigma(history)[np.ix_(others, fold)])
    np.testing.assert_allclose(made.residuals(alpha), residuals, rtol=1e-6, atol=1e-6)
    expected = np.mean(residuals**2) - np.mean(np.diag(sigma(history))) + 2 * np.mean(shared)
    np.testing.assert_allclose(made.error(alpha), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("noise", HISTORIES)
@pytest.mark.parametrize("folds", [3, None])
def test_the_estimate_is_unbiased_for_the_error_without_the_fold(noise, folds):
    """Theorem 4: over 4,000 noises the mean estimate is the exact expected error of the predictions."""
    history, alpha = HISTORIES[noise], 20.0
    pca = KernelPCA.of(history)
    made = CrossValidation.k_fold(pca, folds) if folds else CrossValidation.leave_one_out(pca)
    covariance = sigma(history)
    truth, expected = Q @ X, []
    combine = np.zeros((len(Q), len(Q)))  # residual = combine @ answers
    for fold in made.folds:
        _, combination, others = predicted(history, None, None, fold, alpha)
        combine[np.ix_(fold, others)] = -combination
        combine[fold, fold] = 1.0
        bias = truth[fold] - combination @ truth[others]
        noise_left = np.diag(combination @ covariance[np.ix_(others, others)] @ combination.T)
        expected.extend(bias**2 + noise_left)
    draws = np.linalg.cholesky(covariance) @ np.random.default_rng(2).standard_normal((len(Q), 4000))
    residuals = combine @ (truth[:, None] + draws)
    correction = 2 * np.diag(combine @ covariance) - 2 * np.diag(covariance)
    estimates = (residuals**2).mean(axis=0) - np.mean(np.diag(covariance)) - np.mean(correction)
    np.testing.assert_allclose(made.residuals(alpha), combine @ VALUES, rtol=1e-6, atol=1e-6)
    ours = made.error(alpha)
    at_values = np.mean((combine @ VALUES) ** 2) - np.mean(np.diag(covariance)) - np.mean(correction)
    np.testing.assert_allclose(ours, at_values, rtol=1e-6)
    spread = estimates.std() / np.sqrt(4000)
    assert abs(estimates.mean() - np.mean(expected)) < 4 * spread


def ranges_history(count, seed):
    """Random 2-D ranges about a smooth table, with much noise."""
    rng = np.random.default_rng(seed)
    queries = []
    for _ in np.arange(count):
        names = rng.choice(["b", "d", "a"], 2, replace=False)
        ends = {name: np.sort(rng.integers(0, DOMAIN[str(name)], 2)) for name in names}
        queries.append(Product({str(name): range(int(low), int(high)) for name, (low, high) in ends.items()}))
    truth = Rows.of(queries, DOMAIN).matrix() @ X
    return History.from_answers(
        DOMAIN, queries, truth + rng.laplace(0, 200, count), stddev=200 * np.sqrt(2)
    ), truth


def test_the_choice_is_the_best_of_a_fine_grid():
    history, truth = ranges_history(150, 0)
    made = CrossValidation.k_fold(KernelPCA.of(history, total=N), seed=0)
    chosen = made.choose()
    fine = [made.error(alpha) for alpha in np.geomspace(chosen.alphas[0], chosen.alphas[-1], 200)]
    spread = np.mean(made.pca.spectrum.noise.variances)
    assert chosen.error <= min(fine) + 0.01 * spread
    assert chosen.error == chosen.errors.min() == made.error(chosen.alpha)
    assert np.all(np.diff(chosen.alphas) > 0)
    answers = made.pca.answer(history.rows, chosen.alpha)
    assert np.sqrt(np.mean((answers.values - truth) ** 2)) < 0.5 * np.sqrt(spread)


def test_the_partition_follows_the_seed():
    pca = KernelPCA.of(HISTORIES["independent"])
    one, same, other = (CrossValidation.k_fold(pca, 5, seed=seed).folds for seed in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_bad_input_is_said():
    pca = KernelPCA.of(HISTORIES["independent"])
    made = CrossValidation.leave_one_out(pca)
    for alpha in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="alpha"):
            made.residuals(alpha)
        with pytest.raises(ValueError, match="alpha"):
            made.error(alpha)
    with pytest.raises(ValueError, match=r"folds.*2\.\.25"):
        CrossValidation.k_fold(pca, 1)
    with pytest.raises(ValueError, match="least alpha must be below the largest"):
        made.choose(5.0, 1.0)
    with pytest.raises(ValueError, match=r"ratio.*1"):
        made.choose(ratio=1.0)
    with pytest.raises(TypeError, match="cross-validation is of a KernelPCA, got int"):
        CrossValidation.k_fold(3)
    with pytest.raises(ValueError, match="two answers or more, got 0"):
        CrossValidation.leave_one_out(KernelPCA.of(History(DOMAIN, [])))


def test_kernel_and_prior_are_those_of_the_decomposition():
    """A guard of the tests' own dense kernel."""
    for prior in PRIORS.values():
        inner = (Q * weights_of(prior)) @ Q.T
        np.testing.assert_allclose(kernel(HISTORIES["independent"].rows, None, prior), inner, atol=1e-12)
    assert isinstance(PRIORS["product"], ProductPrior)
