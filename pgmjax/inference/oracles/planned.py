"""An oracle that was chosen for named attributes: its forecasts, its first calls, its summary in words."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from pgmjax._internal import checks, device
from pgmjax.inference.oracles.base import Oracle, peak_bytes
from pgmjax.inference.oracles.host_contraction import HostContraction
from pgmjax.inference.plan import forecast, rates
from pgmjax.inference.plan.rates import HostRates, Rates

VECTOR_PASSES = 2  # cells whose time a step of a solver takes for each measured cell, beside its call
LINE = 90  # characters of a list of names in a summary


@dataclasses.dataclass
class Beginning:
    """First calls of a plan in NumPy: as long as they take less time than compiling would.

    Attributes:
        oracle: the host's oracle.
        calls: number of calls left. It counts calls, not seconds, so that equal programs give equal numbers.
    """

    oracle: HostContraction
    calls: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """An oracle for named attributes, with its forecast cost.

    Attributes:
        oracle: the chosen oracle.
        attributes: name of each of its variables.
        itemsize: bytes per cell.
        copies: number of copies of the potentials in memory at the same time (see `Forecast.peak_bytes`).
        max_bytes: memory that it may use; None for the free memory of the device.
        beginning: what answers the first calls of `infer`; None if the oracle answers all.
        calls: number of calls that it was planned for; None if it is not known.
    """

    oracle: Oracle
    attributes: tuple[str, ...]
    itemsize: int
    copies: int
    max_bytes: int | None
    beginning: Beginning | None = dataclasses.field(default=None, compare=False, repr=False)
    calls: int | None = dataclasses.field(default=None, compare=False)

    @property
    def peak_bytes(self) -> int:
        """Forecast of the peak memory of a fit, in bytes."""
        return peak_bytes(self.oracle.forecast, self.itemsize, self.copies)

    @property
    def seconds(self) -> float:
        """Forecast of the time of its calls (one if their number is not known) and of compiling (s)."""
        cost = self.oracle.forecast
        return cost.compile_seconds + (self.calls or 1) * cost.seconds

    @property
    def step_seconds(self) -> float:
        """Forecast of a step of a fit: a call, and the solver's own passes over its vectors (s)."""
        cost = self.oracle.forecast
        return cost.seconds + VECTOR_PASSES * self.rates.cell * cost.inputs

    @property
    def rates(self) -> Rates | HostRates:
        """The rates that its forecasts of time follow."""
        return rates.of_host() if self.oracle.runs_on_host else rates.of_device()

    def infer(self, tables: Sequence[Any]) -> tuple[float, list[Any]]:
        """Log-partition and marginals of a model given by plain arrays, on the device.

        The first call compiles, later ones with the same shapes do not, even from another plan. If "auto"
        chose the oracle, calls run in NumPy until as much time is spent as compiling is forecast to take.
        Both agree up to rounding.

        Args:
            tables: log-potentials of each clique, in the order of the structure; finite or minus infinity.
                NumPy arrays, or arrays of the plan's type already on the device.

        Returns:
            The log-partition (nats) and the marginal of each clique (probabilities, shape of its table).
            Marginals are arrays on the device if all tables are, NumPy arrays otherwise; `Levels` and
            `Chain` always return NumPy arrays.

        Raises:
            ValueError: a wrong number of tables, or a wrong shape.

        Example:
            >>> from pgmjax.inference.oracles import plan
            >>> from pgmjax.inference.plan.structure import Structure
            >>> structure, names = Structure.named({"a": 2, "b": 2}, [("a", "b")])
            >>> value, (marginal,) = plan(structure, names).infer([np.zeros((2, 2))])
            >>> round(value, 4), marginal.tolist()
            (1.3863, [[0.25, 0.25], [0.25, 0.25]])
        """
        shapes = self.oracle.structure.shapes
        if [np.shape(table) for table in tables] != list(shapes):
            raise ValueError(
                f"expected {len(shapes)} tables of the shapes of the structure's cliques, got {len(tables)} "
                f"tables of which some differ: give one for each clique, in its own axis order."
            )
        oracle, begun = self.oracle, self.beginning
        if begun and begun.calls > 0 and not all(isinstance(table, jax.Array) for table in tables):
            begun.calls -= 1
            oracle = begun.oracle
        return oracle.run(tables, np.float32 if self.itemsize == 4 else np.float64)

    def summary(self) -> str:
        """The plan in a few lines of text: totals, forecasts, the largest steps and tables.

        Long lists of attributes end with the number of those left out.

        Example:
            >>> from pgmjax.inference.oracles import plan
            >>> from pgmjax.inference.plan.structure import Structure
            >>> structure, names = Structure.named({"a": 2, "b": 3}, [("a", "b")])
            >>> print(plan(structure, names, "message_passing").summary().splitlines()[0])
            message passing: junction tree of 1 cliques, 6 cells
        """
        cost = self.oracle.forecast
        need = forecast.readable_bytes(self.peak_bytes)
        limit = device_bytes() if self.max_bytes is None else self.max_bytes
        lines = [
            f"{_words(type(self.oracle).__name__)}: {cost.method}",
            f"about {need} of {forecast.readable_bytes(limit)} available; {cost.work:,} exponentials a step",
            f"about {cost.seconds:.2g} s a call, {cost.compile_seconds:.2g} s to compile "
            f"{cost.operations:,} operations; rates: {self.rates.source}",
            *(f"  {self._named(line)}" for line in self.oracle.details),
        ]
        structure = self.oracle.structure
        given = f"{len(structure.sizes):,} attributes, {len(structure.cliques):,} cliques"
        lines.insert(1, f"{given}, {forecast.readable_cells(cost.inputs)} cells in all")
        if self.calls:
            lines.insert(4, f"{self.calls:,} calls, compiling included, about {self.seconds:.2g} s")
        if self.beginning and self.beginning.calls:
            lines.append(
                f"the next {self.beginning.calls:,} calls of infer run in NumPy, before it is compiled"
            )
        for variables, cells in cost.largest_tables:
            names = _listed([self.attributes[v] for v in variables])
            lines.append(f"  {cells:>15,} cells over ({names})")
        return "\n".join(lines)

    def _named(self, line: str) -> str:
        """A line of an oracle, which knows variables by their numbers only, with the attributes' names."""
        return re.sub(r"variable (\d+)\b", lambda found: repr(self.attributes[int(found[1])]), line)


def _listed(names: Sequence[str]) -> str:
    """Names with commas, as many as fit on a line, but at least one."""
    text = ", ".join(names)
    for shown in range(len(names) - 1, 0, -1):
        if len(text) <= LINE:
            break
        text = f"{', '.join(names[:shown])} and {len(names) - shown:,} more"
    return text


def _words(name: str) -> str:
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()


def memory_limit(max_bytes: int | None) -> int:
    """Bytes that may be used: `max_bytes`, or by default the free memory of the device.

    Raises:
        TypeError: `max_bytes` is not a number.
        ValueError: `max_bytes` is negative.
    """
    return device_bytes() if max_bytes is None else int(checks.number("max_bytes", max_bytes, at_least=0))


def device_bytes() -> int:
    """Free memory of the default device in bytes, as reported by the device."""
    stats = device.memory_stats()
    if stats.get("bytes_limit"):
        return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    return forecast.available_bytes()
