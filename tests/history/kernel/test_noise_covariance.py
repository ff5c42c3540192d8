"""Whitening by a noise covariance, independent and full, against the dense matrix."""

import numpy as np
import pytest

from pgmjax.history.kernel.pca import NoiseCovariance

RNG = np.random.default_rng(4)
SCALES = RNG.uniform(1, 3, 5)
ROOT = RNG.standard_normal((5, 5)) + 3 * np.eye(5)
CASES = [
    (NoiseCovariance.of(SCALES), np.diag(SCALES**2)),
    (NoiseCovariance.of(None, ROOT @ ROOT.T), ROOT @ ROOT.T),
]


@pytest.mark.parametrize("noise, dense", CASES)
def test_against_the_dense_matrix(noise, dense):
    array = RNG.standard_normal((5, 3))
    half = np.linalg.cholesky(dense)
    np.testing.assert_allclose(noise.apply(array), dense @ array, atol=1e-12)
    np.testing.assert_allclose(noise.apply(array[:, 0]), dense @ array[:, 0], atol=1e-12)
    np.testing.assert_allclose(noise.whiten(array), np.linalg.solve(half, array), atol=1e-12)
    np.testing.assert_allclose(noise.whiten_transposed(array), np.linalg.solve(half.T, array), atol=1e-12)
    np.testing.assert_allclose(noise.colour(noise.whiten(array)), array, atol=1e-12)
    np.testing.assert_allclose(noise.variances, np.diag(dense), atol=1e-12)
