"""Estimation over the local polytope, for cliques too large for any exact plan.

The marginal polytope is relaxed to all tables over the cliques that agree on their overlaps (the local
polytope, an outer approximation). The loss is minimised there by the same solvers, so its optimum, and the
certified lower bound, lie at or below the loss of every table.

`LocalObjective` presents this to the solvers. Its vector of potentials holds the outer regions' tables.
Messages added to one region's table and subtracted from another's change no solution, so the converged
messages of a point are kept in its potentials as a warm start, and the next point takes few more sweeps.
This is transparent to solvers that continue from `Evaluation.potentials`.

The pull towards independence is a relative entropy to a product of one-way marginals. That of a joint
distribution to a product is the cross-entropy of its one-way marginals less its entropy. If there is no joint
distribution, or its entropy is a sum over too many states, its tables over regions stand for it: each region
counts as much as the conditional entropies that `inference.plan.regions` chooses for it, and once. Exact if
the regions form a junction tree; otherwise neither bound nor estimate of strong dependence, but right to
second order in weak dependence between pairs, and convex in any case.

References:
    McKenna, Pradhan, Sheldon and Miklau (2021), Relaxed marginal consistency for differentially
    private query answering.
    Globerson and Jaakkola (2007), Approximate inference using conditional entropy decompositions.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal import checks
from pgmjax._internal.device import precision
from pgmjax._internal.jit import jit
from pgmjax._internal.memory import readable_bytes
from pgmjax._internal.progress import Progress
from pgmjax.data.domain import Clique, Domain, as_clique, as_domain
from pgmjax.estimation import losses, solvers
from pgmjax.estimation import regularisation as pulls
from pgmjax.estimation.constraints import StructuralZeros
from pgmjax.estimation.feasibility import require_feasible
from pgmjax.estimation.losses.base import BoundLoss, Loss
from pgmjax.estimation.regularisation import Regularisation
from pgmjax.estimation.solvers.loop import FitSteps, Solution, run_single, solve_in_stages, solve_steps
from pgmjax.estimation.solvers.objective import Evaluation, Gauge, Objective, Vector, rounding
from pgmjax.estimation.solvers.stopping import FIRST_SMOOTHING, Status, StoppingRule
from pgmjax.inference.ops import host_join, split
from pgmjax.inference.oracles import belief_propagation
from pgmjax.inference.oracles.belief_propagation import ConvexBP, CoverBP, forecast
from pgmjax.inference.plan import regions
from pgmjax.inference.plan.forecast import Forecast, memory_limit, require_memory
from pgmjax.inference.plan.regions import CountingNumbers, RegionGraph, index_maps, region_graph
from pgmjax.inference.plan.structure import Structure
from pgmjax.measurements.inputs import of_measurements, with_inputs
from pgmjax.measurements.linear import LinearMeasurement, over_domain
from pgmjax.measurements.total import estimate_total
from pgmjax.model.clique_vector import CliqueVector
from pgmjax.model.regions import METHOD, RegionModel

LEAST = 1e-30
"""Probability below which a cell's logarithm counts as that of this number."""


