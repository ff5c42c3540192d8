"""The minimisation problem that every solver solves, and the interface of a solver.

`Problem` is a convex loss over the marginals of a model. All tables of a kind (potentials, marginals,
gradients) stand in one vector, so that what a solver does to them is compiled once, whatever the number of
cliques. A `Solver` is a state and a step from one state to the next.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from pgmjax.estimation.losses.base import BoundLoss
from pgmjax.inference.ops.tables import host_join
from pgmjax.inference.oracles import Oracle

Vector = jax.Array


def select(condition: jax.Array, if_true: Any, if_false: Any) -> Any:
    """One of two trees of arrays, chosen by a scalar on the device."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), if_true, if_false)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Everything known about one point.

    Attributes:
        potentials: log-potentials of the measured cliques.
        marginals: the marginals they give (probabilities).
        loss: loss at these marginals.
        gradient: gradient of the loss with respect to the marginals.
        error bound: how much of the probability the oracle may have got wrong beyond rounding.
    """

    potentials: Vector
    marginals: Vector
    loss: jax.Array
    gradient: Vector
    error_bound: jax.Array

    @classmethod
    def unknown(cls, potentials: Vector) -> Evaluation:
        """A point that nothing is known of yet: infinite loss, so that any other is better."""
        zeros = jnp.zeros_like(potentials)
        infinite = jnp.asarray(jnp.inf, potentials.dtype)
        return cls(potentials, zeros, infinite, zeros, jnp.zeros_like(infinite))


def rounding(point: Evaluation) -> Any:
    """How far rounding may move the loss at a point: its own digits, and those of the marginals."""
    moved = abs(point.gradient) @ point.marginals + abs(point.loss)
    return 4 * jnp.finfo(point.loss.dtype).eps * moved


def negligible(point: Evaluation) -> float:
    """Up to how much error bound a point counts as right: what rounding leaves open anyway."""
    return float(jnp.finfo(point.loss.dtype).eps)


@functools.partial(jax.tree_util.register_dataclass, data_fields=["table"], meta_fields=["count"])
@dataclasses.dataclass(frozen=True)
class Gauge:
    """Which table each entry of a vector belongs to: constants in a table change no distribution.

    Attributes:
        table: number of the table of each entry; padding belongs to a table of its own.
        count: number of tables, rounded up so that similar structures share compiled programs.
    """

    table: Any
    count: int

    @classmethod
    def of(cls, sizes: Sequence[int], length: int) -> Gauge:
        """The gauge of tables of these sizes in a vector of this length."""
        numbers = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        table = np.full(length, len(sizes), np.int32)
        table[: len(numbers)] = numbers
        return cls(table, 8 << max(len(sizes) // 8, 0).bit_length())

    def tops(self, vector: Vector) -> Vector:
        """For each entry the largest of its table: with it taken out float32 keeps what matters."""
        tops = jax.ops.segment_max(vector, self.table, self.count, indices_are_sorted=True)
        return jnp.where(jnp.isfinite(tops), tops, 0)[self.table]

    def centred(self, gradient: Vector, marginals: Vector) -> Vector:
        """A gradient minus its mean under the marginal of every table."""
        products = gradient * marginals
        means = jax.ops.segment_sum(products, self.table, self.count, indices_are_sorted=True)
        return gradient - means[self.table]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Prior:
    """Relative entropy to a prior as a part of what is minimised.

    Attributes:
        weight: what a nat of it counts, > 0.
        log_partition: of the factors in `Problem.fixed` that make the prior (nats).
    """

    weight: Any
    log_partition: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Problem:
    """Minimise a loss over the marginal polytope, perhaps with relative entropy to a prior.

    With a prior q and a weight w the loss has ``w * KL(p || q)`` added. Where p is q times
    exp(<theta, .> - A(theta)) that is ``w * (<theta, mu> - A(theta))``: of all distributions with these
    marginals p has the least, so that it is a convex function of mu, and w theta is its gradient.

    Attributes:
        oracle: inference for the measured cliques followed by those of the constraints.
        loss: convex function of the marginals of the measured cliques (probabilities).
        curvature: Lipschitz constant of the loss's gradient in the L1 norm of the joint distribution,
            or a guess where the loss does not know it: first steps have size 1 / curvature.
        gauge: the tables of a vector.
        fixed: log-tables that are factors of every model (constraints: 0 where possible, minus infinity
            where not; a prior's potentials) and padding, in one vector, or None.
        prior: what the relative entropy counts, or None.
    """

    oracle: Oracle
    loss: BoundLoss
    curvature: Any
    gauge: Gauge
    fixed: Any = None
    prior: Prior | None = None

    @classmethod
    def build(
        cls,
        oracle: Oracle,
        loss: BoundLoss,
        curvature: Any,
        fixed: Sequence[np.ndarray] = (),
        prior: Prior | None = None,
    ) -> Problem:
        """Lay everything out in vectors.

        Args:
            oracle: inference for the loss's cliques, then those of `fixed`.
            loss: what is minimised, as it was bound.
            curvature: its constant, or a guess.
            fixed: log-tables that are factors of every model.
            prior: what the relative entropy counts, or None.
        """
        sizes = [int(np.prod(shape)) for shape in loss.shapes]
        if not fixed:
            gauge = Gauge.of(sizes, oracle.length)
            return cls(oracle, loss.padded(oracle.length), curvature, gauge, prior=prior)
        rest = host_join(fixed, np.result_type(np.float32, *fixed), oracle.length - sum(sizes))
        return cls(oracle, loss, curvature, Gauge.of(sizes, sum(sizes)), rest, prior)

    @property
    def smoothness(self) -> Any:
        """The constant of all that is minimised relative to the entropy: steps of 1 / it cannot fail.

        References:
            Bauschke, Bolte and Teboulle (2017); Lu, Freund and Nesterov (2018).
        """
        return self.curvature if self.prior is None else self.curvature + self.prior.weight

    def exact(self) -> Problem:
        """The problem with an oracle that leaves no error bound."""
        return dataclasses.replace(self, oracle=self.oracle.exact())

    def all(self, potentials: Vector) -> Vector:
        """The potentials of all the oracle's cliques."""
        if self.fixed is None:
            return potentials
        return jnp.concatenate([potentials, jnp.asarray(self.fixed, potentials.dtype)])

    def value(self, potentials: Vector) -> jax.Array:
        """What is minimised, at some potentials; differentiable with respect to them."""
        log_partition, marginals = self.oracle.infer_flat(self.all(potentials))
        marginals = marginals[: len(potentials)]
        loss = self.loss.flat(marginals)
        if self.prior is None:
            return loss
        # of theta and the log-partition the derivatives cancel: only that through the marginals is left
        return loss + self._divergence(*jax.lax.stop_gradient((potentials, log_partition)), marginals)

    def _divergence(self, potentials: Vector, log_partition: jax.Array, marginals: Vector) -> jax.Array:
        """The weighted relative entropy to the prior."""
        assert self.prior is not None
        base = jnp.asarray(self.prior.log_partition, log_partition.dtype)
        weight = jnp.asarray(self.prior.weight, log_partition.dtype)
        return weight * (jnp.vdot(potentials, marginals) - (log_partition - base))

    def evaluate(self, potentials: Vector) -> Evaluation:
        """Marginals, loss and gradient at some potentials: one oracle call."""
        log_partition, marginals, error_bound = self.oracle.infer_flat_with_error(self.all(potentials))
        marginals = marginals[: len(potentials)]
        loss, gradient = jax.value_and_grad(self.loss.flat)(marginals)
        if self.prior is not None:
            loss = loss + self._divergence(potentials, log_partition, marginals)
            gradient = gradient + jnp.asarray(self.prior.weight, gradient.dtype) * potentials
        chex.assert_trees_all_equal_shapes_and_dtypes(potentials, marginals, gradient)
        chex.assert_rank(loss, 0)
        return Evaluation(potentials, marginals, loss, gradient, error_bound.astype(loss.dtype))

    def gap(self, point: Evaluation) -> jax.Array:
        """Certified bound on `loss - optimum` at a point.

        For convex L over the marginal polytope M: L(mu) - L* <= max over nu in M of
        <grad L(mu), mu - nu>, whose maximum is the MAP value of the potentials -grad L(mu). What
        rounding may hide is added, so that the bound holds in float32 too.
        """
        if self.prior is not None:
            return self._gap_to_prior(point)
        # Centred by the marginals' own mean: both terms would lose digits to a common constant.
        centred = self.gauge.centred(point.gradient, point.marginals)
        possible = self if self.fixed is None else dataclasses.replace(self, fixed=self.support())
        best = self.oracle.maximum_flat(possible.all(-centred))
        return jnp.maximum(jnp.vdot(centred, point.marginals) + best, 0) + rounding(point)

    def support(self) -> Any:
        """The fixed tables with 0 in every possible cell."""
        xp = np if isinstance(self.fixed, np.ndarray) else jnp
        return xp.where(xp.isneginf(self.fixed), self.fixed, xp.zeros_like(self.fixed))

    def _gap_to_prior(self, point: Evaluation) -> jax.Array:
        """The certificate where relative entropy is minimised too: only the loss is made linear.

        With g the gradient of L at mu, the least of <g, nu> + w KL(nu || q) is at theta = -g / w, and what
        is left between mu and it is w times the relative entropy of the one to the other.
        """
        assert self.prior is not None
        weight = jnp.asarray(self.prior.weight, point.loss.dtype)
        slope = jax.grad(self.loss.flat)(point.marginals)
        centred = self.gauge.centred(slope, point.marginals)
        own = self.oracle.infer_flat(self.all(point.potentials))[0]
        best = self.oracle.infer_flat(self.all(-centred / weight))[0]
        spent = jnp.vdot(point.potentials, point.marginals)
        gap = jnp.vdot(centred, point.marginals) + weight * (best - own + spent)
        error = 4 * jnp.finfo(gap.dtype).eps * weight * (abs(best) + abs(own))
        return jnp.maximum(gap, 0) + rounding(point) + error


class Solver(abc.ABC):
    """A solver is a registered dataclass whose numeric settings are leaves.

    Two solvers that differ only in their settings so share one compiled program. `start` makes a
    state without calling the oracle; `step` calls it once (L-BFGS more often, in its line search).
    States are the solver's own; `result` and `stalled` read them.
    """

    @property
    @abc.abstractmethod
    def copies(self) -> int:
        """Tables the size of the potentials that a step holds at its peak."""

    @abc.abstractmethod
    def start(self, problem: Problem, potentials: Vector) -> Any:
        """State before the first step."""

    @abc.abstractmethod
    def step(self, problem: Problem, state: Any) -> Any:
        """State after one more step."""

    def recentred(self, gauge: Gauge, state: Any) -> Any:
        """The state with constants taken out of its potentials, where the solver can do without."""
        return state

    @abc.abstractmethod
    def result(self, problem: Problem, state: Any) -> Evaluation:
        """The best point so far."""

    @abc.abstractmethod
    def stalled(self, state: Any) -> jax.Array:
        """Whether no further progress can be made at this precision."""
