"""What an oracle is: answers about the distribution that log-potentials define.

An oracle is planned once for a structure and is then plain hashable data: compiled programs that
take it as a static argument are shared by everything with the same structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import jax

from pgmjax import ops
from pgmjax.plan import contraction
from pgmjax.plan.forecast import Forecast
from pgmjax.plan.structure import Structure, Variables

Potentials = Sequence[jax.Array]


class Oracle(Protocol):
    """Inference for one structure. All tables are in the order of `structure.cliques`.

    Potentials are natural logarithms and may be minus infinity (structural zeros). Where every joint
    state is impossible the log-partition is minus infinity; marginals mean nothing then, but are
    finite.
    """

    @property
    def structure(self) -> Structure:
        """The model's sizes and cliques."""
        ...

    @property
    def forecast(self) -> Forecast:
        """What one call costs."""
        ...

    def infer(self, potentials: Potentials) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Log-partition (nats) and the marginal of each clique (probabilities)."""
        ...

    def log_partition(self, potentials: Potentials) -> jax.Array:
        """Log of the sum over all joint states (nats)."""
        ...

    def maximum(self, potentials: Potentials) -> jax.Array:
        """Largest sum of potentials that any joint state reaches (MAP value, nats)."""
        ...

    def log_marginal(self, potentials: Potentials, variables: Variables) -> jax.Array:
        """Log-probabilities of any variables, inside a clique or not [sizes of variables]."""
        ...


def normalised(log_table: jax.Array) -> jax.Array:
    """A table minus its own log-sum-exp: probabilities that sum to 1 whatever was rounded before."""
    total = ops.logsumexp(log_table, tuple(range(log_table.ndim)))
    return log_table - jax.numpy.where(jax.numpy.isfinite(total), total, 0)


def open_marginal(structure: Structure, potentials: Potentials, variables: Variables) -> jax.Array:
    """Log-probabilities of any variables, by contracting the cliques with those left open."""
    path = contraction.plan(structure, variables)
    return normalised(ops.contract(path, potentials, ops.logsumexp)[0])
