"""The objective that all solvers minimise, and the interface of a solver.

`Objective` is a convex loss over the marginals of a model, perhaps with relative entropy to a `Prior` and
with `Equalities`. All tables of a kind (potentials, marginals, gradients) form one vector, so that a solver's
operations are compiled once, for any number of cliques. The numbers of the terms stay in float64 and are cast
to the type of the marginals where they are used. A `Solver` defines a state and a step from one state to the
next.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from pgmjax._internal.device import dot, module_of
from pgmjax.data.domain import Clique
from pgmjax.estimation.losses.base import BoundLoss, BoundResiduals
from pgmjax.inference.ops import host_join, split
from pgmjax.inference.oracles import Oracle
from pgmjax.inference.oracles.contraction import HostContraction

Vector = Any  # a JAX array, or a NumPy array on the host


def select(condition: Any, if_true: Any, if_false: Any) -> Any:
    """Select one of two pytrees by a scalar, on the device or on the host, where `np.where` takes longer."""
    if isinstance(condition, np.ndarray | np.generic | bool):
        return if_true if condition else if_false
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), if_true, if_false)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The objective evaluated at a point.

    Attributes:
        potentials: log-potentials of the measured cliques.
        marginals: their marginals (probabilities).
        loss: the objective there.
        gradient: its gradient with respect to the marginals.
        error_bound: the oracle's error bound beyond rounding (probability).
    """

    potentials: Vector
    marginals: Vector
    loss: jax.Array
    gradient: Vector
    error_bound: jax.Array

    def row(self, number: int) -> Evaluation:
        """Return one point of those whose arrays have a leading axis [rows]."""
        return Evaluation(
            self.potentials[number],
            self.marginals[number],
            self.loss[number],
            self.gradient[number],
            self.error_bound[number],
        )

    @classmethod
    def unknown(cls, potentials: Vector) -> Evaluation:
        """Return an unevaluated point: infinite loss, so that any other is better."""
        xp = module_of(potentials)
        zeros = xp.zeros_like(potentials)
        infinite = xp.asarray(xp.inf, potentials.dtype)[()]
        return cls(potentials, zeros, infinite, zeros, xp.zeros_like(infinite))


def rounding(point: Evaluation) -> Any:
    """Estimate the rounding error of the loss at a point, including that of the marginals."""
    moved = dot(abs(point.gradient), point.marginals) + abs(point.loss)
    return 4 * np.finfo(point.loss.dtype).eps * moved


def negligible(point: Evaluation) -> float:
    """Return the error bound up to which a point counts as exact: machine precision."""
    return float(jnp.finfo(point.loss.dtype).eps)


