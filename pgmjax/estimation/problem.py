"""A fitting problem: measurements and side information with settings, bound to a loss and an objective.

`FitProblem` plans the inference, binds the loss once, and states the objective that a solver evaluates, with
the terms of prior, pull and fixed marginals. `estimation.fit` solves it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal import checks, device
from pgmjax._internal.device import precision
from pgmjax._internal.progress import Progress
from pgmjax.data.domain import Clique, Domain, differing
from pgmjax.estimation import losses, regularisation, solvers
from pgmjax.estimation.constraints import AGREE, Constraint, FixedMarginal, StructuralZeros
from pgmjax.estimation.losses.base import BoundLoss, Loss, unique_cliques
from pgmjax.estimation.solvers import newton
from pgmjax.estimation.solvers.objective import Equalities, Objective, Prior
from pgmjax.estimation.solvers.stopping import FIRST_SMOOTHING
from pgmjax.inference import oracles
from pgmjax.inference.ops import host_join
from pgmjax.inference.oracles import Oracle
from pgmjax.inference.oracles.contraction import HostContraction
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.inference.plan.structure import Structure
from pgmjax.measurements.linear import LinearMeasurement
from pgmjax.model.clique_vector import CliqueVector, marginal_within, summed
from pgmjax.model.graphical import GraphicalModel
from pgmjax.queries import Query

TINY = float(np.finfo(np.float32).tiny)
FIT_STEPS = 300  # steps that an oracle is chosen for, without a tolerance and unless fewer are allowed
LONGEST = 3600.0  # seconds: longest forecast of an exact fit on a CPU that an approximate one leaves alone
STIFF = 4.0  # initial penalty of a fixed marginal, in curvatures of the loss with its prior


@dataclasses.dataclass(frozen=True)
class FitProgress:
    """A report of a fit after a block of steps, for the callback of `Estimator.fit`.

    Attributes:
        step: solver steps so far.
        loss: the objective: the loss, smoothed if it has kinks, plus the terms of constraints and prior. A
            fit with regularisation is several in turn, between which the objective changes.
        gap: certified bound on its distance from the optimum.

    Example:
        >>> import pgmjax as pj
        >>> seen = []
        >>> m = pj.LinearMeasurement(("a",), [30.0, 10.0], stddev=1.0)
        >>> fit = pj.Estimator().fit(pj.Domain({"a": 2}), [m], total=40, callback=seen.append)
        >>> seen[-1].step == fit.steps, seen[-1].marginals[("a",)].round(2).tolist()
        (True, [30.0, 10.0])
    """

    step: int
    loss: float
    gap: float
    _tables: Callable[[], Mapping[Clique, np.ndarray]] = dataclasses.field(repr=False, compare=False)

    @functools.cached_property
    def marginals(self) -> Mapping[Clique, np.ndarray]:
        """Expected counts of each measured clique there, float64; fetched from the device when asked for."""
        return self._tables()

    def answer(self, query: Query) -> np.ndarray:
        """Return the expected answers there to a query, in its shape (counts, float64).

        Args:
            query: over attributes that one measured clique holds together.

        Raises:
            TypeError: it is no query.
            ValueError: no measured clique does, or the query names values (see `Query.over`).

        Example:
            >>> import pgmjax as pj
            >>> seen = []
            >>> m = pj.LinearMeasurement(("a", "b"), [[30.0, 10.0], [20.0, 40.0]], stddev=1.0)
            >>> domain = pj.Domain({"a": 2, "b": 2})
            >>> fit = pj.Estimator().fit(domain, [m], total=100, callback=seen.append)
            >>> seen[-1].answer(pj.queries.marginal(["b"])).round(1).tolist()
            [50.0, 50.0]
        """
        checks.kind(query, Query, "query must be a query such as queries.marginal(['age'])")
        measured = tuple(self.marginals)
        table = marginal_within(CliqueVector(measured, tuple(self.marginals.values())), query.clique)
        if table is None:
            raise ValueError(f"no measured clique holds {query.clique}; there are {list(measured)}.")
        return np.asarray(query.apply(table), np.float64)


_PRIOR = (
    "that of an earlier release is release.model, and shares make one: "
    "GraphicalModel.from_potentials(domain, {('sex',): np.log([0.5, 0.5])})"
)


@dataclasses.dataclass(frozen=True, eq=False)
class SideInformation:
    """Public knowledge over a domain.

    Attributes:
        zeros: all masks, including the zero counts of fixed marginals.
        fixed: exact marginals, each set of attributes once.
        prior: reference of the relative entropy; None for the uniform distribution.
        weight: weight of the relative entropy to the prior in the objective (records); None if it only
            selects among the models that fit equally well.
    """

    zeros: tuple[StructuralZeros, ...] = ()
    fixed: tuple[FixedMarginal, ...] = ()
    prior: GraphicalModel | None = None
    weight: float | None = None

    @classmethod
    def of(
        cls,
        domain: Domain,
        constraints: Sequence[Constraint],
        prior: GraphicalModel | None = None,
        weight: float = 0.0,
    ) -> SideInformation:
        """Check constraints and prior against the domain and one another.

        Raises:
            TypeError: not a constraint, or not a model.
            ValueError: a prior over another domain, a weight that is negative, too large or without a
                prior, or infeasible constraints.
        """
        checks.kind(prior, GraphicalModel | None, "prior must be a GraphicalModel", _PRIOR)
        weight = checks.number("prior_weight", weight, at_least=0)
        if weight > regularisation.LARGEST:
            raise ValueError(
                f"prior_weight must be at most {regularisation.LARGEST:g}, got {weight:g}: beyond it a model "
                "is its prior."
            )
        if prior is None and weight > 0:
            raise ValueError(
                "prior_weight needs a prior: GraphicalModel.from_potentials(domain, {}) is the uniform one."
            )
        if prior is not None and prior.domain != domain:
            raise ValueError(
                "prior must be a model over the same domain: they differ in "
                f"{differing(domain, prior.domain)}."
            )
        constraints = listed(constraints)
        if prior is None and not constraints:
            return cls()
        from pgmjax.estimation import feasibility  # which fits without constraints do without

        zeros = feasibility.require_feasible(domain, constraints, support(prior))
        fixed: dict[frozenset[str], FixedMarginal] = {}
        for constraint in constraints:
            if isinstance(constraint, FixedMarginal):
                fixed.setdefault(frozenset(constraint.clique), constraint)
        return cls(zeros, tuple(fixed.values()), prior, weight if weight > 0 else None)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The clique of each of `tables`."""
        of_prior = () if self.prior is None else self.prior.potentials.cliques
        return (*(mask.clique for mask in self.zeros), *of_prior)

    @functools.cached_property
    def tables(self) -> tuple[np.ndarray, ...]:
        """Fixed log-factors of every model of the fit, float64; the largest entry of each is 0."""
        of_prior = () if self.prior is None else self.prior.potentials.tables
        return (*(mask.log_mask() for mask in self.zeros), *(table - table.max() for table in of_prior))

    @property
    def finite(self) -> bool:
        """True if all cells are possible."""
        return all(bool(np.isfinite(table).all()) for table in self.tables)

    def log_partition(self, domain: Domain, cliques: Iterable[Clique]) -> float:
        """Return the prior's log-partition function in the scale of `tables` (nats).

        Args:
            domain: the attributes.
            cliques: those of a fit; attributes in neither them nor `tables` are left out.
        """
        if self.prior is None:
            return 0.0
        covered = {name for clique in (*cliques, *self.cliques) for name in clique}
        free = sum(math.log(domain[name]) for name in domain if name not in covered)
        return self.prior.log_partition() - sum(float(t.max()) for t in self.prior.potentials.tables) - free

    def start(self, warm_start: GraphicalModel | None) -> GraphicalModel | None:
        """Return an earlier model divided by the prior, as an initial model."""
        if warm_start is None or self.prior is None or warm_start.domain != self.prior.domain:
            return warm_start
        less = ((c, -np.where(np.isfinite(t), t, 0)) for c, t in self.prior.potentials.items())
        tables = summed([*warm_start.potentials.items(), *less])
        return GraphicalModel.from_potentials(warm_start.domain, tables, warm_start.total)


