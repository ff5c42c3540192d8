"""Control flow of a fit on the host; read it from top to bottom.

`fit` starts from an earlier model, or in closed form. `minimise` reduces the loss in stages of decreasing
smoothing, first in float32 if requested, and evaluates the result in float64. Every step evaluates
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

from pgmjax._internal.jit import precision
from pgmjax.data.cliques import Clique
from pgmjax.estimation import regularisation, side_information, solvers
from pgmjax.estimation.losses.augmented import Augmented, Equalities
from pgmjax.estimation.losses.base import BoundLoss, Tilted
from pgmjax.estimation.losses.build import noise_level
from pgmjax.estimation.problem import STIFF, FitProblem, FitProgress, Pull, with_first_smoothing
from pgmjax.estimation.solvers import loop, newton
from pgmjax.estimation.solvers.loop import (
    CertificateRequest,
    FitSteps,
    Solution,
    Watch,
    run_single,
    solve_steps,
)
from pgmjax.estimation.solvers.objective import Evaluation, Objective
from pgmjax.estimation.solvers.stopping import CERTIFIED, FIRST_SMOOTHING, Status, StoppingRule
from pgmjax.estimation.start import closed_form, starting_point
from pgmjax.inference import oracles
from pgmjax.inference.ops.tables import host_join, split
from pgmjax.inference.oracles import Oracle
from pgmjax.inference.oracles.host import HostModel
from pgmjax.inference.plan.structure import Structure
from pgmjax.model.graphical import GraphicalModel

STIFFEST = 1e4 * STIFF
FIRST_TOL, SHARPER = 0.1, 0.1  # tolerance of the first round, and its factor per round
SWEEPS = 1000  # of proportional fitting after a round
NEGLIGIBLE = 1e-9  # probability: a smaller residual does not raise the penalty


@dataclasses.dataclass(frozen=True)
class FitResult:
    """Result of a fit, on the host in float64.

    Attributes:
        cliques: the loss's cliques.
        plan: the inference plan.
        potentials: their log-potentials.
        marginals: their marginals (probabilities); empty if the loss was never finite.
        status: how the fit ended.
        steps: steps done.
        loss: the unsmoothed loss.
        gap: certified bound on the suboptimality of the objective.
        divergence: relative entropy to what the fit was pulled towards (nats), None without a pull.
        pull: the pull, if there was one.
    """

    cliques: tuple[Clique, ...]
    plan: oracles.Plan
    potentials: tuple[np.ndarray, ...]
    marginals: tuple[np.ndarray, ...]
    status: Status
    steps: int
    loss: float
    gap: float
    divergence: float | None = None
    pull: Pull | None = None


@dataclasses.dataclass(frozen=True)
class FitState:
    """A fit under way.

    Attributes:
        problem: what is to be fitted, with its pull.
        oracle: inference for the loss's cliques, then those of the side information.
        tables: log-potentials so far.
        dtype: type on the device.
        stop: stopping rule.
        steps: steps done.
    """

    problem: FitProblem
    oracle: Oracle
    tables: Sequence[np.ndarray]
    dtype: str
    stop: StoppingRule
    steps: int = 0

    def pulled(self, pull: Pull | None) -> FitState:
        """Return the state with another pull."""
        return dataclasses.replace(self, problem=dataclasses.replace(self.problem, pull=pull))


# A fit and its parts, in execution order.


def fit(problem: FitProblem, start: GraphicalModel | None) -> FitResult:
    """Run a single fit from an earlier model, or from the uniform distribution if None."""
    return run_single(fit_steps(problem, start))


def fit_steps(problem: FitProblem, start: GraphicalModel | None) -> FitSteps[FitResult]:
    """Run one fit as a generator of step requests.

    Args:
        problem: the fitting problem.
        start: initial model; None for the uniform distribution.

    Raises:
        ValueError: a start over another domain, or settings that the loss does not support.
        ModelTooLargeError: the model does not fit in memory, or the problem does not accept its plan.
    """
    dtype = problem.estimator.dtype
    with precision(dtype):
        loss = problem.bind(dtype)
        plan = problem.plan(loss.cliques)
        if problem.accept:
            problem.accept(plan)
        precise = solvers.build(problem.estimator.solver).in_float64
        # tables of the host are float64 in any case
        if plan.oracle.runs_on_host or (precise and problem.fits_in_float64(loss.cliques)):
            dtype = "float64"
        earlier = problem.known.start(start)
        tables: Sequence[np.ndarray] = [np.zeros(shape) for shape in loss.shapes]
        if earlier is not None:
            tables = starting_point(problem.domain, loss.cliques, earlier)
        elif problem.known.prior is None:
            tables = closed_form(problem.domain, loss.cliques, problem.measurements, problem.total)
    state = FitState(problem, plan.oracle, tables, dtype, problem.stopping_rule())
    weight = problem.weight()
    if dtype != problem.estimator.dtype:
        with precision(dtype):
            loss = problem.bind(dtype)
    if weight > 0:
        near = regularisation.reference_of(start, loss.cliques, problem.least())
        state = yield from _looked(state, weight, near)
        with precision(dtype):
            loss = state.problem.bind(dtype)
    run = _minimise_in_rounds(state, loss) if isinstance(loss, Augmented) else minimise(state, loss)
    solution, objective = yield from run
    return _result(plan, solution, objective, state)


def _result(plan: oracles.Plan, solution: Solution, objective: Objective, state: FitState) -> FitResult:
    """Return the result with the unsmoothed loss, its gap, and the status that these tell."""
    bound, status, steps, pull = objective.loss, solution.status, solution.steps, state.problem.pull
    vector, gauge = np.asarray(solution.point.potentials, np.float64), objective.gauge
    potentials = _tables(bound, vector - gauge.tops(vector))
    if status is Status.NOT_FINITE:
        return FitResult(bound.cliques, plan, potentials, (), status, steps, math.nan, math.nan)
    found = np.asarray(solution.point.marginals, np.float64)
    with np.errstate(invalid="ignore"):  # padding
        marginals = _tables(bound, found / gauge.reduced(np.add, found))
    loss = bound.exact(marginals)
    beside = _beside_loss(objective, solution.point)
    least = (bound.inner if isinstance(bound, Augmented) else bound).least()
    gap = max(loss + beside - max(solution.lower_bound, least), 0.0)
    certified = gap if _is_in_float64(solution) else math.inf
    is_estimate = pull is not None and state.problem.estimator.regularisation == "auto"
    status = state.stop.ending(status, loss, certified, is_estimate=is_estimate)
    divergence = None if pull is None else max(beside, 0.0) / pull.weight
    return FitResult(bound.cliques, plan, potentials, marginals, status, steps, loss, gap, divergence, pull)


# Fixed marginals: the method of multipliers, with every round's result projected onto them.


def _looked(state: FitState, weight: float, reference: regularisation.Reference) -> FitSteps[FitState]:
    """Fit for a few steps, and return the state with the pull that follows from them.

    Without a first reference the pull of the first part is too slight to matter: it is there so that all
    parts are one compiled program.
    """
    problem, stop = state.problem, state.stop
    level = noise_level(problem.estimator.loss, problem.measurements)
    half, least = max(1, stop.max_steps // 2), problem.least()
    rough = stop.roughly(regularisation.ROUGH * math.sqrt(level))
    few = dataclasses.replace(rough, max_steps=half, noise_level=level)
    state = state.pulled(Pull(regularisation.SLIGHT * problem.total))
    if reference:
        few = dataclasses.replace(rough, max_steps=min(half, regularisation.LOOK))
        state = state.pulled(Pull(weight, reference))
    for _ in range(regularisation.LOOKS):
        part = yield from _part(state, few)
        if part is None:
            return dataclasses.replace(state.pulled(None), steps=0)
        state, cliques, marginals = part
        shares = regularisation.one_way(cliques, marginals)
        reference, distance = regularisation.moved(reference, shares, least)
        state = state.pulled(Pull(weight, reference))
        near = weight * distance < regularisation.NEAR_ENOUGH * math.sqrt(level)
        if near or stop.ran_out(state.steps + regularisation.LOOK):
            break
        few = dataclasses.replace(rough, max_steps=state.steps + regularisation.LOOK)
    if problem.estimator.regularisation == "auto":
        return (yield from _lighter(state, Pull(weight, reference), rough))
    return state


def _lighter(state: FitState, pull: Pull, rough: StoppingRule) -> FitSteps[FitState]:
    """Lower the weight of a pull as long as that lowers the estimated error of the measured cells."""
    problem, stop, least = state.problem, state.stop, math.inf
    few = dataclasses.replace(rough, max_steps=stop.max_steps - regularisation.LOOK)
    for _ in range(1 + regularisation.LIGHTEST):
        if stop.ran_out(state.steps + 2 * regularisation.LOOK - 1):
            break
        part = yield from _part(state.pulled(pull), few)
        if part is None:
            break
        tried, cliques, marginals = part
        state = dataclasses.replace(state, steps=tried.steps)
        error = regularisation.estimated_error(
            problem.domain, problem.measurements, cliques, marginals, pull.weight, problem.total
        )
        if error > regularisation.WORTH * least:
            break
        state, least = tried, error
        if not regularisation.ENOUGH < error < math.inf:
            break
        pull = dataclasses.replace(pull, weight=regularisation.LIGHTER * pull.weight)
    return state


def _part(
    state: FitState, stop: StoppingRule
) -> FitSteps[tuple[FitState, tuple[Clique, ...], tuple[np.ndarray, ...]] | None]:
    """Fit until another rule ends it, at the first smoothing.

    Returns:
        The state after it, the loss's cliques and their marginals (probabilities); None if the loss was not
        finite.
    """
    with precision(state.dtype):
        loss = state.problem.bind(state.dtype)
    end, _ = yield from _minimise_from(dataclasses.replace(state, stop=stop), loss)
    if end.status is Status.NOT_FINITE:
        return None
    bound = loss.inner if isinstance(loss, Augmented) else loss
    moved = tuple(table - table.max() for table in _tables(loss, end.point.potentials))
    state = dataclasses.replace(state, tables=moved, steps=end.steps)
    return state, bound.cliques, _tables(bound, end.point.marginals)


def minimise(
    state: FitState, loss: BoundLoss, smoothing: float = FIRST_SMOOTHING
) -> FitSteps[tuple[Solution, Objective]]:
    """Minimise a loss in a dtype; after float32, evaluate the result in float64 or continue there.

    Args:
        state: where the fit is.
        loss: the loss, in the state's dtype.
        smoothing: initial smoothing of a loss with kinks (standard deviations).

    Returns:
        The solution, with all steps so far, and the objective it is evaluated on.
    """
    solution, objective = yield from _minimise_from(state, loss, smoothing)
    if solution.status is Status.NOT_FINITE:
        return solution, objective
    if state.dtype == "float32" and state.problem.fits_in_float64(loss.cliques):
        solution, objective = yield from _in_float64(state, objective, solution)
    if solution.status is not Status.CONVERGED and _is_small(objective) and _is_in_float64(solution):
        sharper = newton.lower_bound(objective, solution.point.potentials)
        solution = dataclasses.replace(solution, lower_bound=max(solution.lower_bound, sharper))
    return solution, objective


def _minimise_from(
    state: FitState, loss: BoundLoss, smoothing: float = FIRST_SMOOTHING
) -> FitSteps[tuple[Solution, Objective]]:
    """Minimise a loss in the state's dtype, from its potentials; arguments and result as in `minimise`."""
    problem, dtype = state.problem, state.dtype
    solver = solvers.build(problem.estimator.solver)
    with precision(dtype):
        loss, curvature = with_first_smoothing(solver, loss, problem.domain, smoothing)
        objective = problem.objective(state.oracle, loss, curvature, dtype)
        start = host_join(state.tables, dtype, len(objective.gauge.table))
    if objective.loss.smoothing is not None and _is_for_newton(problem, objective):
        start, steps = _by_squares(state, objective, start)
        state = dataclasses.replace(state, steps=steps)
    return (yield from _minimise_in_stages(state, objective, start))


