"""Oracles that read all potentials from one vector, by index maps that are arguments of their programs.

A thousand tables would be a thousand arguments, and as many operations to join and split them.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from pgmjax._internal.jit import jit, precision
from pgmjax.inference.ops.tables import host_join, join, split
from pgmjax.inference.oracles import base
from pgmjax.inference.plan.forecast import Forecast
from pgmjax.inference.plan.structure import Structure


class Flat(base.Oracle):
    """An oracle on one vector; it is a pytree of its maps and sizes, without the plan.

    Attributes:
        sizes: the sizes that determine the compiled program (static), with the vector's `length`.
        arrangement: the plan; None after a JAX transformation.
    """

    sizes: Any
    arrangement: Any

    @abc.abstractmethod
    def _infer(self, vector: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Log-partition and marginals [length]."""

    @abc.abstractmethod
    def _log_partition(self, vector: jax.Array) -> jax.Array:
        """Log-partition (nats)."""

    @abc.abstractmethod
    def _maximum(self, vector: jax.Array) -> jax.Array:
        """Largest sum of potentials over all joint states (nats)."""

    def _plan(self) -> Any:
        if self.arrangement is None:
            raise ValueError(
                "this oracle went through a JAX transformation and lost its structure: ask the one that "
                f"{type(self).__name__}.build returned, or use the flat form."
            )
        return self.arrangement

    @property
    def structure(self) -> Structure:
        """The model's sizes and cliques."""
        structure: Structure = self._plan().structure
        return structure

    @property
    def forecast(self) -> Forecast:
        """The forecast cost of one call."""
        forecast: Forecast = self._plan().forecast
        return forecast

    @property
    def length(self) -> int:
        """Length of a flat vector: the cells of all cliques in order, each row-major, then padding."""
        return int(self.sizes.length)

    @functools.partial(jit, compiler_options=None)
    def infer_flat(self, potentials: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Same as `infer`, for all tables in one vector [length], each row-major; 0 in the padding."""
        return self._infer(potentials)

    @functools.partial(jit, compiler_options=None)
    def log_partition_flat(self, potentials: jax.Array) -> jax.Array:
        """Same as `log_partition`, for all tables in one vector [length]."""
        return self._log_partition(potentials)

    @functools.partial(jit, compiler_options=None)
    def maximum_flat(self, potentials: jax.Array) -> jax.Array:
        """Same as `maximum`, for all tables in one vector [length]."""
        return self._maximum(potentials)

    def run(self, tables: Sequence[Any], dtype: Any) -> tuple[float, list[Any]]:
        """Same as `Oracle.run`, with all tables in one vector, as thousands of arguments compile slowly.

        The marginals are always NumPy arrays.
        """
        with precision(np.dtype(dtype).name):
            log_partition, found, _ = _run(self, host_join(tables, dtype, self.length))
            return float(log_partition), list(split(np.asarray(found), self.structure.shapes))

    def infer(self, potentials: base.Potentials) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Log-partition (nats) and the marginal of each clique (probabilities)."""
        log_partition, marginals = self.infer_flat(join(potentials, self.length))
        return log_partition, split(marginals, [table.shape for table in potentials])

    def log_partition(self, potentials: base.Potentials) -> jax.Array:
        """Log of the sum over all joint states (nats)."""
        return self.log_partition_flat(join(potentials, self.length))

    def maximum(self, potentials: base.Potentials) -> jax.Array:
        """Largest sum of potentials over all joint states (MAP value, nats)."""
        return self.maximum_flat(join(potentials, self.length))


@jit
def _run(oracle: Flat, vector: jax.Array) -> Any:
    return oracle.infer_flat_with_error(vector)
