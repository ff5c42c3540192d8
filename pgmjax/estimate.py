"""Estimation: from noisy measurements to one consistent model with a certificate."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from pgmjax import _checks, batch, losses, oracles, sharding, solvers
from pgmjax.batch import BatchFit
from pgmjax.clique_vector import CliqueVector
from pgmjax.cliques import Clique, as_clique
from pgmjax.constraints import StructuralZeros, require_feasible
from pgmjax.domain import Domain
from pgmjax.fitting import End, Task, solve_task
from pgmjax.measurements import LinearMeasurement
from pgmjax.model import GraphicalModel
from pgmjax.noise_level import noise_level
from pgmjax.plan.structure import Structure
from pgmjax.progress import Progress
from pgmjax.solvers.loop import Status
from pgmjax.total import estimate_total


@dataclasses.dataclass(frozen=True)
class Fit:
    """The result of an estimation.

    Attributes:
        model: the estimated model.
        status: how the solver ended.
        steps: solver steps done.
        loss: loss of the model's marginals, in float64 (for l2: 0.5 * sum(((Q mu - y) / stddev)**2)).
        gap: certified bound on `loss - optimum`, in the loss's unit.
        plan: the inference plan that was used; None where no engine was.
    """

    model: GraphicalModel
    status: Status
    steps: int
    loss: float
    gap: float
    plan: oracles.Plan | None = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Estimator:
    """Fits a graphical model to noisy measurements: post-processing, it never sees a table.

    Attributes:
        loss: `l2`, `l1`, a `losses.Loss`, or any convex function of marginals in counts.
        solver: `auto` (accelerated), `accelerated`, `mirror_descent`, `dual_averaging`, `lbfgs`, or a
            solver with settings of its own.
        oracle: `auto` (the cheaper by forecast), `contraction`, `message_passing`, `brute_force`.
        max_steps: solver steps at most, >= 1.
        tol: stop when gap <= tol * max(1, loss).
        dtype: `float32` or `float64` (on the device; no global JAX flag is changed). The end of a
            float32 fit is evaluated in float64, and where its digits run out before the tolerance is
            met, and the gap is not within 100 tolerances, the rest of the steps are done in float64, if
            memory allows; within them it ends as STALLED.
        max_bytes: memory that a fit may use; None asks the device.
        progress: None shows a bar in terminals and notebooks, False never does.
        stop: `optimum`, or `noise`: also end as NOISE_LEVEL once the loss is down to what the noise of the
            measurements alone would give on average (for l2 half the number of measured values). Below it
            a model follows the noise: the discrepancy principle of Morozov 1966.

    Example:
        >>> import pgmjax as pj
        >>> m = pj.LinearMeasurement(("a",), [30.0, 10.0], stddev=1.0)
        >>> fit = pj.Estimator().fit(pj.Domain({"a": 2, "b": 3}), [m], total=40)
        >>> fit.status.name, fit.model.marginal(("a",)).round(2).tolist()
        ('CONVERGED', [30.0, 10.0])
    """

    loss: Any = "l2"
    solver: Any = "auto"
    oracle: str = "auto"
    max_steps: int = 1000
    tol: float = 1e-4
    dtype: str = "float32"
    max_bytes: int | None = None
    progress: bool | None = None
    stop: str = "optimum"

    def __post_init__(self) -> None:
        _checks.integer("max_steps", self.max_steps, low=1)
        _checks.number("tol", self.tol, at_least=0)
        _checks.choice("dtype", self.dtype, ("float32", "float64"))
        _checks.choice("oracle", self.oracle, ("auto", *oracles.names()))
        solvers.build(self.solver)
        losses.check(self.loss)
        _checks.choice("stop", self.stop, ("optimum", "noise"))
        if self.stop == "noise":
            noise_level(self.loss, ())

    def plan(
        self,
        domain: Domain,
        cliques: Sequence[Clique],
        constraints: Sequence[StructuralZeros] = (),
        *,
        dtype: str | None = None,
        mesh: jax.sharding.Mesh | None = None,
    ) -> oracles.Plan:
        """Plan a fit of these cliques, or refuse it with figures. Touches no data.

        Args:
            domain: the attributes.
            cliques: what will be measured.
            constraints: cells that are impossible.
            dtype: plan for this type instead of the estimator's.
            mesh: devices that share each inference, slice by slice.

        Raises:
            ValueError: an unknown or repeated attribute.
            ModelTooLargeError: the forecast exceeds the memory (a ValueError).
        """
        named = [as_clique(domain, c) for c in (*cliques, *(z.clique for z in constraints))]
        structure, attributes = Structure.named(domain.sizes, named)
        return oracles.plan(
            structure,
            attributes,
            self.oracle,
            itemsize=np.dtype(dtype or self.dtype).itemsize,
            copies=solvers.build(self.solver).copies,
            max_bytes=self.max_bytes,
            finite=not constraints,
            mesh=mesh,
        )

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[LinearMeasurement],
        total: float | None = None,
        warm_start: GraphicalModel | None = None,
        constraints: Sequence[StructuralZeros] = (),
        *,
        mesh: jax.sharding.Mesh | None = None,
    ) -> Fit:
        """Estimate the model whose marginals fit the measurements best.

        Args:
            domain: the attributes.
            measurements: noisy linear answers.
            total: number of records (counts); None estimates it from the measurements.
            warm_start: a model to start from, with any cliques: see `pgmjax.warm_start`.
            constraints: cells that are impossible.
            mesh: devices that share each inference of this one fit, slice by slice; every process of
                the mesh makes the same call.

        Raises:
            ValueError: bad measurements, nothing that tells the total, infeasible constraints, or a
                model that does not fit in memory. Numerical failure is no error: see `Fit.status`.
        """
        if isinstance(measurements, LinearMeasurement):
            raise TypeError("measurements and constraints must be lists, got a single one: write [it].")
        measurements, constraints = list(measurements), self._checked(domain, warm_start, constraints)
        for measurement in measurements:
            if not isinstance(measurement, LinearMeasurement):
                raise TypeError(f"measurements must be LinearMeasurement, got {type(measurement).__name__}.")
        require_feasible(domain, constraints)
        if total is None:
            total = estimate_total(domain, measurements)[0]
        with Progress("fit", self.max_steps, self.progress) as bar:
            task = Task(self, domain, tuple(measurements), float(total), tuple(constraints), bar, mesh)
            return _finish(task, solve_task(task, warm_start))

    def fit_batch(
        self,
        domain: Domain,
        measurements: Sequence[Sequence[LinearMeasurement]],
        totals: float | Sequence[float] | None = None,
        warm_start: GraphicalModel | None = None,
        constraints: Sequence[StructuralZeros] = (),
        *,
        mesh: jax.sharding.Mesh | None = None,
    ) -> BatchFit:
        """Fit many rows of measurements of one structure at once: trials, epsilons, draws of the noise.

        Every row decides for itself and gets the model (to rounding), the status and the steps of the single
        fit of its measurements; one that ends because its digits run out (STALLED) may do so some blocks
        of steps earlier or later. Programs are compiled once for all rows. What does not fit in
        `max_bytes` at once waits for its turn.

        Args:
            domain: the attributes.
            measurements: a list for each row, with the same cliques and queries in the same order; values
                and standard deviations are the row's own.
            totals: number of records (counts), one for all rows or one a row; None estimates each row's.
            warm_start: a model that all rows start from.
            constraints: cells that are impossible, in all rows.
            mesh: devices to share the rows between, of this process or of several; each process calls this
                with the same arguments and gets all results. None runs them on the default device.

        Returns:
            The fits in the order of the rows, and arrays [rows] of how they ended.

        Raises:
            ValueError: as `fit`, and rows whose structures differ.

        Example:
            >>> import pgmjax as pj
            >>> rows = [[pj.LinearMeasurement(("a",), values, 1.0)] for values in ([30, 10], [5, 15])]
            >>> batch = pj.Estimator().fit_batch(pj.Domain({"a": 2}), rows)
            >>> [fit.model.marginal(("a",)).round(2).tolist() for fit in batch], batch.status.tolist()
            ([[30.0, 10.0], [5.0, 15.0]], [0, 0])
        """
        constraints = self._checked(domain, warm_start, constraints)
        mesh = sharding.check(mesh)
        rows = batch.same_structure(domain, measurements)
        require_feasible(domain, constraints)
        counts = batch.row_totals(domain, rows, totals)
        with Progress("fit_batch", self.max_steps * len(rows), self.progress) as bar:
            settings = batch.SharedPlan(self)
            tasks = [
                Task(settings, domain, row, total, tuple(constraints), bar)
                for row, total in zip(rows, counts, strict=True)
            ]
            ends = batch.run_tasks(tasks, warm_start, mesh)
            return BatchFit(tuple(_finish(*pair) for pair in zip(tasks, ends, strict=True)))

    @staticmethod
    def _checked(
        domain: Domain, warm_start: GraphicalModel | None, constraints: Sequence[StructuralZeros]
    ) -> list[StructuralZeros]:
        if not isinstance(domain, Domain):
            raise TypeError(f"domain must be a Domain, got {type(domain).__name__}.")
        if isinstance(constraints, StructuralZeros):
            raise TypeError("measurements and constraints must be lists, got a single one: write [it].")
        if not isinstance(warm_start, GraphicalModel | None):
            raise TypeError(f"warm_start must be a GraphicalModel, got {type(warm_start).__name__}.")
        return list(constraints)


def _finish(task: Task, end: End) -> Fit:
    """The model of the point where the solver ended."""
    potentials = dict(zip(end.bound.cliques, end.potentials, strict=True))
    for zeros in task.constraints:
        held = next((c for c in potentials if set(c) == set(zeros.clique)), None)
        mask = zeros.log_mask()
        if held is None:
            potentials[zeros.clique] = mask
        else:
            potentials[held] = potentials[held] + mask.transpose([zeros.clique.index(n) for n in held])
    vector = CliqueVector(tuple(potentials), tuple(potentials.values()))
    known = CliqueVector(end.bound.cliques, end.marginals) if end.marginals else CliqueVector((), ())
    model = GraphicalModel(task.domain, vector, task.total, known)
    return Fit(model, end.status, end.steps, end.loss, end.gap, end.plan)