def _minimise_in_stages(
    state: FitState, objective: Objective, start: np.ndarray
) -> FitSteps[tuple[Solution, Objective]]:
    """Run the solver; a smoothed loss is minimised in warm-started stages of decreasing smoothing.

    Smoothed losses lie below the loss, so every stage's lower bound holds for the loss itself.
    """
    problem, stop, done = state.problem, state.stop, state.steps
    solver = solvers.build(problem.estimator.solver)
    if problem.pull is None and objective.loss.smoothing is None and _is_small(objective):
        # near the optimum, where a closed form begins, slow falls deceive, and a certificate is cheap
        stop = dataclasses.replace(stop, believable=-math.inf)

    def watch(steps: int, loss: float, gap: float, point: Callable[[], Evaluation]) -> None:
        before = problem.trace[-1][0] if problem.trace else state.steps
        # a smoothed loss lies at most its slack below the loss, so this gap is certified for that too
        problem.trace.append((before + steps, loss, gap + slack))
        problem.bar.advance(steps, f"loss {loss:.6g}, gap {gap:.3g}")
        if problem.callback is not None:
            counts = functools.partial(_counts, objective.loss, point, problem.total)
            told = problem.callback(FitProgress(before + steps, loss, gap + slack, counts))
            problem.halts.extend([True] * (told is True))

    block = 50 if objective.oracle.forecast.work < 50_000_000 else 25
    lower_bound, last = objective.loss.least(), None
    small = _is_for_newton(problem, objective)
    while True:
        slack = float(objective.loss.slack())
        few = dataclasses.replace(stop, max_steps=min(stop.max_steps, done + newton.AFTER)) if small else stop
        run = functools.partial(solve_steps, objective, slack=slack, watch=watch)
        solution = yield from run(solver, start, stop=few, done=done, lower_bound=lower_bound, block=block)
        done, lower_bound = solution.steps, solution.lower_bound
        ended = solution.status not in (Status.MAX_STEPS, Status.STALLED) or stop.ran_out(done)
        if small and not ended:
            solution = _by_newton(objective, solution, stop, slack, watch)
            if solution.status is Status.STALLED and slack > 0 and not stop.ran_out(solution.steps):
                # kinks may hold up Newton's method, where first order methods go on
                start = np.asarray(solution.point.potentials, start.dtype)
                done, lower_bound = solution.steps, solution.lower_bound
                solution = yield from run(
                    solver, start, stop=stop, done=done, lower_bound=lower_bound, block=block
                )
        done, lower_bound = solution.steps, solution.lower_bound
        if solution.status is Status.NOT_FINITE and last is not None:
            return _stalled_at(last, solution), objective
        loss, last = float(solution.point.loss), solution
        status = stop.stage_status(loss, lower_bound, done, solution.status, slack)
        if status is not None:
            return dataclasses.replace(solution, status=status), objective
        start = np.asarray(solution.point.potentials, start.dtype)
        sharper = objective.loss.with_smoothing(float(objective.loss.smoothing) / 4)
        objective = dataclasses.replace(objective, loss=sharper, curvature=objective.curvature * 4)