@functools.partial(jax.tree_util.register_dataclass, data_fields=["table"], meta_fields=["count"])
@dataclasses.dataclass(frozen=True)
class Gauge:
    """Segmentation of a vector into tables; per-table constants change no distribution.

    Attributes:
        table: index of the table of each entry; padding is a table of its own.
        count: number of tables, rounded up so that similar structures share compiled programs.
    """

    table: Any
    count: int

    @staticmethod
    @functools.lru_cache(maxsize=16)
    def of(sizes: tuple[int, ...], length: int) -> Gauge:
        """Return the gauge of tables of these sizes in a vector of this length."""
        numbers = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        table = np.full(length, len(sizes), np.int32)
        table[: len(numbers)] = numbers
        table.flags.writeable = False
        return Gauge(table, 8 << max(len(sizes) // 8, 0).bit_length())

    def tops(self, vector: Vector) -> Vector:
        """Return for each entry its table's maximum, to be subtracted for precision in float32."""
        if isinstance(vector, np.ndarray):
            largest = self.reduced(np.maximum, vector)
            return np.where(np.isfinite(largest), largest, 0)
        tops = jax.ops.segment_max(vector, self.table, self.count, indices_are_sorted=True)
        return jnp.where(jnp.isfinite(tops), tops, 0)[self.table]

    def reduced(self, function: np.ufunc, vector: np.ndarray) -> np.ndarray:
        """Return for each entry of a vector the reduction of its table, in NumPy."""
        bounds = np.searchsorted(self.table, np.arange(self.table[-1] + 2))
        return np.repeat(function.reduceat(vector, bounds[:-1]), bounds[1:] - bounds[:-1])

    def centred(self, gradient: Vector, marginals: Vector) -> Vector:
        """Return a gradient minus its mean under each table's marginal."""
        products = gradient * marginals
        if isinstance(products, np.ndarray):
            return gradient - self.reduced(np.add, products)
        means = jax.ops.segment_sum(products, self.table, self.count, indices_are_sorted=True)
        return gradient - means[self.table]


def _like(numbers: Any, marginals: Vector) -> Vector:
    return module_of(marginals).asarray(numbers, marginals.dtype)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Prior:
    """Relative entropy to a prior as a term of the objective.

    With a reference of the form of the model instead, the entropy alone is relative, to the uniform
    distribution, and the cross-entropy to the reference is ``<slope, mu>``.

    Attributes:
        weight: weight per nat, > 0.
        log_partition: log-partition function of the prior's factors in `Objective.fixed` (nats).
        slope: of the cross-entropy, in one vector of all tables (loss per unit of probability), or None.
    """

    weight: Any
    log_partition: Any
    slope: Any = None


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["targets", "multipliers", "penalty"],
    meta_fields=["shapes"],
)
@dataclasses.dataclass(frozen=True, eq=False)
class Equalities:
    """``<lambda, mu - t> + rho / 2 |mu - t|**2`` over the cells with a target t.

    With the loss this is an augmented Lagrangian. For any multipliers lambda its minimum is at most the least
    loss over the mu that meet t, so a lower bound on the former is one on the latter.

    Attributes:
        targets: t in one vector (probabilities); arbitrary for other cells.
        multipliers: lambda in one vector (loss per unit of probability); 0 for cells without a target.
        penalty: rho in one vector, one number for all cells with a target and 0 for others.
        shapes: shapes of all tables (static).

    References:
        Hestenes (1969) and Powell (1969), the method of multipliers; Nocedal and Wright (2006), 17.3.
    """

    targets: Any
    multipliers: Any
    penalty: Any
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(
        cls,
        cliques: Sequence[Clique],
        shapes: Sequence[tuple[int, ...]],
        wanted: Sequence[tuple[Clique, np.ndarray]],
        penalty: float,
    ) -> Self:
        """Return equality constraints with multipliers of zero.

        Args:
            cliques: of all tables, each set of attributes once.
            shapes: of these tables.
            wanted: some of the cliques, with their marginals (probabilities).
            penalty: that of a cell with a target.
        """
        targets, rho = ([np.zeros(shape) for shape in shapes] for _ in range(2))
        for clique, target in wanted:
            at = next(i for i, own in enumerate(cliques) if set(own) == set(clique))
            targets[at] = target.transpose([clique.index(name) for name in cliques[at]])
            rho[at] = np.full(shapes[at], penalty)
        found = host_join(targets, np.float64)
        return cls(found, np.zeros_like(found), host_join(rho, np.float64), tuple(shapes))

    @property
    def held(self) -> list[int]:
        """The places of the tables with targets."""
        return [place for place, table in enumerate(split(self.penalty, self.shapes)) if table.any()]

    @property
    def curvature(self) -> float:
        """The term's part of the Lipschitz constant of the gradient: its penalty for each table."""
        return len(self.held) * float(self.penalty.max())

    def value(self, marginals: Any) -> Any:
        """Return the term at a vector of all tables, perhaps padded."""
        missed = marginals[: len(self.targets)] - _like(self.targets, marginals)
        pressed = _like(self.multipliers, marginals) + 0.5 * _like(self.penalty, marginals) * missed
        return dot(missed, pressed)

    def gradient(self, marginals: np.ndarray) -> np.ndarray:
        """Return its gradient, without padding."""
        return self.multipliers + self.penalty * (marginals[: len(self.targets)] - self.targets)

    def with_residuals(self, found: BoundResiduals, marginals: np.ndarray) -> BoundResiduals:
        """Return a loss's residuals at a vector of marginals without padding, with those of the targets."""
        cells = len(marginals)
        held = np.flatnonzero(self.penalty > 0)
        root = np.sqrt(self.penalty[held])
        rows, ones = np.zeros((len(held), cells)), np.ones(len(held))
        rows[np.arange(len(held)), held] = root
        return dataclasses.replace(
            found,
            rows=np.vstack([found.rows, rows]),
            values=np.append(found.values, root * (marginals[held] - self.targets[held])),
            sharpness=np.append(found.sharpness, ones),
            largest=np.append(found.largest, ones * np.inf),
            slope=found.slope + self.multipliers,
        )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Objective:
    """Minimise a loss over the marginal polytope, optionally with relative entropy to a prior.

    With a prior q and a weight w the objective is the loss plus ``w * KL(p || q)``. If p is q times
    exp(<theta, .> - A(theta)) that term is ``w * (<theta, mu> - A(theta))``: p minimises it among all
    distributions with these marginals, so it is a convex function of mu, with gradient w theta.

    Attributes:
        oracle: inference for the measured cliques followed by those of the constraints.
        loss: convex function of the marginals of the measured cliques (probabilities).
        curvature: Lipschitz constant of the loss's gradient in the L1 norm of the joint distribution,
            or a guess if unknown: first steps have size 1 / curvature.
        gauge: the tables of a vector.
        fixed: log-factors of every model (constraints: 0 for possible cells, minus infinity for
            impossible ones; a prior's potentials) and padding, in one vector, or None.
        prior: the relative-entropy term, or None.
        equalities: the fixed marginals as a term, or None.
    """

    oracle: Oracle
    loss: BoundLoss
    curvature: Any
    gauge: Gauge
    fixed: Any = None
    prior: Prior | None = None
    equalities: Equalities | None = None

    @classmethod
    def build(
        cls,
        oracle: Oracle,
        loss: BoundLoss,
        curvature: Any,
        fixed: Sequence[np.ndarray] = (),
        prior: Prior | None = None,
        equalities: Equalities | None = None,
    ) -> Objective:
        """Lay the problem out in vectors, in which the loss's tables are first.

        Args:
            oracle: inference for the cliques of loss and equalities, then those of `fixed`.
            loss: the bound loss to minimise.
            curvature: its Lipschitz constant, or a guess.
            fixed: log-factors of every model.
            prior: the relative-entropy term, or None; its slope may end before the padding.
            equalities: the fixed marginals as a term, or None.
        """
        sizes = tuple(map(math.prod, (equalities or loss).shapes))
        length, rest = oracle.length, None
        if fixed:
            length = sum(sizes)
            rest = host_join(fixed, np.result_type(np.float32, *fixed), oracle.length - length)
        if prior is not None and prior.slope is not None:
            prior = dataclasses.replace(prior, slope=np.pad(prior.slope, (0, length - len(prior.slope))))
        if equalities is None:
            loss = loss.padded(length)
        return cls(oracle, loss, curvature, Gauge.of(sizes, length), rest, prior, equalities)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the tables of a vector: the loss's, then those that only equalities are about."""
        shapes: tuple[tuple[int, ...], ...] = (self.equalities or self.loss).shapes
        return shapes

    def with_smoothing(self, delta: float) -> Self:
        """Return the problem with another smoothing of its loss, which has kinks (standard deviations)."""
        curvature = self.curvature * float(self.loss.smoothing) / delta
        return dataclasses.replace(self, loss=self.loss.with_smoothing(delta), curvature=curvature)

    def own(self) -> tuple[BoundLoss, Equalities | None, Any, Prior | None]:
        """Return what fits of one structure have each for themselves."""
        return self.loss, self.equalities, self.curvature, self.prior

    def shared(self) -> Objective:
        """Return what they share."""
        return self.with_own((None, None, None, None))

    def with_own(self, own: tuple[Any, Any, Any, Any]) -> Objective:
        """Return the problem with what is one fit's own."""
        loss, equalities, curvature, prior = own
        return dataclasses.replace(self, loss=loss, equalities=equalities, curvature=curvature, prior=prior)

    @property
    def smoothness(self) -> Any:
        """Smoothness of the objective relative to the entropy; its inverse is a safe step size.

        References:
            Bauschke, Bolte and Teboulle (2017); Lu, Freund and Nesterov (2018).
        """
        return self.curvature if self.prior is None else self.curvature + self.prior.weight

    def exact(self) -> Objective:
        """Return the problem with an exact oracle."""
        return dataclasses.replace(self, oracle=self.oracle.exact())

    def in_float64(self) -> Objective:
        """Return the problem with the loss at its smoothing in float64."""
        loss = self.loss.cast("float64")
        if self.equalities is None:
            loss = loss.padded(len(self.gauge.table))
        if self.loss.smoothing is not None:
            loss = loss.with_smoothing(float(self.loss.smoothing))
        return dataclasses.replace(self, loss=loss)

    def on_host(self) -> Objective:
        """Return the problem for NumPy arrays of float64, without compilation but for some losses.

        Its vectors have the same length. Make it where 64-bit types are enabled.
        """
        return dataclasses.replace(
            self.in_float64(),
            fixed=None if self.fixed is None else np.asarray(self.fixed, np.float64),
            oracle=HostContraction(self.oracle.contraction_path(), padded_length=self.oracle.length),
            gauge=Gauge(np.asarray(self.gauge.table), self.gauge.count),
            curvature=np.float64(self.curvature),
            prior=jax.tree.map(np.float64, self.prior),
        )

    def flat(self, marginals: Vector) -> Any:
        """Return the loss with all terms but relative entropy, at the marginals in one vector."""
        value, slope = self.loss.flat(marginals), None if self.prior is None else self.prior.slope
        value = value if slope is None else value + dot(marginals, _like(slope, marginals))
        return value if self.equalities is None else value + self.equalities.value(marginals)

    def value_and_gradient(self, marginals: Vector) -> tuple[Any, Any]:
        """Return `flat` and its gradient; without compilation for a NumPy vector, if the loss can."""
        if not isinstance(marginals, np.ndarray):
            return jax.value_and_grad(self.flat)(marginals)
        value, gradient = self.loss.value_and_gradient(marginals)
        if self.prior is not None and self.prior.slope is not None:
            value, gradient = value + dot(marginals, self.prior.slope), gradient + self.prior.slope
        if self.equalities is not None:
            value, gradient = value + self.equalities.value(marginals), np.array(gradient)
            gradient[: len(self.equalities.targets)] += self.equalities.gradient(marginals)
        return value, gradient

    def residuals(self, marginals: np.ndarray) -> BoundResiduals | None:
        """Return the residuals of loss and terms at a vector without padding; None if the loss has none."""
        own = sum(math.prod(shape) for shape in self.loss.shapes)
        found, more = self.loss.residuals(marginals[:own]), len(marginals) - own
        if found is None:
            return None
        rows, slope = np.pad(found.rows, ((0, 0), (0, more))), np.pad(found.slope, (0, more))
        if self.prior is not None and self.prior.slope is not None:
            slope = slope + self.prior.slope[: len(marginals)]
        found = dataclasses.replace(found, rows=rows, slope=slope)
        return found if self.equalities is None else self.equalities.with_residuals(found, marginals)

    def least(self) -> float:
        """Return a lower bound on the objective that is known beforehand."""
        # multipliers lower the objective without a bound
        return self.loss.least() if self.equalities is None else -math.inf

    def all(self, potentials: Vector) -> Vector:
        """Return the potentials of all the oracle's cliques."""
        if self.fixed is None:
            return potentials
        xp = module_of(potentials)
        return xp.concatenate([potentials, xp.asarray(self.fixed, potentials.dtype)])

    def value(self, potentials: Vector) -> jax.Array:
        """Return the objective at some potentials; differentiable with respect to them."""
        log_partition, marginals = self.oracle.infer_flat(self.all(potentials))
        marginals = marginals[: len(potentials)]
        loss: jax.Array = self.flat(marginals)
        if self.prior is None:
            return loss
        # derivatives through theta and the log-partition cancel: only that through the marginals remains
        return loss + self._divergence(*jax.lax.stop_gradient((potentials, log_partition)), marginals)

    def _divergence(self, potentials: Vector, log_partition: jax.Array, marginals: Vector) -> jax.Array:
        """Return the weighted relative entropy to the prior."""
        assert self.prior is not None
        xp = module_of(marginals)
        base = xp.asarray(self.prior.log_partition, log_partition.dtype)
        weight = xp.asarray(self.prior.weight, log_partition.dtype)
        return weight * (dot(potentials, marginals) - (log_partition - base))

    def evaluate(self, potentials: Vector) -> Evaluation:
        """Evaluate marginals, loss and gradient at some potentials: one oracle call."""
        log_partition, marginals, error_bound = self.oracle.infer_flat_with_error(self.all(potentials))
        marginals = marginals[: len(potentials)]
        loss, gradient = self.value_and_gradient(marginals)
        host = isinstance(marginals, np.ndarray)
        if host and (np.shape(gradient) != marginals.shape or gradient.dtype != marginals.dtype):
            found = np.asarray(gradient)  # that a loss of the user's own computed
            raise ValueError(
                f"the gradient of a loss must be {marginals.dtype} {[*marginals.shape]}, as the marginals "
                f"are, got {found.dtype} {[*found.shape]}: see BoundLoss.value_and_gradient."
            )
        if self.prior is not None:
            loss = loss + self._divergence(potentials, log_partition, marginals)
            gradient = gradient + module_of(gradient).asarray(self.prior.weight, gradient.dtype) * potentials
        if not host:  # once, at tracing: on the host it would be at every step
            import chex  # which takes a twentieth of a second, and a fit on the host does without

            chex.assert_trees_all_equal_shapes_and_dtypes(potentials, marginals, gradient)
            chex.assert_rank(loss, 0)
        return Evaluation(potentials, marginals, loss, gradient, error_bound.astype(loss.dtype))

    def alone(self, point: Evaluation) -> Any:
        """Return the (smoothed) loss of the measurements at a point, without other terms."""
        if isinstance(point.marginals, np.ndarray):
            return self.loss.value_and_gradient(point.marginals)[0]
        return self.loss.flat(point.marginals)

    def relative_entropy(self, point: Evaluation) -> float:
        """Return the weighted relative entropy to a prior or reference at a point; 0 without one."""
        if self.prior is None:
            return 0.0
        marginals = np.asarray(point.marginals)
        value, _ = self.value_and_gradient(marginals)
        spent = float(point.loss) - float(value)
        return spent if self.prior.slope is None else spent + float(dot(marginals, self.prior.slope))

    def gap(self, point: Evaluation, slope: Vector | None = None) -> Any:
        """Return a certified bound on `loss - optimum` at a point.

        For convex L over the marginal polytope M: L(mu) - L* <= max over nu in M of
        <grad L(mu), mu - nu>, computed from the MAP value of the potentials -grad L(mu). The
        rounding error is added, so that the bound holds in float32 too.

        Args:
            point: the point.
            slope: the gradient of a linear function, whose fall over M is then bounded instead of that of the
                loss's own gradient.
        """
        if self.prior is not None:
            return self._gap_to_prior(point, slope)
        if slope is not None:
            point = dataclasses.replace(point, gradient=slope)
        # Centred by the marginals' own mean: both terms would lose digits to a common constant.
        centred = self.gauge.centred(point.gradient, point.marginals)
        possible = self if self.fixed is None else dataclasses.replace(self, fixed=self.support())
        best = self.oracle.maximum_flat(possible.all(-centred))
        xp = module_of(centred)
        return xp.maximum(dot(centred, point.marginals) + best, 0) + rounding(point)

    def support(self) -> Any:
        """Return the fixed tables with 0 in every possible cell."""
        xp = np if isinstance(self.fixed, np.ndarray) else jnp
        return xp.where(xp.isneginf(self.fixed), self.fixed, xp.zeros_like(self.fixed))

    def _gap_to_prior(self, point: Evaluation, slope: Vector | None) -> jax.Array:
        """Return the certificate with a relative-entropy term: only the loss is linearised.

        With g the gradient of L at mu, <g, nu> + w KL(nu || q) is minimal at theta = -g / w, and the gap
        is w times the relative entropy of mu to that minimiser.
        """
        assert self.prior is not None
        xp = module_of(point.marginals)
        weight = xp.asarray(self.prior.weight, point.loss.dtype)
        if slope is None:
            _, slope = self.value_and_gradient(point.marginals)
        centred = self.gauge.centred(slope, point.marginals)
        own = self.oracle.infer_flat(self.all(point.potentials))[0]
        best = self.oracle.infer_flat(self.all(-centred / weight))[0]
        spent = dot(point.potentials, point.marginals)
        gap = dot(centred, point.marginals) + weight * (best - own + spent)
        error = 4 * jnp.finfo(gap.dtype).eps * weight * (abs(best) + abs(own))
        return xp.maximum(gap, 0) + rounding(point) + error


class Solver(abc.ABC):
    """Base class of solvers: registered dataclasses whose numeric settings are leaves.

    Solvers that differ only in their settings thus share one compiled program. `start` makes a state
    without calling the oracle; `step` calls it once (L-BFGS more often, in its line search). States
    are specific to the solver, but have `best`, an `Evaluation`, and `since`, the steps since it was
    bettered: a solver whose states do not have them defines `result` and `stalled` itself.

    Attributes:
        runs_on_host: whether all methods also take NumPy arrays, and a problem `on_host`.
        in_float64: whether its steps are taken in float64 wherever that fits in memory, whatever is asked.
        moving: the state's vectors of potentials that share their constants with those of the best point.
        copies: peak memory of a step, in vectors the size of the potentials.
        patience: steps without a lower loss after which the solver has stalled.
    """

    runs_on_host: ClassVar[bool] = False
    in_float64: ClassVar[bool] = False
    moving: ClassVar[tuple[str, ...]] = ()
    copies: ClassVar[Any]
    patience: Any

    @abc.abstractmethod
    def start(self, problem: Objective, potentials: Vector) -> Any:
        """Return the initial state."""

    @abc.abstractmethod
    def step(self, problem: Objective, state: Any) -> Any:
        """Return the state after one more step."""

    def recentred(self, gauge: Gauge, state: Any) -> Any:
        """Remove per-table constants from the state's potentials, if the solver allows it."""
        if not self.moving:
            return state
        shift = gauge.tops(state.best.potentials)
        best = dataclasses.replace(state.best, potentials=state.best.potentials - shift)
        moved = {name: getattr(state, name) - shift for name in self.moving}
        return dataclasses.replace(state, best=best, **moved)

    def result(self, problem: Objective, state: Any) -> Evaluation:
        """Return the best point so far."""
        best: Evaluation = state.best
        return best

    def stalled(self, state: Any) -> Any:
        """Return whether progress has stalled at this precision."""
        return state.since > self.patience
