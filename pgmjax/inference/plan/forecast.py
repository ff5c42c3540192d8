"""Cost forecast of a plan, and a refusal with figures before memory is touched."""

from __future__ import annotations

import dataclasses

from pgmjax._internal.errors import Error
from pgmjax._internal.memory import available_bytes, readable_bytes

ORACLE_COPIES = 6
COMPILE = 0.006  # seconds for an operation


class ModelTooLargeError(Error, ValueError):
    """The forecast of a model exceeds the memory at hand."""


@dataclasses.dataclass(frozen=True)
class Forecast:
    """Cost of one inference call.

    Attributes:
        method: what the plan is, in words.
        largest: cells of the largest table.
        inputs: cells of all potentials together.
        cells: cells of the oracle's own tables that live at the same time.
        work: exponentials to take, an estimate of the time.
        culprits: for the largest tables, the variables and the number of cells.
        operations: operations to compile, roughly.
        seconds: of a call once compiled, on two CPU cores, roughly.
        details: more lines about it, for people.
    """

    method: str
    largest: int
    inputs: int
    cells: int
    work: int
    culprits: tuple[tuple[tuple[int, ...], int], ...]
    operations: int = 0
    seconds: float = 0.0
    details: tuple[str, ...] = ()

    @property
    def compile_seconds(self) -> float:
        """The compile time that the first call adds, on two CPU cores, roughly (s)."""
        return COMPILE * self.operations

    def peak_bytes(self, itemsize: int, copies: int = ORACLE_COPIES) -> int:
        """Memory at the peak, in bytes.

        Args:
            itemsize: bytes of a cell, 4 or 8.
            copies: how many tables the size of the potentials live beside the oracle's own: those of
                one call by default, more inside a solver.
        """
        return (self.cells + copies * self.inputs) * itemsize


def readable_cells(count: int) -> str:
    """A number of cells in digits, or in powers of ten where nobody would count them.

    Example:
        >>> readable_cells(53_000_000), readable_cells(6**40)
        ('53,000,000', '1.3e+31')
    """
    return f"{count:,}" if count < 10**15 else f"{count:.1e}"


def require_memory(forecast: Forecast, names: tuple[str, ...], need: int, limit: int) -> None:
    """Refuse a model whose forecast exceeds a limit.

    Args:
        forecast: the plan's forecast.
        names: attribute name of each variable.
        need: its peak, in bytes.
        limit: bytes that may be used.

    Raises:
        ModelTooLargeError: with the figures, the cliques that cause them and what can be done.
    """
    if need <= limit:
        return
    causes = "; ".join(
        f"({', '.join(names[v] for v in variables)}) with {readable_cells(cells)} cells"
        for variables, cells in forecast.culprits
    )
    raise ModelTooLargeError(
        f"The model needs about {readable_bytes(need)} ({forecast.method}) and {readable_bytes(limit)} is "
        f"available. The largest tables: {causes}. Measure fewer or smaller cliques that overlap less, "
        "coarsen the bins of these attributes, or set max_bytes."
    )


def require_cells(cells: int, what: str) -> None:
    """Refuse a float64 table, to be worked on in the host's memory, that does not fit there.

    Args:
        cells: its cells; three copies are counted: the table, its exponential and one more.
        what: what it is, for the message.

    Raises:
        ModelTooLargeError: with the figures.
    """
    need, limit = 24 * cells, available_bytes()
    if need > limit:
        raise ModelTooLargeError(
            f"{what} has {readable_cells(cells)} cells and needs about {readable_bytes(need)}; "
            f"{readable_bytes(limit)} is available. Ask for fewer attributes or a coarser query."
        )
