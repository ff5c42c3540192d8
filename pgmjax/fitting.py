"""How a fit runs: smoothing in stages, float32 first, and the end evaluated in float64."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax import certificate, losses, oracles, solvers
from pgmjax.cliques import Clique
from pgmjax.constraints import StructuralZeros
from pgmjax.domain import Domain
from pgmjax.losses.base import BoundLoss
from pgmjax.measurements import LinearMeasurement
from pgmjax.model import GraphicalModel
from pgmjax.noise_level import noise_level
from pgmjax.ops.flat import host_join, split
from pgmjax.plan.forecast import ModelTooLargeError
from pgmjax.progress import Progress
from pgmjax.solvers.loop import Course, Solution, Status, alone, precision, solving
from pgmjax.solvers.problem import Problem
from pgmjax.warm_start import starting_point

# A float32 fit whose digits run out goes on in float64, which is compiled anew, unless the certified gap is
# within so many times the tolerance: then the loss itself has long settled.
NEAR = 100
FIRST_SMOOTHING = 8.0  # standard deviations: the first stage of a loss with kinks is as easy as L2


class Settings(Protocol):
    """What a fit needs of an `Estimator`; its attributes are described there."""

    @property
    def loss(self) -> Any:
        """What is minimised."""
        ...

    @property
    def solver(self) -> Any:
        """The solver or its name."""
        ...

    @property
    def max_steps(self) -> int:
        """Steps at most."""
        ...

    @property
    def tol(self) -> float:
        """Relative gap to stop at."""
        ...

    @property
    def stop(self) -> str:
        """Where to end: "optimum" or "noise"."""
        ...

    @property
    def dtype(self) -> str:
        """Type on the device."""
        ...

    @property
    def plan(self) -> Callable[..., oracles.Plan]:
        """Plan a fit of some cliques under some constraints, for a dtype."""
        ...


@dataclasses.dataclass(frozen=True)
class Task:
    """What to fit: the estimator's settings with everything they apply to.

    `mesh` holds the devices that share each inference of one fit.
    """

    estimator: Settings
    domain: Domain
    measurements: tuple[LinearMeasurement, ...]
    total: float
    constraints: tuple[StructuralZeros, ...]
    bar: Progress
    mesh: Any = None

    def within(self, loss: float, gap: float) -> bool:
        """Whether a gap meets the tolerance."""
        return gap <= self.estimator.tol * max(1.0, loss)

    @functools.cached_property
    def level(self) -> float:
        """The loss to stop at beside the tolerance: that of the noise alone, or none."""
        if self.estimator.stop == "optimum":
            return -math.inf
        return noise_level(self.estimator.loss, self.measurements)

    def bind(self, dtype: str) -> BoundLoss:
        """The loss of the measurements."""
        return losses.build(self.estimator.loss, self.domain, self.measurements, self.total, dtype)


@dataclasses.dataclass(frozen=True)
class End:
    """Where a fit ended, on the host in float64.

    Attributes:
        bound: the loss.
        plan: the plan that was used.
        potentials: log-potentials of the loss's cliques.
        marginals: their marginals (probabilities); empty where the loss was never finite.
        status: how it ended.
        steps: steps done.
        loss: the loss itself, not smoothed.
        gap: certified bound on `loss - optimum`.
    """

    bound: BoundLoss
    plan: oracles.Plan
    potentials: tuple[np.ndarray, ...]
    marginals: tuple[np.ndarray, ...]
    status: Status
    steps: int
    loss: float
    gap: float


def solve_task(task: Task, warm_start: GraphicalModel | None) -> End:
    """Run the fit by itself."""
    return alone(course(task, warm_start))


def course(task: Task, warm_start: GraphicalModel | None) -> Course[End]:
    """The fit as it asks for its steps: in the dtype asked for, then the end of it in float64."""
    settings = task.estimator
    solver = solvers.build(settings.solver)
    with precision(settings.dtype):
        bound = task.bind(settings.dtype)
        plan = settings.plan(task.domain, bound.cliques, task.constraints, mesh=task.mesh)
        curvature = _curvature(solver, bound, task.domain)
        if bound.smoothing is not None:
            curvature = curvature * float(bound.smoothing) / FIRST_SMOOTHING
            bound = bound.with_smoothing(FIRST_SMOOTHING)
        problem = Problem.build(plan.oracle, bound, curvature, _fixed(task, settings.dtype))
        tables = starting_point(task.domain, bound.cliques, warm_start)
        start = host_join(tables, settings.dtype, len(problem.gauge.table))
    solution, problem = yield from _minimise(task, problem, solver, start)
    if solution.status is Status.NOT_FINITE:
        potentials = _tables(bound, solution.point.potentials)
        return End(bound, plan, potentials, (), solution.status, solution.steps, math.nan, math.nan)
    if settings.dtype == "float32" and _fits_in_float64(task, bound.cliques):
        solution, bound = yield from _in_float64(task, problem, solver, solution)
    return _end(plan, bound, solution)


def _minimise(
    task: Task, problem: Problem, solver: solvers.Solver, start: np.ndarray, done: int = 0
) -> Course[tuple[Solution, Problem]]:
    """Solve; a loss that is smoothed is solved for ever less smoothing, each from the last.

    Smoothed losses lie below the loss, so that every stage's lower bound holds for the loss itself.
    """

    def watch(steps: int, loss: float, gap: float) -> None:
        task.bar.advance(steps, f"loss {loss:.6g}, gap {gap:.3g}")

    block = 50 if problem.oracle.forecast.work < 50_000_000 else 25
    if task.level > -math.inf:
        block = 10  # soon after it is reached, the loss is well below
    below, last = -math.inf, None
    while True:
        slack = float(problem.loss.slack())
        solution = yield from solving(
            problem,
            solver,
            start,
            max_steps=task.estimator.max_steps - done,
            enough=_stage_end(task, slack),
            below=below,
            block=block,
            watch=watch,
        )
        done += solution.steps
        if solution.status is Status.NOT_FINITE and last is not None:
            return dataclasses.replace(last, steps=done, status=Status.STALLED), problem
        below = max(below, solution.below)
        last = dataclasses.replace(solution, steps=done, below=below)
        loss = float(solution.point.loss)
        if loss + slack <= task.level:
            return dataclasses.replace(last, status=Status.NOISE_LEVEL), problem
        if slack == 0 or solution.status is Status.NOT_FINITE:
            return last, problem
        if task.within(loss, loss + slack - below):
            return dataclasses.replace(last, status=Status.CONVERGED), problem
        if done >= task.estimator.max_steps:
            return dataclasses.replace(last, status=Status.MAX_STEPS), problem
        if task.within(loss, 10 * slack) and not task.within(loss, loss - below):
            return dataclasses.replace(last, status=Status.STALLED), problem
        if slack < 1e-12 * max(1.0, loss):
            return dataclasses.replace(last, status=Status.STALLED), problem
        start = np.asarray(solution.point.potentials)
        sharper = problem.loss.with_smoothing(float(problem.loss.smoothing) / 4)
        problem = dataclasses.replace(problem, loss=sharper, curvature=problem.curvature * 4)


def _stage_end(task: Task, slack: float) -> Callable[[float, float], bool]:
    """A stage ends when the tolerance is met, or when less smoothing promises more."""
    return lambda loss, gap: task.within(loss, gap + slack) or gap < slack or loss + slack <= task.level


def _in_float64(
    task: Task, problem: Problem, solver: solvers.Solver, solution: Solution
) -> Course[tuple[Solution, BoundLoss]]:
    """Evaluate the end of a float32 fit in float64, and go on there if its digits ran out.

    Marginals rounded to float32 may contradict one another, and so lie outside what any distribution
    can have; the loss and certificate of the potentials themselves are computed here.
    """
    with precision("float64"):
        bound = problem.loss.cast("float64")
        if problem.loss.smoothing is not None:
            bound = bound.with_smoothing(float(problem.loss.smoothing))
        problem = Problem.build(problem.oracle, bound, problem.curvature, _fixed(task, "float64"))
        start = np.asarray(solution.point.potentials, np.float64)
        point, gap = certificate.evaluate(problem, start)
    loss, slack = float(point.loss), float(bound.slack())
    below = max(solution.below, loss - gap)
    certified = dataclasses.replace(solution, point=point, below=below)
    if solution.status is Status.NOISE_LEVEL:
        return certified, bound
    if task.within(loss, max(loss + slack - below, 0.0)):
        return dataclasses.replace(certified, status=Status.CONVERGED), bound
    if solution.status is Status.MAX_STEPS or solution.steps >= task.estimator.max_steps:
        return dataclasses.replace(certified, status=Status.MAX_STEPS), bound
    if task.within(loss, (loss + slack - below) / NEAR):
        return dataclasses.replace(certified, status=Status.STALLED), bound
    further, _ = yield from _minimise(task, problem, solver, start, solution.steps)
    if further.status is Status.NOT_FINITE:
        return dataclasses.replace(certified, status=Status.STALLED, steps=further.steps), bound
    return dataclasses.replace(further, below=max(below, further.below)), bound


def _end(plan: oracles.Plan, bound: BoundLoss, solution: Solution) -> End:
    marginals = tuple(table / table.sum() for table in _tables(bound, solution.point.marginals))
    potentials = tuple(table - table.max() for table in _tables(bound, solution.point.potentials))
    loss = bound.exact(marginals)
    gap = max(loss - solution.below, 0.0)
    return End(bound, plan, potentials, marginals, solution.status, solution.steps, loss, gap)


def _tables(bound: BoundLoss, vector: Any) -> tuple[np.ndarray, ...]:
    return split(np.asarray(vector, np.float64), bound.shapes)


def _fixed(task: Task, dtype: str) -> tuple[np.ndarray, ...]:
    return tuple(zeros.log_mask().astype(dtype) for zeros in task.constraints)


def _fits_in_float64(task: Task, cliques: Sequence[Clique]) -> bool:
    """Whether memory allows the same fit, or at least one call of its oracle, in float64."""
    try:
        task.estimator.plan(task.domain, cliques, task.constraints, dtype="float64", mesh=task.mesh)
    except ModelTooLargeError:
        return False
    return True


def _curvature(solver: solvers.Solver, bound: BoundLoss, domain: Domain) -> np.ndarray:
    """The loss's Lipschitz constant, or a guess from its gradient at the uniform distribution."""
    known = bound.lipschitz()
    if known is None:
        if isinstance(solver, solvers.DualAveraging) and solver.lipschitz is None:
            raise ValueError(
                "dual averaging needs the Lipschitz constant of the loss's gradient and this loss does not "
                "know it: pass DualAveraging(lipschitz=...) or choose solver='mirror_descent'."
            )
        uniform = tuple(jnp.full(s, 1 / np.prod(s)) for s in map(domain.shape_of, bound.cliques))
        gradient = jax.grad(bound)(uniform)
        known = float(sum(jnp.ptp(g) for g in gradient))  # a first step moves potentials by 1 at most
    return np.asarray(max(known, np.finfo(np.float32).tiny), np.float64)
