"""Whitening by a noise covariance, independent and full, against the dense matrix."""

import numpy as np
import pytest

from pgmjax.history.noise_covariance import NoiseCovariance

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
    np.testing.assert_allclose(noise.block(slice(1, 4), slice(2, 5)), dense[1:4, 2:5], atol=1e-12)
    some = np.array([4, 0])
    np.testing.assert_allclose(noise.block(some, some), dense[np.ix_(some, some)], atol=1e-12)


@pytest.mark.parametrize("noise, dense", CASES)
@pytest.mark.parametrize("rows, columns", [((1, 4), (0, 3)), ((0, 2), (3, 5)), ((2, 5), (0, 5))])
def test_added_to_a_block(noise, dense, rows, columns):
    block = np.ones((rows[1] - rows[0], columns[1] - columns[0]))
    noise.add_to(block, slice(*rows), slice(*columns), 0.5)
    np.testing.assert_allclose(block, 1 + 0.5 * dense[slice(*rows), slice(*columns)], atol=1e-12)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf, np.nan])
def test_scales_must_be_positive(bad):
    with pytest.raises(ValueError, match="standard deviations must be finite and > 0; 1 of 2 are not"):
        NoiseCovariance.of([1.0, bad])


@pytest.mark.parametrize(
    "bad", [np.array([[1.0, 2.0], [2.0, 1.0]]), np.full((2, 2), np.nan), np.ones((2, 3))]
)
def test_a_covariance_must_be_positive_definite(bad):
    with pytest.raises(ValueError, match=r"shape \(2, .\), must be finite, square and positive definite"):
        NoiseCovariance.of(None, bad)