def counting_numbers(graph: RegionGraph) -> CountingNumbers:
    """Return the counting numbers of conditional entropies, scaled so that every outer region counts once.

    Example:
        >>> from pgmjax.inference.plan.regions import region_graph
        >>> from pgmjax.inference.plan.structure import Structure
        >>> numbers = counting_numbers(region_graph(Structure((2, 2, 2), ((0, 1), (1, 2), (2, 0)))))
        >>> numbers.outer.tolist(), numbers.inner.round(2).tolist()
        ([1.0, 1.0, 1.0], [-0.5, -1.0, -0.0])
    """
    found = regions.trees(graph)
    assert found.conditional is not None
    conditional = tuple(
        counts / found.outer[list(holders)]
        for counts, holders in zip(found.conditional, graph.above, strict=True)
    )
    inner = np.array([-counts.sum() for counts in conditional])
    return CountingNumbers(np.ones(len(graph.outer)), inner, conditional)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["weight", "cells", "part", "number", "first", "value", "variable", "share"],
    meta_fields=[],
)
@dataclasses.dataclass(frozen=True, eq=False)
class RegionDivergence:
    """Relative entropy to a product, as a function of one vector of the outer regions' tables.

    Attributes:
        weight: for each cell of the outer regions, the number of its region.
        cells: positions of the cells that are summed to marginals on parts of their regions.
        part: for each of these the cell of the part.
        number: for each cell of a part, the weight of its logarithm.
        first: positions of the cells that are summed to one-way marginals.
        value: for each of these the value, over all variables.
        variable: for each value its variable.
        share: for each variable how often it counts: once on a junction tree.
    """

    weight: Any
    cells: Any
    part: Any
    number: Any
    first: Any
    value: Any
    variable: Any
    share: Any

    @classmethod
    def of(cls, graph: RegionGraph, numbers: CountingNumbers) -> RegionDivergence:
        """Lay the regions of a graph out in vectors.

        Args:
            graph: the regions.
            numbers: their counting numbers, a sum of conditional entropies.
        """
        structure = graph.structure
        sizes = np.array([structure.cells(region) for region in graph.outer])
        starts = np.cumsum([0, *sizes])
        share = np.zeros(len(structure.sizes))
        for region, number in zip(graph.outer, numbers.outer, strict=True):
            share[list(region)] += number
        cells, part, number, used = [], [], [], 0
        assert numbers.conditional is not None
        for inner, holders, given in zip(graph.inner, graph.above, numbers.conditional, strict=True):
            for holder, one in zip(holders, given, strict=True):
                if one > 0:
                    region = graph.outer[holder]
                    within = _within(structure.shape(region), [v in inner for v in region])
                    cells.append(starts[holder] + np.arange(sizes[holder]))
                    part.append(used + within)
                    number.append(np.full(structure.cells(inner), one))
                    used += structure.cells(inner)
                    share[list(inner)] -= one
        first, value = [], []
        ends = np.cumsum([0, *structure.sizes])
        for variable in range(len(structure.sizes)):
            holder = next(i for i, region in enumerate(graph.outer) if variable in region)
            region = graph.outer[holder]
            first.append(starts[holder] + np.arange(sizes[holder]))
            value.append(ends[variable] + _within(structure.shape(region), [v == variable for v in region]))
        return cls(
            np.repeat(numbers.outer, sizes),
            _joined(cells),
            _joined(part),
            np.concatenate([np.zeros(0), *number]),
            _joined(first),
            _joined(value),
            np.repeat(np.arange(len(structure.sizes), dtype=np.int32), structure.sizes),
            share,
        )

    def one_way(self, outer: Vector) -> Vector:
        """Return the one-way marginals of all variables [values], from the regions' tables."""
        return jnp.zeros(len(self.variable), outer.dtype).at[self.value].add(outer[self.first])

    def entropy(self, outer: Vector) -> Vector:
        """Return the sum over regions in place of the entropy (nats)."""
        parts = jnp.zeros(len(self.number), outer.dtype).at[self.part].add(outer[self.cells])
        return _weighted(self.number, parts) - _weighted(self.weight, outer)

    def cross_entropy(self, outer: Vector, logarithms: Vector) -> Vector:
        """Return the cross-entropy of the one-way marginals to others (nats).

        Args:
            outer: the regions' tables (probabilities).
            logarithms: of the others' probabilities [values].
        """
        share = jnp.asarray(self.share, outer.dtype)[self.variable]
        return -jnp.sum(share * self.one_way(outer) * logarithms)

    def floored(self, outer: Vector, least: Any) -> Vector:
        """Return the logarithms of the one-way marginals [values], none below a least probability."""
        raised = jnp.maximum(self.one_way(outer), least)
        totals = jnp.zeros(len(self.share), outer.dtype).at[self.variable].add(raised)
        return jnp.log(raised / totals[self.variable])


