"""Principal components of small kernels against the singular values of the query matrix itself."""

import math

import numpy as np
import pytest

from pgmjax.history.kernel import pca
from pgmjax.history.kernel.pca import KernelSpectrum, NoiseCovariance

RNG = np.random.default_rng(3)
Q = RNG.standard_normal((9, 12)) @ np.diag(RNG.uniform(0.5, 2, 12))
Q[7] = Q[0] + Q[1]
Q[8] = Q[2]
SCALES = RNG.uniform(1, 3, 9)
ROOT = RNG.standard_normal((9, 9)) + 3 * np.eye(9)
NOISES = {"independent": NoiseCovariance.of(SCALES), "correlated": NoiseCovariance.of(None, ROOT @ ROOT.T)}


@pytest.mark.parametrize("name", NOISES)
def test_eigenqueries_are_orthonormal_and_uncorrelated(name):
    noise = NOISES[name]
    covariance = noise.apply(np.eye(9))
    made = KernelSpectrum.of(Q @ Q.T, noise)
    assert made.rank == 7
    eigenqueries = made.weights @ Q
    np.testing.assert_allclose(eigenqueries @ eigenqueries.T, np.eye(7), atol=1e-10)
    spread = made.weights @ covariance @ made.weights.T
    np.testing.assert_allclose(spread, np.diag(1 / made.eigenvalues), atol=1e-10 * spread.max())
    root = np.linalg.cholesky(covariance)
    singular = np.linalg.svd(np.linalg.solve(root, Q), compute_uv=False)
    np.testing.assert_allclose(made.eigenvalues, singular[:7] ** 2, rtol=1e-9)


@pytest.mark.parametrize("name", NOISES)
def test_the_kernel_comes_back(name):
    made = KernelSpectrum.of(Q @ Q.T, NOISES[name])
    np.testing.assert_allclose(made.kernel(), Q @ Q.T, atol=1e-10)


def test_project_is_the_product_with_the_weights():
    made = KernelSpectrum.of(Q @ Q.T, NOISES["correlated"])
    columns = RNG.standard_normal((9, 4))
    np.testing.assert_allclose(made.project(columns), made.weights @ columns, atol=1e-11)
    np.testing.assert_allclose(made.project(columns[:, 0]), made.weights @ columns[:, 0], atol=1e-11)


def test_shrinkage_and_what_it_leaves_over_add_to_one():
    made = KernelSpectrum.of(Q @ Q.T, NOISES["independent"])
    for alpha in (1e-9, 0.3, 1.0, 1e6):
        expected = alpha**2 / (alpha**2 + 1 / made.eigenvalues)
        np.testing.assert_allclose(made.shrinkage(alpha), expected, rtol=1e-12)
        np.testing.assert_allclose(made.unestimable_part(alpha)[:7], 1 - expected, atol=1e-12)
        np.testing.assert_array_equal(made.unestimable_part(alpha)[7:], 1.0)
    np.testing.assert_array_equal(made.shrinkage(math.inf), 1.0)


def test_no_rows_have_no_eigenqueries():
    made = KernelSpectrum.of(np.zeros((0, 0)), NoiseCovariance.of(np.zeros(0)))
    assert made.rank == 0 and made.project(np.zeros((0, 3))).shape == (0, 3)


def test_rounding_of_a_difference_is_no_rank():
    """A kernel that is what cancellation left of numbers of size 1 has rank 0."""
    noise = NoiseCovariance.of(np.ones(3))
    assert KernelSpectrum.of(np.full((3, 3), 2e-16), noise, scale=1.0).rank == 0
    assert KernelSpectrum.of(np.full((3, 3), 2e-16), noise).rank == 1


def test_the_device_decomposes_alike(monkeypatch):
    """What runs where the default device is no CPU gives the same, here on the CPU by force."""
    kernel = Q @ Q.T
    expected = pca.symmetric_eigen(kernel.copy())[0]
    monkeypatch.setattr(pca.jax, "default_backend", lambda: "gpu")
    values, vectors = pca.symmetric_eigen(kernel)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, expected, atol=1e-12 * expected.max())
    np.testing.assert_allclose((vectors * values) @ vectors.T, kernel, atol=1e-11)
