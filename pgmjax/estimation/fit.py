"""A fit and its control flow on the host; read it from top to bottom.

`fit_steps` starts from an earlier model, or in closed form. `minimise` reduces the loss in stages of
decreasing smoothing, first in float32 if requested, and evaluates the result in float64. Every step evaluates
`estimation.solvers.objective.Objective`: the oracle maps potentials to marginals, and the loss is
differentiated there. Fixed marginals are met in rounds of such minimisations.
`estimation.solvers.stopping.StoppingRule` decides when to stop, except at non-finite points.

The control flow consists of generators that request steps (`estimation.solvers.loop.FitSteps`), so that
`estimation.batch` runs many fits in one program, each with the same decisions as on its own.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pgmjax._internal.device import precision
from pgmjax._internal.migration import Named, instead
from pgmjax.data.domain import Clique
from pgmjax.estimation import regularisation, solvers
from pgmjax.estimation.problem import STIFF, FitProblem, FitProgress, Pull
from pgmjax.estimation.regularisation import Regularisation
from pgmjax.estimation.solvers import loop, newton
from pgmjax.estimation.solvers.loop import (
    CertificateRequest,
    FitSteps,
    Solution,
    Watch,
    solve_in_stages,
    solve_steps,
    stalled_at,
)
from pgmjax.estimation.solvers.objective import Equalities, Evaluation, Objective
from pgmjax.estimation.solvers.stopping import CERTIFIED, FIRST_SMOOTHING, Status, StoppingRule
from pgmjax.estimation.start import closed_form, starting_point
from pgmjax.inference import oracles
from pgmjax.inference.ops import host_join, split
from pgmjax.inference.oracles import Oracle
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan.structure import Structure
from pgmjax.model.clique_vector import CliqueVector, summed
from pgmjax.model.graphical import GraphicalModel

STIFFEST = 1e4 * STIFF
FIRST_TOL, SHARPER = 0.1, 0.1  # tolerance of the first round, and its factor per round
SWEEPS = 1000  # of proportional fitting after a round
NEGLIGIBLE = 1e-9  # probability: a smaller residual does not raise the penalty


@dataclasses.dataclass(frozen=True)
class Fit(Named):
    """The result of an estimation.

    Attributes:
        model: the estimated model; for an approximate fit a `RegionModel` or a `MixtureModel`.
        status: how the fit ended, by what is certified of it: see `Status`.
        steps: solver steps.
        loss: loss of the model's marginals, in float64 (for l2: 0.5 * sum(((Q mu - y) / stddev)**2)): that of
            the measurements alone, without constraints and prior.
        gap: certified bound on `loss - optimum`, in the loss's unit, computed in float64 wherever that fits
            in memory, and never above the loss itself for l1 and l2; the optimum is over the models that meet
            the constraints. With `prior_weight` the bound is on the suboptimality of loss plus weighted
            relative entropy.
        plan: the inference plan; None without an inference engine, and for an approximate fit.
        trace: (steps so far, objective, certified gap) after each block of steps; the objective is the loss,
            smoothed if it has kinks, plus the terms of constraints and prior. Empty if no solver ran.
        method: `exact`, or the kind of approximation: `convex belief propagation` (`loss - gap` bounds the
            loss of every table from below) or `mixture of products` (infinite gap: no certificate), or
            `maximum entropy`, whose loss is in nats.
        regularisation: what the fit was pulled towards, and how much; None if it was not. If it was, the gap
            is that of loss plus weighted relative entropy.
    """

    model: GraphicalModel
    status: Status
    steps: int
    loss: float
    gap: float
    plan: oracles.Plan | None = dataclasses.field(repr=False)
    trace: tuple[tuple[int, float, float], ...] = dataclasses.field(default=(), repr=False)
    method: str = "exact"
    regularisation: Regularisation | None = None

    __iter__ = instead(
        "A fit is not a pair of results: they are fit.model, fit.loss, fit.gap and fit.status."
    )

    @property
    def optimum_gap(self) -> float | None:
        """Certified bound on the loss minus its own optimum; None for a fit that was pulled."""
        return self.gap if self.regularisation is None else None

    def plot_trace(self, ax: Any = None) -> Any:
        """Plot loss and certified gap after each block of steps, and at the end of the fit.

        Both are in the loss's unit, on one logarithmic scale; the gap bounds `loss - optimum`.
        Values that are not finite and positive are not drawn.

        Args:
            ax: matplotlib axes to draw on; None for a new figure.

        Returns:
            The matplotlib axes. Needs matplotlib (extra `plots`).

        Raises:
            ValueError: no solver ran, so there is nothing to draw.
        """
        from pgmjax.estimation import views  # of notebooks

        return views.plot_trace(self, ax)

    def _repr_html_(self) -> str:
        from pgmjax.estimation import views  # of notebooks

        return views.fit_html(self)


@dataclasses.dataclass(frozen=True)
class FitState:
    """A fit under way.

    Attributes:
        problem: what is to be fitted.
        oracle: inference for the loss's cliques, then those of the side information.
        tables: log-potentials so far.
        dtype: type on the device.
        stop: stopping rule.
        steps: steps done.
        pull: what the fit is pulled towards, or None.
        small: whether Newton's method has time for the model.
    """

    problem: FitProblem
    oracle: Oracle
    tables: Sequence[np.ndarray]
    dtype: str
    stop: StoppingRule
    steps: int = 0
    pull: Pull | None = None
    small: bool = False

    @property
    def by_newton(self) -> bool:
        """True if Newton's method goes on where the default solver has not converged."""
        return self.small and self.problem.estimator.solver == "auto"


