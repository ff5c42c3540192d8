"""Exact inference by message passing on a junction tree, in log space.

Messages are recentred by their maximum and every belief is normalised by its own log-sum-exp, so
that float32 does not lose digits on long chains. No table is divided by another: in the downward pass,
each clique's conditional given its separator is multiplied by the separator's marginal.

References:
    Koller and Friedman (2009), chapter 10; McKenna et al. 2019, section 3 (MARGINAL-ORACLE).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp

from pgmjax.inference import ops
from pgmjax.inference.oracles import base
from pgmjax.inference.plan import junction_tree
from pgmjax.inference.plan.forecast import Forecast, device_rates
from pgmjax.inference.plan.structure import Structure, Variables
from pgmjax.kernels.log_sum_exp import logmax, logsumexp


@functools.partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["tree"])
@dataclasses.dataclass(frozen=True)
class MessagePassing(base.Oracle):
    """The junction-tree oracle."""

    tree: junction_tree.JunctionTree

    name: ClassVar[str] = "message_passing"

    @classmethod
    def build(cls, structure: Structure) -> MessagePassing:
        """Plan the tree of a structure."""
        return cls(junction_tree.build(structure))

    @property
    def structure(self) -> Structure:
        """The model's sizes and cliques."""
        return self.tree.structure

    @functools.cached_property
    def forecast(self) -> Forecast:
        """The forecast cost of one call."""
        largest, inputs = self.structure.largest(self.tree.cliques), self.structure.length
        count, total, by = len(self.tree.cliques), self.tree.cells, device_rates()
        return Forecast(
            method=f"junction tree of {count} cliques, {total:,} cells",
            largest=largest[0][1] if largest else 1,
            inputs=inputs,
            cells=3 * total,
            work=2 * total + inputs,
            largest_tables=largest,
            operations=20 * count,
            seconds=3 * by.cell * (2 * total + inputs) + 40 * by.launch * count,
        )

    def _collect(
        self, potentials: base.Potentials, reduce: ops.Reduce
    ) -> tuple[list[jax.Array], list[jax.Array], jax.Array]:
        """Upward pass: each clique's table including its children's messages, messages, and log scale."""
        tree = self.tree
        scale = jnp.zeros((), potentials[0].dtype if potentials else None)
        tables = [scale] * len(tree.cliques)  # a variable in no clique of the structure has no potential

        def put(i: int, table: jax.Array, variables: Variables) -> None:
            tables[i] = tables[i] + ops.align(table, variables, tree.cliques[i])

        for table, variables, i in zip(potentials, self.structure.cliques, tree.home, strict=True):
            put(i, table, variables)
        messages: list = [None] * len(tree.cliques)
        for i in reversed(range(len(tree.cliques))):
            shape = self.structure.shape(tree.cliques[i])
            tables[i] = jnp.broadcast_to(tables[i], shape)
            shared = len(tree.separator[i])
            message = reduce(tables[i], tuple(range(shared, len(shape))))
            messages[i] = message
            message, top = ops.recentred(message)
            scale = scale + top
            if tree.parent[i] >= 0:
                put(tree.parent[i], message, tree.separator[i])
            else:
                scale = scale + message
        return tables, messages, scale

    def beliefs(self, potentials: base.Potentials) -> tuple[jax.Array, list[jax.Array]]:
        """Log-partition and the log-probabilities of every tree clique."""
        tree = self.tree
        tables, messages, scale = self._collect(potentials, logsumexp)
        beliefs: list[jax.Array] = []
        for i, clique in enumerate(tree.cliques):
            message = jnp.where(jnp.isfinite(messages[i]), messages[i], 0)
            conditional = tables[i] - ops.align(message, tree.separator[i], clique)
            if tree.parent[i] >= 0:
                parent = tree.cliques[tree.parent[i]]
                marginal = ops.project(beliefs[tree.parent[i]], parent, tree.separator[i], logsumexp)
                conditional = conditional + ops.align(marginal, tree.separator[i], clique)
            beliefs.append(_normalised(conditional))
        return scale, beliefs

    def infer(self, potentials: base.Potentials) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Log-partition (nats) and the marginal of each clique (probabilities)."""
        scale, beliefs = self.beliefs(potentials)
        probabilities = [jnp.exp(belief) for belief in beliefs]
        return scale, tuple(
            ops.project(probabilities[home], self.tree.cliques[home], clique, jnp.sum)
            for clique, home in zip(self.structure.cliques, self.tree.home, strict=True)
        )

    def maximum(self, potentials: base.Potentials) -> jax.Array:
        """Largest sum of potentials over all joint states (nats)."""
        return self._collect(potentials, logmax)[2]


def _normalised(log_table: jax.Array) -> jax.Array:
    """A table minus its own log-sum-exp, so that probabilities sum to 1 despite earlier rounding."""
    total = logsumexp(log_table, tuple(range(log_table.ndim)))
    return log_table - jnp.where(jnp.isfinite(total), total, 0)
