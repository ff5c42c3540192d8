"""The end of a fit: its marginals, loss and certificate in float64."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from pgmjax import ops
from pgmjax.compiling import jit
from pgmjax.losses.base import BoundLoss
from pgmjax.ops import sweep
from pgmjax.ops.flat import host_join, split
from pgmjax.oracles import Contraction, Oracle
from pgmjax.plan import contraction
from pgmjax.solvers.problem import Evaluation, Problem, Vector, negligible, rounding

# Up to so many cells NumPy evaluates a point in less time than XLA takes to compile the program for it.
HOST_CELLS = 20_000_000


def evaluate(problem: Problem, potentials: np.ndarray) -> tuple[Evaluation, float]:
    """A point in float64, and the certified bound on its `loss - optimum`.

    Small models are evaluated by NumPy, which compiles nothing; a fit ends here but once. Call it
    with 64-bit types enabled.

    Args:
        problem: bound in float64.
        potentials: log-potentials of the measured cliques [length].
    """
    path = _path(problem.oracle)
    cells = [path.structure.cells(step.union) for step in path.steps] or [1]
    if max(cells) > HOST_CELLS // 4 or sum(cells) > HOST_CELLS:
        point, gap = _on_device(problem, potentials)
        if float(point.doubt) > negligible(point):
            point, gap = _on_device(problem.exactly(), potentials)
        return point, float(gap)
    structure = path.structure
    fixed = np.zeros(0) if problem.fixed is None else np.asarray(problem.fixed, np.float64)
    used = sum(structure.cells(c) for c in structure.cliques)

    def tables(vector: np.ndarray) -> tuple[np.ndarray, ...]:
        return split(np.concatenate([vector, fixed])[:used], structure.shapes)

    forward = sweep.forward(path, tables(potentials), ops.host_logsumexp)
    marginals = host_join(sweep.backward(path, forward)[0], np.float64, max(used, len(potentials)))
    marginals = marginals[: len(potentials)]
    loss, gradient = (np.asarray(part) for part in _slope(problem.loss, marginals))
    gauge = np.bincount(problem.gauge.table, gradient * marginals, problem.gauge.count)
    centred = gradient - gauge[problem.gauge.table]
    best = sweep.forward(path, tables(-centred), ops.host_max, with_shares=False).total
    numbers: list[Any] = [potentials, marginals, loss, gradient, np.zeros(())]  # as good as jax's on the host
    point = Evaluation(*numbers)
    gap = max(float(centred @ marginals + best), 0.0) + float(rounding(point))
    return point, gap


def _path(oracle: Oracle) -> contraction.ContractionPath:
    return oracle.path if isinstance(oracle, Contraction) else contraction.plan(oracle.structure)


@jit
def _slope(loss: BoundLoss, marginals: Vector) -> Any:
    return jax.value_and_grad(loss.flat)(marginals)


@jit
def _on_device(problem: Problem, potentials: Vector) -> tuple[Evaluation, jax.Array]:
    point = problem.evaluate(potentials)
    return point, problem.gap(point)
