"""The ridge form against kernel PCA, by factorisation and by conjugate gradients."""

import numpy as np
import pytest

from pgmjax.history import History, KernelPCA, KernelRidge
from pgmjax.history.kernel import ridge
from pgmjax.queries import marginal
from tests import pairwise
from tests.history.dense_history import DOMAIN, HISTORIES, NEW, PRIOR, PRIORS, QUERIES, VALUES, X

N = X.sum()
METHODS = ["cholesky", "conjugate-gradients"]


@pytest.mark.parametrize(
    ("noise", "prior", "total", "method", "alpha"),
    pairwise.rows(list(HISTORIES), list(PRIORS), [None, N], METHODS, [1.0, 100.0]),
)
def test_it_equals_kernel_pca(noise, prior, total, method, alpha, monkeypatch):
    """To 1e-9 of the answers, with blocks smaller than the history."""
    monkeypatch.setattr(ridge, "_CHOSEN", 10)
    monkeypatch.setattr(ridge, "_BLOCK", 9)
    history = HISTORIES[noise]
    expected = KernelPCA.of(history, PRIORS[prior], total).answer([*QUERIES, *NEW], alpha)
    made = KernelRidge.fit(history, alpha, PRIORS[prior], total, method=method, tolerance=1e-13)
    got = made.answer([*QUERIES, *NEW])
    np.testing.assert_allclose(got.values, expected.values, rtol=0, atol=1e-9 * np.abs(VALUES).max())
    np.testing.assert_allclose(got.stddevs, expected.stddevs, rtol=1e-8)
    np.testing.assert_allclose(got.distances, expected.distances, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(made.fitted(), expected.values[: len(VALUES)], rtol=0, atol=1e-6)
    bare = made.answer(NEW, stddevs=False)
    np.testing.assert_allclose(bare.values, got.values[len(VALUES) :], rtol=1e-12)
    assert bare.stddevs is None and bare.estimable is None
    assert (made.steps > 0) == (method == "conjugate-gradients") and made.alpha == alpha


def test_memory_decides_between_the_methods(monkeypatch):
    monkeypatch.setattr(ridge, "available_bytes", lambda: 10**9)
    assert KernelRidge.fit(HISTORIES["independent"], 2.0).steps == 0
    monkeypatch.setattr(ridge, "available_bytes", lambda: 1000)
    assert KernelRidge.fit(HISTORIES["independent"], 2.0).steps > 0


def test_a_history_without_answers_gives_the_prior():
    got = KernelRidge.fit(History(DOMAIN, []), 1.0, PRIOR, total=N).answer(marginal(["a"]))
    np.testing.assert_allclose(got.values, N * PRIOR.marginal("a"), rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, -2.0, np.inf, np.nan])
def test_alpha_must_be_finite_and_positive(alpha):
    with pytest.raises(ValueError, match="alpha"):
        KernelRidge.fit(HISTORIES["independent"], alpha)


def test_bad_input_is_said():
    history = HISTORIES["independent"]
    with pytest.raises(ValueError, match=r"method.*'auto'.*'cholesky'.*'conjugate-gradients'"):
        KernelRidge.fit(history, 1.0, method="lu")
    with pytest.raises(ValueError, match="allow more steps"):
        KernelRidge.fit(history, 1e5, method="conjugate-gradients", max_steps=1, tolerance=1e-14)
    with pytest.raises(ValueError, match=r"max_steps.*0"):
        KernelRidge.fit(history, 1.0, method="conjugate-gradients", max_steps=0)
    with pytest.raises(ValueError, match=r"tolerance.*0"):
        KernelRidge.fit(history, 1.0, method="conjugate-gradients", tolerance=0)
    with pytest.raises(ValueError, match="lost in the rounding of the kernel: use a smaller alpha"):
        KernelRidge.fit(history, 1e30, method="cholesky")
