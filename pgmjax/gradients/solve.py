"""Solvers of a differentiable fit: `optimum` by Newton's method, `descend` by a fixed number of steps.

Implicit. A proximal step minimises the loss, linearised only in the model, plus h * KL(p || current model):
for large h it is a step of mirror descent, for h = 0 a Newton step. In `answer_coordinates` it solves

    S (N^2 S + prior_weight + h) d = -S g

by conjugate gradients, with two oracle calls per product. A step without sufficient decrease is shortened; h
decreases after accepted steps and increases after rejected ones, as in the Levenberg-Marquardt method. The
derivative of the optimum comes from the optimality conditions: at an interior optimum D^(1/2) g is one of the
vectors v of answers for which Q^T v is the same at all joint states. This subspace does not depend on the
parameters, so that

    S (N^2 S + prior_weight) dk = -D^(1/2) Q C Q^T d(D^(1/2) g),

where the last differential is by the parameters at fixed k. Conjugate gradients solve it; no matrix is
formed, and no iterates are stored.

Unrolled. Accelerated mirror descent, differentiated step by step:

    k <- l - g(l) / (curvature + prior_weight),    l = k + t / (t + 3) (k - k before)

Only k is stored per step between the passes: the oracle's intermediate values are recomputed.

References:
    Implicit: Beck and Teboulle 2003 (proximal steps in Kullback-Leibler divergence); More 1978, "The
    Levenberg-Marquardt algorithm"; Blondel et al. 2022, "Efficient and modular implicit differentiation".
    Unrolled: McKenna et al. 2019, Algorithm 1 (the step); Nesterov 1983 (the extrapolation).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from pgmjax.gradients.answer_coordinates import DifferentiableProblem, FitParameters, curved, once, symmetric
from pgmjax.inference.ops import join
from pgmjax.uncertainty.laplace import conjugate_gradients

_LOOSE = 1e-6  # relative residual of the inner solver of a step
_INNER = 500
LAST = 3000  # products of the one solve that a gradient needs
_FARTHEST = 5.0  # nats: largest change of a potential per step
_SUFFICIENT = 1e-4
_SHORTER = 0.25
_REFUSED = 20  # successive rejected steps after which it ends
_FLOOR = 1e-6  # probability added to an answer used as a scale


def optimum(
    problem: DifferentiableProblem, numbers: FitParameters, max_steps: int
) -> tuple[jax.Array, jax.Array]:
    """Return the optimal k [rows] and the steps; the derivative is NaN off an interior optimum."""

    @jax.custom_jvp
    def found(numbers: FitParameters) -> tuple[jax.Array, jax.Array]:
        point, steps = minimise(problem, numbers, max_steps)
        return point, steps.astype(point.dtype)  # integers have no tangents

    @found.defjvp
    def _along(primals: Any, tangents: Any) -> Any:
        numbers = once(primals[0])
        point, steps = found(numbers)
        moved = jax.jvp(lambda given: problem.slopes(given, point), (numbers,), tangents)[1]
        change = _change(problem, numbers, point, moved)
        interior = problem.diagnostics(numbers, point, steps).interior
        return (point, steps), (change * jnp.where(interior, 1, jnp.nan), jnp.zeros_like(steps))

    point, steps = found(numbers)
    return point, jax.lax.stop_gradient(steps).astype(jnp.int32)


def _change(
    problem: DifferentiableProblem, numbers: FitParameters, point: jax.Array, moved: jax.Array
) -> jax.Array:
    """Return dk for a change of the slopes [rows], as a transposable linear map."""
    here = Standing.at(problem, numbers, point)

    def solve(right: jax.Array) -> jax.Array:
        rounding = float(jnp.finfo(right.dtype).eps)
        solution, left = here.solve(right, 0.0, tolerance=rounding**0.6, max_steps=LAST)
        return jnp.where(left <= rounding**0.3, solution, jnp.nan)  # else conjugate gradients got stuck

    # In this order the transpose ends with the covariance, which removes what changes no marginal.
    return -symmetric(solve, here.root * symmetric(here.covariance, moved))


def minimise(
    problem: DifferentiableProblem, numbers: FitParameters, max_steps: int
) -> tuple[jax.Array, jax.Array]:
    """Return the optimal k [rows] and the number of steps. Not differentiable."""

    def going(state: _State) -> Any:
        return (state.steps < max_steps) & (state.refused < _REFUSED) & ~state.ended

    damping = 0.01 * problem.curvature(numbers)
    point, none = problem.start(numbers), jnp.int32(0)
    infinite = jnp.full_like(damping, jnp.inf)
    start = _State(point, point, infinite, infinite, infinite, damping, jnp.asarray(False), none, none)
    last = jax.lax.while_loop(going, lambda state: _step(problem, numbers, state), start)
    return last.point, last.steps


def _step(problem: DifferentiableProblem, numbers: FitParameters, state: _State) -> _State:
    """Accept the last proposal and compute the next step, or shorten the proposal."""
    here = Standing.at(problem, numbers, state.point + state.change)
    fallen = here.objective <= state.objective - _SUFFICIENT * state.promise
    # A fall below rounding cannot be seen in the objective; its slope has more digits.
    known = jnp.where(jnp.isfinite(state.objective), jnp.abs(state.objective), 0)
    level = state.promise <= jnp.finfo(known.dtype).eps ** 0.75 * (known + numbers.prior_weight + 1)
    better = here.steepness <= 0.5 * state.steepness
    first = state.steps == 0
    taken = first | jnp.where(level, better, fallen)
    damping = state.damping * jnp.where(first, 1, jnp.where(taken, 0.1, 10))
    change = here.solve(-here.slope, damping, tolerance=_LOOSE, max_steps=_INNER)[0]
    moved = jnp.max(jnp.abs(problem.cells(here.root * change)))
    # the model of a step is linear in the marginals, and does not hold for larger changes
    share = _FARTHEST / jnp.maximum(moved, _FARTHEST)
    change = share * change
    promise = -jnp.vdot(here.slope, change)
    after = _State(
        point=state.point + state.change,
        change=change,
        objective=here.objective,
        steepness=here.steepness,
        promise=promise,
        # a cell tending to zero would do so for ever, and must not shorten the others' steps
        damping=damping * jnp.where(share < 0.5, 100, 1),
        ended=~(promise > 0),
        steps=state.steps + 1,
        refused=jnp.int32(0),
    )
    stay = dataclasses.replace(
        state,
        change=_SHORTER * state.change,
        promise=_SHORTER * state.promise,
        damping=damping,
        ended=level,  # only rounding remains
        steps=state.steps + 1,
        refused=state.refused + 1,
    )
    return jax.tree.map(lambda new, old: jnp.where(taken, new, old), after, stay)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _State:
    point: Any  # k [rows] of the best model so far
    change: Any  # the step from there that is tried next [rows]
    objective: Any
    steepness: Any
    promise: Any  # decrease of the objective predicted for that step
    damping: Any  # h
    ended: Any
    steps: Any
    refused: Any


@dataclasses.dataclass(frozen=True)
class Standing:
    """A model with its slope, and products with S and S (N^2 S + prior_weight + h) there.

    Attributes:
        point: k [rows].
        root: D^(1/2) [rows].
        objective: value of the objective, up to a constant.
        slope: S g [rows].
        spread: approximate diagonal of S [rows].
        total: number of records.
        prior_weight: weight of the prior (records).
        covariance: multiplies Q C Q^T with a vector [rows].
    """

    point: jax.Array
    root: jax.Array
    objective: jax.Array
    slope: jax.Array
    spread: jax.Array
    total: jax.Array
    prior_weight: jax.Array
    covariance: Callable[[jax.Array], jax.Array]

    @classmethod
    def at(cls, problem: DifferentiableProblem, numbers: FitParameters, point: jax.Array) -> Standing:
        """Evaluate the model at k [rows]."""
        base, root = problem.base(numbers.prior, point.dtype), problem.roots(numbers)
        log_partition, marginals, turn = curved(problem.oracle, base + problem.cells(root * point))

        def covariance(vector: jax.Array) -> jax.Array:
            return problem.rows(turn(problem.cells(vector)))

        answers, total, weight = problem.rows(marginals), numbers.total, numbers.prior_weight
        missed = root * (total * answers - join(numbers.values))
        # up to the prior's log-partition function, a constant
        divergence = jnp.vdot(point, root * answers) - log_partition
        objective = 0.5 * jnp.vdot(missed, missed) + weight * divergence
        slope = root * covariance(root * (total * missed + weight * point))
        spread = root**2 * (jnp.abs(answers) + _FLOOR)
        return cls(point, root, objective, slope, spread, total, weight, covariance)

    @property
    def steepness(self) -> jax.Array:
        """Approximate norm of the objective's gradient in the model's Fisher metric."""
        return jnp.linalg.norm(self.slope / jnp.sqrt(self.spread))

    def product(self, vector: jax.Array) -> jax.Array:
        """Return S times a vector [rows]."""
        return self.root * self.covariance(self.root * vector)

    def bent(self, vector: jax.Array, damping: Any) -> jax.Array:
        """Return S (N^2 S + prior_weight + h) times a vector [rows]."""
        return self.product(self.total**2 * self.product(vector) + (self.prior_weight + damping) * vector)

    def solve(
        self, right: jax.Array, damping: Any, *, tolerance: float, max_steps: int
    ) -> tuple[jax.Array, jax.Array]:
        """Return d with `bent(d, damping) = right`, and the relative residual."""
        scale = 1 / jnp.sqrt(self.total**2 * self.spread**2 + (self.prior_weight + damping) * self.spread)

        def apply(step: Any) -> Any:
            return scale * self.bent(scale * step[0], damping), step[1]

        wanted, nothing = scale * right, jnp.zeros_like(self.total)
        (found, _), left = conjugate_gradients(
            apply, (wanted, nothing), tolerance=tolerance, max_steps=max_steps
        )
        size = jnp.linalg.norm(wanted)
        return scale * found, left / jnp.where(size > 0, size, 1)


def descend(problem: DifferentiableProblem, numbers: FitParameters, steps: int) -> jax.Array:
    """Return k [rows] after a fixed number of accelerated mirror descent steps from the prior."""
    size = 1 / (problem.curvature(numbers) + numbers.prior_weight)

    def step(state: Any, momentum: jax.Array) -> Any:
        before, now = state
        ahead = now + momentum * (now - before)
        return (now, ahead - size * problem.residuals(numbers, ahead)), None

    counted = jnp.arange(steps, dtype=numbers.total.dtype)
    start = problem.start(numbers)
    return jax.lax.scan(step, (start, start), counted / (counted + 3))[0][1]
