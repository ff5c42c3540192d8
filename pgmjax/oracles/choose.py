"""Which oracle a structure gets: named by the user, or the cheaper of those that fit in memory."""

from __future__ import annotations

import dataclasses

import jax

from pgmjax.oracles.base import Oracle
from pgmjax.oracles.brute_force import BruteForce
from pgmjax.oracles.contraction import Contraction
from pgmjax.oracles.message_passing import MessagePassing
from pgmjax.plan import forecast
from pgmjax.plan.structure import Structure

_BY_NAME: dict[str, type[Contraction] | type[MessagePassing] | type[BruteForce]] = {
    "contraction": Contraction,
    "message_passing": MessagePassing,
    "brute_force": BruteForce,
}


# For each measured cell, beside the solver: values, standard deviations, potentials and marginals in
# float64, and the end of a float32 fit evaluated in float64 (measured: 96 on one clique of 200^3 cells).
HOST_BYTES = 112


def names() -> tuple[str, ...]:
    """Names that `Estimator(oracle=...)` takes beside `auto`."""
    return tuple(_BY_NAME)


def kind(name: str) -> type[Contraction] | type[MessagePassing] | type[BruteForce]:
    """The class of an oracle, from its name.

    Raises:
        ValueError: unknown name.
    """
    if name not in _BY_NAME:
        raise ValueError(f"oracle must be 'auto' or one of {names()}, got {name!r}.")
    return _BY_NAME[name]


@dataclasses.dataclass(frozen=True)
class Plan:
    """An oracle for named attributes, with what it will cost.

    Attributes:
        oracle: the chosen oracle.
        attributes: name of each of its variables.
        itemsize: bytes of a cell.
        copies: tables the size of the potentials that live at once (see `Forecast.peak_bytes`).
        max_bytes: memory that it may use; None where it was held against what the device has free.
    """

    oracle: Oracle
    attributes: tuple[str, ...]
    itemsize: int
    copies: int
    max_bytes: int | None

    @property
    def peak_bytes(self) -> int:
        """Forecast of the memory that a fit takes at its peak, in bytes."""
        return _peak_bytes(self.oracle, self.itemsize, self.copies)

    def summary(self) -> str:
        """The plan in a few lines of text.

        Example:
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
        ]
        for variables, cells in cost.culprits:
            names = ", ".join(self.attributes[v] for v in variables)
            lines.append(f"  {cells:>15,} cells over ({names})")
        return "\n".join(lines)


def _words(name: str) -> str:
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()


def plan(
    structure: Structure,
    attributes: tuple[str, ...],
    oracle: str = "auto",
    *,
    itemsize: int = 4,
    copies: int = forecast.ORACLE_COPIES,
    max_bytes: int | None = None,
) -> Plan:
    """Plan inference, or refuse with figures.

    Args:
        structure: sizes and cliques.
        attributes: name of each variable.
        oracle: `auto` or one of `names()`.
        itemsize: bytes of a cell, 4 or 8.
        copies: tables the size of the potentials that will live at once.
        max_bytes: memory that may be used; None asks the device.

    Raises:
        ValueError: unknown oracle.
        ModelTooLargeError: the forecast exceeds the memory.
    """
    limit = device_bytes() if max_bytes is None else max_bytes
    kinds = (Contraction,) if oracle == "auto" else (kind(oracle),)
    built: list[Oracle] = sorted((k.build(structure) for k in kinds), key=lambda o: o.forecast.work)
    need = [_peak_bytes(o, itemsize, copies) for o in built]
    fitting = [o for o, n in zip(built, need, strict=True) if n <= limit]
    if not fitting:
        least = need.index(min(need))
        forecast.require_memory(built[least].forecast, attributes, need[least], limit)
    return Plan(fitting[0], attributes, itemsize, copies, max_bytes)


def _peak_bytes(oracle: Oracle, itemsize: int, copies: int) -> int:
    """The oracle's and the solver's tables and, where the device is the host, the host's own copies."""
    beside = HOST_BYTES * oracle.forecast.inputs if jax.default_backend() == "cpu" else 0
    return oracle.forecast.peak_bytes(itemsize, copies) + beside


def device_bytes() -> int:
    """Memory that the default device may still give, in bytes, read from the device itself."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and stats.get("bytes_limit"):
        return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    return forecast.available_bytes()
