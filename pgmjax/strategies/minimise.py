"""Minimising a JAX function on the host: SciPy's L-BFGS-B drives, the device computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

_TOLERANCE = 1e-7


def minimise(
    evaluate: Callable[[Any], tuple[Any, Any]],
    start: np.ndarray,
    *,
    low: float | None = None,
    max_steps: int = 1000,
    tolerance: float = _TOLERANCE,
) -> tuple[np.ndarray, float]:
    """Return the end of a local search, and the value there.

    Args:
        evaluate: value and gradient at an array of the shape of `start`; to be called with 64-bit types
            enabled.
        start: where to begin.
        low: the least value of every entry; None is no bound.
        max_steps: iterations at most.
        tolerance: stop when a step lowers the value by less than this fraction.
    """
    from scipy.optimize import minimize

    scale = abs(float(evaluate(jnp.asarray(start))[0]))
    scale = scale if np.isfinite(scale) and scale > 0 else 1.0

    def flat(values: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = evaluate(jnp.asarray(values.reshape(start.shape)))
        value, gradient = float(value) / scale, gradient / scale
        if not np.isfinite(value):  # a singular strategy: step back
            return 1e300, np.zeros_like(values)
        return value, np.asarray(gradient, np.float64).reshape(-1)

    bounds = None if low is None else [(low, None)] * start.size
    options = {"maxiter": max_steps, "maxfun": 4 * max_steps, "ftol": tolerance, "gtol": 1e-12}
    end = minimize(flat, start.reshape(-1), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return end.x.reshape(start.shape), float(end.fun) * scale
