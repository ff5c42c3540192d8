"""The one loop of all solvers: compiled in blocks of steps, so that it can be watched and stopped.

What a fit decides between two blocks is apart from where its blocks run: `solving` asks for blocks and
is told how they ended. `alone` answers it with one program a block; `estimation.solvers.batch` answers many
fits of one structure at once.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import enum
import math
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal.jit import jit
from pgmjax.estimation.solvers.problem import Evaluation, Problem, Solver, Vector, negligible


class Status(enum.IntEnum):
    """How a fit ended.

    Attributes:
        CONVERGED: the certified gap is within the tolerance.
        MAX_STEPS: the steps ran out before that.
        STALLED: the loss no longer falls at this precision; the gap says how far it may be.
        NOT_FINITE: the loss was not a finite number at the starting point.
        NOISE_LEVEL: the loss is what the noise alone would give, where the fit was asked to stop there.
    """

    CONVERGED = 0
    MAX_STEPS = 1
    STALLED = 2
    NOT_FINITE = 3
    NOISE_LEVEL = 4


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


@dataclasses.dataclass(frozen=True)
class Request:
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
class Reply(abc.ABC):
    """How a request ended; the point itself stays on the device until it is asked for.

    Attributes:
        loss: at the best point.
        gap: certified bound on `loss - optimum` there.
        stalled: whether the solver can make no further progress.
        doubtful: whether fast products may have got more wrong than rounding.
    """

    loss: float
    gap: float
    stalled: bool
    doubtful: bool

    @abc.abstractmethod
    def point(self) -> Evaluation:
        """The best point."""


T = TypeVar("T")
Course = Generator[Request, Reply, T]  # a fit, or a part of one, that asks for its steps


@dataclasses.dataclass(frozen=True)
class _Single(Reply):
    found: Evaluation

    def point(self) -> Evaluation:
        return self.found


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


def precision(dtype: str) -> Any:
    """Where arrays of a type can be made, without a change of global flags."""
    return jax.enable_x64(True) if dtype == "float64" else contextlib.nullcontext()


def alone(course: Course[T]) -> T:
    """Run one fit by itself, to its result."""
    state: Any = None
    reply: Reply | None = None
    while True:
        try:
            request = next(course) if reply is None else course.send(reply)
        except StopIteration as end:
            return end.value
        with precision(request.dtype):
            if request.start is not None:
                state = _start(request.problem, request.solver, request.start)
            state, point, gap, stalled = _block(
                request.problem, request.solver, state, np.int32(request.steps)
            )
            doubtful = bool(np.asarray(point.doubt) > negligible(point))
            reply = _Single(float(point.loss), float(gap), bool(stalled), doubtful, point)


def solve(problem: Problem, solver: Solver, potentials: Any, **settings: Any) -> Solution:
    """Run a solver by itself; the settings are those of `solving`."""
    return alone(solving(problem, solver, potentials, **settings))


def solving(
    problem: Problem,
    solver: Solver,
    potentials: Any,
    *,
    max_steps: int,
    enough: Callable[[float, float], bool],
    below: float = -math.inf,
    block: int = 50,
    watch: Callable[[int, float, float], None] | None = None,
) -> Course[Solution]:
    """Ask for steps until the certificate, their number or the precision ends them.

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
    dtype = np.dtype(potentials.dtype).name
    start: Any = potentials
    done = 0
    sound: Reply | None = None
    while True:
        now = min(block, max_steps - done)
        reply = yield Request(problem, solver, start, now, dtype)
        start = None
        if reply.doubtful:
            # what fast products left open may matter here: go on from the last sound point in exact form
            problem = problem.exactly()
            start = potentials if sound is None else sound.point().potentials
            continue
        done, sound = done + now, reply
        loss, bound = reply.loss, reply.loss - reply.gap
        below = max(below, bound) if math.isfinite(bound) else below
        gap = max(loss - below, 0.0)
        if watch is not None:
            watch(now, loss, gap)
        if not math.isfinite(loss):
            status = Status.NOT_FINITE
        elif enough(loss, gap):
            status = Status.CONVERGED
        elif reply.stalled:
            status = Status.STALLED
        elif done < max_steps:
            continue
        else:
            status = Status.MAX_STEPS
        return Solution(reply.point(), status, done, below)
