"""Final float64 evaluation of a fit: marginals, loss and certificate."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from pgmjax._internal.jit import jit
from pgmjax.estimation.losses.base import BoundLoss
from pgmjax.estimation.solvers.problem import Evaluation, Problem, Vector, negligible, rounding
from pgmjax.inference import ops
from pgmjax.inference.ops import sweep
from pgmjax.inference.ops.tables import host_join, split
from pgmjax.inference.plan import contraction

# Up to this many cells NumPy evaluates a point faster than XLA compiles the program for it.
HOST_CELLS = 20_000_000


def evaluate(problem: Problem, potentials: np.ndarray) -> tuple[Evaluation, float]:
    """Evaluate a point in float64, with the certified bound on its suboptimality.

    Small models are evaluated by NumPy, which avoids compiling a program used once. Call it with 64-bit
    types enabled.

    Args:
        problem: the problem, bound in float64.
        potentials: log-potentials of the measured cliques [length].
    """
    path = problem.oracle.contraction_path()
    cells = [path.structure.cells(step.union) for step in path.steps] or [1]
    if max(cells) > HOST_CELLS // 4 or sum(cells) > HOST_CELLS:
        point, gap = _on_device(problem, potentials)
        if float(point.error_bound) > negligible(point):
            point, gap = _on_device(problem.exact(), potentials)
        return point, float(gap)
    model = _Host(path, problem.fixed)
    forward = sweep.forward(path, model.tables(potentials), ops.host_logsumexp)
    used = sum(path.structure.cells(c) for c in path.structure.cliques)
    marginals = host_join(sweep.backward(path, forward)[0], np.float64, max(used, len(potentials)))
    marginals = marginals[: len(potentials)]
    loss, slope = (np.asarray(part) for part in _slope(problem.loss, marginals))
    gauge = np.bincount(problem.gauge.table, slope * marginals, problem.gauge.count)
    centred = slope - gauge[problem.gauge.table]
    gradient, error = slope, 0.0
    if problem.prior is None:
        support = None if problem.fixed is None else problem.support()
        best = float(_Host(path, support).total(-centred, ops.host_max))
        gap = float(centred @ marginals) + best
    else:
        # as in `Problem.gap`: only the loss is linearised
        weight, own = float(problem.prior.weight), float(forward.total)
        best = float(model.total(-centred / weight, ops.host_logsumexp))
        spent = float(potentials @ marginals)
        gap = float(centred @ marginals) + weight * (best - own + spent)
        loss = loss + weight * (spent - own + float(problem.prior.log_partition))
        gradient = slope + weight * potentials
        error = float(4 * np.finfo(np.float64).eps * weight * (abs(best) + abs(own)))
    numbers: list[Any] = [potentials, marginals, loss, gradient, np.zeros(())]  # as good as jax's on the host
    point = Evaluation(*numbers)
    return point, max(gap, 0.0) + float(rounding(point)) + error


@dataclasses.dataclass(frozen=True)
class _Host:
    """A NumPy contraction with its fixed factors in one vector."""

    path: contraction.ContractionPath
    fixed: Any

    def tables(self, vector: np.ndarray) -> tuple[np.ndarray, ...]:
        structure = self.path.structure
        fixed = np.zeros(0) if self.fixed is None else np.asarray(self.fixed, np.float64)
        used = sum(structure.cells(c) for c in structure.cliques)
        return split(np.concatenate([vector, fixed])[:used], structure.shapes)

    def total(self, vector: np.ndarray, reduce: ops.Reduce) -> Any:
        return sweep.forward(self.path, self.tables(vector), reduce, with_shares=False).total


@jit
def _slope(loss: BoundLoss, marginals: Vector) -> Any:
    return jax.value_and_grad(loss.flat)(marginals)


@jit
def _on_device(problem: Problem, potentials: Vector) -> tuple[Evaluation, jax.Array]:
    point = problem.evaluate(potentials)
    return point, problem.gap(point)