def listed(constraints: Sequence[Constraint]) -> list[Constraint]:
    """Return constraints as a list.

    Raises:
        TypeError: a single constraint, not a list, or an entry that is not a constraint.
    """
    if isinstance(constraints, Constraint):
        constraints = [constraints]
    then = "give a list such as [StructuralZeros(clique, mask), FixedMarginal(clique, counts)]"
    found = list(checks.several("constraints", constraints, "constraints", then))
    for constraint in found:
        checks.kind(
            constraint,
            Constraint,
            "constraints must be StructuralZeros, AllowedSet, FunctionalDependency or FixedMarginal",
        )
    return found


def support(model: GraphicalModel | None) -> list[StructuralZeros]:
    """Return the masks of a model's impossible cells; none without a model."""
    items = () if model is None else model.potentials.items()
    return [StructuralZeros(c, np.isfinite(t)) for c, t in items if not np.isfinite(t).all()]


def total_of(constraints: Sequence[Any], total: float | None) -> float | None:
    """Return the total of the fixed marginals, or the given one if there are none.

    Args:
        constraints: constraints of any kind.
        total: the given number of records (counts), or None.

    Raises:
        TypeError: a total that is not a number.
        ValueError: a total other than that of the fixed marginals.
    """
    fixed = [c for c in constraints if isinstance(c, FixedMarginal)]
    if isinstance(total, list | tuple | Constraint):
        raise TypeError(
            f"total must be a number, got {type(total).__name__}: write constraints=[...] for these."
        )
    total = None if total is None else checks.total(total)
    if not fixed:
        return total
    if total is not None and abs(total - fixed[0].total) > AGREE * fixed[0].total:
        raise ValueError(
            f"the constraints are infeasible: the fixed marginal over {fixed[0].clique} sums to "
            f"{fixed[0].total:,.6g}, and the total that was given is {total:,.6g}: a fixed marginal holds "
            "counts, and shares are multiplied by the total."
        )
    return fixed[0].total if total is None else total