# A fit and its parts, in execution order.


def fit_steps(problem: FitProblem, start: GraphicalModel | None) -> FitSteps[Fit]:
    """Run one fit as a generator of step requests.

    Args:
        problem: the fitting problem.
        start: initial model; None for the uniform distribution.

    Raises:
        ValueError: a start over another domain, or settings that the loss does not support.
        ModelTooLargeError: the model does not fit in memory.
    """
    plan, made, dtype = problem.plan(), problem.estimator, problem.estimator.dtype
    precise = solvers.build(made.solver).in_float64
    # tables of the host are float64 in any case
    if plan.oracle.runs_on_host or (precise and problem.fits_in_float64()):
        dtype = "float64"
    earlier, cliques = problem.known.start(start), problem.cliques
    if earlier is None and problem.known.prior is None:
        tables = closed_form(problem.domain, cliques, problem.measurements, problem.total)
    else:
        tables = starting_point(problem.domain, cliques, earlier)
    small = newton.has_time(plan.oracle, sum(map(np.size, tables)), len(tables))
    stop = StoppingRule.of(made.tol, made.max_steps, math.sqrt(problem.noise_level))
    if problem.callback is not None:
        stop = dataclasses.replace(stop, halted=lambda: bool(problem.halts))
    state = FitState(problem, plan.oracle, tables, dtype, stop, small=small)
    if problem.known.prior is None:
        asked = problem.domain, problem.measurements, problem.total, made.max_steps
        weight, least = regularisation.usable(made.regularisation, problem.loss, *asked)
        if weight > 0:
            reference = {} if start is None else regularisation.reference_of(start, cliques, least)
            state = yield from _with_reference(state, weight, reference, least)
    equalities = problem.equalities(dtype, state.pull)
    run = minimise(state) if equalities is None else _minimise_in_rounds(state, equalities)
    solution, objective = yield from run
    return _result(plan, solution, objective, state)


def _result(plan: oracles.Plan, solution: Solution, objective: Objective, state: FitState) -> Fit:
    """Return the fit with the unsmoothed loss, its gap, and the status that these tell."""
    problem, pull, status = state.problem, state.pull, solution.status
    vector, gauge = np.asarray(solution.point.potentials, np.float64), objective.gauge
    potentials = (*split(vector - gauge.tops(vector), objective.shapes), *problem.known.tables)
    named = summed(zip((*problem.cliques, *problem.known.cliques), potentials, strict=True))
    marginals, loss, gap, pulled = CliqueVector((), ()), math.nan, math.nan, None
    if status is not Status.NOT_FINITE:
        found = np.asarray(solution.point.marginals, np.float64)
        with np.errstate(invalid="ignore"):  # padding
            tables = split(found / gauge.reduced(np.add, found), objective.shapes)
        marginals = CliqueVector(problem.cliques, tables)
        loss = objective.loss.exact(tables[: len(objective.loss.shapes)])
        divergence = objective.relative_entropy(solution.point)
        gap = max(loss + divergence - max(solution.lower_bound, objective.loss.least()), 0.0)
        automatic = problem.estimator.regularisation == "auto"
        certified = gap if _is_in_float64(solution) else math.inf
        status = state.stop.ending(status, loss, certified, is_estimate=pull is not None and automatic)
        if pull is not None:
            nats = max(divergence, 0.0) / pull.weight
            pulled = regularisation.report(
                problem.domain, problem.total, pull.weight, nats, pull.logarithms, automatic
            )
    model = GraphicalModel(problem.domain, named, problem.total, marginals)
    trace = tuple(problem.trace)
    return Fit(model, status, solution.steps, loss, gap, plan, trace, regularisation=pulled)


