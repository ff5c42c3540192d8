"""The log-sum-exp against SciPy and closed forms, gradients included."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from pgmjax.kernels.log_sum_exp import host_logsumexp, logsumexp


@pytest.mark.parametrize("axes", [(), (0,), (1, 2), (0, 1, 2)])
def test_logsumexp_matches_scipy(axes):
    table = np.random.default_rng(0).normal(size=(3, 4, 5)) * 100
    expected = scipy.special.logsumexp(table, axis=axes) if axes else table
    with jax.enable_x64(True):
        np.testing.assert_allclose(logsumexp(jnp.asarray(table), axes), expected, rtol=1e-13)
    np.testing.assert_allclose(host_logsumexp(table, axes), expected, rtol=1e-13)


def test_minus_infinity_is_exact_and_has_zero_gradient():
    table = jnp.array([[-jnp.inf, -jnp.inf], [0.0, -jnp.inf]])
    assert logsumexp(table, (1,)).tolist() == [-jnp.inf, 0.0]
    gradient = jax.grad(lambda t: logsumexp(t, (0, 1)))(table)
    assert gradient.tolist() == [[0.0, 0.0], [1.0, 0.0]]
    everything = jnp.full((2, 2), -jnp.inf)
    assert logsumexp(everything, (0, 1)) == -jnp.inf
    assert not jax.grad(lambda t: logsumexp(t, (0, 1)))(everything).any()


def test_second_derivative_is_the_covariance():
    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(1).normal(size=6))
        p = np.asarray(jax.nn.softmax(x))
        hessian = jax.hessian(lambda t: logsumexp(t, (0,)))(x)
        np.testing.assert_allclose(hessian, np.diag(p) - np.outer(p, p), atol=1e-15)
