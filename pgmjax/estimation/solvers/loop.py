"""The common loop of all solvers, compiled in blocks of steps so that it can be monitored and stopped.

Control flow is separate from execution: the generator `solve_steps` requests blocks, receives their results,
and applies the `StoppingRule`. `run_single` serves one fit with one program per block;
`estimation.solvers.batch` serves many fits of one structure at once.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal.jit import jit, precision
from pgmjax.estimation.solvers.problem import Evaluation, Problem, Solver, Vector, negligible
from pgmjax.estimation.solvers.stopping import Status, StoppingRule, excess_of


@dataclasses.dataclass(frozen=True)
class Solution:
    """Result of a solver.

    Attributes:
        point: the best point.
        status: why it stopped.
        steps: steps done so far in the fit.
        lower_bound: certified lower bound on the optimum: the best of every block's `loss - gap`.
    """

    point: Evaluation
    status: Status
    steps: int
    lower_bound: float


@dataclasses.dataclass(frozen=True)
class StepRequest:
    """A fit's request for some solver steps and the certificate after them.

    Attributes:
        problem: the problem to minimise.
        solver: the solver.
        start: potentials to restart from; None to continue from the last request.
        steps: number of steps.
        dtype: type of the potentials.
    """

    problem: Problem
    solver: Solver
    start: Any
    steps: int
    dtype: str


@dataclasses.dataclass(frozen=True)
class StepResult(abc.ABC):
    """Result of the requested steps; the point itself is fetched from the device on demand.

    Attributes:
        loss: loss at the best point.
        gap: certified bound on `loss - optimum` there.
        stalled: whether the solver can make no further progress.
        inaccurate: whether the oracle's error bound exceeds rounding.
    """

    loss: float
    gap: float
    stalled: bool
    inaccurate: bool

    @abc.abstractmethod
    def point(self) -> Evaluation:
        """Return the best point."""


T = TypeVar("T")
FitSteps = Generator[StepRequest, StepResult, T]  # a fit, or a part of one, that requests its steps
Watch = Callable[[int, float, float, Callable[[], Evaluation]], None]


@dataclasses.dataclass(frozen=True)
class _Single(StepResult):
    found: Evaluation

    def point(self) -> Evaluation:
        return self.found


def _run_block(
    problem: Problem, solver: Solver, state: Any, steps: jax.Array
) -> tuple[Any, Evaluation, jax.Array, jax.Array]:
    """Run some solver steps; return the state, the best point, its certificate and `stalled`."""
    state = solver.recentred(problem.gauge, state)
    state = jax.lax.fori_loop(0, steps, lambda _, s: solver.step(problem, s), state)
    point = solver.result(problem, state)
    return state, point, problem.gap(point), solver.stalled(state)


def _first(problem: Problem, solver: Solver, potentials: Vector) -> Any:
    # a copy of everything, since each block donates its input buffers to its output
    return jax.tree.map(lambda x: jnp.array(x, copy=True), solver.start(problem, potentials))


_block = jit(_run_block, donate_argnums=(2,))
_start = jit(_first)


def run_single(fit: FitSteps[T]) -> T:
    """Run a single fit and return its result."""
    state: Any = None
    result: StepResult | None = None
    while True:
        try:
            request = next(fit) if result is None else fit.send(result)
        except StopIteration as end:
            return end.value
        with precision(request.dtype):
            if request.start is not None:
                state = _start(request.problem, request.solver, request.start)
            state, point, gap, stalled = _block(
                request.problem, request.solver, state, np.int32(request.steps)
            )
            inaccurate = bool(np.asarray(point.error_bound) > negligible(point))
            result = _Single(float(point.loss), float(gap), bool(stalled), inaccurate, point)


def solve(problem: Problem, solver: Solver, potentials: Any, **settings: Any) -> Solution:
    """Run a solver on one problem; the settings are those of `solve_steps`."""
    return run_single(solve_steps(problem, solver, potentials, **settings))


def solve_steps(
    problem: Problem,
    solver: Solver,
    potentials: Any,
    *,
    stop: StoppingRule,
    slack: float = 0.0,
    done: int = 0,
    lower_bound: float = -math.inf,
    block: int = 50,
    watch: Watch | None = None,
) -> FitSteps[Solution]:
    """Request steps until the stopping rule ends the solver.

    Args:
        problem: the problem to minimise.
        solver: the solver.
        potentials: starting point.
        stop: stopping rule; its `max_steps` must exceed `done`.
        slack: bound on the unsmoothed minus the smoothed loss.
        done: steps of the fit already done.
        lower_bound: a known lower bound on the optimum.
        block: steps between two certificates.
        watch: called after each block with (steps done in it, loss, gap, what returns the best point).

    Returns:
        The best point with status, steps and lower bound. Numerical failure raises nothing.
    """
    dtype = np.dtype(potentials.dtype).name
    start: Any = potentials
    sound: StepResult | None = None
    losses: list[tuple[int, float]] = []
    before = done
    while True:
        now = min(block, stop.max_steps - done)
        result = yield StepRequest(problem, solver, start, now, dtype)
        start = None
        if result.inaccurate:
            # the error of fast products may matter here: continue exactly from the last sound point
            problem = problem.exact()
            start = potentials if sound is None else sound.point().potentials
            continue
        done, sound = done + now, result
        loss, bound = result.loss, result.loss - result.gap
        lower_bound = max(lower_bound, bound) if math.isfinite(bound) else lower_bound
        gap = max(loss - lower_bound, 0.0)
        if watch is not None:
            watch(now, loss, gap, result.point)
        losses.append((done - before, loss))
        status = stop.status(loss, gap, done, result.stalled, slack, excess_of(losses))
        if status is not None:
            return Solution(result.point(), status, done, lower_bound)