def _weighted(weight: Vector, tables: Vector) -> Vector:
    """Return the weighted sum of ``p * log(p)``."""
    logs = jnp.log(jnp.maximum(tables, LEAST))
    return jnp.sum(jnp.asarray(weight, tables.dtype) * tables * logs)


def _within(shape: tuple[int, ...], kept: list[bool]) -> np.ndarray:
    """Return for each cell of a table, row-major, the cell of its marginal on the axes kept."""
    small = [size if keep else 1 for size, keep in zip(shape, kept, strict=True)]
    return np.broadcast_to(np.arange(int(np.prod(small))).reshape(small), shape).reshape(-1)


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int32)


STEP_TOL, STEP_SWEEPS = 1e-9, 20  # of the messages in one solver step, warm-started
END_TOL, END_SWEEPS = 1e-11, 5000
SETTLED = 0.9  # of the tolerance: messages that settle after the last step move the loss a little
CONSISTENT = 1e-6  # residual above which there is a warning
PULLED = 24  # numbers a cell that a pull takes: index maps, marginals on parts and messages
BOUND_TOL, BOUND_SWEEPS = 1e-10, 500  # of the messages in the certificate of a pulled fit

# For the certificate: successive temperatures decrease by a factor of 10 ** 0.5.
TEMPERATURES, COOLING_SWEEPS = 17, 10


class InconsistentWarning(UserWarning):
    """Belief propagation ended before its tables agreed."""


@dataclasses.dataclass(frozen=True)
class LocalPlan:
    """The region graph of a fit and its cost.

    Attributes:
        graph: the region graph of the measured and constrained cliques.
        attributes: name of each of its variables.
        max_bytes: memory limit.
        pulled: whether the fit is regularised.
    """

    graph: RegionGraph
    attributes: tuple[str, ...]
    max_bytes: int
    pulled: bool = False

    @property
    def forecast(self) -> Forecast:
        """Forecast cost of a step."""
        return forecast(self.graph)

    @property
    def peak_bytes(self) -> int:
        """Peak memory of a fit in bytes."""
        more = 8 * PULLED * self.graph.cells if self.pulled else 0
        return self.forecast.peak_bytes(8, solvers.Accelerated().copies) + more

    def summary(self) -> str:
        """Return a two-line summary of the plan."""
        need, limit = readable_bytes(self.peak_bytes), readable_bytes(self.max_bytes)
        return f"{METHOD}: {self.graph.summary()}\nabout {need} of {limit} available"


@dataclasses.dataclass(frozen=True)
class LocalFit:
    """The result of an estimation over locally consistent tables.

    Attributes:
        model: the pseudo-marginals.
        status: how the solver ended.
        steps: solver steps done.
        loss: loss of the pseudo-marginals, in float64.
        gap: certified bound on `loss - optimum` over locally consistent tables. `loss - gap` is thus a lower
            bound on the loss of every table, of unknown tightness.
        residual: see `RegionModel.residual`.
        plan: the region graph.
        regularisation: what the fit was pulled towards, and how much; None if it was not. If it was, the gap
            is that of loss plus weighted relative entropy, which is approximated over regions.
    """

    model: RegionModel
    status: Status
    steps: int
    loss: float
    gap: float
    residual: float
    plan: LocalPlan = dataclasses.field(repr=False)
    regularisation: Regularisation | None = None

    def summary(self) -> str:
        """Return a short text summary of status and model."""
        return f"{self.status.name} after {self.steps} steps\n{self.model.summary()}"


