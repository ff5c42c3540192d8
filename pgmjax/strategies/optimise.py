"""Minimising a JAX function on the host: SciPy's L-BFGS-B drives, the device computes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_TOLERANCE = 1e-7  # a search stops when a step lowers the value by less than this fraction


def minimise(
    error: Callable[..., Any],
    given: Sequence[np.ndarray],
    start: np.ndarray,
    *,
    max_steps: int = 1000,
) -> tuple[np.ndarray, float]:
    """Return the end of a local search in float64, and the value there.

    Args:
        error: ``error(*given, weights)``, a JAX scalar; one function of a module, as programs are kept by it.
        given: arrays that are held.
        start: the weights to begin at.
        max_steps: iterations at most.
    """
    from scipy.optimize import minimize

    with jax.enable_x64(True):
        held = tuple(jnp.asarray(each) for each in given)

        def evaluate(weights: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = _value_and_gradient(error, held, weights.reshape(start.shape))
            return float(value), np.asarray(gradient, np.float64).reshape(-1)

        scale = abs(evaluate(start)[0])
        scale = scale if np.isfinite(scale) and scale > 0 else 1.0

        def scaled(weights: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = evaluate(weights)
            if not np.isfinite(value):  # a singular strategy: step back
                return 1e300, np.zeros_like(weights)
            return value / scale, gradient / scale

        options = {"maxiter": max_steps, "maxfun": 4 * max_steps, "ftol": _TOLERANCE, "gtol": 1e-12}
        end = minimize(scaled, start.reshape(-1), jac=True, method="L-BFGS-B", options=options)
    return end.x.reshape(start.shape), float(end.fun) * scale


@functools.partial(jax.jit, static_argnums=0)
def _value_and_gradient(error: Callable[..., Any], given: tuple[Any, ...], weights: Any) -> tuple[Any, Any]:
    return jax.value_and_grad(lambda each: error(*given, each))(weights)