@dataclasses.dataclass(frozen=True, eq=False)
class Pull:
    """A pull of a fit towards a reference: its relative entropy to it, times a weight.

    Attributes:
        weight: weight of the relative entropy (records).
        logarithms: of each attribute's probabilities in the reference; none for the uniform distribution.
    """

    weight: float
    logarithms: regularisation.Reference = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class FitProblem:
    """A fitting problem: settings, measurements and side information.

    Attributes:
        estimator: the settings, an `Estimator`.
        domain: the attributes.
        measurements: noisy linear answers.
        total: number of records (counts).
        known: constraints and prior.
        bar: progress bar.
        mesh: devices that share each inference of one fit, or None.
        callback: called with a `FitProgress` after each block, or None.
        batch: whether it is one row of a batch.
        plans: its plans by dtype, which the rows of a batch share.
        trace: steps so far, loss and gap after each block of steps; appended to during the fit.
        halts: not empty once the callback has ended the fit.
        bounds: the loss of the measurements by dtype, once it is bound.
    """

    estimator: Any
    domain: Domain
    measurements: tuple[LinearMeasurement, ...]
    total: float
    known: SideInformation
    bar: Progress
    mesh: Any = None
    callback: Callable[[FitProgress], object] | None = None
    batch: bool = False
    plans: dict[str, oracles.Plan] = dataclasses.field(default_factory=dict)
    trace: list[tuple[int, float, float]] = dataclasses.field(default_factory=list)
    halts: list[bool] = dataclasses.field(default_factory=list)
    bounds: dict[str, BoundLoss] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def loss(self) -> Loss:
        """The loss, as it is set."""
        return losses.setting(self.estimator.loss)

    @functools.cached_property
    def noise_level(self) -> float:
        """The expected loss of the true marginals, due to the noise alone; 0 where nobody knows it."""
        return self.loss.noise_level(self.measurements)

    def bind(self, dtype: str) -> BoundLoss:
        """Return the loss of the measurements, which is bound once, in the estimator's dtype."""
        first = self.estimator.dtype
        if first not in self.bounds:
            with precision(first):
                self.bounds[first] = self.loss.bind(self.domain, self.measurements, self.total, first)
        if dtype not in self.bounds:
            self.bounds[dtype] = self.bounds[first].cast(dtype)
        return self.bounds[dtype]

    @functools.cached_property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques of the loss, then those that only fixed marginals are about."""
        bound = self.bind(self.estimator.dtype)
        return unique_cliques([*bound.cliques, *(one.clique for one in self.known.fixed)])

    def plan(self, dtype: str | None = None) -> oracles.Plan:
        """Plan the fit, for the estimator's dtype or another one."""
        dtype = dtype or self.estimator.dtype
        if dtype not in self.plans:
            settings = {"dtype": dtype, "mesh": self.mesh, "batch": self.batch}
            self.plans[dtype] = plan(self.estimator, self.domain, self.cliques, self.known, **settings)
        return self.plans[dtype]

    def fits_in_float64(self) -> bool:
        """Return whether a float64 fit over the same cliques can be planned in memory."""
        try:
            self.plan("float64")
        except ModelTooLargeError:
            return False
        return True

    def equalities(self, dtype: str, pull: Pull | None) -> Equalities | None:
        """Return the fixed marginals as equality constraints with multipliers of zero; None without any."""
        if not self.known.fixed:
            return None
        with precision(dtype):
            _, curvature = self._smoothed(dtype, FIRST_SMOOTHING)
        # a heavy prior's multipliers are as large as its weight: a far smaller penalty never reaches them
        bend = float(curvature) + (self.known.weight or 0.0) + (pull.weight if pull else 0.0)
        wanted = [(one.clique, one.probabilities) for one in self.known.fixed]
        shapes = list(map(self.domain.shape_of, self.cliques))
        return Equalities.of(self.cliques, shapes, wanted, STIFF * bend)

    def objective(
        self,
        oracle: Oracle,
        dtype: str,
        pull: Pull | None,
        equalities: Equalities | None,
        smoothing: float = FIRST_SMOOTHING,
    ) -> Objective:
        """Return the solver's objective.

        Args:
            oracle: inference for the loss's cliques, then those of the side information.
            dtype: type on the device.
            pull: what the fit is pulled towards, or None.
            equalities: constraints with their multipliers, or None.
            smoothing: of a loss with kinks (standard deviations).
        """
        known, prior = self.known, None
        with precision(dtype):
            loss, curvature = self._smoothed(dtype, smoothing)
        if known.weight is not None:
            base = known.log_partition(self.domain, self.cliques)
            prior = Prior(np.asarray(known.weight, np.float64), np.asarray(base, np.float64))
        if pull is not None:
            reference = regularisation.tables_of(pull.logarithms, loss.cliques, loss.shapes)
            slope = -pull.weight * host_join(reference, np.float64)
            prior = Prior(np.asarray(pull.weight, np.float64), np.zeros(()), slope)
        if equalities is not None:
            curvature = curvature + equalities.curvature
        fixed = [table.astype(dtype) for table in known.tables]
        return Objective.build(oracle, loss, curvature, fixed, prior, equalities)

    def in_float64(self, objective: Objective) -> Objective:
        """Return an objective of this problem in float64, at its smoothing."""
        rest = objective.fixed
        if rest is not None:
            rest = host_join(self.known.tables, np.float64, len(rest))
        return dataclasses.replace(objective.in_float64(), fixed=rest)

    def _smoothed(self, dtype: str, smoothing: float) -> tuple[BoundLoss, np.ndarray]:
        """Return the loss, smoothed if it has kinks, and the Lipschitz constant of its gradient."""
        bound = self.bind(dtype)
        known = bound.lipschitz()
        if known is None:
            known = _guessed_curvature(solvers.build(self.estimator.solver), bound)
        curvature = np.asarray(max(known, TINY), np.float64)
        if bound.smoothing is None:
            return bound, curvature
        return bound.with_smoothing(smoothing), curvature * float(bound.smoothing) / smoothing