def plan_local(
    domain: Domain,
    cliques: Sequence[Clique],
    constraints: Sequence[StructuralZeros] = (),
    max_bytes: int | None = None,
    pulled: bool = False,
) -> LocalPlan:
    """Plan a fit of these cliques, or refuse it with its forecast. Uses no data.

    Args:
        domain: the attributes.
        cliques: the cliques to be measured.
        constraints: impossible cells.
        max_bytes: memory limit; None for that of the device.
        pulled: whether the fit is regularised, which takes more memory.

    Raises:
        ValueError: an unknown or repeated attribute.
        ModelTooLargeError: the regions do not fit in memory.

    Example:
        >>> print(plan_local(Domain({"a": 2, "b": 3}), [("a", "b")], max_bytes=2**20).summary())
        convex belief propagation: 1 outer regions with 6 cells, 0 inner regions with 0 cells, 0 edges
        about 1.01e+03 bytes of 1 MiB available
    """
    named = [as_clique(domain, c) for c in (*cliques, *(z.clique for z in constraints))]
    structure, attributes = Structure.named(domain.sizes, named)
    limit = memory_limit(max_bytes)
    made = LocalPlan(region_graph(structure), attributes, limit, pulled)
    require_memory(made.forecast, attributes, made.peak_bytes, limit)
    return made


def fit_local(
    domain: Domain,
    measurements: Sequence[LinearMeasurement],
    total: float | None = None,
    *,
    loss: Any = "l2",
    constraints: Sequence[StructuralZeros] = (),
    max_steps: int = 1000,
    tol: float | None = 1e-4,
    max_bytes: int | None = None,
    progress: bool | None = None,
    regularisation: float | str = "none",
    reference: Mapping[str, np.ndarray] | None = None,
) -> LocalFit:
    """Estimate the locally consistent tables that fit the measurements best, in float64.

    Args:
        domain: the attributes.
        measurements: noisy linear answers.
        total: number of records (counts). Default: estimated from the measurements.
        loss: as in `Estimator`.
        constraints: impossible cells.
        max_steps: maximum number of solver steps.
        tol: stop when gap <= tol * max(1, loss); None for what noise makes invisible, as in `Estimator`.
        max_bytes: memory limit; None for that of the device.
        progress: None for a progress bar in terminals and notebooks, False for no bar.
        regularisation: as in `Estimator`; the relative entropy is approximated over the regions (see
            `estimation.region_fit`), exactly so if they form a junction tree.
        reference: probabilities of every attribute's values, whose product the fit is pulled towards.
            Default: the product of the fit's own one-way marginals. Without a weight it has no effect.

    Warns:
        InconsistentWarning: the tables do not agree to a probability of 1e-6.

    Raises:
        TypeError: arguments of the wrong type.
        ValueError: bad measurements, a total that cannot be estimated, infeasible constraints, or regions
            that do not fit in memory.

    Example:
        >>> domain = Domain({"a": 2, "b": 2, "c": 2})
        >>> opposite = [[0.0, 20.0], [20.0, 0.0]]  # no three values differ pairwise if there are but two
        >>> pairs = [("a", "b"), ("b", "c"), ("a", "c")]
        >>> fit = fit_local(domain, [LinearMeasurement(c, opposite, 1.0) for c in pairs], total=40)
        >>> fit.loss < 1e-3, fit.model.marginal(("a", "c")).round(1).tolist()
        (True, [[0.0, 20.0], [20.0, 0.0]])
    """
    domain = as_domain(domain, "fit_local(domain, measurements)", measurements)
    measurements, constraints = over_domain(domain, measurements), tuple(constraints)
    max_steps = checks.integer("max_steps", max_steps, low=1)
    if tol is not None:
        checks.number("tol", tol, at_least=0)
    loss = losses.setting(loss)
    regularisation = pulls.check(regularisation, loss)
    if reference is not None:
        _check_reference(domain, reference)
    if not all(isinstance(each, StructuralZeros) for each in constraints):
        raise TypeError(
            "constraints must be StructuralZeros here: write constraint.zeros(domain) for other rules; fixed "
            "marginals need an exact fit, Estimator().fit."
        )
    require_feasible(domain, constraints)
    count = estimate_total(domain, measurements)[0] if total is None else total
    count = checks.total(count)
    with precision("float64"):
        bound = loss.bind(domain, measurements, count, "float64")
        weight, least = pulls.usable(regularisation, loss, domain, measurements, count, max_steps)
        made = plan_local(domain, bound.cliques, constraints, max_bytes, weight > 0)
        oracle = CoverBP.build(made.graph.structure, tol=STEP_TOL, max_sweeps=STEP_SWEEPS)
        problem = LocalObjective.over(oracle, bound, 1.0, [zeros.log_mask() for zeros in constraints])
        curvature = _curvature(problem, loss, domain, measurements, count)
        problem = dataclasses.replace(problem, curvature=curvature)
        level = loss.noise_level(measurements)
        rule = StoppingRule.of(tol, max_steps, math.sqrt(level))
        rule = dataclasses.replace(rule, sharp_enough=math.inf)
        stop = dataclasses.replace(rule, tol=SETTLED * rule.tol)
        with Progress("fit", max_steps, progress) as bar:
            if weight > 0:
                given = {} if reference is None else pulls.moved({}, dict(reference), least)[0]
                solution, problem = _pulled(made, problem, weight, level, least, given, stop, bar)
            else:
                solution, problem = _minimise(problem, stop, bar)
        slow = dataclasses.replace(oracle, tol=END_TOL, max_sweeps=END_SWEEPS)
        settled = dataclasses.replace(problem, oracle=slow)
        x, distance = _settled(settled, solution.point.potentials)
        divergence = 0.0 if problem.pull is None else max(float(problem.divergence(jnp.exp(x))), 0.0)
    model = with_inputs(
        _model(made, domain, count, np.asarray(x), float(distance)), of_measurements(measurements)
    )
    return _result(made, problem, rule, solution, model, divergence, regularisation == "auto")