# The pull: parts of a fit that find the product of one-way marginals, and then its weight.


def _with_reference(
    state: FitState, weight: float, reference: regularisation.Reference, least: float
) -> FitSteps[FitState]:
    """Fit for a few steps, and return the state with the pull that follows from them.

    Without a first reference the pull of the first part is too slight to matter: it is there so that all
    parts are one compiled program.
    """
    problem, stop = state.problem, state.stop
    level = problem.noise_level
    half = max(1, stop.max_steps // 2)
    rough = stop.roughly(regularisation.PART_EXCESS * math.sqrt(level))
    few = dataclasses.replace(rough, max_steps=half, noise_level=level)
    state = dataclasses.replace(state, pull=Pull(regularisation.FIRST_WEIGHT * problem.total))
    if reference:
        few = dataclasses.replace(rough, max_steps=min(half, regularisation.PART_STEPS))
        state = dataclasses.replace(state, pull=Pull(weight, reference))
    for _ in range(regularisation.MOST_PARTS):
        state, cliques, marginals = yield from _fit_part(state, few)
        shares = regularisation.one_way(cliques, marginals)
        reference, distance = regularisation.moved(reference, shares, least)
        state = dataclasses.replace(state, pull=Pull(weight, reference))
        near = weight * distance < regularisation.REFERENCE_TOLERANCE * math.sqrt(level)
        if near or stop.ran_out(state.steps + regularisation.PART_STEPS):
            break
        few = dataclasses.replace(rough, max_steps=state.steps + regularisation.PART_STEPS)
    if problem.estimator.regularisation == "auto":
        return (yield from _with_lower_weight(state, Pull(weight, reference), rough))
    return state


def _with_lower_weight(state: FitState, pull: Pull, rough: StoppingRule) -> FitSteps[FitState]:
    """Lower the weight of a pull as long as that lowers the estimated error of the measured cells."""
    problem, stop, least = state.problem, state.stop, math.inf
    few = dataclasses.replace(rough, max_steps=stop.max_steps - regularisation.PART_STEPS)
    for _ in range(1 + regularisation.MOST_REDUCTIONS):
        if stop.ran_out(state.steps + 2 * regularisation.PART_STEPS - 1):
            break
        tried, cliques, marginals = yield from _fit_part(dataclasses.replace(state, pull=pull), few)
        state = dataclasses.replace(state, steps=tried.steps)
        error = regularisation.estimated_error(
            problem.domain, problem.measurements, cliques, marginals, pull.weight, problem.total
        )
        if error > regularisation.ERROR_RISE * least:
            break
        state, least = tried, error
        if not regularisation.SMALL_ERROR < error < math.inf:
            break
        pull = dataclasses.replace(pull, weight=regularisation.WEIGHT_FACTOR * pull.weight)
    return state


def _fit_part(
    state: FitState, stop: StoppingRule
) -> FitSteps[tuple[FitState, tuple[Clique, ...], tuple[np.ndarray, ...]]]:
    """Fit until another rule ends it; return the state then, the loss's cliques and their marginals."""
    equalities = state.problem.equalities(state.dtype, state.pull)
    end, objective = yield from _minimise_from(dataclasses.replace(state, stop=stop), equalities)
    moved = tuple(table - table.max() for table in _tables(objective, end.point.potentials))
    state = dataclasses.replace(state, tables=moved, steps=end.steps)
    measured = len(objective.loss.shapes)
    cliques = state.problem.cliques[:measured]
    return state, cliques, _tables(objective, end.point.marginals)[:measured]


def minimise(
    state: FitState, equalities: Equalities | None = None, smoothing: float = FIRST_SMOOTHING
) -> FitSteps[tuple[Solution, Objective]]:
    """Minimise the objective in a dtype; after float32, evaluate the result in float64 or continue there.

    Args:
        state: where the fit is.
        equalities: fixed marginals with their multipliers, or None.
        smoothing: initial smoothing of a loss with kinks (standard deviations).

    Returns:
        The solution, with all steps so far, and the objective it is evaluated on.
    """
    solution, objective = yield from _minimise_from(state, equalities, smoothing)
    if solution.status is Status.NOT_FINITE:
        return solution, objective
    if state.dtype == "float32" and state.problem.fits_in_float64():
        solution, objective = yield from _in_float64(state, objective, solution)
    if solution.status is not Status.CONVERGED and state.small and _is_in_float64(solution):
        sharper = newton.lower_bound(objective, solution.point.potentials)
        solution = dataclasses.replace(solution, lower_bound=max(solution.lower_bound, sharper))
    return solution, objective


def _minimise_from(
    state: FitState, equalities: Equalities | None, smoothing: float = FIRST_SMOOTHING
) -> FitSteps[tuple[Solution, Objective]]:
    """Minimise in the state's dtype, from its potentials; arguments and result as in `minimise`."""
    objective = state.problem.objective(state.oracle, state.dtype, state.pull, equalities, smoothing)
    start = host_join(state.tables, state.dtype, len(objective.gauge.table))
    if objective.loss.smoothing is not None and state.by_newton:
        start, steps = _by_squares(state, objective, start)
        state = dataclasses.replace(state, steps=steps)
    return (yield from _minimise_in_stages(state, objective, start))


def _minimise_in_stages(
    state: FitState, objective: Objective, start: np.ndarray
) -> FitSteps[tuple[Solution, Objective]]:
    """Minimise in stages of decreasing smoothing, from some potentials."""
    stop = state.stop
    if state.pull is None and objective.loss.smoothing is None and state.small:
        # near the optimum, where a closed form begins, slow falls deceive, and a certificate is cheap
        stop = dataclasses.replace(stop, believable=-math.inf)
    stage = functools.partial(_stage, state, stop)
    return (yield from solve_in_stages(objective, start, stage, stop, state.steps))


def _stage(
    state: FitState,
    stop: StoppingRule,
    objective: Objective,
    start: np.ndarray,
    done: int,
    lower_bound: float,
) -> FitSteps[Solution]:
    """Run the solver, and on a small model Newton's method where the solver has not converged."""
    problem, slack, small = state.problem, float(objective.loss.slack()), state.by_newton

    def watch(steps: int, loss: float, gap: float, point: Callable[[], Evaluation]) -> None:
        before = problem.trace[-1][0] if problem.trace else state.steps
        # a smoothed loss lies at most its slack below the loss, so this gap is certified for that too
        problem.trace.append((before + steps, loss, gap + slack))
        problem.bar.advance(steps, f"loss {loss:.6g}, gap {gap:.3g}")
        if problem.callback is not None:
            counts = functools.partial(_counts, problem, objective, point)
            answer: Any = problem.callback(FitProgress(before + steps, loss, gap + slack, counts))
            # a comparison of numbers of NumPy or JAX too, and nothing else that is true
            told = getattr(answer, "dtype", None) == np.bool_ and np.ndim(answer) == 0
            problem.halts.extend([True] * ((told or isinstance(answer, bool)) and bool(answer)))

    block = 50 if objective.oracle.forecast.work < 50_000_000 else 25
    solver = solvers.build(problem.estimator.solver)
    run = functools.partial(solve_steps, objective, solver, slack=slack, watch=watch, block=block)
    most = min(stop.max_steps, done + newton.STEPS_BEFORE) if small else stop.max_steps
    few = dataclasses.replace(stop, max_steps=most)
    solution = yield from run(start, stop=few, done=done, lower_bound=lower_bound)
    unfinished = solution.status is Status.MAX_STEPS or solution.status is Status.STALLED
    if not small or not unfinished or stop.ran_out(solution.steps):
        return solution
    solution = _by_newton(objective, solution, stop, slack, watch)
    if solution.status is Status.STALLED and slack > 0 and not stop.ran_out(solution.steps):
        # kinks may hold up Newton's method, where first order methods go on
        start = np.asarray(solution.point.potentials, start.dtype)
        solution = yield from run(start, stop=stop, done=solution.steps, lower_bound=solution.lower_bound)
    return solution


def _in_float64(
    state: FitState, objective: Objective, solution: Solution
) -> FitSteps[tuple[Solution, Objective]]:
    """Evaluate the result of a float32 fit in float64, and continue there if its precision ran out.

    Marginals rounded to float32 may be inconsistent, and so lie outside the marginal polytope; the
    loss and certificate of the potentials themselves are computed here.
    """
    with precision("float64"):
        objective = state.problem.in_float64(objective)
        start = np.asarray(solution.point.potentials, np.float64)
    point, gap = yield CertificateRequest(objective, start)
    slack = float(objective.loss.slack())
    lower_bound = max(float(point.loss) - gap, objective.least())
    if _is_in_float64(solution):
        lower_bound = max(lower_bound, solution.lower_bound)
    certified = dataclasses.replace(solution, point=point, lower_bound=lower_bound)
    with precision("float64"):
        alone, gap = float(objective.alone(point)), float(point.loss) - lower_bound
    status = state.stop.float64_status(alone, gap, solution.steps, solution.status, slack)
    if status is not None:
        return dataclasses.replace(certified, status=status), objective
    state = dataclasses.replace(state, steps=solution.steps)
    further, sharper = yield from _minimise_in_stages(state, objective, start)
    if further.status is Status.NOT_FINITE:
        return stalled_at(certified, further), objective
    return dataclasses.replace(further, lower_bound=max(lower_bound, further.lower_bound)), sharper


def _is_in_float64(solution: Solution) -> bool:
    return np.asarray(solution.point.loss).dtype == np.float64


def _by_newton(
    objective: Objective, before: Solution, stop: StoppingRule, slack: float, watch: Watch
) -> Solution:
    """Go on by Newton's method from a solution, in float64; bounds of float32 are not taken along."""
    known = before.lower_bound if _is_in_float64(before) else objective.least()
    settings: dict[str, Any] = {"done": before.steps, "slack": slack, "lower_bound": known, "watch": watch}
    end = newton.minimise(objective, before.point.potentials, stop=stop, **settings)
    if float(end.point.loss) <= float(before.point.loss) or not _is_in_float64(before):
        return end
    return dataclasses.replace(before, status=end.status, steps=end.steps, lower_bound=end.lower_bound)


def _by_squares(state: FitState, objective: Objective, start: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the potentials of the least squares of a loss with kinks, and the steps so far.

    Far from its kinks such a loss has no curvature that Newton's method could follow.
    """
    squared, most = objective.loss.squared(), state.steps + (state.stop.max_steps - state.steps) // 4
    if squared is None or most == state.steps:
        return start, state.steps
    curvature = objective.curvature * float(objective.loss.smoothing)
    eased = dataclasses.replace(objective, loss=squared, curvature=curvature)
    stop = StoppingRule(CERTIFIED, most)
    end = newton.minimise(eased, start, stop=stop, done=state.steps)
    return np.asarray(end.point.potentials, start.dtype), end.steps


# Fixed marginals: the method of multipliers, with every round's result projected onto them.


def _minimise_in_rounds(state: FitState, host: Equalities) -> FitSteps[tuple[Solution, Objective]]:
    """Minimise the loss over the models with the fixed marginals; result as in `minimise`.

    A round minimises the augmented Lagrangian (`estimation.solvers.objective`); its residual then updates the
    multipliers. For any multipliers, a round's certified lower bound is one on the optimum of the fit. The
    upper bound comes from feasible models: iterative proportional fitting updates the potentials of the fixed
    marginals until the round's model has them. The gap is the difference of the two bounds.

    Args:
        state: where the fit is.
        host: the fixed marginals with multipliers of zero.

    References:
        Bertsekas (1982), Constrained Optimization and Lagrange Multiplier Methods, chapter 2.
    """
    problem, stop = state.problem, state.stop
    stiffest = STIFFEST / STIFF * float(host.penalty.max())
    number, idle, smoothing = 0, 0, FIRST_SMOOTHING
    lower_bound, missed, alone = problem.bind(state.dtype).least(), math.inf, math.inf
    least, narrowest = math.inf, math.inf
    best: tuple[Solution, Objective] | None = None
    while True:
        tol = max(stop.tol / 2, FIRST_TOL * SHARPER**number)
        goal = dataclasses.replace(stop, tol=tol, invisible=stop.invisible / 2, estimated=False)
        end, objective = yield from minimise(dataclasses.replace(state, stop=goal), host, smoothing)
        number, done, dtype = number + 1, end.steps, state.dtype
        if end.status is Status.NOT_FINITE:
            if best is None:
                return end, objective
            return dataclasses.replace(stalled_at(best[0], end), lower_bound=lower_bound), best[1]
        if objective.loss.smoothing is not None:
            smoothing = min(4 * float(objective.loss.smoothing), FIRST_SMOOTHING)
        if end.status is Status.STALLED and dtype == "float32" and problem.fits_in_float64():
            dtype = "float64"
        host, missed = _with_new_multipliers(host, end.point, missed, stiffest)

        point, objective, gap, exact = _projected(state, objective, host, end.point)
        state = dataclasses.replace(
            state, tables=_tables(objective, point.potentials), dtype=dtype, steps=done
        )
        if _is_in_float64(end):
            lower_bound = max(lower_bound, end.lower_bound)
        lower_bound = max(lower_bound, float(point.loss) - gap)
        loss = objective.loss.exact(_tables(objective, point.marginals)[: len(objective.loss.shapes)])
        with precision("float64"):
            reached = loss + objective.relative_entropy(point)
        if best is None or (exact and reached < least):
            best, alone = (dataclasses.replace(end, point=point), objective), loss
        least = min(least, reached) if exact else least
        idle = 0 if least - lower_bound < 0.9 * narrowest else idle + 1
        narrowest = least - lower_bound if idle == 0 else narrowest
        status = stop.round_status(least, lower_bound, done, idle, alone)
        if status is not None:
            return dataclasses.replace(best[0], status=status, steps=done, lower_bound=lower_bound), best[1]


def _with_new_multipliers(
    host: Equalities, point: Evaluation, missed: float, stiffest: float
) -> tuple[Equalities, float]:
    """Return the multipliers and penalty updated by a point's residual, and that residual's maximum.

    Args:
        host: the fixed marginals with the multipliers and the penalty of the last round.
        point: result of that round.
        missed: largest absolute residual of the round before it (probability).
        stiffest: penalty from which it is no longer raised.
    """
    found = np.asarray(point.marginals, np.float64)[: len(host.targets)]
    residual = np.where(host.penalty > 0, found - host.targets, 0.0)
    off = float(np.abs(residual).max())
    host = dataclasses.replace(host, multipliers=host.multipliers + host.penalty * residual)
    if NEGLIGIBLE < off > missed / 2 and host.penalty.max() < stiffest:
        host = dataclasses.replace(host, penalty=4 * host.penalty)
    return host, off


def _projected(
    state: FitState, objective: Objective, host: Equalities, point: Evaluation
) -> tuple[Evaluation, Objective, float, bool]:
    """Project a point onto the fixed marginals; return it, the float64 objective, gap and feasibility."""
    from pgmjax.estimation import feasibility  # which fits without constraints do without

    tables = _tables(objective, point.potentials)
    problem, known = state.problem, state.problem.known
    structure, _ = Structure.named(problem.domain.sizes, (*problem.cliques, *known.cliques))
    targets = split(host.targets, host.shapes)
    fitted = feasibility.proportional_fit(
        HostModel(structure, (*tables, *known.tables)), host.held, [targets[i] for i in host.held], SWEEPS
    )
    moved = [table - table.max() for table in fitted.model.tables[: len(host.shapes)]]
    with precision("float64"):
        objective = dataclasses.replace(problem.in_float64(objective), equalities=host)
        vector = host_join(moved, np.float64, len(objective.gauge.table))
        found, gap = loop.evaluate(CertificateRequest(objective, vector))
    return found, objective, gap, fitted.exact


# Helpers shared by the functions above.


def _tables(objective: Objective, vector: Any) -> tuple[np.ndarray, ...]:
    """Split a vector into the tables of an objective's cliques, in float64."""
    return split(np.asarray(vector, np.float64), objective.shapes)


def _counts(
    problem: FitProblem, objective: Objective, point: Callable[[], Evaluation]
) -> dict[Clique, np.ndarray]:
    """Return the marginals at a point, in counts."""
    tables = _tables(objective, point().marginals)
    return {c: problem.total * t / t.sum() for c, t in zip(problem.cliques, tables, strict=True)}
