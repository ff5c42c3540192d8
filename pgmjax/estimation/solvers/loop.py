"""The one loop of all solvers: compiled in blocks of steps, so that it can be watched and stopped.

What a fit decides between two blocks is apart from where its blocks run: `solve_steps` asks for blocks, is
told how they ended, and has the `StoppingRule` decide. `run_single` answers it with one program a block;
`estimation.solvers.batch` answers many fits of one structure at once.
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
from pgmjax.estimation.solvers.stopping import Status, StoppingRule


@dataclasses.dataclass(frozen=True)
class Solution:
    """Where a solver ended.

    Attributes:
        point: the best point.
        status: why it stopped.
        steps: steps done so far in the fit.
        lower_bound: certified, on the optimum: the best of every block's `loss - gap`.
    """

    point: Evaluation
    status: Status
    steps: int
    lower_bound: float


@dataclasses.dataclass(frozen=True)
class StepRequest:
    """What a fit asks for next: some steps, and the certificate of where they end.

    Attributes:
        problem: what to minimise.
        solver: how.
        start: potentials to start anew from; None goes on from where the last request ended.
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
    """How the steps asked for ended; the point itself stays on the device until it is asked for.

    Attributes:
        loss: at the best point.
        gap: certified bound on `loss - optimum` there.
        stalled: whether the solver can make no further progress.
        inaccurate: whether fast products may have got more wrong than rounding.
    """

    loss: float
    gap: float
    stalled: bool
    inaccurate: bool

    @abc.abstractmethod
    def point(self) -> Evaluation:
        """The best point."""


T = TypeVar("T")
FitSteps = Generator[StepRequest, StepResult, T]  # a fit, or a part of one, that asks for its steps


@dataclasses.dataclass(frozen=True)
class _Single(StepResult):
    found: Evaluation

    def point(self) -> Evaluation:
        return self.found


def _run_block(
    problem: Problem, solver: Solver, state: Any, steps: jax.Array
) -> tuple[Any, Evaluation, jax.Array, jax.Array]:
    """Some steps, each of which asks `problem.evaluate`; then the best point and its certificate."""
    state = solver.recentred(problem.gauge, state)
    state = jax.lax.fori_loop(0, steps, lambda _, s: solver.step(problem, s), state)
    point = solver.result(problem, state)
    return state, point, problem.gap(point), solver.stalled(state)


def _first(problem: Problem, solver: Solver, potentials: Vector) -> Any:
    # a copy of everything, since each block gives its input's memory to its output
    return jax.tree.map(lambda x: jnp.array(x, copy=True), solver.start(problem, potentials))


_block = jit(_run_block, donate_argnums=(2,))
_start = jit(_first)


def run_single(fit: FitSteps[T]) -> T:
    """Run one fit by itself, to its result."""
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
    """Run a solver by itself; the settings are those of `solve_steps`."""
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
    watch: Callable[[int, float, float], None] | None = None,
) -> FitSteps[Solution]:
    """Ask for steps until the stopping rule ends them.

    Args:
        problem: what to minimise.
        solver: how.
        potentials: starting point.
        stop: when to end; its `max_steps` must be more than `done`.
        slack: how far the loss lies below what it is a smoothed form of, at most.
        done: steps of the fit that were done before.
        lower_bound: a lower bound on the optimum that is known already.
        block: steps between two certificates.
        watch: called after each block with (steps done in it, loss, gap).

    Returns:
        The best point and how it was reached. It never raises for numerical reasons.
    """
    dtype = np.dtype(potentials.dtype).name
    start: Any = potentials
    sound: StepResult | None = None
    while True:
        now = min(block, stop.max_steps - done)
        result = yield StepRequest(problem, solver, start, now, dtype)
        start = None
        if result.inaccurate:
            # what fast products left open may matter here: go on from the last sound point in exact form
            problem = problem.exact()
            start = potentials if sound is None else sound.point().potentials
            continue
        done, sound = done + now, result
        loss, bound = result.loss, result.loss - result.gap
        lower_bound = max(lower_bound, bound) if math.isfinite(bound) else lower_bound
        gap = max(loss - lower_bound, 0.0)
        if watch is not None:
            watch(now, loss, gap)
        status = stop.status(loss, gap, done, result.stalled, slack)
        if status is not None:
            return Solution(result.point(), status, done, lower_bound)
