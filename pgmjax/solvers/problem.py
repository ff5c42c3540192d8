"""The problem that every solver solves: a convex loss over the marginals of a model."""

from __future__ import annotations

import dataclasses
from typing import Any

import chex
import jax
import jax.numpy as jnp

from pgmjax.losses.base import BoundLoss
from pgmjax.oracles import Oracle

Tables = tuple[jax.Array, ...]


def dot(left: Tables, right: Tables) -> jax.Array:
    """Inner product of two tuples of tables."""
    return sum((jnp.vdot(a, b) for a, b in zip(left, right, strict=True)), jnp.zeros(()))


def step(point: Tables, size: Any, direction: Tables) -> Tables:
    """The point moved by a step against a direction: point - size * direction."""
    return tuple(p - size * d for p, d in zip(point, direction, strict=True))


def select(condition: jax.Array, if_true: Any, if_false: Any) -> Any:
    """One of two trees of arrays, chosen by a scalar on the device."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), if_true, if_false)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Everything known about one point.

    Attributes:
        potentials: log-potentials of the measured cliques, each with maximum 0.
        marginals: the marginals they give (probabilities).
        loss: loss at these marginals.
        gradient: gradient of the loss with respect to the marginals.
    """

    potentials: Tables
    marginals: Tables
    loss: jax.Array
    gradient: Tables

    @classmethod
    def unknown(cls, potentials: Tables) -> Evaluation:
        """A point that nothing is known of yet: infinite loss, so that any other is better."""
        zeros = tuple(jnp.zeros_like(p) for p in potentials)
        return cls(potentials, zeros, jnp.asarray(jnp.inf, jnp.result_type(*potentials)), zeros)


def rounding(point: Evaluation) -> jax.Array:
    """How far rounding may move the loss at a point: its own digits, and those of the marginals."""
    moved = sum(
        (jnp.vdot(jnp.abs(g), mu) for g, mu in zip(point.gradient, point.marginals, strict=True)),
        jnp.abs(point.loss),
    )
    return 4 * jnp.finfo(point.loss.dtype).eps * moved


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Problem:
    """Minimise a loss over the marginal polytope.

    Attributes:
        oracle: inference for the measured cliques followed by those of the constraints.
        loss: convex function of the marginals of the measured cliques (probabilities).
        curvature: Lipschitz constant of the loss's gradient in the L1 norm of the joint distribution,
            or a guess where the loss does not know it: first steps have size 1 / curvature.
        fixed: log-tables of the constraints' cliques (0 where possible, minus infinity where not).
    """

    oracle: Oracle = dataclasses.field(metadata={"static": True})
    loss: BoundLoss
    curvature: Any
    fixed: Tables = ()

    def marginals(self, potentials: Tables) -> Tables:
        """Marginals of the measured cliques (probabilities)."""
        return self.oracle.infer((*potentials, *self.fixed))[1][: len(potentials)]

    def evaluate(self, potentials: Tables) -> Evaluation:
        """Marginals, loss and gradient at some potentials: one oracle call.

        Potentials are recentred first: a constant in them changes nothing but digits.
        """
        potentials = tuple(p - jnp.max(p) for p in potentials)
        marginals = self.marginals(potentials)
        loss, gradient = jax.value_and_grad(self.loss)(marginals)
        chex.assert_trees_all_equal_shapes_and_dtypes(potentials, marginals, gradient)
        chex.assert_rank(loss, 0)
        return Evaluation(potentials, marginals, loss, gradient)

    def gap(self, point: Evaluation) -> jax.Array:
        """Certified bound on `loss - optimum` at a point.

        For convex L over the marginal polytope M: L(mu) - L* <= max over nu in M of
        <grad L(mu), mu - nu>, whose maximum is the MAP value of the potentials -grad L(mu). What
        rounding may hide is added, so that the bound holds in float32 too.
        """
        # Centred by the marginals' own mean: both terms would lose digits to a common constant.
        centred = tuple(g - jnp.vdot(g, mu) for g, mu in zip(point.gradient, point.marginals, strict=True))
        best = self.oracle.maximum((*(-g for g in centred), *self.fixed))
        return jnp.maximum(dot(centred, point.marginals) + best, 0) + rounding(point)
