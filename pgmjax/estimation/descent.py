"""How one minimisation runs: smoothing in stages, float32 first, and the end evaluated in float64.

What to fit: measurements with the settings and the public knowledge that apply to them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal.progress import Progress
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.estimation import certificate, losses, solvers
from pgmjax.estimation.losses.augmented import Augmented
from pgmjax.estimation.losses.base import BoundLoss
from pgmjax.estimation.losses.build import noise_level
from pgmjax.estimation.side_information import Known
from pgmjax.estimation.solvers.loop import Course, Solution, Status, precision, solving
from pgmjax.estimation.solvers.problem import Evaluation, Prior, Problem
from pgmjax.inference import oracles
from pgmjax.inference.ops.tables import host_join
from pgmjax.inference.oracles import Oracle
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.measurements.linear import LinearMeasurement

# A float32 fit whose digits run out goes on in float64, which is compiled anew, unless the certified gap is
# within so many times the tolerance: then the loss itself has long settled.
NEAR = 100
FIRST_SMOOTHING = 8.0  # standard deviations: the first stage of a loss with kinks is as easy as L2


def descend(
    task: Task,
    oracle: Oracle,
    bound: BoundLoss,
    tables: Sequence[np.ndarray],
    dtype: str,
    done: int = 0,
    smoothing: float = FIRST_SMOOTHING,
) -> Course[tuple[Solution, Problem]]:
    """Minimise a loss in a dtype; after float32 the end is evaluated, or goes on, in float64.

    Args:
        task: settings and public knowledge.
        oracle: inference for the loss's cliques, then those of what is known.
        bound: the loss, in that dtype.
        tables: log-potentials to start from.
        dtype: on the device.
        done: steps that were done already.
        smoothing: where a loss with kinks starts (standard deviations).

    Returns:
        The end, with all steps so far, and the problem whose loss and certificate it gives.
    """
    solver = solvers.build(task.estimator.solver)
    with precision(dtype):
        bound, curvature = first_stage(solver, bound, task.domain, smoothing)
        problem = stated(task, oracle, bound, curvature, dtype)
        start = host_join(tables, dtype, len(problem.gauge.table))
    solution, problem = yield from _minimise(task, problem, solver, start, done)
    if solution.status is Status.NOT_FINITE or dtype == "float64" or not fits_in_float64(task, bound.cliques):
        return solution, problem
    return (yield from _in_float64(task, problem, solver, solution))


def stated(task: Task, oracle: Oracle, bound: BoundLoss, curvature: np.ndarray, dtype: str) -> Problem:
    """The problem of a loss with all that is known beside it, in a dtype."""
    known, prior = task.known, None
    if known.weight is not None:
        base = known.log_partition(task.domain, bound.cliques)
        prior = Prior(np.asarray(known.weight, np.float64), np.asarray(base, np.float64))
    return Problem.build(oracle, bound, curvature, tuple(t.astype(dtype) for t in known.tables), prior)


def fits_in_float64(task: Task, cliques: Sequence[Clique]) -> bool:
    """Whether memory allows the same fit, or at least one call of its oracle, in float64."""
    try:
        task.plan(cliques, "float64")
    except ModelTooLargeError:
        return False
    return True


def entropy(problem: Problem, point: Evaluation) -> float:
    """What relative entropy to a prior adds at a point to the loss that is minimised."""
    if problem.prior is None:
        return 0.0
    with precision(np.dtype(point.loss.dtype).name):
        return float(point.loss) - float(problem.loss.flat(jnp.asarray(point.marginals)))


def first_stage(
    solver: solvers.Solver, bound: BoundLoss, domain: Domain, smoothing: float = FIRST_SMOOTHING
) -> tuple[BoundLoss, np.ndarray]:
    """The loss as it is minimised first, and its constant."""
    if isinstance(bound, Augmented):
        inner, curvature = first_stage(solver, bound.inner, domain, smoothing)
        host = bound.on_host()
        return dataclasses.replace(bound, inner=inner), curvature + sum(host.held) * host.stiffness
    curvature = _curvature(solver, bound, domain)
    if bound.smoothing is None:
        return bound, curvature
    eased = curvature * float(bound.smoothing) / smoothing
    return bound.with_smoothing(smoothing), eased


def _minimise(
    task: Task, problem: Problem, solver: solvers.Solver, start: np.ndarray, done: int = 0
) -> Course[tuple[Solution, Problem]]:
    """Solve; a loss that is smoothed is solved for ever less smoothing, each from the last.

    Smoothed losses lie below the loss, so that every stage's lower bound holds for the loss itself.
    """

    def watch(steps: int, loss: float, gap: float) -> None:
        before = task.trace[-1][0] if task.trace else 0
        # a smoothed loss lies at most its slack below the loss, for which this gap is certified too
        task.trace.append((before + steps, loss, gap + slack))
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
) -> Course[tuple[Solution, Problem]]:
    """Evaluate the end of a float32 fit in float64, and go on there if its digits ran out.

    Marginals rounded to float32 may contradict one another, and so lie outside what any distribution
    can have; the loss and certificate of the potentials themselves are computed here.
    """
    with precision("float64"):
        bound = problem.loss.cast("float64")
        if problem.loss.smoothing is not None:
            bound = bound.with_smoothing(float(problem.loss.smoothing))
        problem = stated(task, problem.oracle, bound, problem.curvature, "float64")
        start = np.asarray(solution.point.potentials, np.float64)
        point, gap = certificate.evaluate(problem, start)
    loss, slack = float(point.loss), float(bound.slack())
    below = max(solution.below, loss - gap)
    certified = dataclasses.replace(solution, point=point, below=below)
    if solution.status is Status.NOISE_LEVEL:
        return certified, problem
    if task.within(loss, max(loss + slack - below, 0.0)):
        return dataclasses.replace(certified, status=Status.CONVERGED), problem
    if solution.status is Status.MAX_STEPS or solution.steps >= task.estimator.max_steps:
        return dataclasses.replace(certified, status=Status.MAX_STEPS), problem
    if task.within(loss, (loss + slack - below) / NEAR):
        return dataclasses.replace(certified, status=Status.STALLED), problem
    further, sharper = yield from _minimise(task, problem, solver, start, solution.steps)
    if further.status is Status.NOT_FINITE:
        return dataclasses.replace(certified, status=Status.STALLED, steps=further.steps), problem
    return dataclasses.replace(further, below=max(below, further.below)), sharper


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

    `mesh` holds the devices that share each inference of one fit; `tol` replaces the estimator's in a part of
    a fit that need not go as far; `trace` grows while it runs: steps so far, loss and gap after each block of
    steps.
    """

    estimator: Settings
    domain: Domain
    measurements: tuple[LinearMeasurement, ...]
    total: float
    known: Known
    bar: Progress
    mesh: Any = None
    tol: float | None = None
    trace: list[tuple[int, float, float]] = dataclasses.field(default_factory=list, compare=False)

    def within(self, loss: float, gap: float) -> bool:
        """Whether a gap meets the tolerance."""
        tol = self.estimator.tol if self.tol is None else self.tol
        return gap <= tol * max(1.0, loss)

    @functools.cached_property
    def level(self) -> float:
        """The loss to stop at beside the tolerance: that of the noise alone, or none."""
        if self.estimator.stop == "optimum":
            return -math.inf
        return noise_level(self.estimator.loss, self.measurements)

    def bind(self, dtype: str) -> BoundLoss:
        """The loss of the measurements."""
        return losses.build(self.estimator.loss, self.domain, self.measurements, self.total, dtype)

    def plan(self, cliques: Any, dtype: str | None = None) -> oracles.Plan:
        """The plan of a fit whose loss is over some cliques."""
        known = self.known
        return self.estimator.plan(
            self.domain, cliques, known.zeros, prior=known.prior, dtype=dtype, mesh=self.mesh
        )