def _in_float64(
    state: FitState, objective: Objective, solution: Solution
) -> FitSteps[tuple[Solution, Objective]]:
    """Evaluate the result of a float32 fit in float64, and continue there if its precision ran out.

    Marginals rounded to float32 may be inconsistent, and so lie outside the marginal polytope; the
    loss and certificate of the potentials themselves are computed here.
    """
    with precision("float64"):
        bound = _cast_to_float64(objective.loss)
        objective = state.problem.objective(objective.oracle, bound, objective.curvature, "float64")
        start = np.asarray(solution.point.potentials, np.float64)
    point, gap = yield CertificateRequest(objective, start)
    slack = float(bound.slack())
    lower_bound = max(float(point.loss) - gap, bound.least())
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
        return _stalled_at(certified, further), objective
    return dataclasses.replace(further, lower_bound=max(lower_bound, further.lower_bound)), sharper


def _stalled_at(sound: Solution, failed: Solution) -> Solution:
    """Return the last finite point, as STALLED, after a non-finite one."""
    return dataclasses.replace(sound, status=Status.STALLED, steps=failed.steps)


def _is_in_float64(solution: Solution) -> bool:
    return np.asarray(solution.point.loss).dtype == np.float64


def _by_newton(
    objective: Objective, before: Solution, stop: StoppingRule, slack: float, watch: Watch
) -> Solution:
    """Go on by Newton's method from a solution, in float64; bounds of float32 are not taken along."""
    known = before.lower_bound if _is_in_float64(before) else objective.loss.least()
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
    if end.status is Status.NOT_FINITE:
        return start, state.steps
    return np.asarray(end.point.potentials, start.dtype), end.steps


