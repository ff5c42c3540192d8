"""A fitting problem: measurements and side information with settings, bound to a loss and an objective.

`FitProblem` plans the inference, binds the loss with its linear terms and equality constraints, and states
the objective that a solver evaluates. `estimation.fit` solves it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal.progress import Progress
from pgmjax.data.cliques import Clique
from pgmjax.data.domain import Domain
from pgmjax.estimation import losses, regularisation, solvers
from pgmjax.estimation.losses.augmented import Augmented, Equalities
from pgmjax.estimation.losses.base import BoundLoss, Tilted
from pgmjax.estimation.losses.build import noise_level
from pgmjax.estimation.side_information import SideInformation
from pgmjax.estimation.solvers.objective import Objective, Prior
from pgmjax.estimation.solvers.stopping import FIRST_SMOOTHING, StoppingRule
from pgmjax.inference import oracles
from pgmjax.inference.ops.tables import host_join
from pgmjax.inference.oracles import Oracle
from pgmjax.inference.plan.forecast import ModelTooLargeError
from pgmjax.measurements.linear import LinearMeasurement

STIFF = 4.0  # initial penalty parameter of a fixed marginal, in curvatures of the loss with its prior


@dataclasses.dataclass(frozen=True)
class FitProgress:
    """A report of a fit after a block of steps, for the callback of `Estimator.fit`.

    Attributes:
        step: solver steps so far.
        loss: the objective: the loss, smoothed if it has kinks, plus the terms of constraints and prior.
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


@dataclasses.dataclass(frozen=True, eq=False)
class Pull:
    """A pull of a fit towards a reference: its relative entropy to it, times a weight.

    Attributes:
        weight: weight of the relative entropy (records).
        logarithms: of each attribute's probabilities in the reference; none for the uniform distribution.
    """

    weight: float
    logarithms: regularisation.Reference = dataclasses.field(default_factory=dict)

    def slope(self, bound: BoundLoss) -> np.ndarray:
        """Return the linear term of the relative entropy, in one vector of all tables."""
        tables = regularisation.tables_of(self.logarithms, bound.cliques, bound.shapes)
        return -self.weight * host_join(tables, np.float64)


class FitSettings(Protocol):
    """The attributes of `Estimator` that a fit uses; see there."""

    @property
    def loss(self) -> Any:
        """The loss or its name."""

    @property
    def solver(self) -> Any:
        """The solver or its name."""

    @property
    def max_steps(self) -> int:
        """Maximum number of steps."""

    @property
    def tol(self) -> float | None:
        """Relative tolerance on the gap; None for what noise makes invisible."""

    @property
    def regularisation(self) -> float | str:
        """Weight of the pull towards the product of the one-way marginals, "auto" or "none"."""

    @property
    def dtype(self) -> str:
        """Type on the device."""

    @property
    def plan(self) -> Callable[..., oracles.Plan]:
        """Plan a fit of some cliques under some constraints, for a dtype."""


