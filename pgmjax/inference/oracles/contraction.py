"""Exact inference by contracting the measured cliques; reverse mode gives their marginals.

The log-partition function is one tensor contraction over the cliques themselves, so no table of a
triangulated super-clique is stored. Its gradient with respect to a potential is that clique's
marginal (Wainwright and Jordan 2008, proposition 3.1), computed by the backward pass of
`inference.ops.sweep`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from pgmjax.inference.ops import sweep
from pgmjax.inference.ops.sweep import EXACT, FAST, MAXIMUM
from pgmjax.inference.ops.tables import join, split
from pgmjax.inference.oracles import base
from pgmjax.inference.plan import contraction, cost
from pgmjax.inference.plan.forecast import Forecast, readable_cells
from pgmjax.inference.plan.structure import Structure
from pgmjax.kernels.log_sum_exp import logmax, logsumexp

COMPILED = 0.1  # of the time of a call on the host, which the search for a path counts with
SPARE = 4096  # cells of small buffers


@functools.partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["path", "fast"])
@dataclasses.dataclass(frozen=True)
class Contraction(base.Oracle):
    """The contraction oracle.

    Attributes:
        path: the plan.
        fast: compute large log-space products as matrix products. Entries that underflow are replaced by an
            upper bound, so that `error_bound` bounds the error. Potentials must be finite. Callers have to
            check the error bound and use `exact()` if it exceeds rounding error.
    """

    path: contraction.ContractionPath
    fast: bool = False

    name: ClassVar[str] = "contraction"

    @classmethod
    def build(cls, structure: Structure, fast: bool = False) -> Contraction:
        """Plan the path of a structure."""
        path = contraction.plan(structure)
        return cls(path, fast and bool(cost.large(path)))

    @classmethod
    def within(cls, structure: Structure, limits: base.Limits) -> Contraction:
        """Plan the path of a structure; large products are fast if potentials are finite."""
        path = contraction.plan(structure, calls=COMPILED * limits.calls)
        return cls(path, limits.finite and bool(cost.large(path)))

    def exact(self) -> Contraction:
        """The same oracle with every product in exact form."""
        return dataclasses.replace(self, fast=False)

    @property
    def structure(self) -> Structure:
        """The model's sizes and cliques."""
        return self.path.structure

    @functools.cached_property
    def forecast(self) -> Forecast:
        """The forecast cost of one call."""
        spent = cost.of_path(self.path)
        cells = self.structure.cells
        tables = {c: cells(c) for c in (*(s.kept for s in self.path.steps), *self.structure.cliques)}
        largest = sorted(tables.items(), key=lambda entry: -entry[1])
        inputs = sum(cells(c) for c in self.structure.cliques)
        # the backward pass forms the unions of all steps except large products
        small = [s for n, s in enumerate(self.path.steps) if n not in cost.large(self.path)]
        widest = max((cells(s.union) for s in small), default=1)
        most = readable_cells(self.path.largest)
        return Forecast(
            method=f"contraction ({self.path.method}), largest stored table {most} cells",
            largest=self.path.largest,
            inputs=inputs,
            cells=max(spent.peak - 2 * inputs, 0) + spent.stored // 2 + widest + SPARE,
            work=3 * self.path.work,
            largest_tables=tuple(largest[:3]),
            operations=spent.operations,
            seconds=spent.seconds(exact=not self.fast),
        )

    @property
    def details(self) -> tuple[str, ...]:
        """Further lines for a summary of its plan."""
        spent = cost.of_path(self.path)
        form = "matrix product" if self.fast else "exact, in tiles"
        forms = {
            p.step: form if p.step in cost.large(self.path) else "exact, at once" for p in spent.products
        }
        return tuple(spent.with_forms(forms).lines()[1:])

    def contraction_path(self) -> contraction.ContractionPath:
        """The path already planned."""
        return self.path

    def log_partition(self, potentials: base.Potentials) -> jax.Array:
        """Log of the sum over all joint states (nats)."""
        return self.infer(potentials)[0]

    def infer(self, potentials: base.Potentials) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Log-partition (nats) and the marginal of each clique (probabilities)."""
        return self.infer_with_error(potentials)[:2]

    def infer_flat_with_error(self, potentials: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Same as `infer_flat`, with a bound on the probability misplaced by fast products."""
        log_partition, marginals, error_bound = self.infer_with_error(
            split(potentials, self.structure.shapes)
        )
        return log_partition, join(marginals, self.length), error_bound

    def infer_with_error(
        self, potentials: base.Potentials
    ) -> tuple[jax.Array, tuple[jax.Array, ...], jax.Array]:
        """Same as `infer`, with a bound on the probability misplaced by fast products."""
        return (_large if cost.large(self.path) else _swept)(self, tuple(potentials))

    def maximum(self, potentials: base.Potentials) -> jax.Array:
        """Largest sum of potentials over all joint states (nats)."""
        return jnp.asarray(sweep.forward(self.path, potentials, logmax, MAXIMUM, with_shares=False).total)


def _swept(
    oracle: Contraction, tables: tuple[jax.Array, ...]
) -> tuple[jax.Array, tuple[jax.Array, ...], jax.Array]:
    products = FAST if oracle.fast else EXACT
    forward = sweep.forward(oracle.path, tables, logsumexp, products)
    marginals, error_bound = sweep.backward(oracle.path, forward, products)
    return jnp.asarray(forward.total), marginals, jnp.asarray(error_bound)


# Reverse mode through a large product would store its whole union. The Hessian of the log-partition is
# symmetric, so forward mode, which stores nothing, gives the same result.
_large = jax.custom_vjp(_swept, nondiff_argnums=(0,))


def _large_forward(oracle: Contraction, tables: tuple[jax.Array, ...]) -> Any:
    result = _swept(oracle, tables)
    return result, (tables, result[1])


def _large_backward(oracle: Contraction, saved: Any, cotangents: Any) -> Any:
    tables, marginals = saved
    by_value, by_marginals, _ = cotangents
    exact = oracle.exact()
    changes = jax.jvp(lambda t: _swept(exact, t)[1], (tables,), (tuple(by_marginals),))[1]
    return (tuple(by_value * m + change for m, change in zip(marginals, changes, strict=True)),)


_large.defvjp(_large_forward, _large_backward)