def _check_reference(domain: Domain, reference: Mapping[str, np.ndarray]) -> None:
    if not isinstance(reference, Mapping) or set(reference) != set(domain):
        raise ValueError("reference must map every attribute of the domain, and no other, to probabilities.")
    for name, given in reference.items():
        shares = np.asarray(given, np.float64)
        if shares.shape != (domain[name],) or not (np.isfinite(shares).all() and shares.min() >= 0):
            raise ValueError(f"reference of {name!r} must be {domain[name]} numbers >= 0, finite.")
        if not abs(shares.sum() - 1) < 1e-6:
            raise ValueError(f"reference of {name!r} must sum to 1, got a sum of {shares.sum():.6g}.")


def named(made: LocalPlan, values: np.ndarray) -> dict[str, np.ndarray]:
    """Return a vector of all values as an array for each attribute."""
    parts = np.split(values, np.cumsum(made.graph.structure.sizes)[:-1])
    return dict(zip(made.attributes, parts, strict=True))


def _pulled(
    made: LocalPlan,
    problem: LocalObjective,
    weight: float,
    level: float,
    least: float,
    given: pulls.Reference,
    stop: StoppingRule,
    bar: Progress,
) -> tuple[Solution, LocalObjective]:
    """Minimise the loss with a pull towards a product: a given one, or that of the one-way marginals so far.

    The rounds are those of an exact fit, `estimation.fit`.

    Args:
        made: the region graph.
        problem: the problem without a pull.
        weight: of the relative entropy (records).
        level: expected loss under the noise alone.
        least: least probability of a value in the product.
        given: the product; empty if it is to be found on the way.
        stop: stopping rule of the whole fit.
        bar: progress bar.
    """
    rough = stop.roughly(pulls.PART_EXCESS * math.sqrt(level))
    few = dataclasses.replace(rough, max_steps=max(1, stop.max_steps // 2), noise_level=level)
    end, _ = _minimise(problem, few, bar)
    numbers = counting_numbers(made.graph)
    divergence = RegionDivergence.of(made.graph, numbers)
    agreeing = problem.oracle.maps
    oracle = ConvexBP(index_maps(made.graph, numbers), agreeing, tol=BOUND_TOL, max_sweeps=BOUND_SWEEPS)
    bend = weight * float(np.max(numbers.outer / agreeing.weight))
    curvature = np.asarray(float(problem.curvature) + bend)
    reference = given
    for _ in range(1 if given else pulls.MOST_PARTS):
        distance = 0.0
        if not given:
            shares = named(made, np.asarray(divergence.one_way(end.point.marginals)))
            reference, distance = pulls.moved(reference, shares, least)
        logarithms = np.concatenate([reference[name] for name in made.attributes])
        pull = RegionPull(divergence, np.asarray(weight), logarithms, oracle)
        problem = dataclasses.replace(problem, curvature=curvature, pull=pull)
        start = np.asarray(end.point.potentials)
        near = weight * distance < pulls.REFERENCE_TOLERANCE * math.sqrt(level)
        if near or end.steps + pulls.PART_STEPS >= stop.max_steps:
            break
        few = dataclasses.replace(rough, max_steps=end.steps + pulls.PART_STEPS)
        end, _ = _minimise(problem, few, bar, start, end.steps)
    return _minimise(problem, stop, bar, start, end.steps)


@jit
def _settled(problem: LocalObjective, potentials: Vector) -> tuple[Vector, jax.Array]:
    return problem.settled(potentials)


def _model(made: LocalPlan, domain: Domain, total: float, x: np.ndarray, residual: float) -> RegionModel:
    """Return the model of some log-beliefs of the outer regions; warn where they do not agree."""
    graph = made.graph
    tables = split(np.exp(x), [graph.structure.shape(region) for region in graph.outer])
    names = tuple(tuple(made.attributes[v] for v in region) for region in graph.outer)
    if not residual <= CONSISTENT:
        checks.warn(
            f"belief propagation ended with tables that agree to {residual:.2g} of the probability only.",
            InconsistentWarning,
        )
    return RegionModel(domain, CliqueVector(names, tuple(t / t.sum() for t in tables)), total, residual)


def _result(
    made: LocalPlan,
    problem: LocalObjective,
    rule: StoppingRule,
    solution: Solution,
    model: RegionModel,
    divergence: float,
    automatic: bool,
) -> LocalFit:
    """Return the fit of a model, with its loss in float64.

    Args:
        made: the region graph.
        problem: what was minimised.
        rule: the stopping rule that was asked for.
        solution: of the solver.
        model: at its point.
        divergence: relative entropy to what the model was pulled towards (nats).
        automatic: whether the weight of a pull was chosen from the noise.
    """
    bound, pull, pulled, loss, gap = problem.loss, problem.pull, None, math.nan, math.nan
    weight = 0.0 if pull is None else float(pull.weight)
    if solution.status is not Status.NOT_FINITE:
        loss = bound.exact([model.marginal(clique) / model.total for clique in bound.cliques])
        gap = max(loss + weight * divergence - solution.lower_bound, 0.0)
    if pull is not None:
        logs = named(made, np.asarray(pull.logarithms))
        pulled = pulls.report(model.domain, model.total, weight, divergence, logs)
    model = dataclasses.replace(model, loss=loss, gap=gap if pull is None else math.nan)
    status = rule.ending(solution.status, loss, gap, is_estimate=pull is not None and automatic)
    return LocalFit(model, status, solution.steps, loss, gap, model.residual, made, pulled)


def _minimise(
    problem: LocalObjective, stop: StoppingRule, bar: Progress, start: Any = None, done: int = 0
) -> tuple[Solution, LocalObjective]:
    """Run the solver; a loss with kinks in stages of decreasing smoothing, as in an exact fit."""
    if problem.loss.smoothing is not None:
        problem = problem.with_smoothing(FIRST_SMOOTHING)

    def stage(problem: Objective, start: np.ndarray, done: int, lower_bound: float) -> FitSteps[Solution]:
        return solve_steps(
            problem,
            solvers.Accelerated(),
            start,
            stop=stop,
            slack=float(problem.loss.slack()),
            done=done,
            lower_bound=lower_bound,
            watch=lambda steps, loss, gap, _: bar.advance(steps, f"loss {loss:.6g}, gap {gap:.3g}"),
        )

    start = np.zeros(len(problem.gauge.table)) if start is None else start
    found: Any = run_single(solve_in_stages(problem, start, stage, stop, done))
    return found


def _curvature(
    problem: LocalObjective,
    loss: Loss,
    domain: Domain,
    measurements: Sequence[LinearMeasurement],
    total: float,
) -> np.ndarray:
    """Return the largest curvature on one outer table divided by the table's weight, or a guess.

    The distance is the weighted sum of the tables' relative entropies, and a loss that is a sum over
    measurements is also one over tables.
    """
    oracle, bound = problem.oracle, problem.loss
    weights, table = oracle.maps.weight, oracle.maps.table
    assert oracle.graph is not None
    if bound.lipschitz() is None:
        return np.asarray(max(_spread(problem, weights, table), float(np.finfo(np.float32).tiny)), np.float64)
    holder = dict(zip(map(frozenset, bound.cliques), oracle.graph.holder, strict=False))
    groups: dict[int, list[LinearMeasurement]] = {}
    for measurement in measurements:
        groups.setdefault(holder[frozenset(measurement.clique)], []).append(measurement)
    known = [
        loss.bind(domain, group, total, "float64").lipschitz() / weights[number]
        for number, group in groups.items()
    ]
    return np.asarray(max([*known, float(np.finfo(np.float32).tiny)]), np.float64)


def _spread(problem: LocalObjective, weights: np.ndarray, table: np.ndarray) -> float:
    """Return the largest gradient range within a table, at uniform beliefs, over its weight."""
    beliefs = jax.nn.softmax(problem.fixed * 0) * len(weights)
    gradient = np.asarray(jax.grad(problem.flat)(beliefs))
    most, least = np.full(len(weights), -np.inf), np.full(len(weights), np.inf)
    np.maximum.at(most, table, gradient)
    np.minimum.at(least, table, gradient)
    return float(((most - least) / weights).max())


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RegionPull:
    """A pull towards a product: relative entropy to it, approximated over the regions, times a weight.

    Attributes:
        divergence: the relative entropy over regions.
        weight: its weight (records).
        logarithms: of the product's one-way marginals [values].
        oracle: belief propagation with the same counting numbers, for the certificate.
    """

    divergence: RegionDivergence
    weight: Any
    logarithms: Any
    oracle: ConvexBP


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LocalObjective(Objective):
    """Minimise a loss over tables of the outer regions that agree on the inner ones.

    `fixed` is 0 for possible cells of the outer tables and minus infinity for others. With a pull, the
    objective is the loss plus the weighted relative entropy, which is convex in the tables.

    Attributes:
        source: position of each term of the loss's marginals in one vector of these.
        target: its position in the vector of outer tables.
        pull: towards a product, or None.
    """

    oracle: CoverBP
    source: Any = None
    target: Any = None
    pull: RegionPull | None = None

    @classmethod
    def over(
        cls, oracle: CoverBP, loss: BoundLoss, curvature: Any, masks: list[np.ndarray]
    ) -> LocalObjective:
        """Lay the problem out in vectors.

        Args:
            oracle: inference for the loss's cliques followed by those of the masks.
            loss: the loss to minimise.
            curvature: Lipschitz constant of its gradient for an outer table, divided by the table's weight.
            masks: log-tables of impossible cells.
        """
        maps, structure = oracle.maps, oracle.structure
        measured = sum(map(structure.cells, structure.cliques[: len(loss.shapes)]))
        within = maps.source < measured
        nothing = [np.zeros(measured), *masks]
        fixed = np.zeros(maps.length)
        np.add.at(fixed, maps.target, host_join(nothing, np.float64)[maps.source])
        sizes = np.bincount(maps.table, minlength=len(maps.weight))
        gauge = Gauge.of(tuple(sizes.tolist()), maps.length)
        source, target = maps.source[within], maps.target[within]
        return cls(oracle, loss, curvature, gauge, fixed, source=source, target=target)

    def flat(self, beliefs: Vector) -> Any:
        """Return the loss of the outer tables (probabilities), in one vector."""
        length = sum(math.prod(shape) for shape in self.loss.shapes)
        marginals = jnp.zeros(length, beliefs.dtype).at[self.source].add(beliefs[self.target])
        return self.loss.flat(marginals)

    def alone(self, point: Evaluation) -> Any:
        """Return the (smoothed) loss of the measurements at a point."""
        return self.flat(point.marginals)

    def divergence(self, beliefs: Vector) -> jax.Array:
        """Return the relative entropy to the product over regions (nats)."""
        assert self.pull is not None
        held = self.pull.divergence
        return held.cross_entropy(beliefs, jnp.asarray(self.pull.logarithms)) - held.entropy(beliefs)

    def _objective(self, beliefs: Vector) -> jax.Array:
        value = self.flat(beliefs)
        return value if self.pull is None else value + self.pull.weight * self.divergence(beliefs)

    def settled(self, potentials: Vector) -> tuple[Vector, jax.Array]:
        """Return log-beliefs of the outer regions [length] and their residual (probability)."""
        maps = self.oracle.maps
        weight = jnp.asarray(maps.weight, potentials.dtype)[maps.table]
        start = belief_propagation.normalised(maps, (potentials + self.fixed) / weight)
        x, _, residual, _ = self.oracle.settle(start)
        return belief_propagation.normalised(maps, x), residual

    def evaluate(self, potentials: Vector) -> Evaluation:
        """Evaluate pseudo-marginals, loss and gradient; the result's potentials include the messages."""
        maps = self.oracle.maps
        x, _ = self.settled(potentials)
        weight = jnp.asarray(maps.weight, potentials.dtype)[maps.table]
        beliefs = jnp.exp(x)
        loss, gradient = jax.value_and_grad(self._objective)(beliefs)
        kept = jnp.where(jnp.isfinite(x), weight * x, potentials)
        return Evaluation(kept, beliefs, loss, gradient, jnp.zeros_like(loss))

    def gap(self, point: Evaluation, slope: Vector | None = None) -> jax.Array:
        """Return a certified bound on `loss - optimum` over locally consistent tables.

        The bound of `Objective.gap`, with its maximum bounded from above by messages that start at the point.
        It holds even if the messages have not converged or the point is inconsistent.
        """
        if self.pull is not None:
            return self._gap_with_pull(point, self.pull)
        maps = self.oracle.maps
        weight = jnp.asarray(maps.weight, point.loss.dtype)[maps.table]
        centred = self.gauge.centred(point.gradient, point.marginals)
        base = belief_propagation.normalised(maps, point.potentials / weight)
        best = belief_propagation.assignment_bound(
            maps, self.fixed - centred, TEMPERATURES, COOLING_SWEEPS, base
        )
        return jnp.maximum(jnp.vdot(centred, point.marginals) + best, 0) + rounding(point)

    def _gap_with_pull(self, point: Evaluation, pull: RegionPull) -> jax.Array:
        """Return the certificate with a pull: only the loss is linearised.

        With g the gradient of the loss plus that of the weighted cross-entropy, the least <g, nu> - w H(nu)
        is -w times a log-partition over regions, which belief propagation bounds from above. Any messages
        give a bound.
        """
        maps = pull.oracle.maps
        weight = jnp.asarray(pull.weight, point.loss.dtype)

        def linear(beliefs: Vector) -> jax.Array:
            logarithms = jnp.asarray(pull.logarithms, beliefs.dtype)
            return self.flat(beliefs) + weight * pull.divergence.cross_entropy(beliefs, logarithms)

        slope = self.gauge.centred(jax.grad(linear)(point.marginals), point.marginals)
        outer = self.fixed - slope / weight
        scale = jnp.asarray(maps.weight, outer.dtype)[maps.table]
        start = belief_propagation.normalised(maps, outer / scale)
        x, messages, _, _ = pull.oracle.settle(start, belief_propagation.no_messages(maps, outer.dtype))
        best = belief_propagation.upper_bound(maps, outer, x, messages)
        gap = jnp.vdot(slope, point.marginals) + weight * (best - pull.divergence.entropy(point.marginals))
        error = 4 * jnp.finfo(gap.dtype).eps * weight * abs(best)
        return jnp.maximum(gap, 0) + rounding(point) + error
