"""How a fit runs, from its start to its end on the host."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from pgmjax.estimation import fixed_marginals
from pgmjax.estimation.descent import Task, descend, entropy
from pgmjax.estimation.losses.augmented import Augmented
from pgmjax.estimation.losses.base import BoundLoss
from pgmjax.estimation.solvers.loop import Course, Status, alone, precision
from pgmjax.estimation.warm_start import starting_point
from pgmjax.inference import oracles
from pgmjax.inference.ops.tables import split
from pgmjax.model.graphical import GraphicalModel


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
        gap: certified bound on how far what was minimised lies above its optimum.
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
    dtype = task.estimator.dtype
    with precision(dtype):
        bound = fixed_marginals.bind(task, dtype)
        plan = task.plan(bound.cliques)
        tables = starting_point(task.domain, bound.cliques, task.known.start(warm_start))
    if isinstance(bound, Augmented):
        solution, problem = yield from fixed_marginals.rounds(task, plan.oracle, bound, tables, dtype)
    else:
        solution, problem = yield from descend(task, plan.oracle, bound, tables, dtype)
    bound = problem.loss
    potentials = tuple(table - table.max() for table in _tables(bound, solution.point.potentials))
    if solution.status is Status.NOT_FINITE:
        return End(bound, plan, potentials, (), solution.status, solution.steps, math.nan, math.nan)
    marginals = tuple(table / table.sum() for table in _tables(bound, solution.point.marginals))
    loss = bound.exact(marginals)
    gap = max(loss + entropy(problem, solution.point) - solution.below, 0.0)
    return End(bound, plan, potentials, marginals, solution.status, solution.steps, loss, gap)


def _tables(bound: BoundLoss, vector: Any) -> tuple[np.ndarray, ...]:
    return split(np.asarray(vector, np.float64), bound.shapes)