def _is_for_newton(problem: FitProblem, objective: Objective) -> bool:
    """Return whether Newton's method goes on where the default solver has not converged."""
    return newton.takes_over(problem.estimator.solver, 0) and _is_small(objective)


def _is_small(objective: Objective) -> bool:
    """Return whether Newton's method has time for a model."""
    cells = sum(math.prod(shape) for shape in objective.loss.shapes)
    return cells <= newton.CELLS and newton.is_fast(objective)


def _minimise_in_rounds(state: FitState, bound: Augmented) -> FitSteps[tuple[Solution, Objective]]:
    """Minimise a loss over the models with the fixed marginals; arguments and result as in `minimise`.

    A round minimises the augmented Lagrangian (`estimation.losses.augmented`); its residual then updates the
    multipliers. For any multipliers, a round's certified lower bound is one on the optimum of the fit. The
    upper bound comes from feasible models: iterative proportional fitting updates the potentials of the fixed
    marginals until the round's model has them. The gap is the difference of the two bounds.

    References:
        Bertsekas (1982), Constrained Optimization and Lagrange Multiplier Methods, chapter 2.
    """
    problem, stop, host = state.problem, state.stop, bound.on_host()
    stiffest = STIFFEST / STIFF * host.penalty_parameter
    number, idle, smoothing = 0, 0, FIRST_SMOOTHING
    lower_bound, missed, alone = bound.inner.least(), math.inf, math.inf
    least, narrowest = math.inf, math.inf
    best: tuple[Solution, Objective] | None = None
    while True:
        tol = max(stop.tol / 2, FIRST_TOL * SHARPER**number)
        goal = dataclasses.replace(stop, tol=tol, invisible=stop.invisible / 2, estimated=False)
        with precision(state.dtype):
            bound = Augmented.of(bound.inner.cast(state.dtype), host, state.dtype)
        end, objective = yield from minimise(dataclasses.replace(state, stop=goal), bound, smoothing)
        number, done, dtype = number + 1, end.steps, state.dtype
        if end.status is Status.NOT_FINITE:
            if best is None:
                return end, objective
            return dataclasses.replace(_stalled_at(best[0], end), lower_bound=lower_bound), best[1]
        if objective.loss.smoothing is not None:
            smoothing = min(4 * float(objective.loss.smoothing), FIRST_SMOOTHING)
        if end.status is Status.STALLED and dtype == "float32" and problem.fits_in_float64(host.cliques):
            dtype = "float64"
        host, missed = _repriced(host, end.point, missed, stiffest)

        point, objective, gap, exact = _projected(state, objective, host, end.point)
        tables = split(np.asarray(point.potentials), host.shapes)
        state = dataclasses.replace(state, tables=tables, dtype=dtype, steps=done)
        if _is_in_float64(end):
            lower_bound = max(lower_bound, end.lower_bound)
        lower_bound = max(lower_bound, float(point.loss) - gap)
        loss = objective.loss.exact(split(np.asarray(point.marginals), host.shapes))
        reached = loss + _beside_loss(objective, point)
        if best is None or (exact and reached < least):
            best, alone = (dataclasses.replace(end, point=point), objective), loss
        least = min(least, reached) if exact else least
        idle = 0 if least - lower_bound < 0.9 * narrowest else idle + 1
        narrowest = least - lower_bound if idle == 0 else narrowest
        status = stop.round_status(least, lower_bound, done, idle, alone)
        if status is not None:
            return dataclasses.replace(best[0], status=status, steps=done, lower_bound=lower_bound), best[1]