def _guessed_curvature(solver: solvers.Solver, bound: BoundLoss) -> float:
    """Return a guess at the gradient's Lipschitz constant from the uniform and an uneven distribution.

    That is how far a first step would move potentials, or, where the uniform one is an optimum, how much the
    gradient changes from one to the other.
    """
    if isinstance(solver, solvers.DualAveraging) and solver.lipschitz is None:
        raise ValueError(
            "dual averaging needs the Lipschitz constant of the loss's gradient and this loss does not "
            "know it: pass DualAveraging(lipschitz=...) or choose solver='mirror_descent'."
        )
    uniform = [jnp.full(s, 1 / np.prod(s)) for s in bound.shapes]
    uneven = [jnp.arange(1.0, 1 + np.prod(s)).reshape(s) for s in bound.shapes]
    uneven = [table / table.sum() for table in uneven]
    gradient, other = map(jax.grad(bound), (tuple(uniform), tuple(uneven)))
    first = float(sum(jnp.ptp(g) for g in gradient))  # a first step changes potentials by 1 at most
    changed = float(sum(jnp.ptp(b - a) for a, b in zip(gradient, other, strict=True)))
    apart = max(float(jnp.abs(b - a).sum()) for a, b in zip(uniform, uneven, strict=True))
    return max(first, changed / max(apart, TINY))


