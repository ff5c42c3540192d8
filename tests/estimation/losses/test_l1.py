import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgmjax.estimation import losses
from pgmjax.estimation.losses.linear import huber


@pytest.mark.parametrize("delta", [1e-3, 0.5, 10.0])
def test_huber_is_quadratic_near_zero_and_linear_beyond(delta):
    with jax.enable_x64(True):
        r = jnp.linspace(-2, 2, 101)
        expected = np.where(abs(r) <= delta, r**2 / (2 * delta), abs(r) - delta / 2)
        np.testing.assert_allclose(
            jax.vmap(lambda x: huber((x,), delta))(r), expected, rtol=1e-12, atol=1e-15
        )
        slope = jax.vmap(jax.grad(lambda x: huber((x,), delta)))(r)
        np.testing.assert_allclose(slope, np.clip(r / delta, -1, 1), rtol=1e-12)
        up, down = (jax.vmap(lambda x, d=d: huber((x,), d))(r) for d in (delta + 1e-6, delta - 1e-6))
        by_delta = jax.vmap(lambda x: jax.grad(lambda d: huber((x,), d))(delta))(r)
        np.testing.assert_allclose(by_delta, (up - down) / 2e-6, atol=1e-5)


def test_it_neither_overflows_nor_loses_the_gradient_in_float32():
    r = jnp.array([1e25, -1e25, 0.0], jnp.float32)
    value, slope = jax.value_and_grad(lambda r: huber((r,), jnp.float32(1e-3)))(r)
    np.testing.assert_allclose(value, 2e25, rtol=1e-6)
    assert slope.tolist() == [1.0, -1.0, 0.0]


@pytest.mark.parametrize("smoothing", [0, -1, np.nan, np.inf])
def test_smoothing_must_be_positive(smoothing):
    with pytest.raises(ValueError, match="smoothing"):
        losses.L1(smoothing)
