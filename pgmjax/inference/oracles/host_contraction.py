"""Exact inference in NumPy: no compilation, so it suits a fit of few steps and a structure met once.

It follows the path of `Contraction` in float64, with probabilities instead of logarithms (see
`inference.ops.host_sweep`), and in logarithms where probabilities would be lost. In a program compiled by
JAX, which passes no NumPy arrays, it is `Contraction`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import numpy as np

from pgmjax.inference.ops import host_sweep
from pgmjax.inference.ops.tables import host_join, split
from pgmjax.inference.oracles.contraction import Contraction
from pgmjax.inference.plan import cost, rates
from pgmjax.inference.plan.contraction import ContractionPath
from pgmjax.inference.plan.forecast import Forecast
from pgmjax.inference.plan.structure import Structure

SOLVER = 11  # vectors of a solver, in float64 even where float32 is asked for
CALL = 5  # steps, whose time a call takes beside its own, with a step of a solver
SCALED = 2  # times as long a call takes if the scales of tables are kept apart


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=[],
    meta_fields=["path", "fast", "padded_length", "logarithms"],
)
@dataclasses.dataclass(frozen=True)
class HostContraction(Contraction):
    """The contraction oracle on the host.

    Attributes:
        padded_length: length of a flat vector; None for the cells of all cliques.
        logarithms: never set a small probability to 0, which takes several times as long.
    """

    padded_length: int | None = None
    logarithms: bool = False

    name: ClassVar[str] = "host"
    runs_on_host: ClassVar[bool] = True

    @classmethod
    def build(cls, structure: Structure, fast: bool = False) -> HostContraction:
        """Plan the path of a structure."""
        return cls(Contraction.build(structure, fast).path)

    def exact(self) -> HostContraction:
        """The same oracle in logarithms throughout."""
        return dataclasses.replace(self, logarithms=True)

    @property
    def length(self) -> int:
        """Length of a flat vector: the cells of all cliques, then padding."""
        return super().length if self.padded_length is None else self.padded_length

    @functools.cached_property
    def forecast(self) -> Forecast:
        """The forecast cost of one call."""
        compiled = super().forecast
        cells = 2 * compiled.cells + SOLVER * compiled.inputs  # twice as wide as those that are planned for
        return dataclasses.replace(compiled, cells=cells, operations=0, seconds=seconds(self.path))

    def infer_flat(self, potentials: Any) -> tuple[Any, Any]:
        """Same as `infer`, for all tables in one vector [length]."""
        if not isinstance(potentials, np.ndarray):
            return super().infer_flat(potentials)
        log_partition, found = self._infer_on_host(np.asarray(potentials[: super().length], np.float64))
        return log_partition, np.pad(found, (0, self.length - len(found)))

    def infer_flat_with_error(self, potentials: Any) -> tuple[Any, Any, Any]:
        """Same as `infer_flat`, with an error bound of 0 on the host."""
        if not isinstance(potentials, np.ndarray):
            return super().infer_flat_with_error(potentials)
        return *self.infer_flat(potentials), np.zeros(())

    def maximum_flat(self, potentials: Any) -> Any:
        """Same as `maximum`, for all tables in one vector [length]."""
        if not isinstance(potentials, np.ndarray):
            return super().maximum_flat(potentials)
        vector = np.asarray(potentials[: super().length], np.float64)
        return np.asarray(host_sweep.maximum(self.path, vector))

    def run(self, tables: Sequence[Any], dtype: Any) -> tuple[float, list[Any]]:
        """Same as `Oracle.run`, on the host in float64; the marginals are NumPy arrays of the dtype."""
        log_partition, found = self._infer_on_host(host_join(tables, np.float64))
        return float(log_partition), list(split(found.astype(dtype), self.structure.shapes))

    def _infer_on_host(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        made = None if self.logarithms else host_sweep.marginals(self.path, vector)
        if made is None or made.error > np.finfo(np.float64).eps:
            made = host_sweep.log_marginals(self.path, vector)
        return np.asarray(made.log_partition), made.vector


def seconds(path: ContractionPath) -> float:
    """Return a forecast of the time of one call on one core."""
    by = rates.of_host()
    return float(sum(count * getattr(by, rate) for rate, count in units(path).items()))


@functools.lru_cache(maxsize=256)
def units(path: ContractionPath) -> dict[str, int]:
    """Return the units of work of one call, by the name of their rate in `HostRates`."""
    cells, cliques = path.structure.cells, path.structure.cliques
    tables = sum(map(cells, cliques)) + cost.of_path(path).moved // 3
    nats = sum(math.log(cells(clique)) for clique in cliques)  # by which potentials differ, roughly
    scaled = SCALED if nats > host_sweep.RANGE else 1
    return {"step": scaled * (CALL + len(path.steps)), "cell": scaled * tables, "flop": 3 * path.work}
