"""The common loop of all solvers, in blocks of steps so that it can be monitored and stopped.

Read it from top to bottom. Control flow is separate from execution: the generator `solve_steps` requests
blocks, receives their results, and applies the `StoppingRule`. `run_single` serves one fit, with one program
per block or in NumPy; `estimation.solvers.batch` serves many fits of one structure at once. The end is
evaluated in float64: marginals, loss and certificate.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal import device
from pgmjax._internal.device import one_thread, precision
from pgmjax._internal.jit import jit
from pgmjax.estimation.solvers.objective import Evaluation, Objective, Solver, Vector, negligible
from pgmjax.estimation.solvers.stopping import Status, StoppingRule, excess_of

THREADS_FROM = 0.1
"""Forecast seconds of a call of the host's oracle from which its products may use several threads."""

# Up to this many cells NumPy evaluates points faster than XLA compiles the program for them.
HOST_CELLS = 20_000_000

Certified = tuple[Evaluation, float]  # a point, and the certified bound on its suboptimality


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

    problem: Objective
    solver: Solver
    start: Any
    steps: int
    dtype: str


@dataclasses.dataclass(frozen=True)
class StepResult:
    """Result of the requested steps.

    Attributes:
        loss: objective at the best point.
        alone: the part of it that is the loss of the measurements.
        gap: certified bound on `loss - optimum` there.
        stalled: whether the solver can make no further progress.
        inaccurate: whether the oracle's error bound exceeds rounding.
        point: returns the best point, which is fetched from the device on demand.
    """

    loss: float
    alone: float
    gap: float
    stalled: bool
    inaccurate: bool
    point: Callable[[], Evaluation]


@dataclasses.dataclass(frozen=True)
class CertificateRequest:
    """A fit's request for the float64 evaluation of a point.

    Attributes:
        problem: the problem, bound in float64.
        potentials: log-potentials of the measured cliques [length], float64.
    """

    problem: Objective
    potentials: np.ndarray

    @property
    def cells(self) -> int:
        """Cells that the evaluation combines."""
        return self.problem.oracle.contraction_path().work


T = TypeVar("T")
# A fit, or a part of one, that requests its steps and its certificate.
FitSteps = Generator[StepRequest | CertificateRequest, Any, T]
Watch = Callable[[int, float, float, Callable[[], Evaluation]], None]


def solve_steps(
    problem: Objective,
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
        excess = excess_of(losses)
        status = stop.status(loss, gap, done, result.stalled, slack, excess, alone=result.alone)
        if status is not None:
            return Solution(result.point(), status, done, lower_bound)


def solve_in_stages(
    problem: Objective,
    start: np.ndarray,
    stage: Callable[[Objective, np.ndarray, int, float], FitSteps[Solution]],
    stop: StoppingRule,
    done: int = 0,
) -> FitSteps[tuple[Solution, Objective]]:
    """Minimise in warm-started stages; each has a quarter of the smoothing of the last one.

    Smoothed losses lie below the loss, so every stage's lower bound holds for the loss itself. A smooth loss
    takes one stage. Where a loss is no longer finite with less smoothing, the last stage's end counts.

    Args:
        problem: the problem, at its first smoothing.
        start: starting point.
        stage: minimises a problem, given a start, the steps done and a lower bound.
        stop: stopping rule.
        done: steps of the fit already done.

    Returns:
        The solution, and the problem that it is of.
    """
    lower_bound = problem.least()
    last: tuple[Solution, Objective] | None = None
    while True:
        solution = yield from stage(problem, start, done, lower_bound)
        if solution.status is Status.NOT_FINITE and last is not None:
            return stalled_at(last[0], solution), last[1]
        last = solution, problem
        done, lower_bound = solution.steps, solution.lower_bound
        loss, slack = float(solution.point.loss), float(problem.loss.slack())
        status = stop.stage_status(loss, lower_bound, done, solution.status, slack)
        if status is not None:
            return dataclasses.replace(solution, status=status), problem
        start = np.asarray(solution.point.potentials, start.dtype)
        problem = problem.with_smoothing(float(problem.loss.smoothing) / 4)


def stalled_at(sound: Solution, failed: Solution) -> Solution:
    """Return the last finite point, as STALLED, after a non-finite one."""
    return dataclasses.replace(sound, status=Status.STALLED, steps=failed.steps)


def run_single(fit: FitSteps[T]) -> T:
    """Run a single fit and return its result."""
    run: _DeviceRun | _HostRun | None = None
    result: Any = None
    while True:
        try:
            request = fit.send(result)  # None starts a generator
        except StopIteration as end:
            return end.value
        if isinstance(request, CertificateRequest):
            result = evaluate(request)
            continue
        if request.start is not None:
            on_host = request.problem.oracle.runs_on_host and request.solver.runs_on_host
            run = (_HostRun if on_host else _DeviceRun)(request)
        assert run is not None
        result = run.block(request)


class _DeviceRun:
    """A fit on the device: one compiled program for each block."""

    def __init__(self, request: StepRequest):
        device.tell_coarse_flags()
        with device.failures_told(), precision(request.dtype):
            self.state = _start(request.problem, request.solver, request.start)

    def block(self, request: StepRequest) -> StepResult:
        """Run the requested steps."""
        with device.failures_told(), precision(request.dtype):
            self.state, point, ends = _block(
                request.problem, request.solver, self.state, block_steps(request.steps)
            )
            return StepResult(*numbers_of(ends), lambda: point)


class _HostRun:
    """A fit in NumPy, in float64."""

    def __init__(self, request: StepRequest):
        self.problem = request.problem.on_host()
        self.state = request.solver.start(self.problem, np.asarray(request.start, np.float64))

    def block(self, request: StepRequest) -> StepResult:
        """Run the requested steps."""
        solver, problem = request.solver, self.problem
        state = solver.recentred(problem.gauge, self.state)
        short = problem.oracle.forecast.seconds < THREADS_FROM
        threads = one_thread() if short else contextlib.nullcontext()
        with threads, np.errstate(over="ignore", invalid="ignore"):  # a step that went too far is rejected
            for _ in range(request.steps):
                state = solver.step(problem, state)
            self.state, point = state, solver.result(problem, state)
            gap = problem.gap(point)
        numbers = float(point.loss), float(problem.alone(point)), float(gap)
        return StepResult(*numbers, bool(solver.stalled(state)), False, lambda: point)


def numbers_of(ends: Any) -> tuple[float, float, float, bool, bool]:
    """Return the numbers of a `StepResult` from the array that a block returned."""
    loss, alone, gap, stalled, inaccurate = np.asarray(ends).tolist()
    return loss, alone, gap, bool(stalled), bool(inaccurate)


@functools.partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["number"])
@dataclasses.dataclass(frozen=True)
class StaticSteps:
    """Number of steps of a block that is part of its compiled program."""

    number: int


