"""Fits under fixed marginals: the method of multipliers, with every round projected on them.

A round minimises the loss with its equalities priced (`losses.augmented`); what is still missing then moves
the prices. Whatever they are, the certified lower bound of a round bounds the optimum of the fit. From above
it is bounded by feasible models: the potentials of the fixed marginals are moved by iterative proportional
fitting until the round's model has them. The gap is what lies between the two.

References:
    Bertsekas (1982), Constrained Optimization and Lagrange Multiplier Methods, chapter 2.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from pgmjax.estimation import certificate, feasibility, solvers
from pgmjax.estimation.descent import (
    FIRST_SMOOTHING,
    Task,
    descend,
    entropy,
    first_stage,
    fits_in_float64,
    stated,
)
from pgmjax.estimation.losses.augmented import Augmented, Equalities
from pgmjax.estimation.losses.base import BoundLoss
from pgmjax.estimation.solvers.loop import Course, Solution, Status, precision
from pgmjax.estimation.solvers.problem import Evaluation, Problem
from pgmjax.inference.ops.tables import host_join, split
from pgmjax.inference.oracles import Oracle
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan.structure import Structure

STIFF = 4.0  # the first penalty, in curvatures of the loss with its prior
STIFFEST = 1e4 * STIFF
FIRST_TOL, SHARPER = 0.1, 0.1  # tolerance of the first round, and what each later one multiplies it by
SWEEPS = 1000  # of proportional fitting after a round
ENOUGH = 1e-9  # probability: what is missing less than this is no reason for a stiffer penalty
PATIENCE = 4  # rounds without a gap that is a tenth less


def bind(task: Task, dtype: str) -> BoundLoss:
    """The loss of a task, with its fixed marginals beside it where it has any."""
    bound = task.bind(dtype)
    if not task.known.fixed:
        return bound
    _, curvature = first_stage(solvers.build(task.estimator.solver), bound, task.domain)
    # a heavy prior's prices are as large as its weight: a penalty far below it would never reach them
    bend = float(curvature) + (task.known.weight or 0.0)
    wanted = [(one.clique, one.probabilities) for one in task.known.fixed]
    return Augmented.of(bound, Equalities.of(bound, wanted, STIFF * bend), dtype)


def rounds(
    task: Task, oracle: Oracle, bound: Augmented, tables: Sequence[np.ndarray], dtype: str
) -> Course[tuple[Solution, Problem]]:
    """Minimise a loss over the models that have the fixed marginals; arguments and result as `descend`."""
    host = bound.on_host()
    stiffest = STIFFEST / STIFF * host.stiffness
    number, done, idle = 0, 0, 0
    below, missed, least, narrowest = -math.inf, math.inf, math.inf, math.inf
    best: tuple[Solution, Problem] | None = None
    smoothing = FIRST_SMOOTHING
    while True:
        tol = max(task.estimator.tol / 2, FIRST_TOL * SHARPER**number)
        with precision(dtype):
            bound = Augmented.of(bound.inner.cast(dtype), host, dtype)
        goal = dataclasses.replace(task, tol=tol)
        end, problem = yield from descend(goal, oracle, bound, tables, dtype, done, smoothing)
        number, done = number + 1, end.steps
        if end.status is Status.NOT_FINITE:
            return (end, problem) if best is None else (_ended(best[0], Status.STALLED, done, below), best[1])
        if problem.loss.smoothing is not None:
            smoothing = min(4 * float(problem.loss.smoothing), FIRST_SMOOTHING)
        if end.status is Status.STALLED and dtype == "float32" and fits_in_float64(task, host.cliques):
            dtype = "float64"
        found = np.asarray(end.point.marginals, np.float64)[: len(host.targets)]
        residual = np.where(host.cells, found - host.targets, 0.0)
        off = float(np.abs(residual).max())
        host = dataclasses.replace(host, multipliers=host.multipliers + host.stiffness * residual)
        if ENOUGH < off > missed / 2 and host.stiffness < stiffest:
            host = dataclasses.replace(host, stiffness=4 * host.stiffness)
        missed = off

        point, problem, gap, exact = _projected(task, oracle, problem, host, end.point)
        tables = split(np.asarray(point.potentials), host.shapes)
        below = max(below, end.below, float(point.loss) - gap)
        loss = problem.loss.exact(split(np.asarray(point.marginals), host.shapes))
        reached = loss + entropy(problem, point)
        if best is None or (exact and reached < least):
            best = dataclasses.replace(end, point=point), problem
        least = min(least, reached) if exact else least
        idle = 0 if least - below < 0.9 * narrowest else idle + 1
        narrowest = least - below if idle == 0 else narrowest
        status = None
        if exact and loss <= task.level:
            status, best = Status.NOISE_LEVEL, (dataclasses.replace(end, point=point), problem)
        elif math.isfinite(least) and task.within(least, least - below):
            status = Status.CONVERGED
        elif done >= task.estimator.max_steps:
            status = Status.MAX_STEPS
        elif idle >= PATIENCE:
            status = Status.STALLED
        if status is not None:
            return _ended(best[0], status, done, below), best[1]


def _ended(solution: Solution, status: Status, steps: int, below: float) -> Solution:
    return dataclasses.replace(solution, status=status, steps=steps, below=below)


def _projected(
    task: Task, oracle: Oracle, problem: Problem, host: Equalities, point: Evaluation
) -> tuple[Evaluation, Problem, float, bool]:
    """A point moved onto the fixed marginals, the problem in float64, its gap, and whether it has them."""
    tables = split(np.asarray(point.potentials, np.float64), host.shapes)
    structure, _ = Structure.named(task.domain.sizes, (*host.cliques, *task.known.cliques))
    places = [place for place, held in enumerate(host.held) if held]
    targets = split(host.targets, host.shapes)
    fitted = feasibility.fit(
        HostModel(structure, (*tables, *task.known.tables)), places, [targets[i] for i in places], SWEEPS
    )
    moved = [table - table.max() for table in fitted.model.tables[: len(host.shapes)]]
    assert isinstance(problem.loss, Augmented)
    with precision("float64"):
        inner = problem.loss.inner.cast("float64")
        if inner.smoothing is not None:
            inner = inner.with_smoothing(float(problem.loss.smoothing))
        loss = Augmented.of(inner, host, "float64")
        problem = stated(task, oracle, loss, problem.curvature, "float64")
        vector = host_join(moved, np.float64, len(problem.gauge.table))
        found, gap = certificate.evaluate(problem, vector)
    return found, problem, gap, fitted.exact