def _repriced(
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
    residual = np.where(host.cells, found - host.targets, 0.0)
    off = float(np.abs(residual).max())
    host = dataclasses.replace(host, multipliers=host.multipliers + host.penalty_parameter * residual)
    if NEGLIGIBLE < off > missed / 2 and host.penalty_parameter < stiffest:
        host = dataclasses.replace(host, penalty_parameter=4 * host.penalty_parameter)
    return host, off


def _projected(
    state: FitState, objective: Objective, host: Equalities, point: Evaluation
) -> tuple[Evaluation, Objective, float, bool]:
    """Project a point onto the fixed marginals; return it, the float64 objective, gap and feasibility."""
    tables = split(np.asarray(point.potentials, np.float64), host.shapes)
    problem, known = state.problem, state.problem.known
    structure, _ = Structure.named(problem.domain.sizes, (*host.cliques, *known.cliques))
    places = [place for place, held in enumerate(host.held) if held]
    targets = split(host.targets, host.shapes)
    fitted = side_information.proportional_fit(
        HostModel(structure, (*tables, *known.tables)), places, [targets[i] for i in places], SWEEPS
    )
    moved = [table - table.max() for table in fitted.model.tables[: len(host.shapes)]]
    assert isinstance(objective.loss, Augmented)
    with precision("float64"):
        loss = Augmented.of(_cast_to_float64(objective.loss.inner), host, "float64")
        objective = problem.objective(state.oracle, loss, objective.curvature, "float64")
        vector = host_join(moved, np.float64, len(objective.gauge.table))
        found, gap = loop.evaluate(CertificateRequest(objective, vector))
    return found, objective, gap, fitted.exact


# Helpers shared by the functions above.


def _cast_to_float64(loss: BoundLoss) -> BoundLoss:
    """Return the loss at its current smoothing, with device arrays in float64."""
    bound = loss.cast("float64")
    return bound if loss.smoothing is None else bound.with_smoothing(float(loss.smoothing))


def _beside_loss(objective: Objective, point: Evaluation) -> float:
    """Return the weighted relative entropy to a prior or reference at a point; 0 without one."""
    if objective.prior is None:
        return 0.0
    bound = objective.loss.inner if isinstance(objective.loss, Augmented) else objective.loss
    linear = bound.term(_tables(bound, point.marginals)) if isinstance(bound, Tilted) else 0.0
    with precision(np.dtype(point.loss.dtype).name):
        alone, _ = objective.loss.value_and_gradient(np.asarray(point.marginals))
        return float(point.loss) - float(alone) + linear


def _tables(bound: BoundLoss, vector: Any) -> tuple[np.ndarray, ...]:
    """Split a vector into the tables of the loss's cliques, in float64."""
    return split(np.asarray(vector, np.float64), bound.shapes)


def _counts(bound: BoundLoss, point: Callable[[], Evaluation], total: float) -> dict[Clique, np.ndarray]:
    """Return the marginals at a point, in counts."""
    tables = _tables(bound, point().marginals)
    return {clique: total * table / table.sum() for clique, table in zip(bound.cliques, tables, strict=True)}
