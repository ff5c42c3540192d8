"""Final float64 evaluation of a fit: marginals, loss and certificate; of one fit, or of many at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from pgmjax._internal import device
from pgmjax._internal.jit import jit, precision
from pgmjax.estimation.solvers.problem import Evaluation, Problem, Vector, negligible

# Up to this many cells NumPy evaluates points faster than XLA compiles the program for them.
HOST_CELLS = 20_000_000

Certified = tuple[Evaluation, float]  # a point, and the certified bound on its suboptimality


@dataclasses.dataclass(frozen=True)
class CertificateRequest:
    """A fit's request for the float64 evaluation of a point.

    Attributes:
        problem: the problem, bound in float64.
        potentials: log-potentials of the measured cliques [length], float64.
    """

    problem: Problem
    potentials: np.ndarray

    @property
    def cells(self) -> int:
        """Cells that the evaluation combines."""
        return self.problem.oracle.contraction_path().work


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


def evaluate_rows(requests: list[CertificateRequest], count: int) -> list[Certified]:
    """Evaluate points of one structure in one compiled program, and read all results at once.

    Args:
        requests: at most `count` of them.
        count: number of points that the program is compiled for.
    """
    padded = [*requests, *requests[-1:] * (count - len(requests))]
    with device.failures_told(), precision("float64"):
        shared = requests[0].problem.shared()
        rows = stacked([request.problem.own() for request in padded])
        potentials = np.stack([request.potentials for request in padded])
        points, gaps = jax.device_get(_rows_on_device(shared, rows, potentials))
        inexact = points.error_bound > negligible(points)
        if inexact.any():
            exact = jax.device_get(_rows_on_device(shared.exact(), rows, potentials))
            points, gaps = _chosen(inexact, exact, (points, gaps))
    return [(points.row(number), float(gaps[number])) for number in range(len(requests))]


def _chosen(inexact: np.ndarray, exact: Any, found: Any) -> Any:
    """Return the exact results of the rows in doubt, and the others as found."""
    return jax.tree.map(lambda a, b: np.where(inexact.reshape(-1, *(1,) * (a.ndim - 1)), a, b), exact, found)


def stacked(rows: Sequence[Any]) -> Any:
    """Return pytrees of one structure as one whose leaves have a leading axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *rows)


def _certified(problem: Problem, potentials: Vector) -> tuple[Evaluation, jax.Array]:
    point = problem.evaluate(potentials)
    return point, problem.gap(point)


def _each_certified(shared: Problem, rows: Any, potentials: Vector) -> tuple[Evaluation, jax.Array]:
    return jax.vmap(lambda own, start: _certified(shared.with_own(own), start))(rows, potentials)


_on_device, _rows_on_device = jit(_certified), jit(_each_certified)
