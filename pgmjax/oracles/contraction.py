"""Exact inference by contracting the measured cliques; reverse mode gives their marginals.

The log-partition function is one tensor contraction over the cliques themselves, so no table of a
triangulated super-clique is stored. Its gradient with respect to a potential is that clique's
marginal (Wainwright and Jordan 2008, proposition 3.1), which `ops.sweep` computes going backwards.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp

from pgmjax import ops
from pgmjax.ops import sweep
from pgmjax.oracles import base
from pgmjax.plan import contraction
from pgmjax.plan.forecast import Forecast
from pgmjax.plan.structure import Structure


@functools.partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["path"])
@dataclasses.dataclass(frozen=True)
class Contraction(base.Oracle):
    """The contraction oracle."""

    path: contraction.ContractionPath

    @classmethod
    def build(cls, structure: Structure) -> Contraction:
        """Plan the path of a structure."""
        return cls(contraction.plan(structure))

    @property
    def structure(self) -> Structure:
        """The model's sizes and cliques."""
        return self.path.structure

    @property
    def forecast(self) -> Forecast:
        """What one call costs."""
        cells = self.structure.cells
        unions = sorted(((s.union, cells(s.union)) for s in self.path.steps), key=lambda entry: -entry[1])
        inputs = sum(cells(c) for c in self.structure.cliques)
        kept = sum(cells(s.kept) for s in self.path.steps)
        # the gradient of a step materialises its union; the results of all steps are kept for it
        widest = unions[0][1] if unions else 1
        return Forecast(
            method=f"contraction ({self.path.method}), largest stored table {self.path.largest:,} cells",
            largest=max(self.path.largest, widest),
            inputs=inputs,
            cells=2 * kept + 3 * widest,
            work=3 * self.path.work,
            culprits=tuple(unions[:3]),
        )

    def log_partition(self, potentials: base.Potentials) -> jax.Array:
        """Log of the sum over all joint states (nats)."""
        return jnp.asarray(sweep.forward(self.path, potentials, ops.logsumexp).total)

    def infer(self, potentials: base.Potentials) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Log-partition (nats) and the marginal of each clique (probabilities)."""
        forward = sweep.forward(self.path, potentials, ops.logsumexp)
        weights = sweep.backward(self.path, forward)
        # sums that rounding left apart by 1e-6 would stop a float32 fit long before its optimum
        sums = [jnp.sum(weight) for weight in weights]
        marginals = tuple(w / jnp.where(s > 0, s, 1) for w, s in zip(weights, sums, strict=True))
        return jnp.asarray(forward.total), marginals

    def maximum(self, potentials: base.Potentials) -> jax.Array:
        """Largest sum of potentials that any joint state reaches (nats)."""
        return jnp.asarray(sweep.forward(self.path, potentials, ops.logmax).total)