def plan(
    settings: Any,
    domain: Domain,
    cliques: Sequence[Clique],
    known: SideInformation,
    *,
    dtype: str | None = None,
    mesh: jax.sharding.Mesh | None = None,
    batch: bool = False,
) -> oracles.Plan:
    """Plan an exact fit, or refuse it with its forecast; see `Estimator.plan`.

    Args:
        settings: an `Estimator`.
        domain: the attributes.
        cliques: those of the loss and of fixed marginals.
        known: masks and prior.
        dtype: type to plan for. Default: the estimator's.
        mesh: devices that share each inference, slice by slice.
        batch: whether it is for compiled programs only.
    """
    solver = solvers.build(settings.solver)
    if batch and settings.oracle == HostContraction.name:
        raise ValueError("oracle='host' runs one fit at a time: choose oracle='auto' for a batch.")
    if mesh is not None and not solver.runs_on_host:
        raise ValueError(
            f"solver={settings.solver!r} cannot share an inference among the devices of a mesh: JAX does not "
            "differentiate its line search there. Choose solver='auto', or leave the mesh out."
        )
    structure, attributes = Structure.named(domain.sizes, (*cliques, *known.cliques))
    calls = min(settings.max_steps, FIT_STEPS) if settings.tol is None else settings.max_steps
    if settings.solver == "auto" and sum(map(domain.size, cliques)) <= newton.MOST_CELLS:
        calls = min(calls, newton.STEPS_BEFORE)
    planned = functools.partial(
        oracles.plan,
        structure,
        attributes,
        settings.oracle,
        itemsize=np.dtype(dtype or settings.dtype).itemsize,
        copies=solver.copies,
        max_bytes=settings.max_bytes,
        finite=known.finite,
        calls=calls,
        compiled=batch or not solver.runs_on_host,
        bounded=settings.regularisation != "none",
    )
    found = planned(mesh=mesh)
    if mesh is None and settings.devices > 1:
        from pgmjax._internal import sharding

        own = sharding.of_devices(settings.devices)
        if found.oracle.shares_devices and solver.runs_on_host and not batch:
            found = planned(mesh=own)
    if not settings.approximate and device.is_cpu() and found.seconds > LONGEST:
        checks.warn(
            f"an exact fit of these cliques is forecast to take up to {found.seconds / 3600:,.0f} hours: "
            "ask for fewer or smaller ones, or set approximate=True."
        )
    return found
