"""How one minimisation runs: smoothing in stages, float32 first, and the end evaluated in float64."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.estimation import certificate, solvers
from pgmjax.estimation.losses.augmented import Augmented
from pgmjax.estimation.losses.base import BoundLoss
from pgmjax.estimation.solvers.loop import Course, Solution, Status, precision, solving
from pgmjax.estimation.solvers.problem import Evaluation, Prior, Problem
from pgmjax.estimation.task import Task
from pgmjax.inference.ops.tables import host_join
from pgmjax.inference.oracles import Oracle
from pgmjax.inference.plan.forecast import ModelTooLargeError

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
