"""Numerical minimisation for strategies: one search driven from the host, or many as one program.

`minimise` runs SciPy's L-BFGS-B on the host while the device evaluates. `best_end` runs local searches from
many starts in a compiled program: in parallel on an accelerator, one after the other on a CPU. Its searches
use optax's L-BFGS directions with an Armijo line search. Each iteration makes one evaluation, so parallel
searches do not wait for each other's line searches. Weights are the squares of the search variables, so they
are never negative and no bounds are needed. For small attributes, a driver on the host would cost more than
the evaluations.

References:
    Nocedal and Wright 2006, "Numerical optimization", algorithms 3.1 and 7.4.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from pgmjax._internal import device
from pgmjax._internal.jit import jit

_TOLERANCE = 1e-7  # a search stops when a step lowers the value by less than this fraction

# settings of the searches that run as one program
_LEAST_START = 1e-6
"""Smallest initial weight. A weight of zero would never change, since its root has zero gradient."""

_LBFGS = optax.scale_by_lbfgs(memory_size=10)
_ARMIJO = 1e-4
_LEAST_STEP = 1e-12


def minimise(
    error: Callable[..., Any],
    given: Sequence[np.ndarray],
    start: np.ndarray,
    *,
    max_steps: int = 1000,
) -> tuple[np.ndarray, float]:
    """Return the end of a local search in float64, and the value there.

    Args:
        error: ``error(*given, weights)``, a JAX scalar; a module-level function, since compiled programs are
            cached by it.
        given: arrays that are held fixed.
        start: initial weights.
        max_steps: maximum number of iterations.
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


@functools.partial(jit, static_argnums=0, compiler_options=None)
def _value_and_gradient(error: Callable[..., Any], given: tuple[Any, ...], weights: Any) -> tuple[Any, Any]:
    return jax.value_and_grad(lambda each: error(*given, each))(weights)


class _State(NamedTuple):
    roots: Any
    value: Any
    gradient: Any
    direction: Any
    step: Any
    memory: Any
    evaluations: Any
    goes_on: Any


def best_end(
    error: Callable[..., Any],
    given: Sequence[np.ndarray],
    starts: Sequence[np.ndarray],
    *,
    max_steps: int = 2000,
    tolerance: float = 1e-9,
) -> tuple[np.ndarray, float]:
    """Return the best end of local searches over weights >= 0 in float64, and the value there.

    Args:
        error: ``error(*given, weights)``, a JAX scalar >= 0; a module-level function, since compiled programs
            are cached by it and by shapes.
        given: arrays that are held fixed.
        starts: initial weights, all of one shape.
        max_steps: maximum number of evaluations of each search.
        tolerance: stop when a step lowers the value by less than this fraction of the value at the start.

    Raises:
        ValueError: no search reached a finite value.
    """
    with jax.enable_x64(True):
        held = tuple(jnp.asarray(each) for each in given)
        begun = jnp.sqrt(jnp.maximum(jnp.asarray(np.stack(starts)), _LEAST_START))
        if device.is_cpu():  # one search uses all cores; one program for any number of starts
            ends, values = zip(
                *(search(error, held, each, max_steps, tolerance) for each in begun), strict=True
            )
        else:
            ends, values = search_side_by_side(error, held, begun, max_steps, tolerance)
        found = np.asarray(values)
        if not np.isfinite(found).any():
            raise ValueError(
                f"no search of {len(found)} reached a finite error: the workload's numbers are too large or "
                "too small for float64. Scale its weights or entries."
            )
        best = int(np.nanargmin(found))
        return np.asarray(ends[best]), float(values[best])


def _search(
    error: Callable[..., Any], given: tuple[Any, ...], begun: Any, max_steps: Any, tolerance: Any
) -> tuple[Any, Any]:
    """Return the end of one search and its value; `begun` has the square roots of the weights."""
    scale = error(*given, begun**2)
    scale = jnp.where(scale > 0, scale, 1.0)  # for a workload of zeros
    evaluate = jax.value_and_grad(lambda each: error(*given, each**2) / scale)
    turn = functools.partial(_turn, evaluate, max_steps, tolerance)
    end = jax.lax.while_loop(lambda state: state.goes_on, turn, _begin(begun))
    return end.roots**2, end.value * scale


search = jit(_search, static_argnums=0)


@functools.partial(jit, static_argnums=0)
def search_side_by_side(
    error: Callable[..., Any], given: tuple[Any, ...], begun: Any, max_steps: Any, tolerance: Any
) -> tuple[Any, Any]:
    """Return the ends of searches [starts, ...] and their values [starts], vectorised over the starts."""
    return jax.vmap(lambda each: _search(error, given, each, max_steps, tolerance))(begun)


def _begin(roots: Any) -> _State:
    """Return the initial state: a zero step at the start, which is always accepted."""
    nothing, value = jnp.zeros_like(roots), jnp.asarray(jnp.inf, roots.dtype)
    memory = _LBFGS.init(roots)
    return _State(roots, value, nothing, nothing, jnp.ones_like(value), memory, 0, jnp.array(True))


def _turn(evaluate: Callable[..., Any], max_steps: Any, tolerance: Any, state: _State) -> _State:
    """Evaluate at the end of the step; accept it, or shorten the step."""
    trial = state.roots + state.step * state.direction
    value, gradient = evaluate(trial)
    slope = jnp.vdot(state.gradient, state.direction)
    taken = value <= state.value + _ARMIJO * state.step * slope  # False if NaN
    rising = value - state.value - state.step * slope
    shorter = jnp.clip(-state.step * slope / (2 * rising), 0.1, 0.5)
    rejected = state._replace(step=state.step * jnp.where(jnp.isfinite(shorter), shorter, 0.1))
    after = jax.lax.cond(taken, _taken, lambda *_: rejected, state, trial, value, gradient)
    gained = state.value - value > tolerance * jnp.maximum(value, 1)
    evaluations = state.evaluations + 1
    goes_on = jnp.where(taken, gained, after.step > _LEAST_STEP) & (evaluations < max_steps)
    return after._replace(evaluations=evaluations, goes_on=goes_on)


def _taken(state: _State, trial: Any, value: Any, gradient: Any) -> _State:
    """Update the L-BFGS memory and choose a direction: steepest descent if L-BFGS points uphill."""
    aimed, memory = _LBFGS.update(gradient, state.memory, trial)
    downhill = jnp.vdot(aimed, gradient) > 0
    norm = jnp.maximum(jnp.linalg.norm(gradient), 1e-300)
    direction = -jnp.where(downhill, aimed, gradient / norm)
    step = jnp.ones_like(state.step)
    return state._replace(
        roots=trial, value=value, gradient=gradient, direction=direction, step=step, memory=memory
    )
