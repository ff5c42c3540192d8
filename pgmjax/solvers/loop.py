"""The one loop of all solvers: compiled in blocks of steps, so that it can be watched and stopped."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax.compiling import jit
from pgmjax.solvers.base import Solver
from pgmjax.solvers.problem import Evaluation, Problem, Vector, negligible


class Status(enum.IntEnum):
    """How a fit ended.

    Attributes:
        CONVERGED: the certified gap is within the tolerance.
        MAX_STEPS: the steps ran out before that.
        STALLED: the loss no longer falls at this precision; the gap says how far it may be.
        NOT_FINITE: the loss was not a finite number at the starting point.
    """

    CONVERGED = 0
    MAX_STEPS = 1
    STALLED = 2
    NOT_FINITE = 3


@dataclasses.dataclass(frozen=True)
class Solution:
    """Where a solver ended.

    Attributes:
        point: the best point.
        status: why it stopped.
        steps: steps done.
        below: certified lower bound on the optimum: the best of every block's `loss - gap`.
    """

    point: Evaluation
    status: Status
    steps: int
    below: float


def _run_block(
    problem: Problem, solver: Solver, state: Any, steps: jax.Array
) -> tuple[Any, Evaluation, jax.Array, jax.Array]:
    """Some steps, then the best point and its certificate."""
    state = solver.recentred(problem.gauge, state)
    state = jax.lax.fori_loop(0, steps, lambda _, s: solver.step(problem, s), state)
    point = solver.result(problem, state)
    return state, point, problem.gap(point), solver.stalled(state)


def _first(problem: Problem, solver: Solver, potentials: Vector) -> Any:
    # a copy of everything, since each block gives its input's memory to its output
    return jax.tree.map(lambda x: jnp.array(x, copy=True), solver.start(problem, potentials))


_block = jit(_run_block, donate_argnums=(2,))
_start = jit(_first)


def solve(
    problem: Problem,
    solver: Solver,
    potentials: Vector,
    *,
    max_steps: int,
    enough: Callable[[float, float], bool],
    below: float = -math.inf,
    block: int = 50,
    watch: Callable[[int, float, float], None] | None = None,
) -> Solution:
    """Run a solver until its certificate, its steps or its precision end it.

    Args:
        problem: what to minimise.
        solver: how.
        potentials: starting point.
        max_steps: number of steps at most, >= 1.
        enough: given (loss, gap), whether to stop.
        below: a lower bound on the optimum that is known already.
        block: steps between two certificates.
        watch: called after each block with (steps done in it, loss, gap).

    Returns:
        The best point and how it was reached. It never raises for numerical reasons.
    """
    state = _start(problem, solver, potentials)
    done, status, sound = 0, Status.MAX_STEPS, potentials
    while True:
        now = min(block, max_steps - done)
        state, point, gap_now, stalled = _block(problem, solver, state, np.int32(now))
        if np.any(np.asarray(point.doubt) > negligible(point)):
            # what fast products left open may matter here: go on from the last sound point in exact form
            problem = problem.exactly()
            state = _start(problem, solver, sound)
            continue
        done, sound = done + now, point.potentials
        loss = float(point.loss)
        bound = loss - float(gap_now)
        below = max(below, bound) if math.isfinite(bound) else below
        gap = max(loss - below, 0.0)
        if watch is not None:
            watch(now, loss, gap)
        if not math.isfinite(loss):
            status = Status.NOT_FINITE
        elif enough(loss, gap):
            status = Status.CONVERGED
        elif bool(stalled):
            status = Status.STALLED
        elif done < max_steps:
            continue
        return Solution(point, status, done, below)