def block_steps(number: int) -> Any:
    """Return the number of steps of a block as a compiled program takes it.

    On a CPU it is an argument, so that one program serves any number. Elsewhere the host would have to look
    at the loop's condition after every step: there it is part of the program.
    """
    return np.int32(number) if device.is_cpu() else StaticSteps(number)


def _run_block(
    problem: Objective, solver: Solver, state: Any, steps: Any, *, alone: bool = True
) -> tuple[Any, Evaluation, jax.Array]:
    """Run a block of steps (see `block_steps`); return the state, the best point and what is read of it.

    These are the numbers of a `StepResult`, in one array: a device is asked once. In a batch a fit is not
    `alone`: the scalars of all fits are vectors already.
    """
    state = solver.recentred(problem.gauge, state)
    static = isinstance(steps, StaticSteps)
    repeat = _repeat_packed if static and alone else _repeat
    state = repeat(functools.partial(solver.step, problem), state, steps.number if static else steps)
    point = solver.result(problem, state)
    inaccurate = point.error_bound > negligible(point)
    ends = (point.loss, problem.alone(point), problem.gap(point), solver.stalled(state), inaccurate)
    return state, point, jnp.stack([jnp.asarray(each, point.loss.dtype) for each in ends])


def _repeat(step: Callable[[Any], Any], state: Any, number: Any) -> Any:
    return jax.lax.fori_loop(0, number, lambda _, state: step(state), state)


def _repeat_packed(step: Callable[[Any], Any], state: Any, number: int) -> Any:
    """Repeat a step; in between the scalars of the state are one vector, as each would take a launch.

    Counts and flags are exact in float32 up to 2**24.
    """
    leaves, tree = jax.tree.flatten(state)
    kinds = [jax.typeof(leaf) for leaf in leaves]
    scalars = [place for place, kind in enumerate(kinds) if not kind.ndim]
    if not scalars:
        return _repeat(step, state, number)
    dtype = jnp.result_type(*(kind.dtype for kind in kinds if jnp.issubdtype(kind.dtype, jnp.floating)))

    def packed(state: Any) -> tuple[list[Any], jax.Array]:
        leaves = jax.tree.leaves(state)
        tables = [leaf for leaf, kind in zip(leaves, kinds, strict=True) if kind.ndim]
        return tables, jnp.stack([jnp.asarray(leaves[place], dtype) for place in scalars])

    def unpacked(held: tuple[list[Any], jax.Array]) -> Any:
        tables, numbers = iter(held[0]), iter(held[1])
        found = [next(tables) if kind.ndim else next(numbers).astype(kind.dtype) for kind in kinds]
        return jax.tree.unflatten(tree, found)

    return unpacked(_repeat(lambda held: packed(step(unpacked(held))), packed(state), number))


def _first(problem: Objective, solver: Solver, potentials: Vector) -> Any:
    # a copy of everything, since each block donates its input buffers to its output
    return jax.tree.map(lambda x: jnp.array(x, copy=True), solver.start(problem, potentials))


_block = jit(_run_block, donate_argnums=(2,))
_start = jit(_first)


def evaluate(request: CertificateRequest) -> Certified:
    """Evaluate a point in float64, with the certified bound on its suboptimality.

    Small models are evaluated by NumPy, which avoids compiling a program used once.
    """
    with device.failures_told(), precision("float64"):
        problem, potentials = request.problem, request.potentials
        if request.cells <= HOST_CELLS:
            problem = problem.on_host()  # which goes over to logarithms where anything would be lost
            point = problem.evaluate(potentials)
            return point, float(problem.gap(point))
        point, gap = _on_device(problem, potentials)
        if float(point.error_bound) > negligible(point):
            point, gap = _on_device(problem.exact(), potentials)
        return point, float(gap)


def certified(problem: Objective, potentials: Vector) -> tuple[Evaluation, jax.Array]:
    """Return a point and the certified bound on its suboptimality."""
    point = problem.evaluate(potentials)
    return point, problem.gap(point)


_on_device = jit(certified)
