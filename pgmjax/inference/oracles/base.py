"""What an oracle is: answers about the distribution that log-potentials define.

An oracle is planned once for a structure. It is a pytree: what shapes the compiled program is
static, index maps (where an oracle has any) are leaves, so that programs which take it as an
argument are shared by everything that has the same shapes.

Solvers keep all potentials in one flat vector, since an operation on a vector is compiled once and
one on each of a thousand tables a thousand times. `infer_flat` and `maximum_flat` serve them; the
forms on tuples of tables are for everyone else.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from pgmjax.inference import ops
from pgmjax.inference.ops.tables import join, split
from pgmjax.inference.plan import contraction
from pgmjax.inference.plan.forecast import Forecast
from pgmjax.inference.plan.structure import Variables

Potentials = Sequence[jax.Array]


class Oracle(abc.ABC):
    """Inference for one structure. All tables are in the order of `structure.cliques`.

    Potentials are natural logarithms and may be minus infinity (structural zeros). Where every joint
    state is impossible the log-partition is minus infinity; marginals mean nothing then, but are
    finite. A new oracle gives `structure`, `forecast`, `infer`, `log_partition` and `maximum`.
    """

    structure: Any  # a Structure, as a field or a property

    @property
    @abc.abstractmethod
    def forecast(self) -> Forecast:
        """What one call costs."""

    @abc.abstractmethod
    def infer(self, potentials: Potentials) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Log-partition (nats) and the marginal of each clique (probabilities)."""

    @abc.abstractmethod
    def log_partition(self, potentials: Potentials) -> jax.Array:
        """Log of the sum over all joint states (nats)."""

    @abc.abstractmethod
    def maximum(self, potentials: Potentials) -> jax.Array:
        """Largest sum of potentials that any joint state reaches (MAP value, nats)."""

    @property
    def length(self) -> int:
        """Numbers in a flat vector: the cells of all cliques, and padding where there is any."""
        return sum(self.structure.cells(c) for c in self.structure.cliques)

    def infer_with_doubt(self, potentials: Potentials) -> tuple[jax.Array, tuple[jax.Array, ...], jax.Array]:
        """As `infer`, and how much of the probability may be wrong beyond rounding.

        An oracle that leaves no doubt returns 0; to another one `exactly()` is the remedy.
        """
        log_partition, marginals = self.infer(potentials)
        return log_partition, marginals, jnp.zeros((), log_partition.dtype)

    def exactly(self) -> Oracle:
        """The oracle to ask where the doubt is more than rounding: itself, for an exact one."""
        return self

    def infer_flat(self, potentials: jax.Array) -> tuple[jax.Array, jax.Array]:
        """As `infer`, for all tables in one vector [length], each in row-major order."""
        log_partition, marginals = self.infer(split(potentials, self.structure.shapes))
        return log_partition, join(marginals, self.length)

    def infer_flat_with_doubt(self, potentials: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """As `infer_with_doubt`, for all tables in one vector [length]."""
        log_partition, marginals = self.infer_flat(potentials)
        return log_partition, marginals, jnp.zeros((), log_partition.dtype)

    def maximum_flat(self, potentials: jax.Array) -> jax.Array:
        """As `maximum`, for all tables in one vector [length]."""
        return self.maximum(split(potentials, self.structure.shapes))

    def log_marginal(self, potentials: Potentials, variables: Variables) -> jax.Array:
        """Log-probabilities of any variables, inside a clique or not [sizes of variables]."""
        path = contraction.plan(self.structure, variables)
        return normalised(ops.contract(path, potentials, ops.logsumexp)[0])


def normalised(log_table: jax.Array) -> jax.Array:
    """A table minus its own log-sum-exp: probabilities that sum to 1 whatever was rounded before."""
    total = ops.logsumexp(log_table, tuple(range(log_table.ndim)))
    return log_table - jnp.where(jnp.isfinite(total), total, 0)