@dataclasses.dataclass(frozen=True)
class FitProblem:
    """A fitting problem: settings, measurements and side information.

    Attributes:
        estimator: the settings.
        domain: the attributes.
        measurements: noisy linear answers.
        total: number of records (counts).
        known: constraints and prior.
        bar: progress bar.
        mesh: devices that share each inference of one fit, or None.
        trace: steps so far, loss and gap after each block of steps; appended to during the fit.
        callback: called with a `FitProgress` after each block, or None.
        halts: not empty once the callback has ended the fit.
        pull: what the fit is pulled towards, or None.
        bounds: the loss of the measurements by dtype, once it is bound.
        accept: called with the plan before the first step; it raises if another fit is to be made instead.
    """

    estimator: FitSettings
    domain: Domain
    measurements: tuple[LinearMeasurement, ...]
    total: float
    known: SideInformation
    bar: Progress
    mesh: Any = None
    trace: list[tuple[int, float, float]] = dataclasses.field(default_factory=list, compare=False)
    callback: Callable[[FitProgress], object] | None = dataclasses.field(default=None, compare=False)
    halts: list[bool] = dataclasses.field(default_factory=list, compare=False, repr=False)
    pull: Pull | None = None
    bounds: dict[str, BoundLoss] = dataclasses.field(default_factory=dict, compare=False, repr=False)
    accept: Callable[[oracles.Plan], None] | None = dataclasses.field(default=None, compare=False)

    def weight(self) -> float:
        """Return the weight of a pull towards the product of the model's one-way marginals; 0 for none."""
        made = self.estimator
        if made.regularisation == "none" or self.known.prior is not None:
            return 0.0
        asked = made.regularisation, made.loss, self.domain, self.measurements, self.total, made.max_steps
        return regularisation.usable_weight(*asked)

    def least(self) -> float:
        """Return the least probability of a value in what a fit is pulled towards."""
        spread, _ = regularisation.noise_of(self.domain, self.measurements)
        return regularisation.LEAST * spread / self.total

    def stopping_rule(self) -> StoppingRule:
        """Return the fit's stopping rule."""
        spread = math.sqrt(noise_level(self.estimator.loss, self.measurements))
        rule = StoppingRule.of(self.estimator.tol, self.estimator.max_steps, spread)
        return rule if self.callback is None else dataclasses.replace(rule, halted=lambda: bool(self.halts))

    def bind(self, dtype: str) -> BoundLoss:
        """Return the loss of the measurements, augmented by any fixed marginals."""
        bound = self.bounds.get(dtype)
        if bound is None:
            bound = losses.build(self.estimator.loss, self.domain, self.measurements, self.total, dtype)
            self.bounds[dtype] = bound
        if self.pull is not None:
            bound = Tilted.of(bound, self.pull.slope(bound), dtype)
        if not self.known.fixed:
            return bound
        _, curvature = with_first_smoothing(solvers.build(self.estimator.solver), bound, self.domain)
        # a heavy prior's multipliers are as large as its weight: a far smaller penalty never reaches them
        bend = float(curvature) + (self.known.weight or 0.0) + (self.pull.weight if self.pull else 0.0)
        wanted = [(one.clique, one.probabilities) for one in self.known.fixed]
        return Augmented.of(bound, Equalities.of(bound, wanted, STIFF * bend), dtype)

    def plan(self, cliques: Sequence[Clique], dtype: str | None = None) -> oracles.Plan:
        """Plan a fit whose loss is over the given cliques."""
        known = self.known
        return self.estimator.plan(
            self.domain, cliques, known.zeros, prior=known.prior, dtype=dtype, mesh=self.mesh
        )

    def fits_in_float64(self, cliques: Sequence[Clique]) -> bool:
        """Return whether a float64 fit over the same cliques can be planned in memory."""
        try:
            self.plan(cliques, "float64")
        except ModelTooLargeError:
            return False
        return True

    def objective(self, oracle: Oracle, loss: BoundLoss, curvature: np.ndarray, dtype: str) -> Objective:
        """Return the solver's objective: a loss with the side information, in a dtype."""
        known, prior = self.known, None
        if known.weight is not None:
            base = known.log_partition(self.domain, loss.cliques)
            prior = Prior(np.asarray(known.weight, np.float64), np.asarray(base, np.float64))
        if self.pull is not None:  # the reference itself is in the loss, as its linear term
            prior = Prior(np.asarray(self.pull.weight, np.float64), np.zeros(()))
        return Objective.build(oracle, loss, curvature, tuple(t.astype(dtype) for t in known.tables), prior)


def with_first_smoothing(
    solver: solvers.Solver, bound: BoundLoss, domain: Domain, smoothing: float = FIRST_SMOOTHING
) -> tuple[BoundLoss, np.ndarray]:
    """Return the loss at its first smoothing, and the Lipschitz constant of its gradient."""
    if isinstance(bound, Augmented):
        inner, curvature = with_first_smoothing(solver, bound.inner, domain, smoothing)
        host = bound.on_host()
        return dataclasses.replace(bound, inner=inner), curvature + sum(host.held) * host.penalty_parameter
    curvature = _curvature(solver, bound, domain)
    if bound.smoothing is None:
        return bound, curvature
    eased = curvature * float(bound.smoothing) / smoothing
    return bound.with_smoothing(smoothing), eased


def _curvature(solver: solvers.Solver, bound: BoundLoss, domain: Domain) -> np.ndarray:
    """Return the gradient's Lipschitz constant, or a guess from the uniform and an uneven distribution.

    That is how far a first step would move potentials, or, where the uniform one is an optimum, how much the
    gradient changes from one to the other.
    """
    known = bound.lipschitz()
    if known is None:
        if isinstance(solver, solvers.DualAveraging) and solver.lipschitz is None:
            raise ValueError(
                "dual averaging needs the Lipschitz constant of the loss's gradient and this loss does not "
                "know it: pass DualAveraging(lipschitz=...) or choose solver='mirror_descent'."
            )
        shapes = [*map(domain.shape_of, bound.cliques)]
        uniform = [jnp.full(s, 1 / np.prod(s)) for s in shapes]
        uneven = [jnp.arange(1.0, 1 + np.prod(s)).reshape(s) for s in shapes]
        uneven = [table / table.sum() for table in uneven]
        gradient, other = map(jax.grad(bound), (tuple(uniform), tuple(uneven)))
        known = float(sum(jnp.ptp(g) for g in gradient))  # a first step changes potentials by 1 at most
        changed = float(sum(jnp.ptp(b - a) for a, b in zip(gradient, other, strict=True)))
        apart = max(float(jnp.abs(b - a).sum()) for a, b in zip(uniform, uneven, strict=True))
        known = max(known, changed / max(apart, float(np.finfo(np.float32).tiny)))
    return np.asarray(max(known, float(np.finfo(np.float32).tiny)), np.float64)
