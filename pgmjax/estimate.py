"""Estimation: from noisy measurements to one consistent model with a certificate."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax import _checks, losses, oracles, solvers
from pgmjax.clique_vector import CliqueVector
from pgmjax.cliques import Clique, as_clique
from pgmjax.constraints import StructuralZeros, require_feasible
from pgmjax.domain import Domain
from pgmjax.losses.base import BoundLoss
from pgmjax.measurements import LinearMeasurement
from pgmjax.model import GraphicalModel
from pgmjax.plan.structure import Structure
from pgmjax.progress import Progress
from pgmjax.solvers.loop import Solution, Status, solve
from pgmjax.solvers.problem import Problem
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
        plan: the inference plan that was used.
    """

    model: GraphicalModel
    status: Status
    steps: int
    loss: float
    gap: float
    plan: oracles.Plan = dataclasses.field(repr=False)


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
        dtype: `float32` or `float64` (on the device; no global JAX flag is changed).
        max_bytes: memory that a fit may use; None asks the device.
        progress: None shows a bar in terminals and notebooks, False never does.

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

    def __post_init__(self) -> None:
        _checks.integer("max_steps", self.max_steps, low=1)
        _checks.number("tol", self.tol, at_least=0)
        _checks.choice("dtype", self.dtype, ("float32", "float64"))
        _checks.choice("oracle", self.oracle, ("auto", *oracles.names()))
        solvers.build(self.solver)

    def plan(
        self, domain: Domain, cliques: Sequence[Clique], constraints: Sequence[StructuralZeros] = ()
    ) -> oracles.Plan:
        """Plan a fit of these cliques, or refuse it with figures. Touches no data.

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
            itemsize=np.dtype(self.dtype).itemsize,
            copies=solvers.build(self.solver).copies,
            max_bytes=self.max_bytes,
        )

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[LinearMeasurement],
        total: float | None = None,
        warm_start: GraphicalModel | None = None,
        constraints: Sequence[StructuralZeros] = (),
    ) -> Fit:
        """Estimate the model whose marginals fit the measurements best.

        Args:
            domain: the attributes.
            measurements: noisy linear answers.
            total: number of records (counts); None estimates it from the measurements.
            warm_start: a model to start from; the potentials of its cliques that lie within measured
                ones are taken over.
            constraints: cells that are impossible.

        Raises:
            ValueError: bad measurements, nothing that tells the total, infeasible constraints, or a
                model that does not fit in memory. Numerical failure is no error: see `Fit.status`.
        """
        measurements, constraints = list(measurements), list(constraints)
        require_feasible(domain, constraints)
        if total is None:
            total = estimate_total(domain, measurements)[0]
        solver = solvers.build(self.solver)
        with jax.enable_x64(True) if self.dtype == "float64" else contextlib.nullcontext():
            bound = losses.build(self.loss, domain, measurements, total, self.dtype)
            plan = self.plan(domain, bound.cliques, constraints)
            fixed = tuple(jnp.asarray(z.log_mask(), self.dtype) for z in constraints)
            start = _starting_point(domain, bound.cliques, self.dtype, warm_start)
            problem = Problem(plan.oracle, bound, _curvature(solver, bound, domain), fixed)
            with Progress("fit", self.max_steps, self.progress) as bar:
                solution = self._minimise(problem, solver, start, bar)
            return _finish(domain, bound, solution, plan, constraints, float(total))

    def _minimise(
        self, problem: Problem, solver: solvers.Solver, start: tuple[jax.Array, ...], bar: Progress
    ) -> Solution:
        """Solve; a loss that is smoothed is solved for ever less smoothing, each from the last."""

        def watch(steps: int, loss: float, gap: float) -> None:
            bar.advance(steps, f"loss {loss:.6g}, gap {gap:.3g}")

        def within(slack: float) -> Callable[[float, float], bool]:
            return lambda loss, gap: gap + slack <= self.tol * max(1.0, loss)

        block = 50 if problem.oracle.forecast.work < 50_000_000 else 10
        done = 0
        while True:
            slack = float(problem.loss.slack())
            last = slack == 0
            stage_end = within(0.0) if last else lambda loss, gap, slack=slack: gap <= slack
            left = self.max_steps - done
            solution = solve(
                problem,
                solver,
                start,
                max_steps=left if last else min(left, max(block, self.max_steps // 5)),
                enough=stage_end,
                block=block,
                watch=watch,
            )
            done += solution.steps
            solution = dataclasses.replace(solution, steps=done, gap=solution.gap + slack)
            loss = float(solution.point.loss)
            if last or solution.status is Status.NOT_FINITE:
                return solution
            if within(slack)(loss, solution.gap - slack):
                return dataclasses.replace(solution, status=Status.CONVERGED)
            if done >= self.max_steps:
                return dataclasses.replace(solution, status=Status.MAX_STEPS)
            smoother = float(problem.loss.smoothing) / 4
            start = solution.point.potentials
            problem = dataclasses.replace(problem, loss=problem.loss.with_smoothing(smoother))
            problem = dataclasses.replace(problem, curvature=problem.curvature * 4)


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


def _starting_point(
    domain: Domain, cliques: Sequence[Clique], dtype: str, warm_start: GraphicalModel | None
) -> tuple[jax.Array, ...]:
    tables = [np.zeros(domain.shape_of(clique)) for clique in cliques]
    if warm_start is not None:
        if warm_start.domain != domain:
            raise ValueError("warm_start must be a model over the same domain.")
        for clique, table in zip(warm_start.potentials.cliques, warm_start.potentials.tables, strict=True):
            holder = next((i for i, c in enumerate(cliques) if set(clique) <= set(c)), None)
            if holder is not None and np.isfinite(table).all():
                order = sorted(range(len(clique)), key=lambda i: cliques[holder].index(clique[i]))
                shape = [domain[n] if n in clique else 1 for n in cliques[holder]]
                tables[holder] += table.transpose(order).reshape(shape)
    return tuple(jnp.asarray(table, dtype) for table in tables)


def _finish(
    domain: Domain,
    bound: BoundLoss,
    solution: Solution,
    plan: oracles.Plan,
    constraints: Sequence[StructuralZeros],
    total: float,
) -> Fit:
    """The model of the best point, with its loss in float64."""
    potentials: dict[Clique, np.ndarray] = {
        clique: np.asarray(table, np.float64)
        for clique, table in zip(bound.cliques, solution.point.potentials, strict=True)
    }
    for zeros in constraints:
        held = next((c for c in potentials if set(c) == set(zeros.clique)), None)
        mask = zeros.log_mask()
        if held is None:
            potentials[zeros.clique] = mask
        else:
            potentials[held] = potentials[held] + mask.transpose([zeros.clique.index(n) for n in held])
    model = GraphicalModel(domain, CliqueVector(tuple(potentials), tuple(potentials.values())), total)
    if solution.status is Status.NOT_FINITE:
        return Fit(model, solution.status, solution.steps, float("nan"), float("nan"), plan)
    tables = [np.asarray(table, np.float64) for table in solution.point.marginals]
    marginals = tuple(table / table.sum() for table in tables)
    model = dataclasses.replace(model, marginals=CliqueVector(bound.cliques, marginals))
    return Fit(model, solution.status, solution.steps, bound.exact(marginals), solution.gap, plan)
