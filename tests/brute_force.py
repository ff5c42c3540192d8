"""An oracle on the whole joint table: the reference that every other oracle is tested against."""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp

from pgmjax.inference import ops
from pgmjax.inference.oracles import base
from pgmjax.inference.plan.forecast import Forecast, device_rates
from pgmjax.inference.plan.structure import Structure
from pgmjax.kernels.log_sum_exp import logsumexp


@functools.partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["structure"])
@dataclasses.dataclass(frozen=True)
class BruteForce(base.Oracle):
    """The brute-force oracle, which forms and sums the joint table. Only for small domains."""

    structure: Structure

    name: ClassVar[str] = "brute_force"

    @classmethod
    def build(cls, structure: Structure) -> BruteForce:
        """Make the oracle of a structure; there is nothing to plan."""
        return cls(structure)

    @property
    def forecast(self) -> Forecast:
        """The forecast cost of one call."""
        everything = tuple(range(len(self.structure.sizes)))
        cells = self.structure.cells(everything)
        inputs = sum(self.structure.cells(c) for c in self.structure.cliques)
        return Forecast(
            method="joint table",
            largest=cells,
            inputs=inputs,
            cells=3 * cells,
            work=2 * cells,
            largest_tables=((everything, cells),),
            operations=10,
            seconds=3 * device_rates().cell * cells,
        )

    def _joint(self, potentials: base.Potentials) -> jax.Array:
        everything = tuple(range(len(self.structure.sizes)))
        joint = jnp.zeros(self.structure.sizes, potentials[0].dtype if potentials else float)
        for table, clique in zip(potentials, self.structure.cliques, strict=True):
            joint = joint + ops.align(table, clique, everything)
        return joint

    def _all(self) -> tuple[int, ...]:
        return tuple(range(len(self.structure.sizes)))

    def infer(self, potentials: base.Potentials) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Log-partition (nats) and the marginal of each clique (probabilities)."""
        joint = self._joint(potentials)
        total = logsumexp(joint, self._all())
        probabilities = jnp.exp(joint - jnp.where(jnp.isfinite(total), total, 0))
        marginals = (ops.project(probabilities, self._all(), c, jnp.sum) for c in self.structure.cliques)
        return total, tuple(marginals)

    def maximum(self, potentials: base.Potentials) -> jax.Array:
        """Largest sum of potentials over all joint states (nats)."""
        return jnp.max(self._joint(potentials))
